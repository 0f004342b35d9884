"""The errors polyref raises on purpose.

Every error names what was found, what was expected and the remedy. Errors about a file also name the file and line.
The command line turns them into one line on stderr and their ``exit_code``; nothing else catches them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_URL = re.compile(r"(://)(?:[^\s/?#'\"]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?")


def without_secrets(text: str) -> str:
    """A text whose URLs have neither password nor query: whoever reads those may read the files."""
    return _URL.sub(r"\1\2", text)


class PolyrefError(Exception):
    """A mistake that the user can correct: what was found and expected, where (a 1-based line), and what to do."""

    exit_code = 1

    def __init__(
        self, message: str, *, file: str | Path | None = None, line: int | None = None, remedy: str | None = None
    ) -> None:
        # Names out of a broken file may hold halves of surrogate pairs, which cannot be written.
        self.message = without_secrets(message.encode("utf-8", "backslashreplace").decode())
        self.file = without_secrets(str(file)) if file is not None else None
        self.line, self.remedy = line, remedy and without_secrets(remedy)
        super().__init__(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return _same, (type(self), self.message, self.file, self.line, self.remedy)

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        return f"{place}{self.message}" + ("" if self.remedy is None else f" ({self.remedy})")


def _same(
    kind: type[PolyrefError], message: str, file: str | None, line: int | None, remedy: str | None
) -> PolyrefError:
    """An error that came from another process, or the kind of error it is where it is made from other facts."""
    kinds = (known for known in kind.__mro__ if issubclass(known, PolyrefError))
    for known in kinds:
        with suppress(TypeError):
            return known(message, file=file, line=line, remedy=remedy)
    raise TypeError(kind)


class DataError(PolyrefError):
    """A file or value that cannot be used as it is (exit code 1)."""


class UsageError(PolyrefError):
    """Options that do not fit together or are out of range (exit code 2)."""

    exit_code = 2


class ModelError(PolyrefError):
    """A model that is missing, broken, untrusted or of an unknown family (exit code 1)."""


class PolyrefWarning(UserWarning):
    """Something the user should know about a result (one line on stderr, once). The result is still given."""
