"""Bootstrap over segments: whole test sets are redrawn, and every metric and k sees the same draws.

A redrawn test set is a row of counts: how often each segment was drawn. Every statistic here is a polynomial of those
counts, so thousands of resamples are a few matrix products and no score is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Segments whose pairwise comparisons are held at once: small enough for the processor's cache.
_BLOCK = 256


def segment_draws(universe: npt.NDArray[np.bool_], resamples: int, seed: int) -> FloatArray:
    """Draw test sets of the same size with replacement.

    Args:
        universe: Which segments can be drawn, shape (segments,).
        resamples: How many test sets.
        seed: Equal seeds give equal draws.

    Returns:
        Counts, shape (resamples, segments); every row sums to the number of segments in ``universe``.
    """
    chosen = np.flatnonzero(universe)
    generator = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(universe)))
    if len(chosen):
        for row in counts:  # one draw at a time: memory stays at the size of the result
            drawn = generator.integers(len(chosen), size=len(chosen))
            row[chosen] = np.bincount(drawn, minlength=len(chosen))
    return counts


def percentile_interval(samples: FloatArray, confidence: float = 0.95) -> tuple[float, float] | None:
    """The central interval of bootstrap samples; None when none of them is defined."""
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return float(low), float(high)


class PooledTauB:
    """Kendall's tau-b over all judged cells at once, for many metrics and many redrawn test sets.

    Concordance is counted once for every pair of *segments*: C[i, j] is the number of concordant minus discordant
    pairs of cells between segments i and j. A redrawn test set with counts w then has w' C w of them. Comparing a
    segment's copies with each other adds pairs that are tied on both sides, which tau-b does not count: the result
    is exactly tau-b of the redrawn cells.

    Args:
        gold: Human scores, shape (systems, segments), NaN where a cell was not judged.
    """

    def __init__(self, gold: FloatArray) -> None:
        self.judged = ~np.isnan(gold)
        self.cells = int(self.judged.sum())
        #: Segments with a judged cell, shape (segments,).
        self.universe: npt.NDArray[np.bool_] = np.logical_or.reduce(self.judged)
        self._kept = np.flatnonzero(self.universe)
        self._mask = self.judged[:, self._kept]
        self._gold = _ranks(np.where(self._mask, gold[:, self._kept], 0.0))

    def samples(self, scores: Sequence[FloatArray], draws: FloatArray | None = None) -> FloatArray:
        """Tau-b of every metric on the given test set and on every redrawn one.

        Args:
            scores: One array of shape (systems, segments) a metric, no NaN in a judged cell.
            draws: Counts, shape (resamples, segments); None for the given test set alone.

        Returns:
            Shape (metrics, 1 + resamples); column 0 is the given test set. NaN where undefined.

        Raises:
            ValueError: A judged cell has no score, or a shape differs.
        """
        ranks = []
        for array in scores:
            if array.shape != self.judged.shape:
                raise ValueError(f"scores of shape {array.shape}, expected {self.judged.shape}")
            kept = array[:, self._kept]
            if np.isnan(kept[self._mask]).any():
                raise ValueError("a judged cell has no score")
            ranks.append(_ranks(np.where(self._mask, kept, 0.0)))
        ones = np.ones((1, len(self._kept)))
        weights = ones if draws is None else np.vstack([ones, draws[:, self._kept]])
        balance = self._balance(ranks, weights)
        untied_gold = self._untied(self._gold, weights)
        result = np.full((len(ranks), len(weights)), np.nan)
        for row, metric_ranks in enumerate(ranks):
            scale = np.sqrt(untied_gold) * np.sqrt(self._untied(metric_ranks, weights))
            np.divide(balance[row], scale, out=result[row], where=scale > 0)
        return result

    def _balance(self, ranks: Sequence[npt.NDArray[np.integer]], weights: FloatArray) -> FloatArray:
        """Concordant minus discordant ordered pairs, shape (metrics, rows of ``weights``)."""
        systems, segments = self._mask.shape
        small = np.int8 if systems <= 127 else np.int16
        single = weights.astype(np.float32)
        totals = np.zeros((len(ranks), len(weights)))
        starts = range(0, segments, _BLOCK)
        for first in starts:
            left = slice(first, min(first + _BLOCK, segments))
            for second in starts[first // _BLOCK :]:
                right = slice(second, min(second + _BLOCK, segments))
                shape = (left.stop - left.start, right.stop - right.start)
                counts = np.zeros((len(ranks), *shape), dtype=np.float32)
                for d in range(systems):
                    # At most `systems` per entry: fits the small type.
                    partial = np.zeros((len(ranks), *shape), dtype=small)
                    for e in range(systems):
                        gold = _signs(self._gold[d, left], self._gold[e, right])
                        gold &= -(self._mask[d, left][:, None] & self._mask[e, right][None, :]).view(np.int8)
                        for m, metric_ranks in enumerate(ranks):
                            signs = _signs(metric_ranks[d, left], metric_ranks[e, right])
                            signs *= gold
                            partial[m] += signs
                    counts += partial
                # Every pair of blocks is visited once; the mirrored one has the same counts, transposed.
                factor = 1.0 if first == second else 2.0
                for m in range(len(ranks)):
                    # Whole numbers far below 2**24 in single precision: exact.
                    product = single[:, left] @ counts[m]
                    totals[m] += factor * np.einsum("rj,rj->r", product, weights[:, right], dtype=np.float64)
        return totals

    def _untied(self, ranks: npt.NDArray[np.integer], weights: FloatArray) -> FloatArray:
        """Ordered pairs of drawn cells with different values, one number a row of ``weights``."""
        from scipy.sparse import csr_array

        segment = np.nonzero(self._mask)[1]
        values = ranks[self._mask]
        order = np.argsort(values, kind="stable")
        segment, values = segment[order], values[order]
        sizes = np.unique(values, return_counts=True)[1]
        total: FloatArray = (weights @ self._mask.sum(axis=0)) ** 2
        # A value that occurs once ties with its own copies alone.
        lone = np.bincount(segment[np.repeat(sizes == 1, sizes)], minlength=self._mask.shape[1])
        total -= (weights**2) @ lone
        grouped = np.repeat(sizes > 1, sizes)
        if grouped.any():
            repeated = np.append(0, np.cumsum(sizes[sizes > 1]))
            members = segment[grouped]
            shape = (len(repeated) - 1, self._mask.shape[1])
            # Row g: how many cells with the g-th repeated value each segment has.
            values_by_segment = csr_array((np.ones(len(members)), members, repeated), shape=shape)
            for at in range(0, len(weights), 128):  # some resamples at a time: bounds the memory
                rows = slice(at, at + 128)
                sums = values_by_segment @ np.ascontiguousarray(weights[rows].T)
                total[rows] -= np.einsum("gr,gr->r", sums, sums)
        return total


def _ranks(values: FloatArray) -> npt.NDArray[np.integer]:
    """Dense ranks in the smallest whole-number type: comparisons of small numbers are fast."""
    distinct, inverse = np.unique(values, return_inverse=True)
    kind = np.int16 if len(distinct) <= 2**15 else np.int32
    ranks: npt.NDArray[np.integer] = inverse.reshape(values.shape).astype(kind)
    return ranks


def _signs(left: npt.NDArray[np.integer], right: npt.NDArray[np.integer]) -> npt.NDArray[np.int8]:
    """sign(left[i] - right[j]), shape (len(left), len(right))."""
    above = (left[:, None] > right[None, :]).view(np.int8)
    above -= (left[:, None] < right[None, :]).view(np.int8)
    return above
