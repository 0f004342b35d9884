"""Human judgements, and scores that come with a set, whatever files they were read from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.formats.documents import HUMAN_NAME as HUMAN_NAME

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RankingPairs:
    """Preferences between two systems' outputs.

    Attributes:
        segment: 0-based segment of each pair, shape (pairs,).
        better: Index of the preferred system, shape (pairs,).
        worse: Index of the other system, shape (pairs,).
        systems: What the indices mean.
    """

    segment: IntArray
    better: IntArray
    worse: IntArray
    systems: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.segment)

    def of(self, systems: Sequence[str]) -> RankingPairs:
        """The pairs whose systems are both among ``systems``, which become the new numbering."""
        number = {name: i for i, name in enumerate(systems)}
        renumber = np.array([number.get(name, -1) for name in self.systems], dtype=np.intp)
        better, worse = renumber[self.better], renumber[self.worse]
        keep = (better >= 0) & (worse >= 0)
        return RankingPairs(self.segment[keep], better[keep], worse[keep], tuple(systems))

    def cells(self, segments: int) -> npt.NDArray[np.bool_]:
        """Which (system, segment) cells a pair names, shape (systems, segments)."""
        named = np.zeros((len(self.systems), segments), dtype=np.bool_)
        named[self.better, self.segment] = True
        named[self.worse, self.segment] = True
        return named


@dataclass(frozen=True)
class Gold:
    """One kind of human judgement of one language pair.

    Attributes:
        name: As it was asked for: ``darr`` or the name in ``human-scores``.
        system_name: Name of the system-level judgement, which for ``darr`` is another kind (direct assessment).
        system: System -> score; empty when there is no system-level judgement.
        segment: System -> array (segments,), NaN where it was not judged; empty when there is none.
        pairs: Relative rankings, or None.
        unjudged: Systems with output that neither level judges.
        notes: What the user has to know about the files it was read from.
    """

    name: str
    system_name: str | None
    system: dict[str, float]
    segment: dict[str, FloatArray] = field(default_factory=dict)
    pairs: RankingPairs | None = None
    unjudged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def systems(self) -> set[str]:
        """Those that are judged at any level."""
        return {*self.system, *self.segment, *(self.pairs.systems if self.pairs else ())}

    def without(self, systems: Collection[str]) -> Gold:
        """The judgements of the other systems.

        Raises:
            UsageError: One of them is not judged.
        """
        if unknown := [name for name in systems if name not in self.systems]:
            there = ", ".join(sorted(self.systems))
            raise UsageError(f"no judged system {unknown[0]!r} to leave out, there are: {there}")
        return replace(
            self,
            system={s: v for s, v in self.system.items() if s not in systems},
            segment={s: v for s, v in self.segment.items() if s not in systems},
            pairs=self.pairs.of([s for s in self.pairs.systems if s not in systems]) if self.pairs else None,
        )

    def within(self, segments: npt.NDArray[np.bool_]) -> Gold:
        """The judgements of some segments, given as a mask of shape (segments,); scores of systems stay as they are."""
        inside = {s: np.where(segments, v, np.nan) for s, v in self.segment.items()}
        pairs = None
        if self.pairs is not None:
            keep = segments[self.pairs.segment]
            kept = (self.pairs.segment[keep], self.pairs.better[keep], self.pairs.worse[keep])
            pairs = RankingPairs(*kept, self.pairs.systems)
        return replace(self, segment=inside, pairs=pairs)


@dataclass(frozen=True)
class StoredScores:
    """Scores of a metric that the set comes with.

    Attributes:
        name: The metric.
        reference: Names of its references joined by dots, ``all``, or ``src`` for none.
        system: System -> score; empty when there is no system-level file.
        segment: System -> array (segments,); empty when there is no segment-level file.
        files: Level (``sys``, ``seg``) -> the file it came from.
    """

    name: str
    reference: str
    system: dict[str, float]
    segment: dict[str, FloatArray]
    files: dict[str, Path]
