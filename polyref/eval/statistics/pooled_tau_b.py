"""Pooled tau-b of many metrics on many redrawn test sets, exactly and fast."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.eval.judgements.gold import FloatArray

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
def _pairs_of(members: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
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
        i, j = _pairs_of(len(members))
        firsts.append(members[i])
        seconds.append(members[j])
    return np.concatenate(firsts), np.concatenate(seconds)
