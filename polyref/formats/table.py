"""Tables: one segment a row, one text a column; TSV without quotes, CSV with them, and with no cell for a formula.

Columns are known by their names in the first row, or by their numbers from 1. sacreBLEU's TSV of references has no
names: every column is a reference.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from polyref.errors import DataError, PolyrefWarning
from polyref.formats.base import (
    Format,
    Lines,
    Outputs,
    Start,
    by_suffix,
    never,
    one_file_with_ids,
    shortened,
    unpacked,
    without_blank_end,
)
from polyref.formats.columns import (
    ALL,
    REFERENCES,
    Field,
    SetInColumns,
    Writing,
    columns,
    names_in_tables,
    one_line,
    padded,
    role_of,
    segment_of,
)
from polyref.json_files import Record
from polyref.references import Place, Segment

_FORMULA: Final = re.compile(r"\A('*)(?=[=+\-@\t\r])")  # what a spreadsheet would compute, and its guards


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
            yield reader.line_num, [_FORMULA.sub(lambda found: found[1][1:], cell) for cell in row]
    except csv.Error as error:
        raise DataError(f"broken CSV: {error}", file=file.name, line=reader.line_num) from None


class _Table:
    """The rows of a table, and what its columns are."""

    def __init__(self, file: Lines, separator: str, wanted: frozenset[str], *, all_references: bool = False) -> None:
        self.file = file
        rows = _rows(file, separator)
        number, first = next(rows, (0, []))
        if not number:
            raise DataError("the file is empty, expected a table", file=file.name)
        if not first:
            raise DataError(
                "the row is empty, expected names of columns", file=file.name, line=number, remedy="take it out"
            )
        self.fields = fields = file.reading.fields
        numbers = [str(place) for place in range(1, len(first) + 1)]
        words = all(" " not in cell.strip() for cell in first)  # and no texts
        given = bool(fields) and (set(fields) <= set(first) or (words and not set(fields) <= set(numbers)))
        named = not all_references and (has_names(first) or given)
        if all_references:
            self.columns = [Field(key, "reference") for key in numbers]
        elif named:
            if set(fields) <= set(numbers) and not set(fields) <= set(first):
                # Columns by number in a table that names them all the same.
                self.fields = fields = {first[int(key) - 1]: role for key, role in fields.items()}
            self.columns = columns([cell.strip() for cell in first], fields, wanted, file.name, number)
        elif fields:
            self.columns = columns(numbers, fields, wanted, file.name, number)
            second = next(rows, None)
            rows = rows if second is None else chain([second], rows)
            texts = [place for place, one in enumerate(self.columns) if one.role in wanted]
            # One word each, where texts of several follow.
            names = all(cell.strip() and " " not in cell.strip() for cell in first)
            if second and names and all(" " in cell for place, cell in enumerate(second[1]) if place in texts):
                name = first[texts[0]].strip()
                said = f"the first row is taken as text: if it names the columns, say `fields` {name}=..."
                warnings.warn(f"{file.name}:{number}: {said}", PolyrefWarning, stacklevel=2)
        else:
            raise DataError(
                f"a table of {len(first)} columns that are not named as known: {', '.join(map(shortened, first))}",
                file=file.name,
                line=number,
                remedy=f"say what they are: by names in the first row, `fields` {first[-1].strip()[:40] or len(first)}"
                f"=reference, or where it is text already, `fields` {len(first)}=reference; `form` sacrebleu-tsv takes "
                "every column for a reference, `form` plain takes tabs for text",
            )
        self._rows = rows if named else chain([(number, first)], rows)

    def __iter__(self) -> Iterator[tuple[Record, list[str]]]:
        """Who tells faults of a row, and its cells."""
        for number, cells in self._rows:
            place = Record({}, self.file.name, number)
            if len(cells) != len(self.columns):
                place.fail(
                    f"{len(cells)} columns, expected {len(self.columns)} as in the first row", "no cell may hold a tab"
                )
            yield place, cells


def _segments(file: Lines, separator: str, *, all_references: bool = False) -> Iterator[tuple[int, Segment]]:
    table = _Table(file, separator, REFERENCES, all_references=all_references)
    texts = [place for place, column in enumerate(table.columns) if column.role in REFERENCES]
    first = next((place for place, column in enumerate(table.columns) if column.role == "reference"), -1)
    for position, (place, cells) in enumerate(table, 1):
        values: list[str | None] = list(cells)
        if not all_references:
            # An empty reference is absent; a segment's only one is an empty line of plain text.
            alone = not any(cells[text] for text in texts)
            values = [cell or (cell if alone and column == first else None) for column, cell in enumerate(cells)]
        pairs = zip(table.columns, values, strict=True)
        whole = file.reading.whole
        yield place.line, segment_of(pairs, Place(position), place.fail, table.fields, whole=whole)


def _outputs(file: Lines, separator: str) -> Outputs:
    table = _Table(file, separator, frozenset({"output"}))
    found = {place: column.key for place, column in enumerate(table.columns) if column.role == "output"}
    texts: dict[int, list[str]] = {place: [] for place in found}
    for _, cells in table:
        for place, own in texts.items():
            own.append(cells[place])
    return Outputs({found[place] if len(found) > 1 else "": own for place, own in texts.items()})


def _is_tsv(name: str, start: Start) -> bool:
    if unpacked(name).endswith((".tsv", ".csv")):
        return unpacked(name).endswith(".tsv")
    return bool(start.written) and all("\t" in line for line in start.written)


def _not_blank_at_the_end(lines: Iterator[str]) -> Iterator[str]:
    line = ""
    for line in lines:
        yield line
    if line.isspace():
        raise DataError("the last segment has empty texts alone", remedy="readers take its line for a blank end")


def _tsv_lines(made: SetInColumns) -> Iterator[str]:
    return _not_blank_at_the_end("\t".join(one_line(cell, tabs=False) for cell in row) + "\n" for row in _cells(made))


def _cells(made: SetInColumns) -> Iterator[list[str]]:
    yield [*made.parts, *made.columns]
    for segment, row in made.pairs:
        cells = [row[column].text if column in row else "" for column in made.columns]
        yield [*(getattr(segment, part) or "" for part in made.parts), *cells]


def _csv_lines(made: SetInColumns) -> Iterator[str]:
    for row in _cells(made):
        line = io.StringIO()
        cells = (_FORMULA.sub(r"'\1", cell.replace("\r\n", "\n")) for cell in row)
        # What is in the line end is quoted; a text file's own is a line feed.
        csv.writer(line, lineterminator="\r\n").writerow(cells)
        yield line.getvalue().removesuffix("\r\n") + "\n"


def _sacrebleu_lines(made: SetInColumns) -> Iterator[str]:
    rows = ([padded(column, row) for column in made.columns] for _, row in made.pairs)
    return _not_blank_at_the_end("\t".join(one_line(text, tabs=False) for text in row) + "\n" for row in rows)


TSV: Final = Format(
    "tsv",
    _is_tsv,
    one_file_with_ids("tsv", partial(_segments, separator="\t")),
    partial(_outputs, separator="\t"),
    holds="\t",
    suffixes=(".tsv",),
    writing=Writing(
        frozenset({"none", "empty", "order", "lines", "tabs", "logprob", "keys", "meta"}),
        _tsv_lines,
        readable=names_in_tables,
        exact=lambda name: bool(name) and name == one_line(name, tabs=False),
    ),
)
CSV: Final = Format(
    "csv",
    partial(by_suffix, suffix=".csv"),
    one_file_with_ids("csv", partial(_segments, separator=",")),
    partial(_outputs, separator=","),
    suffixes=(".csv",),
    writing=Writing(
        frozenset({"none", "empty", "order", "returns", "logprob", "keys", "meta"}),
        _csv_lines,
        readable=names_in_tables,
        exact=lambda name: bool(name) and "\r\n" not in name,
    ),
)
#: sacreBLEU's: every column is a reference, and there are no names.
SACREBLEU: Final = Format(
    "sacrebleu-tsv",
    never,
    one_file_with_ids("sacrebleu-tsv", partial(_segments, separator="\t", all_references=True)),
    writing=Writing(ALL - {"several", "extras", "returns", "spaces", "empty", "mark", "bare"}, _sacrebleu_lines),
)
