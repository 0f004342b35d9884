"""Correlation of metric scores with human judgements: every variant says which one it is.

docs/explanation/which-kendall.md says when the Kendall variants differ. Undefined values (a constant input, no pair)
are NaN. Pooled tau-b of many metrics on many redrawn test sets has a way of its own, exact and fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.eval.data.score_files import FloatArray, RankingPairs


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pearson's r of two equally long series; NaN when one is constant or there are fewer than two points."""
    a, b = _pair(x, y)
    return float(pearson_rows(a[None, :], b)[0])


def pearson_rows(x: FloatArray, y: FloatArray, there: npt.NDArray[np.bool_] | None = None) -> FloatArray:
    """Pearson's r of every row with one vector.

    Args:
        x: Shape (rows, n).
        y: Shape (n,), or (rows, n) for row against row.
        there: Which points count, shape (rows, n); where one does not, both sides are 0. None for all.

    Returns:
        Shape (rows,), NaN where a row or ``y`` is constant.
    """
    a, flat_a = _standardised(x, there)
    b, flat_b = _standardised(y, there)
    return np.where(flat_a | flat_b, np.nan, np.clip(np.sum(a * b, axis=-1), -1.0, 1.0))


def _standardised(x: FloatArray, there: npt.NDArray[np.bool_] | None) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Rows with mean 0 and length 1, and which rows are constant up to rounding (whose noise would correlate)."""
    # Scaled first: squares of very large or small scores leave the range of numbers.
    largest = np.max(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    scaled = x / np.where(largest > 0, largest, 1.0)
    if there is None:
        centred = scaled - scaled.mean(axis=-1, keepdims=True)
    else:
        count = np.maximum(there.sum(axis=-1, keepdims=True), 1)
        centred = np.where(there, scaled - scaled.sum(axis=-1, keepdims=True) / count, 0.0)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    flat = length <= 1e-13 * np.linalg.norm(scaled, axis=-1, keepdims=True)
    return centred / np.where(flat, 1.0, length), flat[..., 0]


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman's rho: Pearson's r of the average ranks."""
    from scipy.stats import rankdata

    a, b = _pair(x, y)
    return pearson(rankdata(a), rankdata(b))


def kendall_tau_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Kendall's tau-b: (C - D) / sqrt((C + D + ties in x only) (C + D + ties in y only)).

    "Pooled" segment-level tau-b is this over all judged (system, segment) cells at once.
    """
    return _kendall(x, y, "b")


def kendall_tau_c(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Kendall's tau-c (Stuart): for tables whose two sides have different numbers of distinct values."""
    return _kendall(x, y, "c")


def _kendall(x: npt.ArrayLike, y: npt.ArrayLike, variant: str) -> float:
    from scipy.stats import kendalltau

    a, b = _pair(x, y)
    if len(a) < 2:
        return math.nan
    result: Any = kendalltau(a, b, variant=variant)
    return float(result.statistic)


