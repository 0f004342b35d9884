"""The directory of a report: it appears whole or not at all, and replaces nothing but a report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from polyref.errors import DataError
from polyref.publishing import published_folder

#: Everything that a report holds.
FILES: Final = ("index.html", "rows.csv", "gains.tex", "pairs.csv", "systems.csv", "report.json")
#: What those of 0.1.0 hold as well: they are replaced, too.
_OLDER: Final = ("sizes.csv",)


def check_report(path: str | Path) -> None:
    """Refuse a place where no report can be written, before any work is done."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise DataError("exists and is no directory, expected one for a report", file=path, remedy="name another -o")
    if target.is_dir():
        known = {*FILES, *_OLDER}
        others = sorted(entry.name for entry in target.iterdir() if entry.name not in known or entry.is_dir())
        empty = not any(target.iterdir())
        if others or not (empty or (target / "report.json").is_file()):
            raise DataError(
                f"is no report of polyref and is not overwritten: it holds {(others or ['other files'])[0]}",
                file=path,
                remedy="name another -o",
            )
    parent = target.resolve().parent
    if not parent.is_dir():
        raise DataError(f"cannot be written: no directory {parent}", file=path, remedy="create it first")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from None


def write_directory(path: str | Path, files: Mapping[str, str]) -> None:
    """Write all files into a fresh directory, which then takes the place of ``path``."""
    check_report(path)
    with published_folder(Path(path).resolve()) as fresh:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")
