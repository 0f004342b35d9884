"""What every form of file shares: what a form is, how a file begins, and what lines are."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.formats.columns import ROLES, Writing
from polyref.json_files import try_json
from polyref.references import Segment


@dataclass(frozen=True)
class Reading:
    """What a user says about files that they do not say themselves.

    Attributes:
        form: Name of their format; None tells it by content.
        fields: Key or column -> its role, such as ``reference`` (:data:`polyref.formats.columns.ROLES`).
        pair: Language pair, ``SRC-TGT``, of what holds several.
        lang: Language of the texts that are wanted, of what holds several.
        whole: Whether to take all that a file says. Without, what others write gives the texts of references, and
            their ids where it has any, and nothing else: the set is that of the same references in plain text.
    """

    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    pair: str | None = None
    whole: bool = True
    encoding: str | None = None
    lang: str | None = None


#: A user who says nothing.
AS_TOLD: Final = Reading()


@dataclass(frozen=True)
class Lines:
    """The lines of one file.

    Attributes:
        name: The file, for messages.
        lines: Without their ends; can be read once.
        reading: What the user says about it.
    """

    name: str
    lines: Iterator[str]
    reading: Reading = AS_TOLD


@dataclass(frozen=True)
class Opened:
    """A reference set that is being read: what its header says, then its segments, once, in order."""

    form: str
    meta: Mapping[str, Any]
    segments: Iterator[Segment]


@dataclass(frozen=True)
class Outputs:
    """The outputs of systems in a file.

    Attributes:
        systems: Name of a system, empty where the file has none -> its texts.
        documents: The document of every segment, where the file says it.
    """

    systems: Mapping[str, Sequence[str]]
    documents: Sequence[str] | None = None


class Start(str):
    """How a file begins: its first line, as text, and with it those that follow, for who needs to look at more."""

    lines: Sequence[str]

    @classmethod
    def of(cls, lines: Sequence[str]) -> Start:
        """The beginning that consists of these lines, one at least."""
        start = cls(lines[0])
        start.lines = lines
        return start

    @cached_property
    def written(self) -> list[str]:
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip()]

    @property
    def sign(self) -> str:
        """The first character that is no space; empty where there is none."""
        return self.written[0].lstrip()[0] if self.written else ""

    @cached_property
    def objects(self) -> list[dict[str, Any] | None]:
        """What the written lines are as JSON objects; None for anything else."""
        return [object_in(line) for line in self.written]


@dataclass(frozen=True)
class Format:
    """A way to write reference sets down.

    Attributes:
        name: What messages and ``--format`` call it.
        matches: Whether a file of this name with this first line is in the format. Forms are asked in an order: the
            first that says yes reads the file.
        open: Reads it; formats of one file get a list of one.
        outputs: Reads the outputs of systems from a file; None where the format has none.
        several: Whether several files make one set.
        json: Whether it is JSON, which is UTF-8.
        pairs: Whether a file may hold several language pairs.
        langs: Whether it says the languages of its texts, of which one is to be chosen.
        begins: Characters one of which such a file begins with, if these say so much: others are not asked about.
        holds: What its first line holds, or else its name ends in one of the ``suffixes``: others are not asked about.
        suffixes: Of files that polyref writes in it unless told otherwise.
        writing: How polyref writes it; None where it does not.
    """

    name: str
    matches: Callable[[str, Start], bool]
    open: Callable[[Sequence[Lines]], Opened]
    outputs: Callable[[Lines], Outputs] | None = None
    several: bool = False
    json: bool = False
    pairs: bool = False
    langs: bool = False
    begins: str = ""
    holds: str = ""
    suffixes: tuple[str, ...] = ()
    writing: Writing | None = None


def one_file(form: str, segments: Callable[[Lines], Iterator[Segment]]) -> Callable[[Sequence[Lines]], Opened]:
    """How a form of one file is opened."""

    def opened(files: Sequence[Lines]) -> Opened:
        (file,) = files
        return Opened(form, {}, segments(file))

    return opened


def one_file_with_ids(
    form: str, segments: Callable[[Lines], Iterator[tuple[int, Segment]]]
) -> Callable[[Sequence[Lines]], Opened]:
    """The same of segments with their lines, whose ids must differ."""
    return one_file(form, lambda file: unique(segments(file), file.name))


def never(name: str, start: Start) -> bool:
    """No file is told to be in a form that has to be named."""
    return False


def by_suffix(name: str, start: Start, suffix: str) -> bool:
    """Whether a name ends so, before the suffix of its packing."""
    return unpacked(name).endswith(suffix)


def object_in(line: str) -> dict[str, Any] | None:
    """The JSON object that a line is, or None."""
    found: dict[str, Any] | None = try_json(line) if line.lstrip().startswith("{") else None
    return found


def objects_in(name: str, start: Start) -> dict[str, Any] | None:
    """The first object of a file of JSON lines of any keys; None for another file."""
    first = start.objects[0] if start.objects else None
    if first is None or unpacked(name).endswith((".json", ".jsonl")):
        return first
    return first if first and None not in start.objects else None


def check_roles(fields: Mapping[str, str]) -> None:
    """Refuse roles that do not exist."""
    for key, role in fields.items():
        if role not in ROLES:
            turned = f"is it {role}={key}?" if key in ROLES else "write KEY=ROLE"
            raise UsageError(
                f"`fields` {key}={role}: {role!r} is no role, expected one of {', '.join(ROLES)}", remedy=turned
            )


def unpacked(name: str) -> str:
    """The name of a file without the suffix of its packing."""
    return name.removesuffix(".gz").removesuffix(".xz")


def without_blank_end(file: Lines) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without the blank ones that editors leave at the end; a warning counts those."""
    blank: list[tuple[int, str]] = []
    for number, line in enumerate(file.lines, 1):
        if not line or line.isspace():
            blank.append((number, line))
            continue
        yield from blank
        blank.clear()
        yield number, line
    if blank:
        found = "a blank line" if len(blank) == 1 else f"{len(blank)} blank lines"
        warnings.warn(f"{file.name}: {found} at the end of the file, left out", PolyrefWarning, stacklevel=2)


