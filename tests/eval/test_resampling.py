from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from polyref.eval.statistics import correlation as module
from polyref.eval.statistics.base import percentile_interval, segment_draws
from polyref.eval.statistics.correlation import PooledTauB


def _judged(seed: int, systems: int, segments: int, values: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(values, size=(systems, segments)).astype(float)
    gold[generator.random(gold.shape) < 0.3] = math.nan
    scores = np.round(generator.normal(size=gold.shape), 1)
    return gold, scores


@pytest.mark.parametrize(
    ("systems", "segments", "values"), [(1, 9, 5), (4, 37, 8), (3, 50, 1000), (130, 4, 3), (6, 200, 400)]
)
def test_every_resample_is_tau_b_of_the_redrawn_cells(systems: int, segments: int, values: int) -> None:
    gold, scores = _judged(3, systems, segments, values)
    pooled = PooledTauB(gold)
    draws = segment_draws(pooled.universe, 30, seed=5)
    measure = pooled.measure(draws)
    taus = np.stack([measure(scores), measure(-scores)])
    judged = ~np.isnan(gold)
    assert pooled.cells == judged.sum()
    assert taus.shape == (2, 31)
    for column, counts in enumerate([np.ones(segments), *draws]):
        index = np.repeat(np.arange(segments), counts.astype(int))
        cells = judged[:, index]
        expected = scipy.stats.kendalltau(scores[:, index][cells], gold[:, index][cells]).statistic
        assert taus[0, column] == pytest.approx(expected, abs=1e-12)
        assert taus[1, column] == pytest.approx(-expected, abs=1e-12)


@pytest.mark.parametrize("sizes", [{"_BUCKET": 1}, {"_BUCKET": 5}, {"_BUCKET": 10**6}, {"_BUCKET": 7, "_DENSE": 0}])
def test_buckets_change_nothing(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> None:
    gold, scores = _judged(4, 3, 40, 6)
    draws = segment_draws(~np.isnan(gold).all(axis=0), 10, seed=1)
    whole = PooledTauB(gold).measure(draws)(scores)
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)
    assert PooledTauB(gold).measure(draws)(scores) == pytest.approx(whole, abs=1e-12)


def test_constant_scores_have_no_tau() -> None:
    gold, scores = _judged(5, 3, 8, 4)
    measure = PooledTauB(gold).measure()
    assert np.isnan(measure(np.zeros_like(scores))).all()
    assert not np.isnan(measure(scores)).any()


def test_nothing_judged_has_no_tau() -> None:
    gold, scores = _judged(5, 3, 8, 4)
    pooled = PooledTauB(np.full_like(gold, math.nan))
    assert (pooled.cells, pooled.universe.any()) == (0, False)
    assert np.isnan(pooled.measure(segment_draws(pooled.universe, 3, seed=1))(scores)).all()
    alone = np.full_like(gold, math.nan)
    alone[1, 2] = 1.0
    assert np.isnan(PooledTauB(alone).measure()(scores)).all()


def test_a_judged_cell_without_score_is_refused() -> None:
    gold, scores = _judged(6, 2, 5, 4)
    gold[1, 2] = 1.0
    scores[1, 2] = math.nan
    with pytest.raises(ValueError, match="no score"):
        PooledTauB(gold).measure()(scores)


def test_draws() -> None:
    universe = np.array([True, False, True, True])
    draws = segment_draws(universe, 200, seed=2)
    assert (draws.sum(axis=1) == 3).all()
    assert (draws[:, 1] == 0).all()
    assert draws.max() > 1
    assert (draws == segment_draws(universe, 200, seed=2)).all()
    assert (draws != segment_draws(universe, 200, seed=3)).any()


def test_interval() -> None:
    samples = np.arange(1001, dtype=float)
    assert percentile_interval(samples, 0.9) == pytest.approx((50, 950))
    assert percentile_interval(np.append(samples, math.nan), 0.9) == pytest.approx((50, 950))
    assert percentile_interval(np.array([math.nan])) is None


@pytest.mark.slow
def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    # Redrawing segments must give the sampling error of the mean: check against the known one.
    generator = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        sample = generator.normal(size=100)
        draws = segment_draws(np.ones(100, dtype=bool), 400, seed)
        low, high = percentile_interval(draws @ sample / 100) or (1.0, -1.0)
        covered += low <= 0 <= high
    assert 178 <= covered <= 200
