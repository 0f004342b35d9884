"""Texts line by line: plain text with one file for each reference, tables, lists and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from polyref.errors import DataError
from polyref.formats.roles import role_of
from polyref.formats.writing.layout import Layout
from polyref.segments import Segment

_BREAKS: Final = re.compile(r"[\r\n]")
_BREAKS_AND_TABS: Final = re.compile(r"[\t\r\n]")
#: Parts of a segment that tables and JSON have columns and keys for.
_PARTS: Final = ("id", "source", "doc", "lang")


def one_line(text: str, *, tabs: bool = True) -> str:
    """A text as one line, without tabs if they would end a column."""
    return (_BREAKS if tabs else _BREAKS_AND_TABS).sub(" ", text)


def plain(made: Layout) -> dict[str, str]:
    """Column -> text of its file: every file has a line for every segment."""
    rows = made.padded()
    return {column: "".join(f"{one_line(row[place])}\n" for row in rows) for place, column in enumerate(made.columns)}


def sacrebleu_tsv(made: Layout) -> Iterator[str]:
    """Every column a reference, without names."""
    return ("\t".join(one_line(text, tabs=False) for text in row) + "\n" for row in made.padded())


def tsv(made: Layout) -> Iterator[str]:
    """A table with names."""
    return ("\t".join(one_line(cell, tabs=False) for cell in row) + "\n" for row in _table(made))


def comma_separated(made: Layout) -> Iterator[str]:
    """The same with commas, and quotes where they are needed."""
    for row in _table(made):
        line = io.StringIO()
        # What is in the line end is quoted; a text file's own is a line feed.
        csv.writer(line, lineterminator="\r\n").writerow(cell.replace("\r\n", "\n") for cell in row)
        yield line.getvalue().removesuffix("\r\n") + "\n"


def _table(made: Layout) -> Iterator[list[str]]:
    parts = [part for part in _PARTS if any(getattr(segment, part) is not None for segment in made.segments)]
    yield [*parts, *made.columns]
    for segment, row in zip(made.segments, made.rows, strict=True):
        cells = [row[column].text if column in row else "" for column in made.columns]
        yield [*(getattr(segment, part) or "" for part in parts), *cells]


def lists(made: Layout) -> Iterator[str]:
    """The texts of every segment as a list."""
    return (_json([ref.text for ref in segment.refs]) for segment in made.segments)


def keyed(made: Layout) -> Iterator[str]:
    """Objects with ``references`` and ``paraphrases``."""
    for segment in made.segments:
        values = _parts(segment)
        values["references"] = [ref.text for ref in segment.originals]
        if segment.extras:
            values["paraphrases"] = [ref.text for ref in segment.extras]
        yield _json({**_others("json", segment), **values})


def simple(made: Layout) -> Iterator[str]:
    """Objects with one ``reference`` and its ``paraphrases``."""
    for segment in made.segments:
        values = _parts(segment)
        if segment.originals:
            values["reference"] = segment.originals[0].text
        values["paraphrases"] = [ref.text for ref in segment.extras]
        yield _json({**_others("simple", segment), **values})


def nbest(made: Layout) -> Iterator[str]:
    """Polyref's n-best lists."""
    for segment in made.segments:
        text = segment.originals[0].text if segment.originals else ""
        found = [
            {"text": ref.text} if ref.logprob is None else {"text": ref.text, "score": ref.logprob}
            for ref in segment.extras
        ]
        yield _json({"id": segment.id, "text": text, "paraphrases": found})


def comet(made: Layout) -> Iterator[str]:
    """COMET's list of objects, without the outputs: one reference a segment."""
    yield "[\n"
    last = len(made.segments) - 1
    for place, segment in enumerate(made.segments):
        if not segment.refs:
            raise DataError(f"segment {segment.id} has no reference", remedy="COMET's form needs one of every segment")
        values = {} if segment.source is None else {"src": segment.source}
        first = (segment.originals or segment.refs)[0]
        line = json.dumps({**values, "ref": first.text}, ensure_ascii=False)
        yield f"{line}{',' * (place < last)}\n"
    yield "]\n"


def _parts(segment: Segment) -> dict[str, Any]:
    return {part: getattr(segment, part) for part in _PARTS if getattr(segment, part) is not None}


def _others(form: str, segment: Segment) -> dict[str, Any]:
    return {key: value for key, value in segment.extra.items() if not TAKEN[form](key)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


#: Form -> whether a key means something there, so that one that polyref does not know cannot be called so.
TAKEN: Final[Mapping[str, Callable[[str], bool]]] = {
    "json": lambda key: role_of(key) not in {None, "output"},
    "simple": lambda key: key == "polyref" or role_of(key) not in {None, "output"},
}
#: Name -> lines of the file, of forms that one file holds.
LINES: Final[Mapping[str, Callable[[Layout], Iterator[str]]]] = {
    "simple": simple,
    "nbest": nbest,
    "json": keyed,
    "lists": lists,
    "tsv": tsv,
    "csv": comma_separated,
    "sacrebleu-tsv": sacrebleu_tsv,
    "comet": comet,
}
