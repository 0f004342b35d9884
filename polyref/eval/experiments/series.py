"""Scores to hold against judgements: of a metric computed here for every k, or stored in the set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.eval.judgements.gold import StoredScores
from polyref.metrics.base import Metric
from polyref.metrics.statistics import Scores, Statistics
from polyref.references import ReferenceSet
from polyref.tables import name_as_text

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
#: What a metric is called that sees nothing but lengths.
LENGTH_ONLY: Final = "length-only"
OF_LENGTH: Final = f"{LENGTH_ONLY}|unit:characters|combine:max"


class Series(Protocol):
    """The scores of one metric, for one or more numbers of extra references; larger is always better.

    Attributes:
        metric: The name it was asked for by.
        ks: Numbers of extra references, ascending; ``(None,)`` for stored scores.
        resamples: Whether ``drawn_system`` works.
    """

    @property
    def metric(self) -> str:
        """See above."""

    @property
    def ks(self) -> tuple[int | None, ...]:
        """See above."""

    @property
    def resamples(self) -> bool:
        """See above."""

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Corpus-level scores, shape (systems,), over some segments; None when there are none at this level."""

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Segment-level scores, shape (systems, segments); None when there are none at this level."""

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Corpus-level scores of redrawn test sets, shape (resamples, systems)."""

    def signature(self, k: int | None) -> str:
        """How the corpus-level scores came about."""


