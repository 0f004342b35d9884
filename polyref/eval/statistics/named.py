"""The statistics of polyref by name, which of them are computed, and names as people write them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.eval.data.score_files import FloatArray, Gold
from polyref.eval.statistics import within_segments
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
from polyref.eval.statistics.correlation import (
    DarrCounts,
    PooledTauB,
    divided,
    kendall_tau_b,
    kendall_tau_c,
    pearson_rows,
    spearman,
)
from polyref.eval.statistics.significance import perm_systems
from polyref.eval.statistics.within_segments import mean_over_segments, pairs_of, weighted
from polyref.metrics import registry
from polyref.plugins import Plugins

#: Signs that are numbers of eight bytes at a time: 32 MB.
_CELLS: Final = 1 << 22


def surety_distances(scores: FloatArray, human: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    """How far the p-values of metric and people are apart, shape (pairs,), in the order of ``itertools.combinations``.

    0 to 1; NaN where two systems have no judged segment in common.
    """
    first, second = pairs_of(len(human))
    people, metric = (x[first] - x[second] for x in (human, scores))
    both = ~np.isnan(people)
    counts = both.sum(axis=1)
    distances = np.full(len(counts), math.nan)
    for n in np.unique(counts[counts > 0]):
        alike = counts == n
        # The same for the same number of segments, whichever pair comes first.
        signs = _permutations(int(n), resamples, np.random.default_rng(seed))
        p_human, p_metric = (_p_values(x[alike][both[alike]].reshape(-1, n), signs) for x in (people, metric))
        distances[alike] = np.abs(p_human - p_metric)
    return distances


def soft_accuracy(distances: FloatArray, systems: FloatArray) -> FloatArray:
    """One minus the mean distance of the pairs in sets of systems, shape (sets,); NaN where no pair is left.

    ``systems`` says how often each is in each set, shape (sets, systems); two copies of one are no pair.
    """
    there = ~np.isnan(distances)
    first, second = pairs_of(systems.shape[1])
    often = (systems[:, first] * systems[:, second])[:, there]
    total = often.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1.0 - (often * distances[there]).sum(axis=1) / total, np.nan)


def _permutations(n: int, resamples: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Which differences are turned round, -1 or 1: all possibilities where they are few."""
    if 2**n <= resamples:
        return np.array(list(itertools.product((1, -1), repeat=n)), dtype=np.int8)
    drawn: npt.NDArray[np.int8] = (generator.integers(0, 2, size=(resamples, n), dtype=np.int8) * 2 - 1).astype(np.int8)
    return drawn


