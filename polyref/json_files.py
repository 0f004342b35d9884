"""JSON and TOML of others: whatever is in it, a fault names file and line, what was found and what was expected."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from polyref.errors import DataError, ModelError, PolyrefError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Levels of lists and objects in one value.
_DEEPEST = 100
_LARGEST = sys.float_info.max
TOO_LARGE = 1 << 63  # for a whole number: Python refuses to write sums of those with thousands of digits
_NOTHING: dict[str, Any] = {}
_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
#: Characters of what is found in the place of something else.
_SHOWN = 60
_HALF = re.compile("[\ud800-\udfff]")
_T = TypeVar("_T")


def parse_json(
    text: str,
    file: str | Path,
    line: int | None = None,
    *,
    expected: str = "expected a JSON object",
    kind: type = dict,
    error: type[PolyrefError] = DataError,
    finite: bool = True,
) -> Any:
    """Read one JSON value, all of which can be written again as UTF-8.

    Args:
        text: The value.
        file: Where it is from, for messages.
        line: Its 1-based line there; None for a text that is the whole file.
        expected: For messages.
        kind: What it must be: ``dict``, ``list``, or ``object`` for anything.
        error: What is raised.
        finite: Whether NaN and infinities, which Python writes and JSON has not, are refused.
    """
    reason, place = "", line
    try:
        value = (_STRICT if finite else _LENIENT).decode(text)
        check_depth(text, value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as fault:
        reason, place = f"{fault.msg} at column {fault.colno}", fault.lineno if line is None else line
    except UnicodeEncodeError:
        reason = "half a surrogate pair in a \\u escape"
    except RecursionError:
        reason = f"nested more than {_DEEPEST} deep"
    except ValueError as fault:  # Python reads no whole number of more than 4300 digits
        reason = "a number of too many digits" if "4300" in str(fault) else str(fault)
    if reason:
        raise error(f"not valid JSON: {reason}", file=file, line=place, remedy=expected)
    if not isinstance(value, kind):
        raise error(f"found {described(value)}, {expected}", file=file, line=line)
    return value


def try_json(text: str | bytes, kind: type = dict) -> Any:
    """A JSON value of a kind; None for anything else, for those who can go on without."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def read_json(
    path: str | Path, kind: type = dict, *, error: type[PolyrefError] = ModelError, remedy: str | None = None
) -> Any:
    """The one value of a JSON file of a model; ``remedy`` is for a file that is missing."""
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise error("no such file", file=path, remedy=remedy) from None
    except UnicodeDecodeError:
        raise error("not valid JSON: no UTF-8", file=path) from None
    except OSError as fault:
        raise error(f"cannot be read: {fault.strerror}", file=path) from None
    what = "an object" if kind is dict else "a list" if kind is list else "a value"
    # Settings of models may hold infinities.
    return parse_json(text, path, expected=f"expected {what}", kind=kind, error=error, finite=False)


