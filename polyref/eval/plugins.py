"""Things by name: those of polyref, and those that other packages add through entry points.

Nothing is imported until it is asked for, so that listing the names is cheap. See docs/how-to for a tutorial of each
kind of plug-in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyref.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Plugins:
    """A table of names, open to other packages. A name that polyref has stays polyref's.

    Attributes:
        what: What one of them is, for messages.
        group: Entry point group in which packages add theirs.
        own: Name -> where polyref's own is, ``module:attribute``.
    """

    what: str
    group: str
    own: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """Every name: polyref's own, then those of other packages in alphabetical order."""
        return tuple(dict.fromkeys([*self.own, *sorted(entry.name for entry in self._added())]))

    def load(self, name: str) -> Any:
        """What is called ``name``."""
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            return getattr(import_module(module), attribute)
        added = [entry for entry in self._added() if entry.name == name]
        if not added:
            raise UsageError(f"unknown {self.what} {name!r}, expected one of {', '.join(self.names())}")
        if len({entry.value for entry in added}) > 1:
            packages = ", ".join(sorted(_package(entry) for entry in added))
            raise UsageError(f"several packages have a {self.what} {name!r}: {packages}", remedy="uninstall one")
        try:
            return added[0].load()
        except Exception as error:  # A plug-in can fail in any way when it is imported.
            raise UsageError(
                f"the {self.what} {name!r} of {_package(added[0])} cannot be loaded: {type(error).__name__}: {error}"
            ) from error

    def _added(self) -> Iterable[EntryPoint]:
        return _found(self.group, tuple(sys.path))


@lru_cache(maxsize=32)
def _found(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, with this path. To look through all packages takes longer than many a command."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