def whole_number(text: str) -> int | None:
    """A whole number from 0 in plain digits; None for anything else, and where no file can have that many lines."""
    digits = text.lstrip("0")
    return int(digits or "0") if text and text.isascii() and text.isdigit() and len(digits) <= 18 else None


def shortened(text: str, most: int = 60) -> str:
    """A field for a message, quoted, not longer than a line."""
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")


def looks(line: str) -> str:
    """What a line looks like, for messages about a wrong form."""
    value = try_json(line, object)
    if isinstance(value, dict):
        keys = ", ".join(map(repr, list(value)[:8]))
        return f"a JSON object with the keys {shortened(keys, 200)[1:-1]}" if value else "an empty JSON object"
    return shortened(line)


class Ids:
    """Ids that must differ, and the line of each. Most files count from 1: of those, 8 bytes each are remembered."""

    def __init__(self) -> None:
        self._counted = array("q")
        self._others: dict[str, int] = {}

    def earlier(self, name: str, line: int) -> int | None:
        """The line where an id was used before; None for a new one, whose line is remembered."""
        number = int(name) if name.isascii() and name.isdigit() and name[0] != "0" and len(name) < 19 else 0
        if 0 < number <= len(self._counted):
            return self._counted[number - 1]
        if number == len(self._counted) + 1 and name not in self._others:
            self._counted.append(line)
            return None
        used = self._others.get(name)
        if used is None:
            self._others[name] = line
        return used


def unique(segments: Iterator[tuple[int, Segment]], file: str) -> Iterator[Segment]:
    """Refuse two segments with one id."""
    ids = Ids()
    for line, segment in segments:
        if (used := ids.earlier(segment.id, line)) is not None:
            raise DataError(
                f"the id {segment.id!r} was already used on line {used}",
                file=file,
                line=line,
                remedy="ids must be unique",
            )
        yield segment