def read_toml(text: str, file: str | Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        reason, line = "nested too deeply", None
    except ValueError as error:  # TOMLDecodeError, and integers of too many digits
        place = _LINE.search(str(error))
        reason = str(error)[: place.start()] if place else str(error)
        line = int(place[1]) if place and place[1] else None
    raise DataError(f"not valid TOML: {reason}", file=file, line=line)


class Record:
    """One JSON object of a file; every fault names the file, the line, what was found and what was expected.

    Readers give None where the key is absent or null.

    Args:
        values: The object.
        file: Where it is from.
        line: Its line there; 0 for an object that is the whole file.
        where: What stands in front of a message, such as ``refs[1]: ``.
        error: What faults are.
    """

    def __init__(
        self,
        values: dict[str, Any],
        file: str | Path,
        line: int = 0,
        where: str = "",
        error: type[PolyrefError] = DataError,
    ) -> None:
        self.values = values
        self.file = file
        self.line = line
        self.where = where
        self.error = error

    @classmethod
    def parse(cls, text: str, file: str, line: int, *, finite: bool = True) -> Record:
        """The object that is a line."""
        expected = "expected one JSON object a line"
        if not text.strip():
            raise DataError("the line is empty", file=file, line=line, remedy=expected)
        return cls(parse_json(text, file, line, expected=expected, finite=finite), file, line)

    @classmethod
    def read(cls, path: str | Path, remedy: str | None = None) -> Record:
        """The object that is a JSON file of a model; faults are ModelErrors, ``remedy`` is for a missing file."""
        return cls(read_json(path, remedy=remedy), path, error=ModelError)

    def fail(self, message: str, remedy: str | None = None) -> NoReturn:
        """Raise an error about this record."""
        raise self.error(f"{self.where}{message}", file=self.file, line=self.line or None, remedy=remedy)

    def needed(self, key: str, read: Callable[[str], _T | None]) -> _T:
        """What one of the readers finds: ``record.needed("name", record.text)``. It must be there."""
        value = read(key)
        if value is None:
            self.fail(f'no "{key}"')
        return value

    def text(self, key: str) -> str | None:
        """A string."""
        value = self._typed(key, str, "a string")
        if value is not None and "\0" in value:
            self.fail(f'NUL character in "{key}", expected text')
        return value

    def identifier(self, default: str) -> str:
        """The key ``id``: a string or an integer; ``default`` when there is none."""
        value = self._typed("id", (str, int), "a string or an integer")
        return default if value is None else str(value)

    def index(self, key: str, below: int | None = None) -> int | None:
        """A non-negative integer, below ``below`` if given."""
        value = self.whole(key)
        if value is not None and below is not None and value >= below:
            self.fail(f'"{key}" is {value}, but the segment has {below} references (they count from 0)')
        return value

    def whole(self, key: str, least: int = 0) -> int | None:
        """A whole number, ``least`` or more."""
        value = self._typed(key, int, f"a whole number from {least}")
        if value is not None and not least <= value < TOO_LARGE:
            self.fail(f'"{key}" is {described(value)}, expected a whole number from {least}')
        return value

    def number(self, key: str, minimum: float = -math.inf) -> float | None:
        """A finite number."""
        value: float | None = self._typed(key, (int, float), "a finite number")
        if value is not None and not abs(value) <= _LARGEST:
            self.fail(f'"{key}" is {described(value)}, expected a finite number')
        if value is not None and value < minimum:
            self.fail(f'"{key}" is {value}, expected {minimum:g} or more')
        return value

    def flag(self, key: str) -> bool | None:
        """True or false."""
        return self._typed(key, bool, "true or false")

    def items(self, key: str) -> list[Any] | None:
        """A list."""
        return self._typed(key, list, "a list")

    def each(self, key: str, read: Callable[[Record, str], _T | None]) -> list[_T]:
        """What a reader finds in each place of a list: ``record.each("names", Record.text)``. It must be there."""
        value = self.needed(key, self.items)
        # An object of its own, whose keys are the places, so that a fault names the place.
        places = {f"{key}[{place}]": one for place, one in enumerate(value)}
        inside = Record(places, self.file, self.line, self.where, self.error)
        return [inside.needed(place, lambda name: read(inside, name)) for place in inside.values]

    def child(self, key: str) -> Record | None:
        """An object."""
        value = self._typed(key, dict, "an object")
        return None if value is None else Record(value, self.file, self.line, f"{self.where}{key}: ", self.error)

    def rest(self, known: frozenset[str]) -> dict[str, Any]:
        """The keys that this version of polyref does not know."""
        # Most records have none. They share one: a dictionary a reference would be much of a large set.
        return {key: value for key, value in self.values.items() if key not in known} or _NOTHING

    def _typed(self, key: str, kind: type[_T] | tuple[type[_T], ...], expected: str) -> _T | None:
        value = self.values.get(key)
        # True is a whole number in Python, and not in JSON.
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            self.fail(f'"{key}" is {described(value)}, expected {expected}')
        return value


def fitting(records: Iterable[tuple[Any, str | Path, int | None]], shape: Any, remedy: str) -> Iterator[Any]:
    """Records of files and lines, which must be of this shape: a checksum says nothing about what was written."""
    for record, file, line in records:
        if fault := misfit(record, shape):
            raise DataError(f"the record{fault}", file=file, line=line, remedy=remedy)
        yield record


def misfit(value: Any, shape: Any) -> str | None:
    """How a value differs from a shape: the place in it, what is found there, and what was expected; None if it fits.

    Args:
        value: From JSON.
        shape: ``str``: text. ``int``: a whole number from 0. ``[kind]``: a list. ``{str: kind}``: an object with values
            of one kind. ``{"name": kind, ...}``: one with these names at least. ``(kind,)``: that, or nothing.
    """
    parts: Iterable[tuple[str, Any, Any]] = ()
    if isinstance(shape, tuple):
        return None if value is None else misfit(value, shape[0])
    if isinstance(shape, list):
        fits, expected = isinstance(value, list), "a list"
        parts = ((f"[{place}]", one, shape[0]) for place, one in enumerate(value)) if fits else ()
    elif isinstance(shape, dict):
        fits, expected = isinstance(value, dict), "an object"
        kinds = dict.fromkeys(value, shape[str]) if fits and str in shape else shape
        parts = ((f".{name}", value.get(name), kind) for name, kind in kinds.items()) if fits else ()
    elif shape is int:
        fits, expected = type(value) is int and 0 <= value < TOO_LARGE, "a whole number from 0"
    else:
        fits, expected = isinstance(value, str) and not _HALF.search(value), "text"
    if not fits:
        found = "missing" if value is None else json.dumps(value)
        return f" is {found if len(found) <= _SHOWN else found[:_SHOWN] + '...'}, expected {expected}"
    return next((place + fault for place, one, kind in parts if (fault := misfit(one, kind))), None)


def described(value: Any) -> str:
    """A JSON value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        shown = json.dumps(value)
        return shown if len(shown) <= 40 else f"a number of {len(shown)} digits"
    if isinstance(value, str):
        return "a string" if len(value) > 40 else json.dumps(value, ensure_ascii=False)
    return "a list" if isinstance(value, list) else "an object"


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
            raise RecursionError(f"nested more than {_DEEPEST} deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_LENIENT = json.JSONDecoder()
