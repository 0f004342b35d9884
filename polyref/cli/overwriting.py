"""What a command may read and write: standard input once, and never over a file that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from polyref.errors import UsageError
from polyref.formats import PLACE, matching
from polyref.store import is_journal
from polyref.textfiles import is_remote, without_scheme


def refuse_overwriting(
    inputs: Iterable[str | None],
    *outputs: str | None,
    journals: Iterable[str | None] = (),
    models: Iterable[str] = (),
) -> None:
    """Refuse an output that is an input, a journal, a part of a model or another output, by whatever path or link.

    Args:
        inputs: Files that are read.
        outputs: Files that are written anew. With ``{}`` in its name, one stands for all files that fit it.
        journals: Files that are added to, and so may be there.
        models: Models as they were named: files, folders, or names with ``backend:`` before them.

    ``-``, None and what is not there are no file.
    """
    read = [path for path in inputs if path is not None]
    folders = [Path(folder).resolve() for name in models for folder in (name, name.partition(":")[2]) if folder]
    fresh, kept = list(filter(None, outputs)), list(filter(None, journals))
    for output in (*fresh, *kept):
        for file in _files(output):
            if any(_same_file(file, path) for path in read):
                raise UsageError(f"{file} is also an input", remedy="choose another output")
            if _is_file(file) and any(Path(without_scheme(file)).resolve().is_relative_to(one) for one in folders):
                raise UsageError(f"{file} is part of a model", remedy="choose another output")
            if output in fresh and _is_file(file) and is_journal(without_scheme(file)):
                raise UsageError(f"{file} holds finished work", remedy="choose another output, or move it away")
    for one, other in combinations((*fresh, *kept), 2):
        if _same_place(one, other):
            raise UsageError(f"{other} is named for two outputs", remedy="choose another file for one of them")


def refuse_second_reader(paths: Sequence[str | None]) -> None:
    """Refuse inputs of which more than one is standard input, which can be read once."""
    if paths.count("-") > 1:
        raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")


def _files(output: str) -> list[str]:
    """The file that an output is, or those that are there where it is the pattern of several."""
    if PLACE not in output or is_remote(output):
        return [output]
    pattern = Path(without_scheme(output))
    return [str(file) for file in matching(pattern)] if pattern.parent.is_dir() else []


def _is_file(path: str) -> bool:
    return path != "-" and not is_remote(path) and Path(without_scheme(path)).is_file()


def _same_place(one: str, other: str) -> bool:
    """Whether two outputs would be one file, which need not be there yet; devices and pipes may be named twice."""
    if "-" in (one, other):
        return False
    if is_remote(one) or is_remote(other):
        return one == other
    first, second = (Path(without_scheme(path)).resolve() for path in (one, other))
    return _same_file(one, other) or (first == second and (first.is_file() or not first.exists()))


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