@dataclass(frozen=True)
class DarrCounts:
    """How a metric orders the pairs of ``RankingPairs``, by segment.

    Attributes:
        concordant: Pairs whose better output the metric scores higher, shape (segments,).
        discordant: Pairs whose worse output it scores higher, shape (segments,).
        tied: Pairs it scores alike, shape (segments,).
    """

    concordant: FloatArray
    discordant: FloatArray
    tied: FloatArray

    def tau(self, weights: FloatArray | None = None) -> FloatArray:
        """Kendall's tau with ties discordant, (C - D - T) / (C + D + T): WMT17 to WMT20.

        Args:
            weights: How often each segment counts, shape (resamples, segments); None counts each once.

        Returns:
            Shape (resamples,), or (1,) without weights; NaN where no pair is left.
        """
        c, d, t = self._totals(weights)
        return divided(c - d - t, c + d + t)

    def tau_without_ties(self, weights: FloatArray | None = None) -> FloatArray:
        """Kendall's tau over the pairs that the metric does not tie, (C - D) / (C + D): WMT14."""
        c, d, _ = self._totals(weights)
        return divided(c - d, c + d)

    def tie_rate(self, weights: FloatArray | None = None) -> FloatArray:
        """Share of pairs that the metric ties, T / (C + D + T), 0 to 1."""
        c, d, t = self._totals(weights)
        return divided(t, c + d + t)

    def first(self, segments: int) -> DarrCounts:
        """The counts of the first so many segments."""
        return DarrCounts(self.concordant[:segments], self.discordant[:segments], self.tied[:segments])

    def _totals(self, weights: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = np.ones((1, len(self.concordant))) if weights is None else weights
        return rows @ self.concordant, rows @ self.discordant, rows @ self.tied


def darr_counts(scores: FloatArray, pairs: RankingPairs, weights: FloatArray | None = None) -> DarrCounts:
    """Count how ``scores`` order the pairs. Scores are equal only when they are exactly equal, as in WMT's script.

    Args:
        scores: Shape (systems, segments), in the order of ``pairs.systems``; higher is better.
        pairs: The human preferences.
        weights: How often each pair counts, shape (pairs,); None counts each once.

    Raises:
        ValueError: A cell that a pair names has no score.
    """
    better = scores[pairs.better, pairs.segment]
    worse = scores[pairs.worse, pairs.segment]
    if np.isnan(better).any() or np.isnan(worse).any():
        raise ValueError("a judged output has no score")
    segments = scores.shape[1]

    def count(which: npt.NDArray[np.bool_]) -> FloatArray:
        often = None if weights is None else weights[which]
        return np.bincount(pairs.segment[which], often, minlength=segments).astype(np.float64)

    return DarrCounts(count(better > worse), count(better < worse), count(better == worse))


def divided(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The ratio, NaN where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def _pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"series of shapes {a.shape} and {b.shape}, expected two of equal length")
    if np.isnan(a).any() or np.isnan(b).any():
        raise ValueError("a series holds NaN: leave missing values out on both sides first")
    return a, b


#: Indices and ranks of cells: a test set has far fewer than 2**31.
CellArray = npt.NDArray[np.int32]

#: Cells that share a bucket are compared one by one, others bucket by bucket; this many balances the two.
_BUCKET: Final = 160
#: With more buckets than this the grid of buckets would cost more than comparing cells.
_MOST_BUCKETS: Final = 256
#: Up to this many segments a matrix of all pairs of them fits well into memory.
_DENSE: Final = 5000


class PooledTauB:
    """Kendall's tau-b over all judged cells at once, for many metrics and many redrawn test sets.

    A redrawn test set is a row w of counts, one a segment. Copies of a cell are tied with each other on both sides,
    which tau-b does not count, so the result is exactly tau-b of the redrawn cells. With cells sorted into buckets by
    metric score and by human score, pairs of cells that differ in both buckets are counted from sums over the grid of
    buckets; the other pairs are written down once as a matrix C over segments, and w' C w counts them.

    Args:
        gold: Human scores, shape (systems, segments), NaN where a cell was not judged.
    """

    def __init__(self, gold: FloatArray) -> None:
        self.judged = ~np.isnan(gold)
        self.cells = int(self.judged.sum())
        #: Segments with a judged cell, shape (segments,).
        self.universe: npt.NDArray[np.bool_] = np.logical_or.reduce(self.judged)
        self._kept = np.flatnonzero(self.universe)
        mask = self.judged[:, self._kept]
        # Flat from here on: one entry a judged cell.
        self._segment: CellArray = np.nonzero(mask)[1].astype(np.int32)
        self._gold = _ranks(gold[self.judged])
        self._bucket = _buckets(self._gold, self._bucket_count)
        self._near = _pairs_in_buckets(self._bucket, self._gold)
        self._near_sign = _signs(self._gold, *self._near)

    @property
    def _bucket_count(self) -> int:
        return max(1, min(_MOST_BUCKETS, self.cells // _BUCKET))

    def measure(self, draws: FloatArray | None = None) -> Callable[[FloatArray], FloatArray]:
        """Tau-b of a metric on the given test set and on every redrawn one; the human side is computed once for all.

        Args:
            draws: Counts, shape (resamples, segments); None for the given test set alone.

        Returns:
            Scores of shape (systems, segments) -> tau-b, shape (1 + resamples,), the given test set first; NaN where
            undefined. A judged cell without a score is a ValueError.
        """
        ones = np.ones((1, len(self._kept)))
        weights = ones if draws is None else np.vstack([ones, draws[:, self._kept]])
        untied_gold = self._untied(self._gold, weights) if self.cells else None

        def measured(scores: FloatArray) -> FloatArray:
            result = np.full(len(weights), np.nan)
            if untied_gold is None:
                return result
            cells = scores[self.judged]
            if np.isnan(cells).any():
                raise ValueError("a judged cell has no score")
            ranks = _ranks(cells)
            scale = np.sqrt(untied_gold) * np.sqrt(self._untied(ranks, weights))
            np.divide(2.0 * self._balance(ranks, weights), scale, out=result, where=scale > 0)
            return result

        return measured

    def _balance(self, ranks: CellArray, weights: FloatArray) -> FloatArray:
        """Concordant minus discordant pairs, each pair once: one number a row of ``weights``."""
        bucket = _buckets(ranks, self._bucket_count)
        near = self._near_matrix(ranks, bucket)
        rows, columns = int(bucket.max()) + 1, int(self._bucket.max()) + 1
        grid = self._membership(bucket * columns + self._bucket, rows * columns)
        column = np.arange(columns)
        side = np.sign(column[:, None] - column[None, :]).astype(np.float32)
        totals = np.empty(len(weights))
        for at in range(0, len(weights), 128):  # some resamples at a time: bounds the memory
            part = slice(at, at + 128)
            # Whole numbers below 2**24 here and in the products: exact in single precision.
            sums = (grid @ np.ascontiguousarray(weights[part].T, dtype=np.float32)).reshape(rows, columns, -1)
            total = np.zeros(sums.shape[2])
            below = np.zeros(sums.shape[1:], dtype=np.float32)
            for row in sums:
                # Drawn cells in lower rows: those to the left of each bucket, minus those to its right.
                total += np.einsum("qr,qr->r", row, side @ below, dtype=np.float64)
                below += row
            totals[part] = total
        return totals + _quadratic(near, weights)

    def _near_matrix(self, ranks: CellArray, bucket: CellArray) -> Any:
        """Signs of the pairs of cells that share a bucket on either side, summed over pairs of segments."""
        from scipy.sparse import coo_array

        first, second = _pairs_in_buckets(bucket, ranks)
        both = _signs(ranks, first, second) * _signs(self._gold, first, second)
        third, fourth = self._near
        # Pairs that share both buckets were counted above.
        apart = bucket[third] != bucket[fourth]
        other = _signs(ranks, third, fourth) * self._near_sign * apart
        i = np.concatenate([self._segment[first], self._segment[third]])
        j = np.concatenate([self._segment[second], self._segment[fourth]])
        signs = np.concatenate([both, other])
        size = len(self._kept)
        if size <= _DENSE:
            # Whole numbers far below 2**24 in single precision: exact.
            return np.bincount(i * size + j, signs, minlength=size * size).astype(np.float32).reshape(size, size)
        return coo_array((signs.astype(np.float32), (i, j)), shape=(size, size)).tocsr()

    def _untied(self, ranks: CellArray, weights: FloatArray) -> FloatArray:
        """Ordered pairs of drawn cells with different values, one number a row of ``weights``."""
        groups = self._membership(ranks, int(ranks.max()) + 1)
        total: FloatArray = (weights @ np.bincount(self._segment, minlength=len(self._kept))) ** 2
        sizes = np.bincount(ranks)
        # A value that occurs once ties with its own copies alone.
        lone = np.bincount(self._segment[sizes[ranks] == 1], minlength=len(self._kept))
        total -= (weights**2) @ lone
        repeated = groups[np.flatnonzero(sizes > 1)]
        for at in range(0, len(weights), 128):
            part = slice(at, at + 128)
            sums = repeated @ np.ascontiguousarray(weights[part].T)
            total[part] -= np.einsum("gr,gr->r", sums, sums)
        return total

    def _membership(self, group: CellArray, groups: int) -> Any:
        """Sparse matrix (groups, segments): how many cells of each group a segment has."""
        from scipy.sparse import coo_array

        shape = (groups, len(self._kept))
        return coo_array((np.ones(len(group), dtype=np.float32), (group, self._segment)), shape=shape).tocsr()


def _quadratic(matrix: Any, rows: FloatArray) -> FloatArray:
    """W' C w for every row w."""
    if isinstance(matrix, np.ndarray):
        product: npt.NDArray[Any] = rows.astype(np.float32) @ matrix
    else:
        product = (matrix.T @ rows.T).T
    value: FloatArray = np.einsum("rj,rj->r", product, rows, dtype=np.float64)
    return value


def _ranks(values: FloatArray) -> CellArray:
    """Dense ranks: equal values are equal numbers."""
    ranks: CellArray = np.unique(values, return_inverse=True)[1].astype(np.int32)
    return ranks


def _signs(ranks: CellArray, first: CellArray, second: CellArray) -> npt.NDArray[np.int8]:
    """sign(ranks[first] - ranks[second])."""
    a, b = ranks[first], ranks[second]
    signs: npt.NDArray[np.int8] = (a > b).view(np.int8) - (a < b).view(np.int8)
    return signs


def _buckets(ranks: CellArray, count: int) -> CellArray:
    """Bucket of every cell: about ``count`` of equal size, ascending with rank; a value never spans two of them."""
    sizes = np.bincount(ranks)
    target = -(-len(ranks) // count) if len(ranks) else 1
    bucket_of_value = np.empty(len(sizes), dtype=np.int32)
    bucket, filled = 0, 0
    for value, size in enumerate(sizes.tolist()):
        # A value of many cells stays alone: its cells need no comparison with each other.
        if filled and filled + size > target:
            bucket, filled = bucket + 1, 0
        bucket_of_value[value] = bucket
        filled += size
    return bucket_of_value[ranks] if len(ranks) else np.zeros(0, dtype=np.int32)


@lru_cache(maxsize=64)
def _pairs_among(members: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Places of all pairs of so many members: most buckets are of a few sizes."""
    i, j = np.triu_indices(members, 1)
    return i, j


def _pairs_in_buckets(bucket: CellArray, ranks: CellArray) -> tuple[CellArray, CellArray]:
    """Indices of the pairs of cells that share a bucket but not a value."""
    order: CellArray = np.argsort(bucket, kind="stable").astype(np.int32)
    bounds = np.append(np.flatnonzero(np.diff(bucket[order], prepend=-1)), len(bucket))
    firsts: list[CellArray] = [np.zeros(0, dtype=np.int32)]
    seconds: list[CellArray] = [np.zeros(0, dtype=np.int32)]
    for start, stop in itertools.pairwise(bounds):
        members: npt.NDArray[Any] = order[start:stop]
        if len(members) < 2 or (ranks[members] == ranks[members[0]]).all():
            continue
        i, j = _pairs_among(len(members))
        firsts.append(members[i])
        seconds.append(members[j])
    return np.concatenate(firsts), np.concatenate(seconds)
