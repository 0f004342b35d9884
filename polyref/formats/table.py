"""Tables: one segment a row, one text a column; TSV without quotes, CSV with them.

Columns are known by their names in the first row, or by their numbers from 1. sacreBLEU's TSV of references has no
names: every column is a reference.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened, Outputs, unique, unpacked, without_blank_end
from polyref.formats.columns import REFERENCES, Fail, failing, role_of, roles, segment
from polyref.references import Place, Segment

#: Every column is a reference, and there are no names.
SACREBLEU: Final = "sacrebleu-tsv"


def has_names(cells: Sequence[str]) -> bool:
    """Whether the first row of a table names its columns: one of them is called as references or outputs are."""
    return any(role_of(cell.strip()) in {*REFERENCES, "output"} or cell.strip() == "text" for cell in cells)


def _rows(file: Lines, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of every row."""
    if separator == "\t":
        yield from ((number, line.split("\t")) for number, line in without_blank_end(file))
        return
    reader = csv.reader((f"{line}\n" for _, line in without_blank_end(file)), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"broken CSV: {error}", file=file.name, line=reader.line_num) from None


class _Table:
    """The rows of a table with the roles of its columns."""

    def __init__(self, file: Lines, separator: str, wanted: frozenset[str], *, all_references: bool = False) -> None:
        self.file = file
        rows = _rows(file, separator)
        try:
            number, first = next(rows)
        except StopIteration:
            raise DataError("the file is empty, expected a table", file=file.name) from None
        fields = file.reading.fields
        numbered = {str(place) for place in range(1, len(first) + 1)}
        named = not all_references and (has_names(first) or (bool(fields) and set(fields) <= set(first)))
        if named and fields and set(fields) <= numbered and not set(fields) <= set(first):
            # Columns by number in a table that names them all the same.
            fields = {first[int(key) - 1]: role for key, role in fields.items()}
        if all_references:
            self.keys, self.roles = [str(place) for place in range(1, len(first) + 1)], {}
            self.roles = dict.fromkeys(self.keys, "reference")
        elif named:
            self.keys = [cell.strip() for cell in first]
            self.roles = roles(self.keys, fields, wanted, file.name, number)
        else:
            if not fields:
                raise DataError(
                    f"a table of {len(first)} columns that are not named",
                    file=file.name,
                    line=number,
                    remedy=f"say what they are: `fields` {len(first)}=reference; `form` {SACREBLEU} takes every "
                    "column for a reference, `form` plain takes tabs for text",
                )
            self.keys = [str(place) for place in range(1, len(first) + 1)]
            self.roles = roles(self.keys, fields, wanted, file.name, number)
        self.fields = fields
        self.rows = rows if named else chain([(number, first)], rows)

    def __iter__(self) -> Iterator[tuple[int, list[str], Fail]]:
        for number, cells in self.rows:
            fail = failing(self.file.name, number)
            if len(cells) != len(self.keys):
                fail(f"{len(cells)} columns, expected {len(self.keys)} as in the first row", "no cell may hold a tab")
            yield number, cells, fail


def _reader(separator: str, *, all_references: bool = False) -> Format:
    def read(files: Sequence[Lines]) -> Opened:
        (file,) = files
        return Opened(name, {}, unique(_segments(file, separator, all_references), file.name))

    def outputs(file: Lines) -> Outputs:
        table = _Table(file, separator, frozenset({"output"}))
        columns = [place for place, key in enumerate(table.keys) if table.roles.get(key) == "output"]
        texts: list[list[str]] = [[] for _ in columns]
        for _, cells, _ in table:
            for own, place in zip(texts, columns, strict=True):
                own.append(cells[place])
        names = [table.keys[place] if len(columns) > 1 else "" for place in columns]
        return Outputs(dict(zip(names, texts, strict=True)))

    name = SACREBLEU if all_references else "tsv" if separator == "\t" else "csv"
    return Format(name, lambda file, _: unpacked(file).endswith(f".{name}"), read, None if all_references else outputs)


def _segments(file: Lines, separator: str, all_references: bool) -> Iterator[tuple[int, Segment]]:
    table = _Table(file, separator, REFERENCES, all_references=all_references)
    for position, (number, cells, fail) in enumerate(table, 1):
        named = [(key, table.roles.get(key, ""), cell) for key, cell in zip(table.keys, cells, strict=True)]
        # An empty reference is absent; a segment's only one is an empty line of plain text.
        first = next((place for place, (_, role, _) in enumerate(named) if role == "reference"), -1)
        alone = not any(cell for _, role, cell in named if role in REFERENCES)
        values = [
            (key, role, cell if cell or all_references or (alone and place == first) else None)
            for place, (key, role, cell) in enumerate(named)
        ]
        yield number, segment(values, Place(position), fail, table.fields, whole=file.reading.whole)


TSV: Final = _reader("\t")
CSV: Final = _reader(",")
ALL_REFERENCES: Final = _reader("\t", all_references=True)
