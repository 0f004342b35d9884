"""Relative rankings: pairs of outputs of one segment of which people clearly preferred one ("DARR", WMT17 to WMT20)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError
from polyref.eval.data.score_files import RankingPairs, numbered_lines, shortened, whole_number
from polyref.eval.judgements.base import GoldReader, Judgements, Matcher, Place

HEADER = ("seg_id", "better", "worse")
#: What becomes of two outputs that several lines compare.
REPEATED: Final = ("count", "merge", "drop")


class Rankings:
    """Collects the preferences of one file, some of which may compare the same outputs.

    Released files hold such pairs: a sentence that occurs twice in a test set gives repeats and contradictions. The
    published correlations count every line.

    ``count`` counts every line, as released. ``merge`` counts two outputs once, as most of their lines say, and leaves
    them out where the lines are evenly divided. ``drop`` leaves out what several lines compare.
    """

    def __init__(self, path: str | Path, systems: Sequence[str], pairs: str = "count") -> None:
        self.path = path
        self.systems = tuple(systems)
        self._index = {name: i for i, name in enumerate(systems)}
        self._choice = pairs
        self._rows: list[tuple[int, int, int]] = []
        self._lines: list[int] = []

    def add(self, segment: int, better: str, worse: str, line: int) -> None:
        """Take one preference."""
        for name in (better, worse):
            if name not in self._index:
                there = ", ".join(sorted(self._index))
                raise DataError(f"unknown system {name!r}, expected one of {there}", file=self.path, line=line)
        if better == worse:
            raise DataError(f"system {better!r} is compared with itself", file=self.path, line=line)
        self._rows.append((segment, self._index[better], self._index[worse]))
        self._lines.append(line)

    def __len__(self) -> int:
        return len(self._rows)

    def finish(self) -> tuple[RankingPairs, tuple[str, ...]]:
        """The pairs, and what to tell the user about repeated and contradicting ones."""
        count = Counter(self._rows)
        opposite = {row: count[row[0], row[2], row[1]] for row in count}
        several = [row for row in count if count[row] + opposite[row] > 1]
        rows = self._rows
        if several and self._choice == "merge":
            rows = [row for row in count if count[row] > opposite[row]]
        elif several and self._choice == "drop":
            rows = [row for row in count if count[row] + opposite[row] == 1]
        table = np.array(rows, dtype=np.intp).reshape(-1, 3)
        return RankingPairs(table[:, 0], table[:, 1], table[:, 2], self.systems), self._notes(count, opposite, rows)

    def _notes(
        self,
        count: Counter[tuple[int, int, int]],
        opposite: dict[tuple[int, int, int], int],
        rows: Sequence[tuple[int, int, int]],
    ) -> tuple[str, ...]:
        repeats = sum(number - 1 for number in count.values())
        contradicted = sum(1 for row in count if row[1] < row[2] and opposite[row])
        if not repeats and not contradicted:
            return ()
        seen: set[tuple[int, ...]] = set()
        first = 0
        for (segment, better, worse), line in zip(self._rows, self._lines, strict=True):
            key = (segment, min(better, worse), max(better, worse))
            if key in seen:
                first = line
                break
            seen.add(key)
        what = f"lines that repeat a pair: {repeats}, pairs ranked in both directions: {contradicted}"
        done = "every line counts, as released" if self._choice == "count" else f"pairs left: {len(rows)}"
        return (f"{Path(self.path).name}: {what} (from line {first}); {done} (pairs: {self._choice})",)


def read_pairs(
    path: Path, systems: Sequence[str], segments: int, pairs: str = "count"
) -> tuple[RankingPairs, tuple[str, ...]]:
    """Read ``darr/PAIR.tsv``: a header ``seg_id better worse``, then one preference a line, segments from 1.

    With the pairs come notes about repeated and contradicting ones.
    """
    rankings = Rankings(path, systems, pairs)
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if number == 1:
            if tuple(fields) != HEADER:
                raise DataError(f"the header is {shortened(line)}, expected {chr(9).join(HEADER)!r}", file=path, line=1)
            continue
        if len(fields) != 3:
            raise DataError(
                f"{len(fields)} columns, expected 3: seg_id better worse, tab-separated", file=path, line=number
            )
        segment = whole_number(fields[0])
        if segment is None or not 1 <= segment <= segments:
            raise DataError(
                f"segment {shortened(fields[0])}, expected a number from 1 to {segments}", file=path, line=number
            )
        rankings.add(segment - 1, fields[1], fields[2], number)
    if not len(rankings):
        raise DataError("no pairs, expected one preference a line", file=path)
    return rankings.finish()


_COLUMNS: Final = ("LP", "DATA", "SID", "BETTER", "WORSE")


def read_task_rankings(path: str | Path, place: Place, *, pairs: str = "count") -> Judgements:
    """Read ``LP DATA SID BETTER WORSE``, separated by spaces, for all language pairs; the header may lack a column.

    SID counts through the set from 1, or is ``DOCUMENT::SEGMENT`` (2020).
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
