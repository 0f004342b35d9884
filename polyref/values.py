"""What callers in Python give (also of NumPy and pandas), checked where it comes in, and what their notebooks show.

What checks takes the name that messages call a value by, and the value; what does not fit is a UsageError.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from html import escape
from numbers import Integral, Real
from typing import Any, Final, NoReturn

from polyref.errors import UsageError

#: What a page must not hold: control characters, and marks that have what follows read in another order.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def list_of(values: Any) -> Any:
    """A column, an array or a number of another library as a list or number of Python; anything else as it is."""
    return values if isinstance(values, Sequence) or not hasattr(values, "tolist") else values.tolist()


def several(name: str, value: Any, one: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """One value as a tuple of one, several of any kind as a tuple, None as an empty one; ``one`` checks each."""
    value = list_of(value)
    if value is None:
        return ()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return (one(name, value),)
    checked = tuple(one(name, part) for part in value)
    # The order of a set of strings is another one in every process.
    in_order = sorted(checked, key=lambda part: part if isinstance(part, int) else str(part))
    return tuple(in_order) if isinstance(value, Set) else checked


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, ``least`` or more."""
    value = list_of(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        _fail(name, value, f"a whole number from {least}")
    if value < least:
        raise UsageError(f"`{name}` is {value}, expected {least} or more")
    return int(value)


def real(name: str, value: Any) -> float:
    """A finite number."""
    value = list_of(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        _fail(name, value, "a number")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """True or false."""
    value = list_of(value)
    return value if isinstance(value, bool) else _fail(name, value, "true or false")


def text(name: str, value: Any) -> str:
    """A string."""
    return value if isinstance(value, str) else _fail(name, value, "a text")


def place(name: str, value: Any) -> str:
    """A file, a folder or a URL: a string or a path."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    return found if isinstance(found, str) else _fail(name, value, "a file or folder")


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Names, and something for each."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        _fail(name, value, "a dictionary by names")
    return value


def wholes(name: str, value: Any) -> tuple[int, ...]:
    """Whole numbers from 0, each once; see :func:`several`."""
    return tuple(dict.fromkeys(several(name, value, whole)))


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Strings, see :func:`several`."""
    return several(name, value, text)


def as_texts(texts: Sequence[str], name: str) -> list[str]:
    """A list of texts; ``name`` is what messages call it."""
    texts = list_of(texts)
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
        found = "one string" if isinstance(texts, (str, bytes)) else f"of type {type(texts).__name__}"
        raise UsageError(f"{name} is {found}, expected a list of strings")
    for index, one in enumerate(texts):
        if not isinstance(one, str):
            raise UsageError(f"{name}[{index}] is {one!r}, expected a string")
    return list(texts)


def _fail(name: str, value: Any, expected: str) -> NoReturn:
    raise UsageError(f"`{name}` is {value!r}, expected {expected}")


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: halves of surrogate pairs cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    r"""Text with control characters and marks of direction as escapes: ``\x1b``, ``\u202e``."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """A table for a notebook, with everything escaped."""
    titled = f"<caption>{escape(visible(caption))}</caption>" if caption else ""
    head = "".join(f"<th>{escape(visible(cell))}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(visible(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{titled}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
