"""Statistics over pairs of outputs of one segment: what tells systems apart, whatever the segments are like.

Two outputs of one segment are a pair; people order it or tie it, and so does the metric. Every statistic is a few sums
over pairs and segments, so redrawn test sets are matrix products. Where systems are redrawn, a pair counts as often as
both of its systems were drawn, each copy of one with each of the other; two copies of one system are no pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyref.eval.statistics.accuracy import tie_threshold

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


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
        first, second = np.triu_indices(len(human), 1)
        people = human[first] - human[second]
        judged = ~np.isnan(people)
        metric = np.where(judged, scores[first] - scores[second], 0.0)
        return cls(first, second, metric, np.where(judged, people, 0.0), judged.astype(np.float64))

    def sums(self, values: FloatArray, systems: FloatArray | None) -> FloatArray:
        """Sums over the pairs of every segment.

        Args:
            values: One a pair and segment, shape (pairs, segments).
            systems: How often each system was drawn, shape (resamples, systems); None for each once.

        Returns:
            Shape (1 + resamples, segments), the test set as it is first; (1, segments) without draws.
        """
        once: FloatArray = values.sum(axis=0)[None]
        if systems is None:
            return once
        often: FloatArray = systems[:, self.first] * systems[:, self.second]
        drawn: FloatArray = often @ values
        return np.concatenate([once, drawn])


def kendall_without_ties(
    scores: FloatArray, human: FloatArray, draws: FloatArray | None, systems: FloatArray | None = None
) -> FloatArray:
    """Kendall's tau within segments, (C - D) / (C + D) over all pairs of outputs of one segment.

    Pairs that people or the metric tie are left out, as WMT14 does with relative rankings: no reference gains by
    breaking ties.

    Args:
        scores: Shape (systems, segments).
        human: Same shape, NaN where nobody judged.
        draws: How often each segment was drawn, shape (resamples, segments), or None.
        systems: How often each system was drawn, shape (resamples, systems), or None.

    Returns:
        The value on the test set, then one a draw; NaN where no pair is left.
    """
    pairs = SegmentPairs.of(scores, human)
    order = np.sign(pairs.metric) * np.sign(pairs.human)
    balance, ordered = (_over_segments(pairs.sums(one, systems), draws) for one in (order, np.abs(order)))
    return divided(balance, ordered)


def tie_rate(
    scores: FloatArray, human: FloatArray, draws: FloatArray | None, systems: FloatArray | None = None
) -> FloatArray:
    """Share of the pairs that people order within segments which the metric ties; as :func:`kendall_without_ties`."""
    pairs = SegmentPairs.of(scores, human)
    ordered = np.abs(np.sign(pairs.human))
    tied = ordered * (pairs.metric == 0)
    both = (_over_segments(pairs.sums(one, systems), draws) for one in (tied, ordered))
    return divided(*both)


def kendall_tau_b(
    scores: FloatArray, human: FloatArray, draws: FloatArray | None, systems: FloatArray | None = None
) -> FloatArray:
    """Mean over segments of Kendall's tau-b within each; as :func:`kendall_without_ties`."""
    pairs = SegmentPairs.of(scores, human)
    metric, people = np.sign(pairs.metric), np.sign(pairs.human)
    balance, left, right = (pairs.sums(one, systems) for one in (metric * people, np.abs(metric), np.abs(people)))
    return mean_over_segments(divided(balance, np.sqrt(left * right)), draws)


def tie_accuracy(
    scores: FloatArray, human: FloatArray, draws: FloatArray | None, systems: FloatArray | None = None
) -> FloatArray:
    """Acc23 within segments (Deutsch et al. 2023); as :func:`kendall_without_ties`.

    The tie threshold is calibrated on the given test set and held there in redrawn ones.
    """
    pairs = SegmentPairs.of(scores, human)
    told = np.where(np.abs(pairs.metric) <= tie_threshold(scores, human), 0.0, np.sign(pairs.metric))
    right = (told == np.sign(pairs.human)) * pairs.judged
    return mean_over_segments(divided(*(pairs.sums(one, systems) for one in (right, pairs.judged))), draws)


def mean_over_segments(values: FloatArray, draws: FloatArray | None) -> FloatArray:
    """Mean of the defined values, on the test set and on every redrawn one.

    Args:
        values: One a segment, shape (1, segments), or of every redrawn set of systems too: (1 + resamples, segments).
        draws: How often each segment was drawn, shape (resamples, segments), or None.

    Returns:
        Shape (1 + resamples,), or (1,) without any draw; NaN where nothing is defined.
    """
    defined = ~np.isnan(values)
    there = np.where(defined, values, 0.0)
    return divided(_over_segments(there, draws), _over_segments(defined.astype(np.float64), draws))


def divided(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The ratio, NaN where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def _over_segments(values: FloatArray, draws: FloatArray | None) -> FloatArray:
    """Sums over segments, each as often as it was drawn: one a row of ``values``, or a draw, or both together."""
    total: FloatArray
    if draws is None:
        total = values.sum(axis=-1)
        return total
    weights = np.vstack([np.ones((1, draws.shape[1])), draws])
    total = weights @ values[0] if len(values) == 1 else np.einsum("rs,rs->r", weights, values)
    return total
