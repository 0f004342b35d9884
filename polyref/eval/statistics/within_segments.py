"""Statistics over pairs of outputs of one segment: what tells systems apart, whatever the segments are like.

Two outputs of one segment are a pair; people order it or tie it, and so does the metric. Every statistic is a few sums
over pairs and segments, so redrawn test sets are matrix products. Where systems are redrawn, a pair counts as often as
both of its systems were drawn, each copy of one with each of the other; two copies of one system are no pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from polyref.eval.data.score_files import FloatArray, IntArray
from polyref.eval.statistics.correlation import divided


@lru_cache(maxsize=64)
def pairs_of(systems: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first and the second of every pair of so many, in the order of ``itertools.combinations``; not to change."""
    first, second = np.triu_indices(systems, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


def tie_threshold(scores: FloatArray, human: FloatArray) -> float:
    """Differences of scores up to this are ties: the one that gives "acc23" its highest value (Deutsch et al. 2023).

    Acc23 is the share of pairs that metric and people order or tie alike, averaged over segments (equations 8 and 9);
    its threshold is calibrated on the scores themselves (section 5). The candidates are 0 and all differences between
    two outputs of a segment; of equally good ones the smallest is taken.

    Args:
        scores: Shape (systems, segments), no NaN in a judged cell.
        human: Same shape, NaN where a cell was not judged; such cells take part in no pair.

    Returns:
        0 or more; 0 where no segment has two judged outputs.
    """
    first, second = pairs_of(len(human))
    return threshold_of_pairs(scores[first] - scores[second], human[first] - human[second])


def threshold_of_pairs(metric: FloatArray, human: FloatArray) -> float:
    """:func:`tie_threshold` from the differences within pairs of outputs.

    Args:
        metric: Differences of scores, shape (pairs, segments).
        human: Those of human scores, NaN where one of the two was not judged.
    """
    judged = ~np.isnan(human).T  # by segment: the pairs of one come together
    counts = judged.sum(axis=1)
    if not counts.any():
        return 0.0
    differences, gold = metric.T[judged], human.T[judged]
    distance, equal = np.abs(differences), gold == 0
    ordered = (np.sign(differences) == np.sign(gold)) & ~equal
    counts = counts[counts > 0]
    share = np.repeat(1.0 / counts, counts) / len(counts)
    # A growing threshold turns one pair after the other into a tie; each step changes what that pair contributes.
    order = np.argsort(distance, kind="stable")
    steps = share[order] * (equal[order].astype(float) - ordered[order].astype(float))
    reached = float(share @ ordered) + np.cumsum(steps)
    last = np.append(distance[order][1:] != distance[order][:-1], True)
    candidates, accuracies = distance[order][last], reached[last]
    if candidates[0] > 0:
        candidates = np.append(0.0, candidates)
        accuracies = np.append(float(share @ ordered), accuracies)
    # Sums in another order differ by rounding: take the smallest of those that are equal up to it.
    return float(candidates[np.flatnonzero(accuracies >= accuracies.max() - 1e-12)[0]])


@dataclass(frozen=True)
class SegmentPairs:
    """Every pair of outputs of one segment.

    Attributes:
        first: The one system of every pair, shape (pairs,).
        second: The other.
        metric: The metric's score of the first output minus that of the second, shape (pairs, segments); 0 where one of
            them was not judged.
        human: The same of the human scores.
        judged: 1 where both were judged, else 0.

    Every statistic takes the pairs, then weights: the test set as it is and every redrawn one, by how often a segment
    is in it, shape (1 + resamples, segments), or None; then how often each system was drawn, shape (resamples,
    systems), or None. It gives the value on the test set, then one a draw; NaN where no pair is left.
    """

    first: IntArray
    second: IntArray
    metric: FloatArray
    human: FloatArray
    judged: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, human: FloatArray) -> SegmentPairs:
        """The pairs of scores of shape (systems, segments); human scores are NaN where nobody judged.

        Raises:
            ValueError: A judged output has no score.
        """
        if np.isnan(scores[~np.isnan(human)]).any():
            raise ValueError("a judged output has no score")
        first, second = pairs_of(len(human))
        people = human[first] - human[second]
        judged = ~np.isnan(people)
        metric = np.where(judged, scores[first] - scores[second], 0.0)
        return cls(first, second, metric, np.where(judged, people, 0.0), judged.astype(np.float64))

    @cached_property
    def order(self) -> FloatArray:
        """1 for a pair that metric and people order alike, -1 where they do not, 0 where one of them ties it."""
        order: FloatArray = np.sign(self.metric) * np.sign(self.human)
        return order

    @cached_property
    def threshold(self) -> float:
        """Of :func:`~polyref.eval.statistics.within_segments.tie_threshold`."""
        return threshold_of_pairs(self.metric, np.where(self.judged > 0, self.human, np.nan))

    def sums(self, values: FloatArray, systems: FloatArray | None) -> FloatArray:
        """Sums over the pairs of every segment, of values of shape (pairs, segments).

        ``systems`` says how often each was drawn, shape (resamples, systems). The sums have the shape (1 + resamples,
        segments), the test set as it is first; (1, segments) without draws.
        """
        once: FloatArray = values.sum(axis=0)[None]
        if systems is None:
            return once
        often: FloatArray = systems[:, self.first] * systems[:, self.second]
        drawn: FloatArray = often @ values
        return np.concatenate([once, drawn])


