"""Metrics that compare an output with one reference at a time: BERTScore, ESIM, Prism, BARTScore.

A child says what a pair of texts scores; this module finds the pairs of all systems and references, has every distinct
pair scored once, and combines the references of a segment for every number of references. What is kept is the pair
matrix: adding a number of references costs no further scoring.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.engine import ADDRESS, CACHE, DEVICE, ENGINE, GPUS, JOBS, Engine
from polyref.metrics.base import Metric, Texts
from polyref.metrics.combination import MAXIMUM, Blend, Combination, Compared, Maximum, MaximumEach, Mean
from polyref.metrics.statistics import Floats, Integers
from polyref.options import option

#: What ``--target-lang`` and ``--source-lang`` say, at every metric that has them.
TARGET_LANG: Final = (
    "Language of the outputs, for BLEU's tokeniser (zh, ja, ko), judges and models of several languages."
)
SOURCE_LANG: Final = "Language of the sources, for judges and for models that mark it."


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A metric that is a function of (reference, output).

    A segment's score combines its references by ``max`` (the reference with the best score, all columns from it),
    ``max-each`` (every column its own best reference), ``mean`` (weighted) or ``blend`` (the human references as
    where nothing is said, and the weighted mean of the others). A system's score is the mean of its segments'.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, MaximumEach, Mean, Blend)
    stored: ClassVar[tuple[str, ...]] = ("combine", "weights", "gamma", "temperature")

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
    def par_label(self) -> str:
        return f"par{self.label}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The measures, and 1 for a segment that has a reference."""
        return (*self.measures, "segments")

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        pairs, places = placed(texts, lambda _, reference, output: (reference, output))
        return with_segments(self._combined(self._pairs(pairs), places, texts, texts.cuts), texts.cuts)

    def _combined(self, scored: Floats, places: Integers, texts: Texts, cuts: Integers) -> npt.NDArray[np.float64]:
        """Combine the references of every segment, ``cuts`` of them: shape (K, S, N, M), zeros where there is none.

        ``scored`` of shape (P, M) are the measures of distinct pairs, ``places`` of shape (S, N, R) the pair of every
        cell, -1 where there is no reference. ``texts`` knows the weights, and is told which reference is chosen.
        """
        systems, segments, most = places.shape
        if not most or not len(scored):
            return np.zeros((len(cuts), systems, segments, scored.shape[1] if scored.ndim == 2 else 0))
        single = scored[np.maximum(places, 0)]
        single[places < 0] = 0.0
        usual, better = type(self).combination or MAXIMUM, 1 if self.higher_is_better else -1
        pairs = _Pairs(single.transpose(1, 0, 2, 3), self.measure, texts.originals, usual, better)
        values, chosen = self.combination.count(pairs, cuts, texts.weights)
        if chosen is not None and texts.chosen is not None:
            texts.chosen[:] = chosen
        return np.asarray(values, dtype=np.float64)

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return mean_of(values[..., self.measure], values[..., -1])


@dataclass(frozen=True, kw_only=True)
class Networked:
    """The options of metrics that ask a network: where it computes, who else does, and what is kept."""

    device: str = option("cpu", **DEVICE)
    jobs: int | None = option(None, **JOBS)
    engine: str = option("local", **ENGINE)
    address: str | None = option(None, **ADDRESS)
    gpus: float | None = option(None, **GPUS)
    cache: bool = option(True, **CACHE)

    @property
    def workers(self) -> Engine:
        """Who computes."""
        return Engine.on(self.device, self.engine, self.jobs, self.address, self.gpus)


class _Pairs(Compared):
    """The measures of every pair: shape (N, S, R, M)."""

    linear = True

    def __init__(self, single: Floats, measure: int, originals: Integers, usual: Combination, better: int) -> None:
        super().__init__(originals, usual)
        self._single, self._measure, self._better = single, measure, better

    @property
    def single(self) -> Floats:
        return self._single

    def score(self, values: npt.NDArray[Any]) -> Floats:
        found: Floats = self._better * values[..., self._measure]  # it only says which reference is best
        return found


def placed(texts: Texts, compared: Callable[[int, str, str], Any]) -> tuple[list[Any], Integers]:
    """What ``compared`` makes of segments, references and outputs, once each, and where (S, N, R); -1 is nothing."""
    known: dict[Any, int] = {}
    used = texts.cuts[-1]
    places = np.full((len(texts.systems), len(texts.references), int(used.max(initial=0))), -1, dtype=np.int64)
    for n, refs in enumerate(texts.references):
        for s, system in enumerate(texts.systems):
            for r in range(int(used[n])):
                places[s, n, r] = known.setdefault(compared(n, refs[r], system[n]), len(known))
    return list(known), places


def with_segments(values: npt.NDArray[np.float64], cuts: Integers) -> npt.NDArray[np.float64]:
    """Append the column that counts segments with a reference: shape (K, S, N, M) to (K, S, N, M + 1)."""
    present = np.broadcast_to((cuts > 0)[:, None, :, None], (*values.shape[:3], 1))
    return np.concatenate([values, present], axis=3)


def mean_of(sums: npt.NDArray[Any], segments: npt.NDArray[Any]) -> Floats:
    """Sums over segments divided by their number; NaN where there is none."""
    return np.asarray(np.divide(sums, segments, out=np.full(sums.shape, np.nan), where=segments > 0))
