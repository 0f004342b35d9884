"""Correlation of metric scores with human judgements: every variant says which one it is.

docs/explanation/which-kendall.md says when the Kendall variants differ. Undefined values (a constant input, no pair)
are NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyref.eval.judgements.gold import FloatArray, RankingPairs


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
        return _ratio(c - d - t, c + d + t)

    def tau_without_ties(self, weights: FloatArray | None = None) -> FloatArray:
        """Kendall's tau over the pairs that the metric does not tie, (C - D) / (C + D): WMT14."""
        c, d, _ = self._totals(weights)
        return _ratio(c - d, c + d)

    def tie_rate(self, weights: FloatArray | None = None) -> FloatArray:
        """Share of pairs that the metric ties, T / (C + D + T), 0 to 1."""
        c, d, t = self._totals(weights)
        return _ratio(t, c + d + t)

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


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def _pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"series of shapes {a.shape} and {b.shape}, expected two of equal length")
    if np.isnan(a).any() or np.isnan(b).any():
        raise ValueError("a series holds NaN: leave missing values out on both sides first")
    return a, b