class ComputedSeries:
    """A metric of polyref over a reference set.

    Args:
        metric: The metric.
        outputs: System -> its outputs.
        references: The references; ``k`` counts the extra ones.
        ks: Numbers of extra references.
        name: What to call it in rows; default: its registry name.
        zero: Also keep k = 0, which gains are measured from.
    """

    resamples = True

    def __init__(
        self,
        metric: Metric,
        outputs: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        ks: Sequence[int],
        *,
        name: str | None = None,
        zero: bool = True,
    ) -> None:
        wanted = sorted({0, *ks} if zero else set(ks))
        self._set(metric, metric.statistics(outputs, references, ks=wanted), wanted, name)

    @classmethod
    def of(
        cls, metric: Metric, statistics: Statistics, ks: Sequence[int], *, name: str | None = None, zero: bool = True
    ) -> ComputedSeries:
        """The same from stored statistics, which must hold every k that is wanted."""
        series = cls.__new__(cls)
        series._set(metric, statistics, sorted({0, *ks} if zero else set(ks)), name)
        return series

    def _set(self, metric: Metric, statistics: Statistics, ks: Sequence[int], name: str | None) -> None:
        self.metric = name or metric.name
        self.ks: tuple[int | None, ...] = tuple(ks)
        self._metric = metric
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._statistics = statistics

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`."""
        scores = self._metric.aggregate(self._statistics, k=k or 0, over=over).system
        return self._sign * scores[self._rows(systems)]

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        scores = self._metric.aggregate(self._statistics, k=k or 0).segment
        return self._sign * scores[self._rows(systems)]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """See :class:`Series`."""
        return self._sign * self._metric.resample(self._statistics, draws, k=k or 0)[:, self._rows(systems)]

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        return self._metric.aggregate(self._statistics, k=k or 0).signature

    def _rows(self, systems: Sequence[str]) -> list[int]:
        return [self._statistics.systems.index(name) for name in systems]


class LengthSeries:
    """A metric that sees nothing but lengths: how near an output's is to that of the reference nearest to it.

    A score is minus the absolute logarithm of the ratio of the two lengths in characters, each plus one; that of a
    system is the mean of its segments'.

    Args:
        outputs: System -> its outputs.
        references: The references; every segment has an original.
        ks: Numbers of added references; 0, which gains are measured from, is added.
        kept: Whether the originals stay for k > 0; else every segment needs an added reference.
    """

    metric = LENGTH_ONLY
    resamples = True

    def __init__(
        self, outputs: Mapping[str, Sequence[str]], references: ReferenceSet, ks: Sequence[int], *, kept: bool = True
    ) -> None:
        self.ks: tuple[int | None, ...] = tuple(sorted({0, *ks}))
        self._systems = list(outputs)
        found = np.array([[1.0 + len(text) for text in texts] for texts in outputs.values()])
        human = _nearest(found, [[ref.text for ref in segment.originals] for segment in references])
        added = [[ref.text for ref in segment.extras] for segment in references]
        self._scores = {0: human}
        for k in filter(None, self.ks):
            more = _nearest(found, [texts[:k] for texts in added])
            self._scores[k] = np.maximum(human, more) if kept else more

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`."""
        cells = self.segment(systems, k)
        means: FloatArray = (cells if over is None else cells[:, over]).mean(axis=1)
        return means

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray:
        """See :class:`Series`."""
        return self._scores[k or 0][[self._systems.index(name) for name in systems]]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """See :class:`Series`."""
        means: FloatArray = draws @ self.segment(systems, k).T / draws.sum(axis=1, keepdims=True)
        return means

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        return OF_LENGTH


def _nearest(found: FloatArray, references: Sequence[Sequence[str]]) -> FloatArray:
    """Minus the distance to the nearest reference, shape (systems, segments), of outputs of these lengths."""
    best = np.full(found.shape, -np.inf)
    for rank in range(max(map(len, references), default=0)):
        lengths = [1.0 + len(texts[rank]) if rank < len(texts) else math.nan for texts in references]
        best = np.fmax(best, -abs(np.log(found / np.array(lengths))))
    return best


class LeaveOneOutSeries:
    """A metric with the human references, and with the outputs of the other systems as well: within segments alone.

    Args:
        human: The metric over the human references.
        found: Its scores against the other systems (:mod:`polyref.metrics.api`).
        higher_is_better: False for error rates, whose scores are then negated.
    """

    resamples = False

    def __init__(self, human: ComputedSeries, found: Scores, higher_is_better: bool) -> None:
        self.metric = human.metric
        self.ks: tuple[int | None, ...] = (0, found.k)
        self._human, self._found = human, found
        self._sign = 1.0 if higher_is_better else -1.0

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """None: scores with different references rank no systems."""
        return None

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        if not k:
            return self._human.segment(systems, k)
        return self._sign * self._found.segment[[self._found.systems.index(name) for name in systems]]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """There are no scores of systems to redraw."""
        raise UsageError(f"{self.metric} has no scores of systems with references of their own")

    def signature(self, k: int | None) -> str:
        """How the scores of segments came about."""
        return self._found.segment_signature if k else self._human.signature(k)


@dataclass(frozen=True)
class StoredSeries:
    """Scores from files.

    Attributes:
        metric: The name it was asked for by.
        scores: What the files hold.
        place: Where they are, for messages.
    """

    metric: str
    scores: StoredScores
    place: Path
    ks: tuple[int | None, ...] = (None,)
    resamples: bool = False

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`; stored scores are always over the whole test set."""
        if not self.scores.system:
            return None
        return np.array([self._of(self.scores.system, s, "sys") for s in systems])

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        if not self.scores.segment:
            return None
        return np.stack([self._of(self.scores.segment, s, "seg") for s in systems])

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Stored system scores cannot be redrawn."""
        raise UsageError(f"the stored system scores of {self.metric} cannot be resampled over segments")

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        files = ",".join(name_as_text(path.name) for path in self.scores.files.values())
        return f"{self.scores.name}|stored:{files}|refs:{self.scores.reference}"

    def _of(self, table: Mapping[str, float] | Mapping[str, FloatArray], system: str, level: str) -> float | FloatArray:
        if system not in table:
            raise DataError(
                f"no score of the judged system {system!r}",
                file=self.scores.files.get(level, self.place),
                remedy="a metric must score every judged system",
            )
        return table[system]
