"""Plain text: one segment a line; several files are several human references per segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from polyref.formats.base import Format, Lines, Opened, Outputs
from polyref.segments import Place, Reference, Segment
from polyref.textfiles import check_parallel


def _open(files: Sequence[Lines]) -> Opened:
    return Opened("plain", {}, _segments(files))


def _segments(files: Sequence[Lines]) -> Iterator[Segment]:
    counts = [0] * len(files)
    uneven = False
    for position, row in enumerate(zip_longest(*(file.lines for file in files)), 1):
        for column, line in enumerate(row):
            counts[column] += line is not None
        # Past the end of the shortest file, lines are only counted, so that the message can name both lengths.
        uneven = uneven or None in row
        if not uneven:
            # An empty line is a real, empty reference, not an absent one.
            yield Segment(Place(position), tuple(Reference(line) for line in row))
    check_parallel([(file.name, count) for file, count in zip(files, counts, strict=True)])


def _outputs(file: Lines) -> Outputs:
    return Outputs({"": list(file.lines)})


FORMAT: Final = Format("plain", lambda name, first_line: True, _open, _outputs, several=True)