def _p_values(differences: FloatArray, signs: npt.NDArray[np.int8]) -> FloatArray:
    """Of differences of shape (pairs, segments), by all signs of shape (permutations, segments)."""
    observed = differences.sum(axis=1)
    # Rounding must not decide whether a permutation reaches the observed sum.
    least = observed - 1e-12 * np.abs(differences).sum(axis=1)
    rows = max(1, _CELLS // differences.shape[1])
    parts = (signs[start : start + rows].astype(np.float64) for start in range(0, len(signs), rows))
    reached = sum(((part @ differences.T) >= least).sum(axis=0) for part in parts)
    return np.where(differences.any(axis=1), reached / len(signs), 0.5)


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
    ones = np.ones((1, human.shape[1]))
    n, sx, sy, sxx, syy, sxy = columns @ (ones if draws is None else np.vstack([ones, draws])).T
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


class PooledKendall(Statistic):
    """Kendall's tau-b over all judged outputs; what depends on people alone is computed once for all metrics."""

    level: ClassVar[Level] = "seg"
    needs: ClassVar[Needs] = SEGMENTS

    def against(self, people: People) -> Measure:
        """The fast way for all draws of segments at once; one by one where systems are redrawn."""
        if people.system_draws is None:
            return PooledTauB(people.scores).measure(people.draws)
        return lambda scores: np.array(
            [_pooled_tau_b(scores, people.scores, None), *(_pooled_tau_b(*drawn) for drawn in people.redrawn(scores))]
        )


class SoftPairwiseAccuracy(Statistic):
    """Soft pairwise accuracy (Thompson et al. 2024): is the metric as sure about each pair of systems as people are?

    One minus the mean difference of the p-values (one-sided paired permutation tests on segments) that the metric and
    people give the pairs of systems, 0 to 1; NaN where no two systems have a judged segment in common. Metric and
    people share the permutations; where there are no more than ``people.bootstrap.resamples`` (0 stands for 1000), all
    of them are taken.

    A permutation whose sum equals the observed one counts as reaching it, as in the authors' implementation
    (``mt_metrics_eval.pce``). Two systems with the same score in every segment have p = .5: there they have 1 whichever
    comes first, and the result depends on the order of the systems.
    """

    level: ClassVar[Level] = "sys"
    needs: ClassVar[Needs] = SEGMENTS
    redraws: ClassVar[str] = SYSTEMS

    def against(self, people: People) -> Measure:
        """Systems are redrawn, whatever is redrawn elsewhere: every set of segments would need permutations anew."""
        systems = len(people.scores)
        drawn = replace(people.bootstrap, over=SYSTEMS).system_draws(systems)
        ones = np.ones((1, systems))
        weights = ones if drawn is None else np.vstack([ones, drawn])
        return lambda scores: soft_accuracy(people.once(scores, _sureties), weights)

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """Over the pairs of the other systems."""
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
    SegmentStatistic("spearman", "Spearman's ρ", _pooled(spearman), pooled=True, redraws_segments=False),
)
KENDALL_TAU_B: Final = (
    SystemStatistic("kendall-tau-b", "Kendall's τ-b", kendall_tau_b_rows),
    PooledKendall("kendall-tau-b", "Kendall's τ-b", usual=True, pooled=True),
)
KENDALL_TAU_C: Final = (
    SystemStatistic("kendall-tau-c", "Kendall's τ-c", kendall_tau_c_rows),
    SegmentStatistic("kendall-tau-c", "Kendall's τ-c", _pooled(kendall_tau_c), pooled=True, redraws_segments=False),
)
PAIRWISE_ACCURACY: Final = SystemStatistic("pairwise-accuracy", "pairwise accuracy", system_accuracy_rows)
SOFT_PAIRWISE_ACCURACY: Final = SoftPairwiseAccuracy("soft-pairwise-accuracy", "soft pairwise accuracy")
ACC23: Final = PairStatistic("acc23", "accuracy with calibrated ties", within_segments.tie_accuracy, usual=True)
KENDALL_WITHOUT_TIES: Final = PairStatistic(
    "kendall-without-ties", "Kendall's τ (without ties)", within_segments.kendall_without_ties, usual=True
)
KENDALL_TAU_B_ITEMS: Final = PairStatistic(
    "kendall-tau-b-items", "Kendall's τ-b within segments", within_segments.kendall_tau_b
)
PEARSON_ITEMS: Final = SegmentStatistic("pearson-items", "Pearson's r within segments", pearson_items_samples)
KENDALL_DARR: Final = RankingStatistic("kendall-darr", "Kendall's τ (ties discordant)", DarrCounts.tau, usual=True)
KENDALL_DARR_WITHOUT_TIES: Final = RankingStatistic(
    "kendall-darr-without-ties", "Kendall's τ (without ties)", DarrCounts.tau_without_ties, usual=True
)
TIE_RATE: Final = (
    RankingStatistic("tie-rate", "share of ties", DarrCounts.tie_rate, usual=True, higher_is_better=None),
    PairStatistic("tie-rate", "share of ties", within_segments.tie_rate, usual=True, higher_is_better=None),
)
#: In the order of lists.
_OWN: Final = (
    SPEARMAN, KENDALL_TAU_B, KENDALL_TAU_C, PAIRWISE_ACCURACY, SOFT_PAIRWISE_ACCURACY, KENDALL_WITHOUT_TIES, ACC23,
    PEARSON, KENDALL_TAU_B_ITEMS, PEARSON_ITEMS, KENDALL_DARR, KENDALL_DARR_WITHOUT_TIES, TIE_RATE,
)  # fmt: skip
#: Those that are always computed, where the judgement has what they need, in the order of the rows.
_USUAL: Final = (
    KENDALL_WITHOUT_TIES, ACC23, KENDALL_DARR_WITHOUT_TIES, KENDALL_DARR, *TIE_RATE, PEARSON[0], KENDALL_TAU_B[1],
)  # fmt: skip


