"""The statistics of polyref, by name; ``polyref.eval.statistics.registry`` is their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.eval.statistics import within_segments
from polyref.eval.statistics.accuracy import pairs_of, soft_accuracy, surety_distances
from polyref.eval.statistics.base import (
    SEGMENTS,
    SYSTEMS,
    Level,
    Measure,
    Needs,
    PairStatistic,
    People,
    RankingStatistic,
    SegmentStatistic,
    Statistic,
    SystemStatistic,
)
from polyref.eval.statistics.correlation import DarrCounts, kendall_tau_b, kendall_tau_c, pearson_rows, spearman
from polyref.eval.statistics.pooled_tau_b import PooledTauB
from polyref.eval.statistics.significance import perm_systems
from polyref.eval.statistics.within_segments import divided, mean_over_segments, weighted

FloatArray = npt.NDArray[np.float64]


def spearman_rows(x: FloatArray, y: FloatArray) -> FloatArray:
    """Spearman's rho of every row of ``x`` (rows, n) with ``y`` (n,)."""
    first, second = pairs_of(x.shape[-1])
    # Twice a rank is the number of those below minus that of those above, but for a constant.
    one = np.eye(x.shape[-1])
    towards = one[first] - one[second]
    return pearson_rows(_signs(x) @ towards, _signs(y[None])[0] @ towards)


def kendall_tau_b_rows(x: FloatArray, y: FloatArray) -> FloatArray:
    """Kendall's tau-b of every row of ``x`` (rows, n) with ``y`` (n,); NaN where one side is constant."""
    metric, human = _signs(x), _signs(y[None])[0]
    scale = np.sqrt((metric != 0).sum(axis=-1) * float((human != 0).sum()))
    return divided(metric @ human, scale)


def kendall_tau_c_rows(x: FloatArray, y: FloatArray) -> FloatArray:
    """Kendall's tau-c (Stuart) of every row of ``x`` (rows, n) with ``y`` (n,); NaN where one side is constant."""
    n = x.shape[-1]
    levels = 1 + (np.diff(np.sort(x, axis=-1), axis=-1) > 0).sum(axis=-1)
    least = np.minimum(levels, len(np.unique(y)))
    return divided(2.0 * least * (_signs(x) @ _signs(y[None])[0]), float(n**2) * (least - 1))


def system_accuracy_rows(x: FloatArray, y: FloatArray) -> FloatArray:
    """Share of pairs of systems that each row of ``x`` (rows, n) orders as ``y`` (n,) does; ties of ``x`` are wrong."""
    human = _signs(y[None])[0]
    judged = human != 0
    right = ((_signs(x) == human) & judged).sum(axis=-1).astype(np.float64)
    return divided(right, np.full(len(x), float(judged.sum())))


def pooled_pearson_samples(scores: FloatArray, human: FloatArray, draws: FloatArray | None) -> FloatArray:
    """Pearson's r over all judged cells, exactly, on the test set and on every redrawn one."""
    judged = ~np.isnan(human)
    if not judged.any():
        return np.full(1, np.nan)
    x = np.where(judged, scores - scores[judged].mean(), 0.0)
    y = np.where(judged, human - human[judged].mean(), 0.0)
    columns = np.stack([judged.astype(np.float64), x, y, x * x, y * y, x * y]).sum(axis=1)
    n, sx, sy, sxx, syy, sxy = columns @ _weights(human.shape[1], draws).T
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = sxx - sx * sx / n, syy - sy * sy / n
        flat = (left <= 1e-13 * sxx) | (right <= 1e-13 * syy)
        return np.where(flat, np.nan, np.clip((sxy - sx * sy / n) / np.sqrt(left * right), -1.0, 1.0))


def pearson_items_samples(scores: FloatArray, human: FloatArray, draws: FloatArray | None) -> FloatArray:
    """Mean over segments of Pearson's r within each."""
    judged = ~np.isnan(human)
    left, right = (np.where(judged, one, 0.0).T for one in (scores, human))
    return mean_over_segments(pearson_rows(left, right, judged.T)[None], weighted(draws))


def _pooled(
    correlation: Callable[[FloatArray, FloatArray], float],
) -> Callable[[FloatArray, FloatArray, FloatArray | None], FloatArray]:
    """A statistic of ranks over all judged cells: on the given test set alone."""

    def value(scores: FloatArray, human: FloatArray, draws: FloatArray | None) -> FloatArray:
        judged = ~np.isnan(human)
        return np.array([correlation(scores[judged], human[judged])])

    return value


def _pooled_tau_b(scores: FloatArray, human: FloatArray, draw: FloatArray | None) -> float:
    """Tau-b over all judged cells, with every segment as often as it was drawn, shape (1, segments)."""
    if draw is not None:
        drawn = np.repeat(np.arange(human.shape[1]), draw[0].astype(np.intp))
        scores, human = scores[:, drawn], human[:, drawn]
    judged = ~np.isnan(human)
    return kendall_tau_b(scores[judged], human[judged])


