"""Files that are given with a name for what they hold: ``NAME=FILE``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from polyref.errors import UsageError
from polyref.tables import name_as_text

_NAMED: Final = re.compile(r"([\w.+-]+)=(.+)", re.DOTALL)


def named_files(values: Sequence[str]) -> dict[str, str]:
    """``--refs``: name -> file, from files, or NAME=FILE where several generators are compared."""
    pieces = []
    for value in values:
        match = None if Path(value).is_file() else _NAMED.fullmatch(value)
        if match:
            pieces.append((match[1], match[2]))
        else:
            pieces.append(("" if len(values) == 1 else name_as_text(Path(value).name.split(".")[0]), value))
    names = [name for name, _ in pieces]
    if len(set(names)) < len(names):
        raise UsageError(f"two --refs are called {next(n for n in names if names.count(n) > 1)!r}",
                         remedy="name them: --refs NAME=FILE ...")  # fmt: skip
    return dict(pieces)


def files_of_judgements(values: Sequence[str]) -> dict[str, list[str]]:
    """``--judgements``: kind -> files, from KIND=FILE."""
    from polyref.eval.judgements.base import gold_reader

    pieces = [value.partition("=") for value in values]
    for value, (kind, _, file) in zip(values, pieces, strict=True):
        if not kind or not file:
            raise UsageError(f"--judgements {value!r}, expected KIND=FILE")
    files: dict[str, list[str]] = {}
    for kind, _, file in pieces:
        if kind in files and not gold_reader(kind).several:
            raise UsageError(f"--judgements {kind} is given twice", remedy="name one file of judgements")
        files.setdefault(kind, []).append(file)
    return files
