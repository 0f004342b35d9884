from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from polyref.errors import UsageError
from polyref.eval.data.score_files import Gold, RankingPairs
from polyref.eval.statistics import named as measures
from polyref.eval.statistics import within_segments
from polyref.eval.statistics.base import Bootstrap, People, segment_draws
from polyref.eval.statistics.correlation import kendall_tau_b, pearson
from polyref.eval.statistics.named import STATISTICS, chosen_statistics, statistics_called
from polyref.eval.statistics.within_segments import tie_threshold


@pytest.fixture
def cells() -> tuple[np.ndarray, np.ndarray]:
    """Scores and human scores of 6 systems and 40 segments, with ties and unjudged cells."""
    generator = np.random.default_rng(5)
    human = np.round(generator.normal(size=(6, 40)))
    scores = np.round(human + generator.normal(size=human.shape), 1)
    human[generator.random(human.shape) < 0.2] = np.nan
    human[1:, 7] = np.nan  # a segment without a pair
    return scores, human


def _rows(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return np.round(generator.normal(size=(20, 9)) * 2), np.round(generator.normal(size=9) * 3)


def test_rows_equal_scipy() -> None:
    x, y = _rows()
    for row, rho, b, c, accuracy in zip(
        x,
        measures.spearman_rows(x, y),
        measures.kendall_tau_b_rows(x, y),
        measures.kendall_tau_c_rows(x, y),
        measures.system_accuracy_rows(x, y),
        strict=True,
    ):
        assert rho == pytest.approx(stats.spearmanr(row, y).statistic, abs=1e-12)
        assert b == pytest.approx(stats.kendalltau(row, y, variant="b").statistic, abs=1e-12)
        assert c == pytest.approx(stats.kendalltau(row, y, variant="c").statistic, abs=1e-12)
        pairs = [np.sign([row[i] - row[j], y[i] - y[j]]) for i, j in combinations(range(len(y)), 2) if y[i] != y[j]]
        assert accuracy == pytest.approx(np.mean([ours == human for ours, human in pairs]), abs=1e-12)


def test_constant_rows_are_undefined() -> None:
    x, y = np.zeros((1, 4)), np.arange(4.0)
    for function in (measures.kendall_tau_b_rows, measures.kendall_tau_c_rows, measures.spearman_rows):
        assert np.isnan(function(x, y)).all()
        assert np.isnan(function(y[None], np.zeros(4))).all()
    # A metric's tie is wrong; people's are no pairs.
    assert measures.system_accuracy_rows(x, y).tolist() == [0.0]
    assert np.isnan(measures.system_accuracy_rows(y[None], np.zeros(4))).all()


def test_pooled_pearson_of_redrawn_test_sets(cells: tuple[np.ndarray, np.ndarray]) -> None:
    scores, human = cells
    draws = segment_draws(np.ones(40, dtype=bool), 25, 1)
    found = measures.pooled_pearson_samples(scores, human, draws)
    judged = ~np.isnan(human)
    assert found[0] == pytest.approx(stats.pearsonr(scores[judged], human[judged]).statistic, abs=1e-12)
    for value, draw in zip(found[1:], draws.astype(int), strict=True):
        columns = np.repeat(np.arange(40), draw)
        x, y = scores[:, columns], human[:, columns]
        there = ~np.isnan(y)
        assert value == pytest.approx(stats.pearsonr(x[there], y[there]).statistic, abs=1e-12)


def test_acc23_holds_its_threshold_in_redrawn_sets(cells: tuple[np.ndarray, np.ndarray]) -> None:
    scores, human = cells
    threshold = tie_threshold(scores, human)
    assert threshold > 0
    draws = segment_draws(np.ones(40, dtype=bool), 5, 1)
    found = within_segments.tie_accuracy(
        within_segments.SegmentPairs.of(scores, human), within_segments.weighted(draws)
    )
    for value, draw in zip(found, [np.ones(40, dtype=int), *draws.astype(int)], strict=True):
        shares = []
        for segment in np.repeat(np.arange(40), draw):
            there = np.flatnonzero(~np.isnan(human[:, segment]))
            right = []
            for i, j in combinations(there, 2):
                difference = scores[i, segment] - scores[j, segment]
                told = 0.0 if abs(difference) <= threshold else np.sign(difference)
                right.append(told == np.sign(human[i, segment] - human[j, segment]))
            shares += [np.mean(right)] if right else []
        assert value == pytest.approx(np.mean(shares), abs=1e-12)


def test_means_over_items(cells: tuple[np.ndarray, np.ndarray]) -> None:
    scores, human = cells
    people = People(human)
    for statistic, correlation in (
        (measures.KENDALL_TAU_B_ITEMS, kendall_tau_b),
        (measures.PEARSON_ITEMS, pearson),
    ):
        judged = [~np.isnan(column) for column in human.T]
        values = [correlation(x[w], y[w]) for x, y, w in zip(scores.T, human.T, judged, strict=True) if w.sum() >= 2]
        assert statistic.against(people)(scores)[0] == pytest.approx(np.nanmean(values), abs=1e-12)


def test_every_statistic_measures_the_test_set_and_redrawn_ones(cells: tuple[np.ndarray, np.ndarray]) -> None:
    scores, human = cells
    segment = np.flatnonzero(human[0] > human[1])
    better = np.zeros(len(segment), dtype=np.intp)
    pairs = RankingPairs(segment, better, better + 1, ("a", "b", "c", "d", "e", "f"))
    bootstrap = Bootstrap(7)
    everyone = np.ones(40, dtype=np.bool_)
    people = {
        "systems": People(np.nanmean(human, axis=1), everyone, bootstrap),
        "segments": People(human, everyone, bootstrap),
        "rankings": People(np.zeros(0), everyone, bootstrap, pairs),
    }
    without = {("seg", "spearman"), ("seg", "kendall-tau-c")}
    for name in STATISTICS.own:
        for statistic in statistics_called(name):
            assert statistic.name == name and statistic.label
            given = scores if statistic.needs != "systems" else scores[:, :8].T
            values = statistic.against(people[statistic.needs])(given)
            samples = not without & {name, (statistic.level, name)}
            assert values.shape == (8 if samples else 1,), name
            assert np.isfinite(values).all(), name
    (soft,) = statistics_called("soft-pairwise-accuracy")
    (found,) = soft.against(People(human, everyone, Bootstrap(0)))(scores)
    of_many = soft.against(People(human, everyone, Bootstrap(1000, seed=1)))(scores)
    assert found == pytest.approx(of_many[0], abs=1e-12)


def test_what_is_chosen() -> None:
    systems = Gold("a", "a", {"x": 1.0}, {})
    segments = Gold("b", None, {}, {"x": np.zeros(3)})
    both = Gold("c", "c", {"x": 1.0}, {"x": np.zeros(3)})

    def names(asked: list[str], gold: Gold) -> list[tuple[str, str]]:
        return [(one.level, one.name) for one in chosen_statistics(asked, gold)]

    assert names(["spearman", "kendall-tau-c", "spearman"], systems) == [
        ("sys", "pearson"),
        ("sys", "spearman"),
        ("sys", "kendall-tau-c"),
    ]
    within = [("seg", "kendall-without-ties"), ("seg", "acc23"), ("seg", "tie-rate")]
    assert names(["acc23", "soft-pairwise-accuracy", "spearman"], segments) == [
        *within,
        ("sys", "soft-pairwise-accuracy"),
        ("seg", "kendall-tau-b"),
        ("seg", "spearman"),
    ]
    assert names(["pearson", "kendall-tau-b"], both) == [
        *within,
        ("sys", "pearson"),
        ("sys", "kendall-tau-b"),
        ("seg", "kendall-tau-b"),
        ("seg", "pearson"),
    ]
    with pytest.raises(UsageError, match="unknown statistic 'tau'"):
        chosen_statistics(["tau"], systems)
    with pytest.raises(UsageError, match="acc23 needs scores of segments"):
        chosen_statistics(["acc23"], systems)
    with pytest.raises(UsageError, match="pairwise-accuracy needs scores of systems"):
        chosen_statistics(["pairwise-accuracy"], segments)
    with pytest.raises(UsageError, match="kendall-darr needs relative rankings"):
        chosen_statistics(["kendall-darr"], both)
