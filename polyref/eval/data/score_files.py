"""Human judgements and stored scores as arrays, and the score files that they are read from.

Score files have ``SYSTEM SCORE`` lines, for systems and for segments. Format: mt-metrics-eval v2,
``mt_metrics_eval/data.py``. Values are split by any white space; ``None`` is a missing human score and is never allowed
in a metric's file. A missing score is NaN in memory, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.formats.base import shortened as shortened
from polyref.formats.base import whole_number as whole_number
from polyref.formats.documents import HUMAN_NAME as HUMAN_NAME
from polyref.textfiles import iter_lines

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


#: Rules for :func:`parse_score`: of metrics' scores, and of files that have a line for every judgement.
METRIC_RULE: Final = "a metric must score everything"
JUDGEMENT_RULE: Final = "every line is a judgement: leave out what was not judged"
#: Means of scores are rounded to so many digits.
_DIGITS: Final = 10


def mean_score(scores: Sequence[float]) -> float:
    """The mean of the scores that annotators gave, NaN without any.

    Rounded: outputs that are judged alike stay tied, however many annotators their means are of.
    """
    return round(math.fsum(scores) / len(scores), _DIGITS) if scores else math.nan


def read_system_scores(path: Path, *, allow_missing: bool) -> dict[str, float]:
    """Scores of systems in a ``.sys.score`` file, in its order; NaN for ``None``, where that is allowed."""
    scores: dict[str, float] = {}
    first: dict[str, int] = {}
    for number, line in numbered_lines(path):
        system, score = _parse(line, path, number, allow_missing)
        if system in scores:
            reason = f"system {system!r} has a second score, the first is on line {first[system]}"
            raise DataError(reason, file=path, line=number, remedy="one line a system")
        scores[system] = score
        first[system] = number
    if not scores:
        raise DataError("the file is empty, expected one `SYSTEM SCORE` line a system", file=path)
    return scores


def read_segment_scores(path: Path, segments: int | None, *, allow_missing: bool) -> dict[str, FloatArray]:
    """Scores of outputs in a ``.seg.score`` file, shape (segments,); NaN for ``None``, where that is allowed.

    All segments of one system come in order, then the next system. ``segments`` is their number; None takes it from the
    first system of the file.
    """
    blocks: dict[str, list[float]] = {}
    current: str | None = None
    for number, line in numbered_lines(path):
        system, score = _parse(line, path, number, allow_missing)
        if system != current:
            if system in blocks:
                reason = f"system {system!r} starts a second block of scores"
                remedy = "all segments of a system in order, then the next system"
                raise DataError(reason, file=path, line=number, remedy=remedy)
            if current is not None:
                segments = _check_block(path, number - 1, current, len(blocks[current]), segments)
            blocks[system] = []
            current = system
        blocks[system].append(score)
    if current is None:
        raise DataError("the file is empty, expected one `SYSTEM SCORE` line a segment", file=path)
    _check_block(path, sum(map(len, blocks.values())), current, len(blocks[current]), segments)
    return {system: np.array(values, dtype=np.float64) for system, values in blocks.items()}


def _check_block(path: Path, number: int, system: str, found: int, expected: int | None) -> int:
    if expected is not None and found != expected:
        reason = f"system {system!r} has {found} segments, expected {expected}"
        remedy = "one line a segment; write None for one that was not judged"
        raise DataError(reason, file=path, line=number, remedy=remedy)
    return found


def _parse(line: str, path: Path, number: int, allow_missing: bool) -> tuple[str, float]:
    fields = line.split()
    if len(fields) != 2:
        raise DataError(f"{len(fields)} columns, expected 2: SYSTEM SCORE", file=path, line=number)
    return fields[0], parse_score(fields[1], path, number, allow_missing=allow_missing)


def parse_score(
    text: str, path: Path | str, number: int, *, allow_missing: bool = False, rule: str = METRIC_RULE
) -> float:
    """Turn one field into a finite number; NaN for the token ``None`` where that is allowed.

    Args:
        text: The field.
        path: The file, for messages.
        number: Its line.
        allow_missing: Whether ``None`` is legal.
        rule: What to say where it is not.

    Raises:
        DataError: Anything else, ``nan`` and ``inf`` included.
    """
    if text == "None":
        if allow_missing:
            return math.nan
        raise DataError(f"the score is None, but {rule}", file=path, line=number)
    score = _number(text)
    if score is None:
        raise DataError(f"the score is {shortened(text)}, expected a number", file=path, line=number)
    if not math.isfinite(score):
        remedy = "write None for a missing judgement" if allow_missing else rule
        raise DataError(
            f"the score is {shortened(text)}, expected a finite number", file=path, line=number, remedy=remedy
        )
    return score


def is_score(text: str) -> bool:
    """Whether a field can be read as a score, ``None`` included."""
    return text == "None" or _number(text) is not None


def _number(text: str) -> float | None:
    # Python also takes 1_000 and the digits of other scripts, which nobody means by a score.
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def table_rows(path: str | Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows of columns under a header, separated by white space of any kind, with their numbers."""
    for number, line in numbered_lines(path):
        values = line.split()
        if number == 1 and values != list(header):
            raise DataError(f"the header is {line!r}, expected {' '.join(header)!r}", file=path, line=1)
        if len(values) != len(header):
            wanted = f"expected {len(header)}: {' '.join(header)}"
            raise DataError(f"{len(values)} columns, {wanted}", file=path, line=number)
        if number > 1:
            yield number, values


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Lines with their number from 1, without the blank ones at the end of the file, which editors leave there."""
    blank: list[tuple[int, str]] = []
    for number, line in enumerate(iter_lines(path), 1):
        if not line or line.isspace():
            blank.append((number, line))
            continue
        if blank:
            yield from blank
            blank.clear()
        yield number, line
