"""Reading and writing reference sets: one file a format, tried in the order of ``FORMATS``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path

from polyref.augment.formats import normal, simple, text
from polyref.augment.formats.base import Format, Lines, Opened
from polyref.augment.formats.normal import header_line, segment_line, write_references
from polyref.errors import DataError, UsageError
from polyref.references import ReferenceSet
from polyref.textfiles import display_name, iter_lines

__all__ = ["FORMATS", "header_line", "open_references", "read_references", "segment_line", "write_references"]

#: Tried in this order; the last one takes anything.
FORMATS: tuple[Format, ...] = (simple.FORMAT, normal.FORMAT, text.FORMAT)


def read_references(paths: Sequence[str | Path]) -> ReferenceSet:
    """Read a reference set.

    Args:
        paths: One file in the normal or the simple form, or plain text files with one segment a line (several are
            several human references per segment, and must have equal numbers of lines). ``-`` is standard input,
            ``.gz`` is unpacked. The form is told by content first, then by suffix.

    Raises:
        DataError: A file is missing, empty or broken (file, line and reason are named), or lengths differ.
        UsageError: No path, ``-`` twice, or several files that are not all plain text.
    """
    with ExitStack() as stack:
        opened = open_references(paths, stack)
        return ReferenceSet(tuple(opened.segments), opened.meta)


def open_references(paths: Sequence[str | Path], stack: ExitStack) -> Opened:
    """As :func:`read_references`, but segments are read as they are asked for; ``stack`` closes the files."""
    if isinstance(paths, (str, Path)):
        raise TypeError(f"paths is one path ({paths}), expected a sequence of paths")
    if not paths:
        raise UsageError("no reference file given, expected at least one")
    if sum(str(path) == "-" for path in paths) > 1:
        raise UsageError("standard input (-) is named twice")
    files = [_peek(path, stack) for path in paths]
    formats = [detect(lines.name, first) for lines, first in files]
    if len(files) > 1:
        for (lines, _), form in zip(files, formats, strict=True):
            if form is not text.FORMAT:
                raise UsageError(
                    f"{lines.name} is in the {form.name} form: several reference files must all be plain text",
                    remedy="name that file alone",
                )
    return formats[0].open([lines for lines, _ in files])


def detect(name: str, first_line: str) -> Format:
    """The format of a file, from its name and first line."""
    return next(form for form in FORMATS if form.matches(name, first_line))


def _peek(path: str | Path, stack: ExitStack) -> tuple[Lines, str]:
    name = display_name(path)
    lines = stack.enter_context(closing(iter_lines(path)))  # type: ignore[type-var]
    try:
        first = next(lines)
    except StopIteration:
        raise DataError("the file is empty, expected one segment a line", file=name) from None
    rest: Iterator[str] = chain([first], lines)
    return Lines(name, rest), first
