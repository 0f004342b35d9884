"""Options, each written once: its type, default, help, range and flag; checks, command line and pages read that.

An object that is configured has them as fields, a function as keywords::

    @dataclass(frozen=True)
    class Overlap(Metric):
        beta: float = option(1.0, help="Weight of recall.", above=0)

    class Resampling(TypedDict, total=False):
        resamples: Annotated[int, Option(1000, "Resamples of the bootstrap; 0 makes no intervals.")]

    @with_options(Resampling)
    def evaluate(data: str, **options: Unpack[Resampling]) -> Table: ...

A field without :func:`option` is an option, too: its type and default are known, its help and range are not.
"""

from __future__ import annotations

import inspect
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache, partial, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from polyref.errors import UsageError
from polyref.values import flag, list_of, mapping, place, real, several, text, whole

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: The default of an option that has to be given.
REQUIRED: Final[Any] = ...
_KEY: Final = "polyref"
_BOOLEANS: Final = {"true": True, "false": False, "yes": True, "no": False}
_PLAIN: Final = (bool, int, float, str)


@dataclass(frozen=True)
class Option:
    """What is known of an option.

    Attributes:
        default: The value where none is given; :data:`REQUIRED`: one has to be.
        help: One or two sentences; ranges, choices and defaults are added to them. After a colon at its end, ``names``
            are listed.
        choices: The texts it may be; none: any.
        names: Gives texts it may be that are known late, of plug-ins for example; the shell completes them.
        least: The smallest number it may be.
        most: The largest.
        above: A number that it must be larger than.
        below: A number that it must be smaller than.
        expected: What messages say that it may be, if not the range.
        flag: Its flags at the command line, such as ``--target-lang``, with spaces between several; empty: the name of
            a function's option, the family and name of a metric's.
        short: A second, shorter flag.
        metavar: What help writes for the value.
        heading: Under which heading of the help it stands; empty: a metric's family, or before all headings.
        common: Whether help shows a metric's option among the common ones, before all headings.
        otherwise: What is done where it is not given, if the default does not say it.
        family: Of its metric; metrics of one family share flags and a heading.
        name: The field or keyword.
        type: ``bool``, ``int``, ``float`` or ``str``: of the value, or of each of several; ``dict`` of names and
            something for each; ``object``: another one, which only Python can give.
        needs: Other options, ``NAME`` or ``NAME=VALUE``, one of which has to be given or so for it to have a use.
        without: Other options beside which it has no use.
        several: Whether the value is a tuple.
        place: Whether a text is the name of a file or folder.
        optional: Whether it may be None.
    """

    default: Any = None
    help: str = ""
    _: KW_ONLY
    choices: tuple[str, ...] = ()
    names: Callable[[], Sequence[str]] | None = None
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    expected: str = ""
    flag: str = ""
    short: str = ""
    metavar: str = ""
    heading: str = ""
    common: bool = False
    otherwise: str = ""
    family: str = ""
    name: str = ""
    type: type = str
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    several: bool = False
    place: bool = False
    optional: bool = False

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
        if self.above is not None and self.below is not None:
            return f"between {self.above:g} and {self.below:g}"
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
            kind, what = (Integral, "a whole number") if self.type is int else (Real, "a number")
            number = isinstance(value, kind) and not isinstance(value, bool)
            expected = self.range if self.range and number else what
            fine = number and self._holds(float(value))
        if not fine:
            where = f"{owner}: " if owner else ""
            raise UsageError(f"{where}`{self.name}` is {value!r}, expected {self.expected or expected}")
        return made

    def taken(self, value: Any) -> Any:
        """What a caller in Python gives a function, checked: one or several values of any kind, as plain ones.

        Raises:
            UsageError: It cannot be the option's.
        """
        if self.type is dict:
            return mapping(self.name, {} if value is None else value)
        if self.type is object or (value is None and self.optional):
            return value
        checks: Mapping[type, Callable[[str, Any], Any]] = {
            bool: flag,
            int: partial(whole, least=int(self.least or 0)),
            float: real,
            str: place if self.place else text,
        }
        check = checks[self.type]
        made = several(self.name, value, check) if self.several else check(self.name, value)
        for one in made if self.several else (made,):
            if (self.choices and one not in self.choices) or (self.type in (int, float) and not self._holds(one)):
                raise UsageError(f"`{self.name}` is {one!r}, expected {self.expected or self.range}")
        return tuple(dict.fromkeys(made)) if self.several and self.type is int else made

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


def option(default: T, *, help: str, **facts: Any) -> T:
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
        known: Option = one.metadata.get(_KEY, Option())
        made = _typed(replace(known, name=one.name, default=one.default), hints[one.name])
        if made.type in _PLAIN:
            found[one.name] = made
    return found


@cache
def declared(kind: Any) -> Mapping[str, Option]:
    """The options that a dataclass or a TypedDict declares, by name."""
    if hasattr(kind, "__dataclass_fields__"):
        return fields_of(kind)
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        known = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Option)), Option())
        found[name] = _typed(replace(known, name=name), get_args(hint)[0] if get_origin(hint) is Annotated else hint)
    return found


def _typed(one: Option, hint: Any) -> Option:
    """An option with what its type says."""
    parts = [part for part in _parts(hint) if part is not type(None)]
    origins = {part: get_origin(part) for part in parts}
    lists = [part for part, origin in origins.items() if isinstance(origin, type) and issubclass(origin, Sequence)]
    plain = {each for part in parts for each in (_parts((get_args(part) or (str,))[0]) if part in lists else (part,))}
    if parts and all(isinstance(origin, type) and issubclass(origin, Mapping) for origin in origins.values()):
        kind: type = dict
    else:
        kind = next((each for each in _PLAIN if plain - {Path} == {each}), object)
    return replace(one, type=kind, several=bool(lists), place=Path in plain, optional=type(None) in _parts(hint))


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def with_options(kind: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take the options of a TypedDict as keywords, ``**options: Unpack[kind]``.

    They are checked, and those that are not given are filled in; its signature lists them with their defaults.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = declared(kind)
        own = {
            name: one for name, one in inspect.signature(function).parameters.items() if one.kind is not one.VAR_KEYWORD
        }

        @wraps(function)
        def checked(*args: P.args, **given: P.kwargs) -> R:
            for name in given:
                if name not in known and name not in own:
                    near = get_close_matches(name, [*own, *known], 1)
                    meant = f"; did you mean {near[0]!r}?" if near else ""
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}{meant}")
            filled = {name: one.taken(given.get(name, one.default)) for name, one in known.items()}
            return function(*args, **cast(Any, {**given, **filled}))

        hints = get_type_hints(kind)
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[name])
            for name, one in known.items()
        ]
        signature = inspect.signature(function).replace(parameters=[*own.values(), *listed])
        cast(Any, checked).__signature__, cast(Any, checked).__options__ = signature, kind
        return checked

    return decorate


def check_fields(owner: str, one: Any) -> None:
    """Check the options that the fields of a dataclass are, and make them plain values.

    Raises:
        UsageError: One of them is out of range, or has no use without another one. ``owner`` begins the message.
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
