"""What reads a file of human judgements: one reader a kind of file, and what it gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from polyref.errors import DataError
from polyref.eval.data.score_files import HUMAN_NAME, FloatArray, RankingPairs, shortened, whole_number
from polyref.plugins import Plugins

if TYPE_CHECKING:
    pass


def _is_reader(kind: str, found: Any) -> bool:

    return isinstance(found, GoldReader) and found.kind == kind


JUDGEMENTS: Final = Plugins(
    "kind of judgements",
    "polyref.judgements",
    {
        "mqm": "polyref.eval.judgements.mqm:READER",
        "da": "polyref.eval.judgements.direct_assessment:READER",
        "darr": "polyref.eval.judgements.rankings:READER",
        "pearmut": "polyref.eval.judgements.pearmut:READER",
    },
    "a GoldReader of that kind",
    _is_reader,
)


def gold_reader(kind: str) -> GoldReader:
    """The reader of one kind of files."""
    reader: GoldReader = JUDGEMENTS.load(kind)
    return reader


T = TypeVar("T")
#: No scale is as large; sums and squares of more could not be computed.
LARGEST_SCORE: Final = 1e6
#: What WMT's files of judgements call a reference: ``Human-B.0``, ``translator-B``, ``ref.B``, ``ref-B``.
_REFERENCE: Final = re.compile(r"(?:human|translator|ref)[-_.]?([a-z])(?:\.\d+)?", re.IGNORECASE)
#: Numbers that WMT's files put after the name of a system: ``Online-A.8``.
_NUMBERED: Final = re.compile(r"(.+)\.\d+")


@dataclass(frozen=True)
class Place:
    """What can be judged: the outputs of an evaluation set.

    Attributes:
        pair: Language pair.
        systems: Names of the outputs, and of references that are judged as if they were.
        segments: Number of segments.
        documents: Document of every segment, or None.
        source: Source text of every segment, or None.
    """

    pair: str
    systems: Sequence[str]
    segments: int
    documents: Sequence[str] | None = None
    source: Sequence[str] | None = None

    @cached_property
    def index(self) -> Mapping[str, Sequence[int]]:
        """Document -> positions of its segments in the set; empty where the set does not say."""
        index: dict[str, list[int]] = {}
        for position, document in enumerate(self.documents or ()):
            index.setdefault(document, []).append(position)
        return index


@dataclass(frozen=True)
class Judgements:
    """What a file says about the outputs of a set.

    Attributes:
        name: What rows call this judgement.
        segment: System -> scores of shape (segments,), larger is better, NaN where nobody judged; empty for relative
            rankings. Systems that are not in the set may be among them.
        pairs: Relative rankings, or None.
        notes: What the user has to know, such as lines that were passed over.
    """

    name: str
    segment: Mapping[str, FloatArray] = field(default_factory=dict)
    pairs: RankingPairs | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GoldReader:
    """Reads one kind of file of human judgements.

    Attributes:
        kind: What the kind is called.
        read: The file, what can be judged, and the options as keyword arguments -> what the file says.
        options: Names of the options that ``read`` takes.
        several: Whether ``read`` takes a list of files that belong together, such as waves of one campaign.
    """

    kind: str
    read: Callable[..., Judgements]
    options: tuple[str, ...] = ()
    several: bool = False


class NothingHereError(DataError):
    """A file judges nothing of the language pair: no fault where it is one of several."""


def those_that_judge(
    matchers: Sequence[Matcher], read: Callable[[Matcher], T]
) -> tuple[list[tuple[Matcher, T]], list[str]]:
    """What is read from the files of one campaign, without those that judge nothing here, and notes about these."""
    tried = [(matcher, _or_nothing(matcher, read)) for matcher in matchers]
    found = [(matcher, one) for matcher, one in tried if not isinstance(one, NothingHereError)]
    absent = [(matcher, one) for matcher, one in tried if isinstance(one, NothingHereError)]
    if not found:
        raise absent[0][1]
    return found, [f"{Path(matcher.path).name}: {nothing.message}" for matcher, nothing in absent]


def _or_nothing(matcher: Matcher, read: Callable[[Matcher], T]) -> T | NothingHereError:
    try:
        return read(matcher)
    except NothingHereError as nothing:
        return nothing


class Matcher:
    """Finds what the lines of one file judge, and counts those that judge nothing of the set.

    Released files name systems whose outputs are not public, and the set may hold some systems alone: such lines are
    passed over and counted. A segment that the set does not have cannot be meant: it is an error.

    Args:
        path: The file.
        place: What can be judged.
    """

    def __init__(self, path: str | Path, place: Place) -> None:
        self.path = path
        self.place = place
        self._spelling = {_folded(name): name for name in reversed(place.systems)}
        self._unknown: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._remarks: Counter[str] = Counter()
        self._known = 0

    def fault(self, message: str, line: int | None, remedy: str | None = None) -> DataError:
        """An error of this file, to be raised."""
        return DataError(message, file=self.path, line=line, remedy=remedy)

    def system(self, name: str) -> str:
        """The output that a name means, in the set's spelling: ``ref-A`` and ``translator-A`` are ``refA``.

        A name that the set does not have is counted, and comes back as it is.
        """
        if name in self.place.systems:
            self._known += 1
            return name
        reference = _REFERENCE.fullmatch(name)
        if reference or HUMAN_NAME.fullmatch(name):
            # Translations by people are judged without being among the outputs; that is no loss.
            spelt = self._spelling.get(_folded(name))
            return spelt or self._spelling.get(f"ref{reference[1].lower()}" if reference else "", name)
        if (numbered := _NUMBERED.fullmatch(name)) and numbered[1] in self.place.systems:
            self._known += 1
            return numbered[1]
        self._unknown[name] += 1
        return name

    def has(self, name: str) -> bool:
        """Whether the set has an output of that name."""
        return name in self.place.systems

    def segment(self, text: str, line: int, among: int | None = None, first: int = 1) -> int:
        """A position in the set (or among so many segments) as a 0-based one.

        Args:
            text: The number.
            line: Its line, for messages.
            among: How many segments there are, if not those of the set.
            first: From where the file counts.

        Raises:
            DataError: It is no number, or out of range.
        """
        most = (self.place.segments if among is None else among) + first - 1
        number = whole_number(text)
        if number is None or not first <= number <= most:
            raise self.fault(f"segment {shortened(text)}, expected a number from {first} to {most}", line)
        return number - first

    def cell(self, document: str, segment: str, line: int, first: int = 1) -> int:
        """The position in the set of a document's segment, which counts from ``first``.

        Raises:
            DataError: The set has no such document, or the document no such segment.
        """
        if self.place.documents is None:
            raise self.fault(
                "names segments by document, but the evaluation set has no documents",
                None,
                f"add documents/{self.place.pair}.docs",
            )
        if document not in self.place.index:
            raise self.fault(f"the set has no document {shortened(document)}", line)
        positions = self.place.index[document]
        return positions[self.segment(segment, line, len(positions), first)]

    def pass_over(self, why: str, count: int = 1) -> None:
        """Count lines that say nothing about an output; ``why`` is what such lines are, in the plural."""
        self._passed[why] += count

    def remark(self, what: str, count: int = 1) -> None:
        """Count lines of which the user has to know; ``what`` such lines are, in the plural."""
        self._remarks[what] += count

    def notes(self) -> tuple[str, ...]:
        """What was passed over, for the user.

        Raises:
            DataError: No line judges an output of the set, though some judge others.
        """
        found = []
        if self._unknown:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(self._unknown.items())[:10])
            names += ", ..." if len(self._unknown) > 10 else ""
            if not self._known:
                there = ", ".join(self.place.systems)
                raise self.fault(f"judges no output of the set, only {names}", None, f"outputs there are: {there}")
            found.append(f"judgements of systems without output passed over: {names}")
        found += [f"{why} passed over: {count}" for why, count in self._passed.items()]
        found += [f"{what}: {count}" for what, count in self._remarks.items()]
        return tuple(f"{Path(self.path).name}: {text}" for text in found)


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")
