from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from polyref.eval.agreement import Row, verdict, with_correction
from polyref.eval.judged import outliers
from polyref.eval.statistics.base import Bootstrap, People, bootstrap_p
from polyref.eval.statistics.named import STATISTICS, statistics_called
from polyref.eval.statistics.significance import (
    adjusted,
    jackknife_p,
    perm_both,
    perm_systems,
    pooled_pearson,
    spread_of_outputs,
    system_pearson,
    williams_p,
    williams_test,
)
from polyref.tables import written


def _data(systems: int = 8, segments: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Human scores, a good metric and a bad one."""
    generator = np.random.default_rng(seed)
    human = generator.normal(size=(systems, 1)) + generator.normal(size=(systems, segments))
    good = human + generator.normal(size=human.shape)
    bad = generator.normal(size=human.shape) * 3 + 0.1 * human
    return human, good, bad


def test_williams_by_hand() -> None:
    # r12 = .9, r13 = .6, r23 = .5, n = 10: K = 1 - .81 - .36 - .25 + .54 = .12;
    # t = .3 sqrt(9 * 1.5 / (2 * .12 * 9/7 + .75^2 * .125)) = .3 sqrt(13.5 / .378884) = 1.790743, 7 degrees of freedom.
    statistic = 0.3 * math.sqrt(13.5 / (2 * 0.12 * 9 / 7 + 0.5625 * 0.125))
    assert statistic == pytest.approx(1.790743, abs=1e-4)
    assert williams_p(0.9, 0.6, 0.5, 10) == pytest.approx(scipy.stats.t.sf(statistic, 7), abs=1e-12)
    # Turned round, the other tail.
    assert williams_p(0.6, 0.9, 0.5, 10) == pytest.approx(1 - williams_p(0.9, 0.6, 0.5, 10), abs=1e-12)
    assert williams_p(0.7, 0.7, 0.5, 10) == pytest.approx(0.5)


def test_williams_of_the_same_scores_is_one() -> None:
    human, good, _ = (array.mean(axis=1) for array in _data())
    assert williams_test(good, good, human) == 1.0
    # A linear change changes no correlation.
    assert williams_test(good, 2 * good + 3, human) == pytest.approx(1.0)


def test_williams_is_undefined_for_three_systems_or_constant_scores() -> None:
    assert math.isnan(williams_test([1, 2, 3], [3, 1, 2], [1, 2, 4]))
    assert math.isnan(williams_test([1, 1, 1, 1, 1], [3, 1, 2, 5, 4], [1, 2, 4, 3, 5]))


def test_an_undefined_correlation_has_no_p_value() -> None:
    scores, human = np.array([1.0, 2.0, 3.0, 5.0, 4.0]), np.array([5.0, 5.0, 5.0, 5.0, 5.0])
    assert math.isnan(williams_test(scores, scores, human))
    assert math.isnan(williams_test(scores, scores[::-1], human))
    assert math.isnan(williams_test([1.0], [1.0], [3.0]))
    # With a defined correlation equal scores are never better, however few there are.
    assert williams_test(scores[:3], scores[:3], [3.0, 1.0, 2.0]) == 1.0


def _row(k: int, value: float, gain: float | None, p: float | None, *, metric: str = "bleu") -> Row:
    return Row("mqm", "sys", metric, k, "pearson", value, gain, None, None, 5, 30, p)


def test_undefined_correlations_are_no_comparisons() -> None:
    nan = math.nan
    rows = [
        _row(0, 0.9, 0.0, 1.0),
        _row(1, 0.95, 0.05, 0.2),
        _row(2, 0.96, 0.06, 0.1),
        _row(0, nan, nan, nan),
        # PERM-BOTH is over scores of segments, and may be defined where the row is not.
        replace(_row(1, nan, nan, nan), p_perm_both=0.01),
    ]
    corrected = [row.p_adjusted for row in with_correction(rows, "bonferroni")]
    assert corrected == [None, pytest.approx(0.4), pytest.approx(0.2), None, None]


def test_every_test_is_a_family_of_its_own() -> None:
    rows = [_row(1, 0.9, 0.1, 0.01), replace(_row(2, 0.9, 0.1, 0.5), p_perm_both=0.02), _row(3, 0.9, 0.1, 0.03)]
    assert [row.p_adjusted for row in with_correction(rows, "bonferroni")] == pytest.approx([0.02, 0.02, 0.06])
    # The jackknife's, at both levels; what has no p-value is no comparison.
    rows += [replace(_row(1, 0.9, 0.1, 0.1), level="seg"), replace(_row(1, 0.9, 0.1, 0.2), statistic="spearman")]
    rows += [_row(4, 0.9, 0.1, p) for p in (None, math.nan)]
    found = [row.p_adjusted for row in with_correction(rows, "bonferroni")]
    assert found[-2:] == [None, None] and found[:-2] == pytest.approx([0.02, 0.02, 0.06, 0.2, 0.4])


@pytest.mark.parametrize("p", [0.001, 0.999, 1.0])
def test_rounding_is_no_difference(p: float) -> None:
    for gain in (0.0, 5.5e-17, -5.5e-17):
        assert verdict(_row(1, 0.9, gain, p)).word == "unclear"
    assert bootstrap_p(np.full(99, 5.5e-17)) == 1


def test_nothing_is_minus_zero() -> None:
    row = replace(_row(1, -1e-9, -1e-9, None), level="seg", gain_ci=(-1e-9, 1e-9))
    assert "-0.0000" not in str([written(row.value, 4), written(row.gain, 4, "+"), written(row.gain_ci, 4, "+")])


@pytest.mark.slow
def test_williams_is_calibrated() -> None:
    # Two equally good metrics: p below .1 in about a tenth of all cases.
    generator = np.random.default_rng(3)
    low = 0
    for _ in range(2000):
        human = generator.normal(size=12)
        one, other = (human + generator.normal(size=12) for _ in range(2))
        low += williams_test(one, other, human) < 0.1
    assert 0.08 < low / 2000 < 0.12


@pytest.mark.parametrize("statistic", [system_pearson, pooled_pearson])
def test_perm_both_tells_good_from_bad(statistic: object) -> None:
    human, good, bad = _data()
    better = perm_both(good, bad, human, statistic=statistic, resamples=200)  # type: ignore[arg-type]
    assert better == pytest.approx(1 / 201)
    worse = perm_both(bad, good, human, statistic=statistic, resamples=200)  # type: ignore[arg-type]
    assert worse > 0.95


def test_perm_both_of_the_same_scores_is_one() -> None:
    human, good, _ = _data()
    assert perm_both(good, good, human, resamples=50) == 1.0
    # Only the scale differs: standardised, they are the same metric.
    assert perm_both(good, good * 100 - 7, human, resamples=50) == pytest.approx(1.0)


def test_perm_both_by_enumeration() -> None:
    # Three systems, one segment: all 8 swaps can be written down, and random ones must agree with their share.
    human = np.array([[1.0], [2.0], [4.0]])
    one, other = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [3.0], [1.0]])
    observed = pearson_difference(one, other, human)
    exact = 0
    for swap in itertools.product([False, True], repeat=3):
        mask = np.array(swap)[:, None]
        exact += pearson_difference(np.where(mask, other, one), np.where(mask, one, other), human) >= observed - 1e-9
    p = perm_both(one, other, human, resamples=8000)
    assert 0 < exact < 8
    assert p == pytest.approx(exact / 8, abs=0.02)


def pearson_difference(one: np.ndarray, other: np.ndarray, human: np.ndarray) -> float:
    return float(
        np.corrcoef(one.mean(axis=1), human.mean(axis=1))[0, 1]
        - np.corrcoef(other.mean(axis=1), human.mean(axis=1))[0, 1]
    )


def test_perm_both_is_calibrated() -> None:
    low = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        human = generator.normal(size=(6, 1)) + generator.normal(size=(6, 20))
        one, other = (human + 2 * generator.normal(size=human.shape) for _ in range(2))
        low += perm_both(one, other, human, resamples=99, seed=seed) <= 0.1
    assert 0.04 < low / 200 < 0.17


def test_statistics_work_on_many_resamples_at_once() -> None:
    human, good, bad = _data()
    both = np.stack([good, bad])
    means = [np.corrcoef(scores.mean(axis=1), human.mean(axis=1))[0, 1] for scores in both]
    assert system_pearson(both, human) == pytest.approx(means, abs=1e-12)
    pooled = [np.corrcoef(scores.ravel(), human.ravel())[0, 1] for scores in both]
    assert pooled_pearson(both, human) == pytest.approx(pooled, abs=1e-12)


def test_many_comparisons() -> None:
    # By hand: sorted .01 .02 .03 .4. Holm: 4*.01, max(.04, 3*.02), max(.06, 2*.03), max(.06, .4).
    p = [0.03, 0.01, math.nan, 0.4, 0.02]
    assert adjusted(p, "holm") == pytest.approx([0.06, 0.04, math.nan, 0.4, 0.06], nan_ok=True)
    assert adjusted(p, "bonferroni") == pytest.approx([0.12, 0.04, math.nan, 1.0, 0.08], nan_ok=True)
    defined = [value for value in p if not math.isnan(value)]
    expected = scipy.stats.false_discovery_control(defined, method="bh")
    assert [v for v in adjusted(p, "bh") if not math.isnan(v)] == pytest.approx(list(expected))
    assert adjusted([], "holm") == []


def test_outliers_by_hand() -> None:
    # Median 3, distances 2 1 0 1 97, their median 1: cut-off 2.5 * 1.483 = 3.7.
    human = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 100.0}
    assert outliers(human) == ["e"]
    assert outliers({**human, "e": 6.71}) == ["e"]
    assert outliers({**human, "e": 6.70}) == []
    assert outliers({"a": 1.0, "b": 1.0, "c": 1.0, "d": 9.0}) == []
    assert outliers({}) == []


def _exchanged(first: np.ndarray, second: np.ndarray, human: np.ndarray) -> float:
    """PERM-SYSTEMS by the book: every exchange in a loop, correlations and Williams' statistic by scipy and by hand."""

    def statistic(x: np.ndarray, y: np.ndarray) -> float:
        r12, r13, r23 = (float(scipy.stats.pearsonr(*pair).statistic) for pair in ((x, human), (y, human), (x, y)))
        n = len(x)
        k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
        error = 2 * k * (n - 1) / (n - 3) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
        return (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / error)

    first, second = first - first.mean(), second - second.mean()
    observed = statistic(first, second)
    ways = list(itertools.product((False, True), repeat=len(first)))
    reached = [statistic(*_swapped(first, second, np.array(way))) >= abs(observed) - 1e-9 for way in ways]
    return float(np.mean(reached)) if observed >= 0 else 1 - float(np.mean(reached))


def _swapped(first: np.ndarray, second: np.ndarray, way: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.where(way, second, first), np.where(way, first, second)


def test_perm_systems_by_enumeration() -> None:
    generator = np.random.default_rng(8)
    for _ in range(3):
        human = generator.normal(size=7)
        one, other = (human + generator.normal(size=7) for _ in range(2))
        p = perm_systems(one, other, human)
        assert p == pytest.approx(_exchanged(one, other, human), abs=1e-12)
        assert perm_systems(other, one, human) == pytest.approx(1 - p, abs=1e-12)
        # Of the metrics' scales it is the relation that counts, and nothing else of them.
        assert perm_systems(3 * one + 5, 3 * other - 2, human * 9) == pytest.approx(p, abs=1e-12)
        assert perm_systems(1e-200 * one, 1e-200 * other, human * 1e200) == pytest.approx(p, abs=1e-12)


def test_perm_systems_of_few_same_or_constant_scores() -> None:
    generator = np.random.default_rng(2)
    human = np.arange(6.0)
    good, poor = human + 0.01 * generator.normal(size=6), generator.normal(size=6)
    assert perm_systems(good, good, human) == perm_systems(good, 2 * good + 3, human) == 1.0
    assert perm_systems(human, poor, human) == pytest.approx(1 / 64)  # the least of six systems
    assert perm_systems(poor, human, human) == pytest.approx(63 / 64)
    assert perm_systems(human[:5], poor[:5], human[:5]) >= 1 / 32
    assert math.isnan(perm_systems(good[:3], poor[:3], human[:3]))
    assert math.isnan(perm_systems(np.ones(6), good, human)) and math.isnan(perm_systems(good, poor, np.ones(6)))


def test_perm_systems_of_many_systems_is_the_same_every_time() -> None:
    generator = np.random.default_rng(4)
    human = generator.normal(size=30)
    good, poor = human + 0.3 * generator.normal(size=30), human + 3 * generator.normal(size=30)
    p = perm_systems(good, poor, human)
    assert 1 / 2**14 <= p < 0.001 and p == perm_systems(good, poor, human)
    assert perm_systems(poor, good, human) == 1 - p


def test_spread_of_outputs() -> None:
    outputs = np.array([[1.0, 3.0, math.nan], [10.0, 14.0, 12.0]])
    within, means = spread_of_outputs(outputs)
    assert within == pytest.approx(np.std([-1, 1, -2, 2, 0])) and means == pytest.approx(5.0)
    assert all(map(math.isnan, spread_of_outputs(np.array([[1.0, 2.0], [math.nan, math.nan]]))))


def test_the_jackknife_of_a_mean_is_its_t_test() -> None:
    values = np.random.default_rng(2).normal(0.4, size=9)
    without = np.array([np.delete(values, place).mean() for place in range(9)])
    error = values.std(ddof=1) / 3
    assert jackknife_p(values.mean(), without) == pytest.approx(scipy.stats.t.sf(values.mean() / error, 7))
    assert jackknife_p(-values.mean(), -without) == pytest.approx(scipy.stats.t.cdf(values.mean() / error, 7))
    # Nothing differs, or everything by as much.
    assert jackknife_p(0.0, np.zeros(9)) == 0.5
    # Without an error it is as sure as exchanges of systems can be: of four or five systems nothing is significant.
    for size in (4, 5, 9):
        found = jackknife_p(0.1, np.full(size, 0.1)), jackknife_p(-0.1, np.full(size, -0.1))
        assert found == (0.5**size, 1 - 0.5**size) and (found[0] < 0.025) == (size > 5)
    assert math.isnan(jackknife_p(0.1, np.full(3, 0.1)))
    assert math.isnan(jackknife_p(0.1, np.array([0.1, 0.2, math.nan, 0.1])))


def test_leaving_out_a_system_is_the_statistic_of_the_others() -> None:
    rng = np.random.default_rng(5)
    human = np.round(rng.normal(size=(6, 30)), 1)
    human[rng.random(human.shape) < 0.1] = math.nan
    scores = np.round(rng.normal(size=human.shape), 1)
    for name in STATISTICS.own:
        for statistic in statistics_called(name):
            if statistic.needs == "rankings":
                continue
            systems = statistic.needs == "systems"
            x, y = (scores.mean(axis=1)[None], np.nanmean(human, axis=1)) if systems else (scores, human)
            found = statistic.without_each(x, People(y, bootstrap=Bootstrap(0)))
            if statistic.pooled or name == "tie-rate" or (statistic.level, name) == ("sys", "pearson"):
                assert found is None
                continue
            assert found is not None and found.shape == (6,)
            for place, value in enumerate(found):
                others = People(np.delete(y, place, axis=0), bootstrap=Bootstrap(0))
                rest = np.delete(x, place, axis=1 if systems else 0)
                # Acc23's threshold stays that of the whole set.
                if name != "acc23":
                    assert value == pytest.approx(statistic.against(others)(rest)[0], abs=1e-12), statistic
