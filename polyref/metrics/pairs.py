"""Metrics that compare an output with one reference at a time: BERTScore, ESIM, Prism, BARTScore.

A child says what a pair of texts scores; this module finds the pairs of all systems and references, has every distinct
pair scored once, and combines the references of a segment for every number of references. What is kept is the pair
matrix: adding a number of references costs no further scoring.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from polyref.metrics.base import Metric, Texts
from polyref.metrics.combination import (
    MAXIMUM,
    Blend,
    Combination,
    Maximum,
    MaximumEach,
    Mean,
    at_cuts,
    both_parts,
    first_best,
    weighted_mean,
)
from polyref.metrics.statistics import Choices, Floats, Integers, Statistics


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A metric that is a function of (reference, output).

    A segment's score combines its references by ``max`` (the reference with the best score, all columns from it),
    ``max-each`` (every column its own best reference), ``mean`` (weighted) or ``blend`` (the human references as
    where nothing is said, and the weighted mean of the others). A system's score is the mean of its segments'.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, MaximumEach, Mean, Blend)
    _combination_options: ClassVar[tuple[str, ...]] = ("combine", "weights", "gamma", "temperature")

    combination: Combination = MAXIMUM

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """What a pair has: one or more columns, such as precision, recall and F."""

    @property
    def measure(self) -> int:
        """Index of the column that is the score, and by which ``max`` chooses the reference."""
        return len(self.measures) - 1

    @abstractmethod
    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Scores of distinct (reference, output) pairs: shape (P, M), M measures."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The measures, and 1 for a segment that has a reference."""
        return (*self.measures, "segments")

    def display_name(self, stats: Statistics, k: int) -> str:
        """The label, with ``par`` in front where extra references take part."""
        return self.label if min(k, stats.most_extras) == 0 else f"par{self.label}"

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        cuts = texts.cuts
        known: dict[tuple[str, str], int] = {}
        total, used = len(texts.references), cuts[-1]
        places = np.full((len(texts.systems), total, int(used.max(initial=0))), -1, dtype=np.int64)
        for n, refs in enumerate(texts.references):
            for s, system in enumerate(texts.systems):
                for r in range(int(used[n])):
                    places[s, n, r] = known.setdefault((refs[r], system[n]), len(known))
        scored = self._pairs(list(known))
        return with_segments(self._combined(scored, places, texts, cuts), cuts)

    def _combined(self, scored: Floats, places: Integers, texts: Texts, cuts: Integers) -> npt.NDArray[np.float64]:
        """:func:`combined` as the metric combines references."""
        how = self.combination
        if not isinstance(how, Blend) or not places.shape[2]:
            return combined(scored, places, how, self.measure, texts.weights, cuts, texts.chosen)
        alone, ones = np.minimum(cuts, texts.originals), np.ones_like(texts.weights)
        human = combined(scored, places, type(self).combination, self.measure, ones, alone)
        single = cells(scored, places, 0.0).transpose(1, 0, 2, 3)
        return how.between(*both_parts(human, single, texts.weights, texts.originals, cuts))

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        sums, segments = values[..., self.measure], values[..., -1]
        means: Floats = np.divide(sums, segments, out=np.full(sums.shape, np.nan), where=segments > 0)
        return means


def combined(
    scored: Floats,
    places: Integers,
    combination: Combination,
    measure: int,
    weights: Floats,
    cuts: Integers,
    chosen: Choices | None = None,
) -> npt.NDArray[np.float64]:
    """Combine the references of every segment, for every number of references.

    Args:
        scored: Shape (P, M): the measures of distinct pairs.
        places: Shape (S, N, R): the pair of every cell, -1 where there is no reference.
        combination: :class:`Maximum`, :class:`MaximumEach` or :class:`Mean`.
        measure: The column by which the maximum is chosen.
        weights: Shape (N, R), for the mean.
        cuts: Shape (K, N).
        chosen: Where to say which reference the maximum is of, shape (K, S, N).

    Returns:
        Shape (K, S, N, M); zeros where a segment has no reference.
    """
    systems, segments, most = places.shape
    measures = scored.shape[1] if scored.ndim == 2 else 0
    if not most or not len(scored):
        return np.zeros((len(cuts), systems, segments, measures))
    if isinstance(combination, Mean):
        return weighted_mean(cells(scored, places, 0.0).transpose(1, 0, 2, 3), weights, cuts)
    values = cells(scored, places, -np.inf)
    if isinstance(combination, Maximum):
        # An equal one that comes later changes nothing.
        best = first_best(values[..., measure])
        values = np.take_along_axis(values, best[..., None], axis=2)
        if chosen is not None:
            chosen[:] = at_cuts(best.transpose(1, 0, 2), cuts)
    else:
        values = np.maximum.accumulate(values, axis=2)
    return np.asarray(at_cuts(values.transpose(1, 0, 2, 3), cuts), dtype=np.float64)


def cells(scored: Floats, places: Integers, missing: float) -> Floats:
    """The measures of every cell, shape (S, N, R, M); ``missing`` where there is no reference."""
    values: Floats = scored[np.maximum(places, 0)]
    values[places < 0] = missing
    return values


def with_segments(values: npt.NDArray[np.float64], cuts: Integers) -> npt.NDArray[np.float64]:
    """Append the column that counts segments with a reference: shape (K, S, N, M) to (K, S, N, M + 1)."""
    present = np.broadcast_to((cuts > 0)[:, None, :, None], (*values.shape[:3], 1))
    return np.concatenate([values, present], axis=3)
