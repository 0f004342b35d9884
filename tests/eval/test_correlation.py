from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from polyref.eval.data.score_files import RankingPairs
from polyref.eval.statistics.correlation import (
    darr_counts,
    kendall_tau_b,
    kendall_tau_c,
    pearson,
    pearson_rows,
    spearman,
)
from polyref.eval.statistics.named import pearson_items_samples, spearman_rows

# Few distinct values, so that ties are common.
SERIES = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=30)


@settings(deadline=None)
@given(SERIES)
def test_equals_scipy(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*points, strict=True))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(pearson(x, y))
        assert math.isnan(spearman(x, y))
        assert math.isnan(kendall_tau_b(x, y))
        return
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-12)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)
    assert kendall_tau_b(x, y) == pytest.approx(scipy.stats.kendalltau(x, y).statistic, abs=1e-12)
    expected = scipy.stats.kendalltau(x, y, variant="c").statistic
    assert kendall_tau_c(x, y) == pytest.approx(expected, abs=1e-12)


def test_pearson_of_rows() -> None:
    x = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 2.0], [5.0, 5.0, 5.0], [0.1, 0.1, 0.1]])
    y = np.array([1.0, 3.0, 2.0])
    rows = pearson_rows(x, y)
    assert rows[:2] == pytest.approx([scipy.stats.pearsonr(row, y).statistic for row in x[:2]], abs=1e-12)
    # 0.1 + 0.1 + 0.1 over 3 is not 0.1: rounding must not be correlated with anything.
    assert np.isnan(rows[2:]).all()


def test_pearson_of_extreme_scales() -> None:
    x = np.array([1.0, 2.0, 4.0])
    assert pearson(x * 1e-200, x * 1e200) == pytest.approx(1.0, abs=1e-12)
    assert pearson(x + 1e9, x) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("function", [pearson, spearman, kendall_tau_b, kendall_tau_c])
def test_refuses_missing_values_and_other_lengths(function: object) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match="NaN"):
        function([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        function([1.0, 2.0], [1.0, 2.0, 3.0])


def test_one_point_has_no_correlation() -> None:
    assert math.isnan(pearson([1.0], [2.0]))
    assert math.isnan(kendall_tau_b([1.0], [2.0]))


# By hand: segment 0 has one concordant pair and a tie, segment 1 one discordant and two concordant.
SCORES = np.array([[3.0, 5.0], [1.0, 7.0], [3.0, 6.0]])
PAIRS = RankingPairs(
    segment=np.array([0, 0, 1, 1, 1]),
    better=np.array([0, 0, 1, 0, 1]),
    worse=np.array([1, 2, 0, 2, 2]),
    systems=("a", "b", "c"),
)


def test_darr_by_hand() -> None:
    counts = darr_counts(SCORES, PAIRS)
    assert counts.concordant.tolist() == [1, 2]
    assert counts.discordant.tolist() == [0, 1]
    assert counts.tied.tolist() == [1, 0]
    assert counts.tau().tolist() == pytest.approx([(3 - 1 - 1) / 5])
    assert counts.tau_without_ties().tolist() == pytest.approx([(3 - 1) / 4])
    assert counts.tie_rate().tolist() == pytest.approx([1 / 5])


def test_darr_of_redrawn_segments_is_that_of_the_repeated_pairs() -> None:
    counts = darr_counts(SCORES, PAIRS)
    draws = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    assert counts.tau(draws).tolist() == pytest.approx([(2 - 0 - 2) / 4, (4 - 2) / 6, 1 / 5])
    assert counts.tie_rate(draws).tolist() == pytest.approx([0.5, 0, 0.2])


def test_darr_needs_a_score_for_every_named_cell() -> None:
    scores = SCORES.copy()
    scores[2, 1] = math.nan
    with pytest.raises(ValueError, match="no score"):
        darr_counts(scores, PAIRS)
    # A cell that no pair names may lack one.
    pairs = RankingPairs(PAIRS.segment[:2], PAIRS.better[:2], PAIRS.worse[:2], PAIRS.systems)
    assert darr_counts(scores, pairs).concordant.sum() == 1


def test_named_cells() -> None:
    assert PAIRS.cells(3).tolist() == [[True, True, False], [True, True, False], [True, True, False]]
    assert len(PAIRS) == 5


def test_pearson_within_segments_equals_scipy_where_outputs_are_missing() -> None:
    generator = np.random.default_rng(5)
    human = generator.normal(size=(6, 40))
    scores = 1e6 + 0.5 * human + generator.normal(size=human.shape)
    human[generator.random(human.shape) < 0.4] = math.nan
    human[1:, 7] = math.nan  # one output is no correlation
    scores[:, 9] = 0.1  # equal scores are none either
    expected = []
    for x, y in zip(scores.T, human.T, strict=True):
        judged = ~np.isnan(y)
        if judged.sum() > 1 and np.ptp(x[judged]) > 0:
            expected.append(scipy.stats.pearsonr(x[judged], y[judged]).statistic)
    assert 30 < len(expected) < 39
    (found,) = pearson_items_samples(scores, human, None)
    assert found == pytest.approx(np.mean(expected), abs=1e-10)
    # Twice the first half of the segments.
    draw = np.repeat([[2.0, 0.0]], 20, axis=1)
    assert pearson_items_samples(scores, human, draw)[1] == pytest.approx(
        pearson_items_samples(scores[:, :20], human[:, :20], None)[0], abs=1e-12
    )


@settings(deadline=None)
@given(SERIES)
def test_spearman_of_rows_equals_scipy(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*points, strict=True))
    expected = [spearman(x, y), spearman(x[::-1], y)]
    assert spearman_rows(np.stack([x, x[::-1]]), y) == pytest.approx(expected, abs=1e-12, nan_ok=True)