def _signs(x: FloatArray) -> FloatArray:
    """Sign of every pair's difference: (rows, n) -> (rows, n (n - 1) / 2)."""
    i, j = pairs_of(x.shape[-1])
    return np.sign(x[:, i] - x[:, j])


def _weights(segments: int, draws: FloatArray | None) -> FloatArray:
    ones = np.ones((1, segments))
    return ones if draws is None else np.vstack([ones, draws])


class PooledKendall(Statistic):
    """Kendall's tau-b over all judged outputs; what depends on people alone is computed once for all metrics."""

    level: ClassVar[Level] = "seg"
    needs: ClassVar[Needs] = SEGMENTS

    def against(self, people: People) -> Measure:
        """See :meth:`Statistic.against`."""
        if people.system_draws is None:
            return PooledTauB(people.scores).measure(people.draws)
        return lambda scores: np.array(
            [_pooled_tau_b(scores, people.scores, None), *(_pooled_tau_b(*drawn) for drawn in people.redrawn(scores))]
        )


class SoftPairwiseAccuracy(Statistic):
    """Soft pairwise accuracy (Thompson et al. 2024): a statement about systems, made from segments."""

    level: ClassVar[Level] = "sys"
    needs: ClassVar[Needs] = SEGMENTS
    redraws: ClassVar[str] = SYSTEMS

    def against(self, people: People) -> Measure:
        """See :meth:`Statistic.against`; ``people.bootstrap`` says how many permutations there are (at 0: 1000).

        Systems are redrawn, whatever is redrawn elsewhere: every redrawn set of segments would need permutations anew.
        """
        systems = len(people.scores)
        drawn = replace(people.bootstrap, over=SYSTEMS).system_draws(systems)
        weights = np.ones((1, systems)) if drawn is None else np.vstack([np.ones((1, systems)), drawn])
        return lambda scores: soft_accuracy(people.once(scores, _sureties), weights)

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """See :meth:`Statistic.without_each`."""
        return soft_accuracy(people.once(scores, _sureties), 1.0 - np.eye(len(people.scores)))


def _sureties(scores: FloatArray, people: People) -> FloatArray:
    resamples, seed = people.bootstrap.resamples or 1000, people.bootstrap.seed
    return surety_distances(scores, people.scores, resamples=resamples, seed=seed)


PEARSON: Final = (
    SystemStatistic("pearson", "Pearson's r", pearson_rows, usual=True, p_value=perm_systems),
    SegmentStatistic("pearson", "Pearson's r", pooled_pearson_samples, pooled=True),
)
SPEARMAN: Final = (
    SystemStatistic("spearman", "Spearman's ρ", spearman_rows),
    SegmentStatistic("spearman", "Spearman's ρ", _pooled(spearman), pooled=True),
)
KENDALL_TAU_B: Final = (
    SystemStatistic("kendall-tau-b", "Kendall's τ-b", kendall_tau_b_rows),
    PooledKendall("kendall-tau-b", "Kendall's τ-b", usual=True, pooled=True),
)
KENDALL_TAU_C: Final = (
    SystemStatistic("kendall-tau-c", "Kendall's τ-c", kendall_tau_c_rows),
    SegmentStatistic("kendall-tau-c", "Kendall's τ-c", _pooled(kendall_tau_c), pooled=True),
)
PAIRWISE_ACCURACY: Final = SystemStatistic(
    "pairwise-accuracy",
    "pairwise accuracy",
    system_accuracy_rows,
)
SOFT_PAIRWISE_ACCURACY: Final = SoftPairwiseAccuracy(
    "soft-pairwise-accuracy",
    "soft pairwise accuracy",
)
ACC23: Final = PairStatistic(
    "acc23",
    "accuracy with calibrated ties",
    within_segments.tie_accuracy,
    usual=True,
)
KENDALL_WITHOUT_TIES: Final = PairStatistic(
    "kendall-without-ties",
    "Kendall's τ (without ties)",
    within_segments.kendall_without_ties,
    usual=True,
)
KENDALL_TAU_B_ITEMS: Final = PairStatistic(
    "kendall-tau-b-items",
    "Kendall's τ-b within segments",
    within_segments.kendall_tau_b,
)
PEARSON_ITEMS: Final = SegmentStatistic("pearson-items", "Pearson's r within segments", pearson_items_samples)
KENDALL_DARR: Final = RankingStatistic(
    "kendall-darr",
    "Kendall's τ (ties discordant)",
    DarrCounts.tau,
    usual=True,
)
KENDALL_DARR_WITHOUT_TIES: Final = RankingStatistic(
    "kendall-darr-without-ties",
    "Kendall's τ (without ties)",
    DarrCounts.tau_without_ties,
    usual=True,
)
TIE_RATE: Final = (
    RankingStatistic("tie-rate", "share of ties", DarrCounts.tie_rate, usual=True, higher_is_better=None),
    PairStatistic(
        "tie-rate",
        "share of ties",
        within_segments.tie_rate,
        usual=True,
        higher_is_better=None,
    ),
)
