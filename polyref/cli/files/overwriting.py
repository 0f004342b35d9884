"""What a command may read and write: standard input once, and never over a file that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from polyref.errors import UsageError
from polyref.remote.files import is_remote, without_scheme


def refuse_overwriting(inputs: Iterable[str | None], *outputs: str | None) -> None:
    """Refuse an output that is also an input, by whatever path or link. ``-``, None and what is not there are no file.

    Raises:
        UsageError: Naming the output.
    """
    read = [path for path in inputs if path is not None]
    for output in filter(None, outputs):
        if any(_same_file(output, path) for path in read):
            raise UsageError(f"{output} is also an input", remedy="choose another output")


def refuse_second_reader(paths: Sequence[str | None]) -> None:
    """Refuse inputs of which more than one is standard input, which can be read once.

    Raises:
        UsageError: See above.
    """
    if paths.count("-") > 1:
        raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")


def _same_file(one: str, other: str) -> bool:
    if "-" in (one, other):
        return False
    if is_remote(one):
        return one == other
    one, other = str(without_scheme(one)), str(without_scheme(other))
    try:
        # Devices are no files: /dev/stdin and /dev/stdout are the same terminal.
        return Path(one).is_file() and Path(one).samefile(other)
    except OSError:
        return False
