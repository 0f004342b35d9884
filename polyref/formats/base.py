"""What every reader of reference sets shares: the shape of a format, and what lines are."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyref.errors import DataError, PolyrefWarning
from polyref.json_files import try_json
from polyref.references import Segment

_JSON_SUFFIXES = tuple(f".{kind}{packed}" for kind in ("jsonl", "json") for packed in ("", ".gz", ".xz"))
# A line that was meant to be one of our objects, even when it is broken further on.
_KEYS = frozenset({"polyref", "id", "refs", "reference", "paraphrases"})
_JSON_START = re.compile(rf'\s*\{{\s*"({"|".join(sorted(_KEYS))})"\s*:')


@dataclass(frozen=True)
class Reading:
    """What a user says about files that they do not say themselves.

    Attributes:
        form: Name of their format; None tells it by content.
        fields: Key or column -> its role, such as ``reference`` (:data:`polyref.formats.columns.ROLES`).
        pair: Language pair, ``SRC-TGT``, of what holds several.
        whole: Whether to take all that a file says. Without, what others write gives the texts of references, and
            their ids where it has any, and nothing else: the set is that of the same references in plain text.
    """

    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    pair: str | None = None
    whole: bool = True
    encoding: str | None = None


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
    reading: Reading = Reading()


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


@dataclass(frozen=True)
class Format:
    """A way to write reference sets down.

    Attributes:
        name: What messages and ``--format`` call it.
        matches: Whether a file of this name with this first line is in the format.
        open: Reads it; formats of one file get a list of one.
        outputs: Reads the outputs of systems from a file; None where the format has none.
        several: Whether several files make one set.
    """

    name: str
    matches: Callable[[str, str], bool]
    open: Callable[[Sequence[Lines]], Opened]
    outputs: Callable[[Lines], Outputs] | None = None
    several: bool = False


def first_object(name: str, first_line: str) -> dict[str, Any] | None:
    """What a JSONL file starts with; ``{}`` for one that is JSONL but broken, None for anything else."""
    value = try_json(first_line)
    jsonl = name.endswith(_JSON_SUFFIXES)
    if value is not None:
        return value if jsonl or not _KEYS.isdisjoint(value) else None
    return {} if jsonl or _JSON_START.match(first_line) else None


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


def unique(segments: Iterator[tuple[int, Segment]], file: str) -> Iterator[Segment]:
    """Refuse two segments with one id."""
    # Most files count from 1: of those ids only the lines are remembered, 8 bytes each.
    counted = array("q")
    others: dict[str, int] = {}
    for line, segment in segments:
        name = segment.id
        number = int(name) if name.isascii() and name.isdigit() and name[0] != "0" and len(name) < 19 else 0
        used = counted[number - 1] if 0 < number <= len(counted) else others.get(name) if others else None
        if used is not None:
            raise DataError(
                f"the id {name!r} was already used on line {used}",
                file=file,
                line=line,
                remedy="ids must be unique",
            )
        if number == len(counted) + 1:
            counted.append(line)
        else:
            others[name] = line
        yield segment