def _several(found: Any) -> tuple[Statistic, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _are_statistics(name: str, found: Any) -> bool:
    several = _several(found)
    return bool(several) and all(isinstance(one, Statistic) and one.name == name for one in several)


#: Every statistic. One that is always computed at one level may have another level at which it can be asked for.
STATISTICS: Final = Plugins(
    "statistic",
    "polyref.statistics",
    {_several(one)[0].name: one for one in _OWN},
    "a Statistic of that name, or several",
    _are_statistics,
)
_NEEDED: Final[dict[Needs, str]] = {
    "systems": "scores of systems",
    "segments": "scores of segments",
    "rankings": "relative rankings",
}


def statistics_called(name: str) -> tuple[Statistic, ...]:
    """The statistics of one name: one, or one for each level."""
    return _several(STATISTICS.load(name))


def statistic_at(name: str, level: str) -> Statistic | None:
    """The statistic of a name at one level; None where there is none, as for rows of other experiments."""
    several = statistics_called(name) if name in STATISTICS else ()
    return next((one for one in several if one.level == level), None)


def chosen_statistics(asked: Sequence[str], gold: Gold, *, within_segments: bool = False) -> list[Statistic]:
    """What to compute: the usual statistics, and those asked for, in the order of the rows.

    Args:
        asked: Names of statistics beside the usual ones; each at every level that has it.
        gold: The judgements.
        within_segments: Take only those that compare outputs of one segment.
    """
    there: dict[Needs, bool] = {
        "systems": bool(gold.system),
        "segments": bool(gold.segment),
        "rankings": gold.pairs is not None,
    }
    further = [(name, statistics_called(name)) for name in dict.fromkeys(asked)]
    for name, several in further:
        if not any(there[one.needs] for one in several):
            raise UsageError(
                f"{name} needs {_NEEDED[several[0].needs]}, which the judgement {gold.name!r} does not have",
                remedy="choose another `gold`",
            )
        if within_segments and not any(map(_within_segments, several)):
            raise UsageError(f"{name} does not compare outputs within segments, as `peers` has to")
    everything = [*_USUAL, *(one for _, several in further for one in several if not one.usual)]
    if gold.pairs is not None:
        # The rankings speak for the segments.
        everything = [one for one in everything if one.level == "sys" or one.needs == "rankings"]
    fitting = (one for one in everything if not within_segments or _within_segments(one))
    return sorted((one for one in fitting if there[one.needs]), key=block)


def _within_segments(statistic: Statistic) -> bool:
    return statistic.level == "seg" and not statistic.pooled


def block(statistic: Statistic) -> tuple[int, bool, bool]:
    """Statistics of one block are together in the rows of a metric.

    First those within segments, which say what a metric is for: to tell outputs of one text apart. Then those of
    systems. Last those over outputs of all segments at once, which move with the difficulty of segments as well.
    """
    of_systems = statistic.level == "sys"
    place = 1 if of_systems else 2 if statistic.pooled else 0
    return (place, of_systems and statistic.needs != "systems", not of_systems and not statistic.usual)


# Score files that are called as polyref's metrics are with added references.
_STORED: Final = {"parbleu": "parBLEU", "parchrf": "parCHRF", "parchrf++": "parCHRF++", "parter": "parTER"}
#: Statistics of experiments; the others have labels.
_EXPERIMENTS: Final = {
    "pairs-correct": "correct pairs of systems",
    "pairs-incorrect": "incorrect pairs of systems",
    "pairs-not-significant": "pairs of systems not told apart",
}
#: Where more is not more agreement.
_ARROWS: Final = {"pairs-incorrect": "↓", "pairs-not-significant": ""}
_GOLDS: Final = {
    "mqm": "MQM",
    "darr": "DARR",
    "da-sqm": "DA+SQM",
    "esa": "ESA",
    "wmt-z": "DA z-scores",
    "wmt-raw": "raw DA scores",
}


def metric_names(metrics: Iterable[str]) -> dict[str, str]:
    """Every metric's name as people write it; as it is where two of them would then have one name."""

    def written(name: str) -> str:
        known = name.partition("(")[0] in registry.REGISTRY
        return registry.metric_label(name) if known else _STORED.get(name, name)

    given = set(metrics)
    return {name: name if (label := written(name)) in given else label for name in given}


def statistic_name(statistic: str) -> str:
    """A statistic as people write it."""
    if statistic in _EXPERIMENTS:
        return _EXPERIMENTS[statistic]
    return statistics_called(statistic)[0].label if statistic in STATISTICS else statistic


def level_name(statistic: str, level: str) -> str:
    """Where a statistic stands: ``systems``, ``within segments``, or ``all outputs`` of all segments at once."""
    if level == "sys":
        return "systems"
    found = statistic_at(statistic, level)
    return "all outputs" if found is not None and found.pooled else "within segments"


def arrow(statistic: str, level: str) -> str:
    """``↑`` where more is more agreement, ``↓`` where less is, else nothing."""
    if statistic in _EXPERIMENTS:
        return _ARROWS.get(statistic, "↑")
    found = statistic_at(statistic, level)
    return "" if found is None else {True: "↑", False: "↓", None: ""}[found.higher_is_better]


def gold_name(gold: str) -> str:
    """A human judgement as people write it."""
    return _GOLDS.get(gold, gold)
