"""A metric with its options as one text: ``chrf(combine=expected, alpha=0.5)``.

Values are numbers, ``true`` or ``false``, ``none``, texts (in quotes where they hold ``( ) [ ] , =`` or quotes), and
lists such as ``[one, two]``. A metric without options is its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from polyref.errors import UsageError

#: A name of a metric or an option.
NAME: Final = re.compile(r"[\w+.-]+")
_TOKENS: Final = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<mark>[()\[\],=])
        |(?P<bare>[^\s()\[\],="']+(?:\s+[^\s()\[\],="']+)*)
        |(?P<end>$)
        |(?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
#: Texts that need no quotes and are nothing else.
_PLAIN: Final = re.compile(r"[\w./:@+~-]+")


@dataclass(frozen=True)
class Specification:
    """A metric's name and the options that were written.

    Attributes:
        name: In small letters.
        options: Name to value. As :func:`parse` gives them, values are texts or lists of texts.
    """

    name: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        """How rows name it: the name alone, or with the options in their order here."""
        if not self.options:
            return self.name
        return f"{self.name}({', '.join(f'{key}={_written(value)}' for key, value in self.options.items())})"


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value).removesuffix(".0")
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_written, value))}]"
    escaped = str(value).replace("\\", r"\\").replace('"', r"\"")
    return str(value) if _PLAIN.fullmatch(str(value)) else f'"{escaped}"'


def split(text: str) -> list[str]:
    """Take a list of specifications apart: at commas that are in no brackets and no quotes.

    >>> split("bleu,chrf(beta=3, word_order=2)")
    ['bleu', 'chrf(beta=3, word_order=2)']
    """
    parts, depth = [""], 0
    for piece in re.findall(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|.""", text, re.DOTALL):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def parse(text: str) -> Specification:
    """Read one specification; whether there is such a metric with such options is not looked up."""
    tokens = _Tokens(text)
    name = tokens.take("bare", "the name of a metric")
    if not NAME.fullmatch(name):
        raise tokens.fault("the name of a metric", name)
    options: dict[str, Any] = {}
    if not tokens.ended():
        tokens.mark("(", "'(' or the end")
        while not tokens.next_is(")"):
            option = tokens.take("bare", "the name of an option")
            if option in options:
                raise UsageError(f"metric {text!r}: the option {option!r} is given twice")
            tokens.mark("=", "'='")
            options[option] = tokens.value()
            if not tokens.next_is(")"):
                tokens.mark(",", "',' or ')'")
        tokens.mark(")", "')'")
        if not tokens.ended():
            raise tokens.fault("the end", tokens.found())
    return Specification(name.lower(), options)


class _Tokens:
    """The pieces of a specification, one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces: Iterator[re.Match[str]] = _TOKENS.finditer(text)
        self._next = next(self._pieces)

    def ended(self) -> bool:
        return self._next.lastgroup == "end"

    def found(self) -> str:
        return str(self._next[self._next.lastgroup or 0])

    def next_is(self, mark: str) -> bool:
        return self._next.lastgroup == "mark" and self.found() == mark

    def take(self, kind: str, expected: str) -> str:
        if self._next.lastgroup != kind:
            raise self.fault(expected, self.found())
        found = self.found()
        self._next = next(self._pieces)
        return found

    def mark(self, mark: str, expected: str) -> None:
        if not self.next_is(mark):
            raise self.fault(expected, self.found())
        self.take("mark", expected)

    def value(self) -> str | list[str]:
        if not self.next_is("["):
            return self._text()
        self.take("mark", "'['")
        values = []
        while not self.next_is("]"):
            values.append(self._text())
            if not self.next_is("]"):
                self.mark(",", "',' or ']'")
        self.take("mark", "']'")
        return values

    def _text(self) -> str:
        if self._next.lastgroup == "quoted":
            return re.sub(r"\\(.)", r"\1", self.take("quoted", "a value")[1:-1], flags=re.DOTALL)
        return self.take("bare", "a value")

    def fault(self, expected: str, found: str) -> UsageError:
        what = repr(found) if found else "the end"
        return UsageError(
            f"metric {self.text!r}: found {what}, expected {expected}",
            remedy="write NAME or NAME(OPTION=VALUE, ...)",
        )
