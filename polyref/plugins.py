"""Things by name: those of polyref, and those that other packages add through entry points.

One policy for all kinds (metrics, statistics, generators, filters, forms of files, judgements). Nothing is imported
until it is asked for, so that listing names is cheap. A package with faults is no hindrance to others: what cannot be
used is left out of lists with a warning, and is a UsageError where it is asked for by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyref.errors import PolyrefWarning, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, eq=False)
class Plugins:
    """A table of names, open to other packages.

    Attributes:
        what: What one of them is, for messages.
        group: Entry point group in which packages add theirs.
        own: Name -> polyref's own, or where it is: ``module:attribute``.
        expected: What a package's has to be, for messages.
        fits: Whether that is what is there under a name.
        spelling: What a package's name has to be like, for messages.
        spelt: Whether it is.
    """

    what: str
    group: str
    own: Mapping[str, Any]
    expected: str = "anything"
    fits: Callable[[str, Any], bool] = lambda name, found: True
    spelling: str = "a name"
    spelt: Callable[[str], bool] = bool

    def __contains__(self, name: str) -> bool:
        """Whether the name is known, be it to several."""
        return name in self.own or any(entry.name == name for entry in self._points())

    def names(self) -> tuple[str, ...]:
        """Every name: polyref's own, then those of other packages in alphabetical order. A warning names clashes."""
        return (*self.own, *(entry.name for entry in self.added()))

    def added(self) -> tuple[EntryPoint, ...]:
        """What other packages have, in the order of the names. A warning names what is left out: clashes."""
        return _added(self, tuple(sys.path))

    def load(self, name: str) -> Any:
        """What is called ``name``."""
        entry = self.entry(name)
        return self.load_own(name) if entry is None else self._load(entry)

    def load_own(self, name: str) -> Any:
        """What polyref itself calls ``name``."""
        found = self.own[name]
        if not isinstance(found, str):
            return found
        module, _, attribute = found.partition(":")
        return getattr(import_module(module), attribute)

    def loaded(self) -> Mapping[str, Any]:
        """Names and things of other packages. A warning names what is left out: clashes, and what cannot be used."""
        return _loaded(self, tuple(sys.path))

    def entry(self, name: str) -> EntryPoint | None:
        """Where another package has what is called ``name``; None for what is polyref's own. Nothing is imported."""
        found = [entry for entry in self._points() if entry.name == name]
        owners = ["polyref itself"] * (name in self.own) + [owner(entry) for entry in found]
        if len(owners) > 1:
            raise UsageError(
                f"several packages have a {self.what} {name!r}: {', '.join(owners)}",
                remedy=f"uninstall {owners[1] if name in self.own else 'one of them'}",
            )
        if found and not self.spelt(name):
            raise UsageError(
                f"{owners[0]} has a {self.what} called {name!r}, expected {self.spelling}",
                remedy=f"rename it, or uninstall {owners[0]}",
            )
        if not owners:
            raise UsageError(f"unknown {self.what} {name!r}, expected one of {', '.join(self.names())}")
        return found[0] if found else None

    def _load(self, entry: EntryPoint) -> Any:
        try:
            found = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in can end in any way when it is imported
            raise self._unusable(entry, f"cannot be imported: {described(error)}") from error
        try:
            fits = self.fits(entry.name, found)
        except Exception:  # it is the plug-in that says what it is
            fits = False
        if not fits:
            raise self._unusable(entry, f"is {described(found, repr)}, expected {self.expected}")
        return found

    def _unusable(self, entry: EntryPoint, why: str) -> UsageError:
        return UsageError(
            f"the {self.what} {entry.name!r} of {owner(entry)} ({entry.value}) {why}",
            remedy=f"mend or uninstall {owner(entry)}",
        )

    def _points(self) -> Sequence[EntryPoint]:
        return _found(self.group, tuple(sys.path))


def owner(entry: EntryPoint) -> str:
    """The package that has an entry point: its name and version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown package"


@lru_cache(maxsize=32)
def _found(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, with this path. To look through all packages takes longer than many a command."""
    from importlib.metadata import entry_points

    try:
        return tuple(entry_points(group=group))
    except Exception as error:  # one package's broken list of entry points is in the way of all
        warnings.warn(f"plug-ins cannot be looked for: {error!r}", PolyrefWarning, stacklevel=2)
        return ()


def tried(call: Callable[..., Any], *arguments: Any, where: str = "") -> Any:
    """What a call into a plug-in gives; None, and a warning, where it fails. ``where`` is for faults of its own."""
    try:
        return call(*arguments)
    except Exception as error:
        said = described(error, str) if isinstance(error, UsageError) else f"{where}: {described(error)}"
        warnings.warn(said, PolyrefWarning, stacklevel=3)
        return None


def described(thing: Any, write: Callable[[Any], str] = lambda one: f"{type(one).__name__}: {one}") -> str:
    """A plug-in's error (or other thing) in one line; its class, if the plug-in's own code cannot write it."""
    try:
        return " ".join(write(thing).split())
    except Exception:
        return f"a {type(thing).__name__}"


# What is left out is named once, however often a list is asked for.
@lru_cache(maxsize=32)
def _added(kind: Plugins, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    found = [tried(kind.entry, name) for name in sorted({entry.name for entry in _found(kind.group, path)})]
    return tuple(entry for entry in found if entry is not None)


@lru_cache(maxsize=32)
def _loaded(kind: Plugins, path: tuple[str, ...]) -> Mapping[str, Any]:
    found = {entry.name: tried(kind.load, entry.name) for entry in _added(kind, path)}
    return {name: thing for name, thing in found.items() if thing is not None}
