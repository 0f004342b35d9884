"""Options of metrics. A dataclass field says once what it is: help, range, flag; checks and the command line read it.

::

    @dataclass(frozen=True)
    class Overlap(Metric):
        beta: float = option(1.0, help="Weight of recall.", above=0)

A field without :func:`option` is an option, too: its type and default are known, its help and range are not.
"""

from __future__ import annotations

import math
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from numbers import Integral, Real
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from polyref.errors import UsageError
from polyref.values import list_of

_KEY: Final = "polyref"
_BOOLEANS: Final = {"true": True, "false": False, "yes": True, "no": False}


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of an option.

    Attributes:
        help: One or two sentences; ranges, choices and defaults are added to them.
        choices: The texts it may be; none: any.
        least: The smallest number it may be.
        most: The largest.
        above: A number that it must be larger than.
        below: A number that it must be smaller than.
        flag: Its flag at the command line, such as ``--target-lang``; empty: of the metric's family and the field.
        short: A second, shorter flag.
        metavar: What help writes for the value.
        heading: Under which heading of the help it stands; empty: one of its metric's family.
        common: Whether help shows it among the common options, before all headings.
        otherwise: What is done where it is not given, if the default does not say it.
        family: Of its metric; metrics of one family share flags and a heading.
        name: The field.
        type: ``bool``, ``int``, ``float`` or ``str``: of the value, or of each of several.
        needs: Other options, ``NAME`` or ``NAME=VALUE``, one of which has to be given or so for it to have a use.
        several: Whether the value is a tuple.
        optional: Whether it may be None.
        default: The value where none is given.
    """

    help: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    flag: str = ""
    short: str = ""
    metavar: str = ""
    heading: str = ""
    common: bool = False
    otherwise: str = ""
    family: str = ""
    name: str = ""
    needs: tuple[str, ...] = ()
    type: type = str
    several: bool = False
    optional: bool = False
    default: Any = None

    @property
    def parameter(self) -> str:
        """The flag as the name of a parameter: ``chrf_beta``."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def range(self) -> str:
        """The range in words, such as ``0 or more and below 1``; empty where there is none."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        limits = (
            ("{:g} or more", self.least),
            ("more than {:g}", self.above),
            ("at most {:g}", self.most),
            ("below {:g}", self.below),
        )
        return " and ".join(text.format(limit) for text, limit in limits if limit is not None)

    def check(self, owner: str, value: Any) -> Any:
        """Refuse a value of another kind or out of range; what it is as a plain value: paths as texts.

        Args:
            owner: What the option is one of, such as a metric's name; it begins the message.
            value: The value.

        Raises:
            UsageError: It cannot be the option's.
        """
        value = list_of(value)
        if value is None and self.optional:
            return None
        made = value
        if self.type is str:
            listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
            texts = tuple(
                os.fspath(one) if isinstance(one, os.PathLike) else one for one in (value if listed else [value])
            )
            fine = listed == self.several and all(isinstance(one, str) for one in texts)
            fine = fine and not (self.choices and set(texts) - set(self.choices))
            expected = self.range or ("texts" if self.several else "a text")
            made = texts if self.several else (texts or (None,))[0]
        elif self.type is bool:
            fine, expected = isinstance(value, bool), "true or false"
        else:
            whole = self.type is int
            number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
            expected = self.range if self.range and number else "a whole number" if whole else "a number"
            fine = number and self._holds(float(value))
        if not fine:
            raise UsageError(f"{owner}: `{self.name}` is {value!r}, expected {expected}")
        return made

    def _holds(self, value: float) -> bool:
        """Whether a number is in the range."""
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def read(self, owner: str, written: str | Sequence[str]) -> Any:
        """The value that a specification writes.

        Args:
            owner: As for :meth:`check`.
            written: A text, or several in brackets.

        Raises:
            UsageError: It is no value of this type.
        """
        if not isinstance(written, str):
            if not self.several:
                raise UsageError(f"{owner}: `{self.name}` is a list, expected one value")
            return tuple(self._single(owner, text) for text in written)
        if self.optional and not self.choices and written.lower() == "none":
            return None
        value = self._single(owner, written)
        return (value,) if self.several else value

    def _single(self, owner: str, text: str) -> Any:
        if self.type is str:
            return text
        try:
            return _BOOLEANS[text.lower()] if self.type is bool else self.type(text)
        except (KeyError, ValueError):
            expected = {bool: "true or false", int: "a whole number", float: "a number"}[self.type]
            raise UsageError(f"{owner}: `{self.name}` is {text!r}, expected {expected}") from None


def option(default: Any, *, help: str, **facts: Any) -> Any:
    """A dataclass field that is an option.

    Args:
        default: Where none is given.
        help: One or two sentences.
        facts: Attributes of :class:`Option`: ``choices``, ``least``, ``most``, ``above``, ``below``, ``flag``, ...
    """
    return field(default=default, metadata={_KEY: Option(help=help, **facts)})


@cache
def fields_of(kind: type[Any]) -> Mapping[str, Option]:
    """The options that the fields of a dataclass are, by name; fields of another type than an option's are none."""
    hints = get_type_hints(kind)
    found = {}
    for one in fields(kind):
        options = [part for part in _parts(hints[one.name]) if part is not type(None)]
        several = get_origin(options[0]) is not None and issubclass(get_origin(options[0]) or object, Sequence)
        plain = (get_args(options[0]) or (str,))[0] if several else options[0]
        if len(options) == 1 and plain in (bool, int, float, str):
            known: Option = one.metadata.get(_KEY, Option())
            found[one.name] = replace(
                known,
                name=one.name,
                type=plain,
                several=several,
                optional=type(None) in _parts(hints[one.name]),
                default=one.default,
            )
    return found


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def check_fields(owner: str, one: Any) -> None:
    """Check the options that the fields of a dataclass are, and make them plain values.

    Raises:
        UsageError: One of them is out of range, or has no use without another one.
    """
    for name, known in fields_of(one.__class__).items():
        object.__setattr__(one, name, known.check(owner, getattr(one, name)))
        if known.needs and getattr(one, name) != known.default and not any(_holds(one, need) for need in known.needs):
            needed = " or ".join("`{}` {}".format(*need.partition("=")[::2]).strip() for need in known.needs)
            raise UsageError(f"{owner}: `{name}` has no use without {needed}", remedy="add that, or leave it out")


def _holds(one: Any, need: str) -> bool:
    """Whether an option has a value, or the one that is named."""
    name, sign, value = need.partition("=")
    given = getattr(one, name)
    return str(given) == value if sign else given not in (None, False, 0, (), "")
