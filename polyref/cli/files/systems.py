"""The files of systems and references of ``polyref score``: their names, their lines, and marks that change a score."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from polyref.errors import UsageError
from polyref.tables import name_as_text
from polyref.textfiles import check_parallel, display_name, read_lines


def system_names(paths: Sequence[str]) -> list[str]:
    """A name for every system: its file name, or the path as given where two files have one name.

    Raises:
        UsageError: A path is given twice.
    """
    # A file name need not be text; a system's name is written.
    paths = [name_as_text(path) for path in paths]
    if repeated := [path for path, count in Counter(paths).items() if count > 1]:
        raise UsageError(f"-i names {repeated[0]} twice", remedy="copy the file to score it against itself")
    short = [display_name(path) if path == "-" else Path(path).name for path in paths]
    counts = Counter(short)
    return [name if counts[name] == 1 else path for name, path in zip(short, paths, strict=True)]


def parallel_lines(paths: Sequence[str], first: tuple[str, int]) -> list[list[str]]:
    """The lines of files, as many as the file named first has."""
    texts = [read_lines(path) for path in paths]
    check_parallel([first, *((display_name(path), len(lines)) for path, lines in zip(paths, texts, strict=True))])
    return texts


def warn_byte_order_marks(paths: Sequence[str], say: Callable[[str, str], None]) -> None:
    """Say of each file that starts with a byte order mark that it is left out here, and not by sacreBLEU."""
    for path in paths:
        # A pipe can be read once only, and has been.
        if path != "-" and Path(path).is_file():
            with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as stream:
                if stream.read(3) == b"\xef\xbb\xbf":
                    say("warning", f"{path} starts with a byte order mark: it is left out here, "
                                   "sacreBLEU counts it as text")  # fmt: skip