def kendall_without_ties(
    pairs: SegmentPairs, weights: FloatArray | None, systems: FloatArray | None = None
) -> FloatArray:
    """Kendall's tau within segments, (C - D) / (C + D) over all pairs of outputs of one segment.

    Pairs that people or the metric tie are left out, as WMT14 does with relative rankings: no reference gains by
    breaking ties.
    """
    order = pairs.order
    balance, ordered = (_over_segments(pairs.sums(one, systems), weights) for one in (order, np.abs(order)))
    return divided(balance, ordered)


def tie_rate(pairs: SegmentPairs, weights: FloatArray | None, systems: FloatArray | None = None) -> FloatArray:
    """Share of the pairs that people order within segments which the metric ties."""
    ordered = np.abs(np.sign(pairs.human))
    tied = ordered * (pairs.metric == 0)
    both = (_over_segments(pairs.sums(one, systems), weights) for one in (tied, ordered))
    return divided(*both)


def kendall_tau_b(pairs: SegmentPairs, weights: FloatArray | None, systems: FloatArray | None = None) -> FloatArray:
    """Mean over segments of Kendall's tau-b within each."""
    metric, people = np.sign(pairs.metric), np.sign(pairs.human)
    balance, left, right = (pairs.sums(one, systems) for one in (pairs.order, np.abs(metric), np.abs(people)))
    return mean_over_segments(divided(balance, np.sqrt(left * right)), weights)


def tie_accuracy(pairs: SegmentPairs, weights: FloatArray | None, systems: FloatArray | None = None) -> FloatArray:
    """Acc23 within segments (Deutsch et al. 2023).

    The tie threshold is calibrated on the given test set and held there in redrawn ones.
    """
    told = np.where(np.abs(pairs.metric) <= pairs.threshold, 0.0, np.sign(pairs.metric))
    right = (told == np.sign(pairs.human)) * pairs.judged
    return mean_over_segments(divided(*(pairs.sums(one, systems) for one in (right, pairs.judged))), weights)


def weighted(draws: FloatArray | None) -> FloatArray | None:
    """Weights of segments from draws, shape (resamples, segments): the test set as it is comes first."""
    return None if draws is None else np.vstack([np.ones((1, draws.shape[1])), draws])


def mean_over_segments(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Mean of the defined values, on the test set and on every redrawn one.

    Args:
        values: One a segment, shape (1, segments), or of every redrawn set of systems too: (1 + resamples, segments).
        weights: How often each segment counts, shape (1 + resamples, segments), or None for once.

    Returns:
        Shape (1 + resamples,), or (1,) without any draw; NaN where nothing is defined.
    """
    defined = ~np.isnan(values)
    there = np.where(defined, values, 0.0)
    return divided(_over_segments(there, weights), _over_segments(defined.astype(np.float64), weights))


def _over_segments(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Sums over segments, each as often as it was drawn: one a row of ``values``, or of weights, or both together."""
    total: FloatArray
    if weights is None:
        total = values.sum(axis=-1)
        return total
    total = weights @ values[0] if len(values) == 1 else np.einsum("rs,rs->r", weights, values)
    return total
