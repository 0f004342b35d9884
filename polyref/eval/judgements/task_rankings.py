"""Relative rankings in the metrics task's own files (``RR-seglevel.csv``, ``DArr-seglevel.csv``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from polyref.eval.data.score_files import numbered_lines, shortened
from polyref.eval.judgements.base import GoldReader, Judgements, Matcher, Place
from polyref.eval.judgements.relative_rankings import Rankings

_COLUMNS: Final = ("LP", "DATA", "SID", "BETTER", "WORSE")


def read_task_rankings(path: str | Path, place: Place, *, pairs: str = "count") -> Judgements:
    """Read ``LP DATA SID BETTER WORSE``, separated by spaces, for all language pairs.

    Args:
        path: The file; its header may lack a column, as that of 2018 does.
        place: What can be ranked; SID counts through the set from 1, or is ``DOCUMENT::SEGMENT`` (2020).
        pairs: What becomes of outputs that several lines compare, as
            :class:`~polyref.eval.judgements.relative_rankings.Rankings` takes it.
    """
    matcher = Matcher(path, place)
    rankings = Rankings(path, place.systems, pairs)
    found = False
    for number, line in numbered_lines(path):
        fields = line.split()
        if number == 1:
            if fields[:1] != ["LP"]:
                raise matcher.fault(f"the header is {shortened(line)}, expected {' '.join(_COLUMNS)}", 1)
            continue
        if len(fields) != len(_COLUMNS):
            raise matcher.fault(f"{len(fields)} columns, expected {len(_COLUMNS)}: {' '.join(_COLUMNS)}", number)
        if fields[0] != place.pair:
            continue
        found = True
        document, named, segment = fields[2].rpartition("::")
        at = matcher.cell(document, segment, number) if named else matcher.segment(segment, number)
        better, worse = matcher.system(fields[3]), matcher.system(fields[4])
        if better == worse:
            raise matcher.fault(f"system {better!r} is compared with itself", number)
        if matcher.has(better) and matcher.has(worse):
            rankings.add(at, better, worse, number)
    if not found:
        raise matcher.fault(f"no rankings of {place.pair}", None)
    passed = matcher.notes()
    kept, notes = rankings.finish()
    return Judgements("darr", pairs=kept, notes=(*passed, *notes))


READER: Final = GoldReader("darr", read_task_rankings, ("pairs",))
