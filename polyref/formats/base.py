"""What every reader of reference sets shares: the shape of a format, and checked access to JSON lines."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from polyref.errors import DataError, PolyrefWarning
from polyref.segments import Segment

#: Levels of lists and objects in a line.
_DEEPEST = 100
_LARGEST = sys.float_info.max
_NOTHING: dict[str, Any] = {}
_JSON_SUFFIXES = tuple(f".{kind}{packed}" for kind in ("jsonl", "json") for packed in ("", ".gz", ".xz"))
# A line that was meant to be one of our objects, even when it is broken further on.
_KEYS = frozenset({"polyref", "id", "refs", "reference", "paraphrases"})
_JSON_START = re.compile(rf'\s*\{{\s*"({"|".join(sorted(_KEYS))})"\s*:')


@dataclass(frozen=True)
class Reading:
    """What a user says about files that they do not say themselves.

    Attributes:
        form: Name of their format; None tells it by content.
        fields: Key or column -> its role, such as ``reference`` (:data:`polyref.formats.roles.ROLES`).
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
    try:
        value = json.loads(first_line)
    except (ValueError, RecursionError):
        value = None
    jsonl = name.endswith(_JSON_SUFFIXES)
    if isinstance(value, dict):
        return value if jsonl or not _KEYS.isdisjoint(value) else None
    return {} if jsonl or _JSON_START.match(first_line) else None


class Record:
    """One JSON object of a file; every fault names the file, the line, what was found and what was expected."""

    def __init__(self, values: dict[str, Any], file: str, line: int, where: str = "") -> None:
        self.values = values
        self.file = file
        self.line = line
        self.where = where

    @classmethod
    def parse(cls, text: str, file: str, line: int) -> Record:
        """Parse one line.

        Raises:
            DataError: It is not a JSON object, or holds NaN, infinity or half a surrogate pair.
        """
        remedy = "expected one JSON object a line"
        if not text.strip():
            raise DataError("the line is empty", file=file, line=line, remedy=remedy)
        try:
            value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
            check_depth(text, value)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode("utf-8")
        except json.JSONDecodeError as error:
            reason = f"not valid JSON: {error.msg} at column {error.colno}"
            raise DataError(reason, file=file, line=line, remedy=remedy) from None
        except UnicodeEncodeError:
            raise DataError("not valid JSON: half a surrogate pair in a \\u escape", file=file, line=line) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"not valid JSON: {error}", file=file, line=line, remedy=remedy) from None
        if not isinstance(value, dict):
            raise DataError(f"found {_kind(value)}, {remedy}", file=file, line=line)
        return cls(value, file, line)

    def fail(self, message: str, remedy: str | None = None) -> NoReturn:
        """Raise a DataError about this record."""
        raise DataError(f"{self.where}{message}", file=self.file, line=self.line, remedy=remedy)

    def text(self, key: str) -> str | None:
        """A string, or None when the key is absent or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fail(f'"{key}" is {_kind(value)}, expected a string')
        if "\0" in value:
            self.fail(f'NUL character in "{key}", expected text')
        return value

    def identifier(self, default: str) -> str:
        """The key ``id``: a string or an integer; ``default`` when there is none."""
        value = self.values.get("id")
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            self.fail(f'"id" is {_kind(value)}, expected a string or an integer')
        return str(value)

    def index(self, key: str, below: int | None = None) -> int | None:
        """A non-negative integer, below ``below`` if given."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.fail(f'"{key}" is {_kind(value)}, expected a whole number from 0')
        if below is not None and value >= below:
            self.fail(f'"{key}" is {value}, but the segment has {below} references (they count from 0)')
        return value

    def number(self, key: str, minimum: float = -math.inf) -> float | None:
        """A finite number."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
            self.fail(f'"{key}" is {_kind(value)}, expected a finite number')
        if value < minimum:
            self.fail(f'"{key}" is {value}, expected {minimum:g} or more')
        return value

    def items(self, key: str) -> list[Any] | None:
        """A list."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            self.fail(f'"{key}" is {_kind(value)}, expected a list')
        return value

    def rest(self, known: frozenset[str]) -> dict[str, Any]:
        """The keys that this version of polyref does not know."""
        # Most records have none. They share one: a dictionary a reference would be much of a large set.
        return {key: value for key, value in self.values.items() if key not in known} or _NOTHING


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


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text if len(text) < 30 else 'given'} is too large, expected a finite number")
    return value


def check_depth(text: str, value: Any) -> None:
    """Refuse what could be read, but not be written again."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    level, depth = [value], 0
    while level := [
        part
        for whole in level
        if isinstance(whole, (dict, list))
        for part in (whole.values() if isinstance(whole, dict) else whole)
    ]:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        shown = json.dumps(value)
        return shown if len(shown) <= 40 else f"a number of {len(shown)} digits"
    if isinstance(value, str):
        return "a string" if len(value) > 40 else json.dumps(value, ensure_ascii=False)
    return "a list" if isinstance(value, list) else "an object"
