"""Texts line by line: plain text with one file for each reference, tables, lists and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

from polyref.errors import DataError, UsageError
from polyref.formats.columns import DEFAULT_NAME, NO_DOCUMENT, Layout, role_of
from polyref.formats.general_task import KNOWN
from polyref.references import Segment

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


#: What stands for a reference that a segment lacks.
ABSENT: Final = "NO TRANSLATION AVAILABLE"
_BREAK: Final = "\n\n"
#: What XML 1.0 has no way to write.
_UNWRITABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml(made: Layout) -> Iterator[str]:
    """wmt-format-tools' XML: sources where there are any, and one element for each reference of a document."""
    _check_places(made, sources=True)
    source, target = made.languages
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<dataset id="references">\n'
    documents = made.documents()
    for collection, group in groupby(documents, key=lambda one: made.segments[one[1][0]].extra.get("collection")):
        yield "" if collection is None else f"<collection id={_quoted(str(collection))}>\n"
        for name, places in group:
            first = made.segments[places[0]]
            about = _attributes(domain=first.extra.get("domain"), origlang=first.extra.get("origlang"))
            yield f"<doc id={_quoted(name)}{about}>\n"
            if any(made.segments[place].source is not None for place in places):
                yield from _element("src", _attributes(lang=source), made, places, None)
            for column in made.columns:
                if any(column in made.rows[place] for place in places):
                    named = None if column == DEFAULT_NAME else column
                    yield from _element("ref", _attributes(lang=target, translator=named), made, places, column)
            yield "</doc>\n"
        yield "" if collection is None else "</collection>\n"
    yield "</dataset>\n"


def _element(tag: str, attributes: str, made: Layout, places: list[int], column: str | None) -> Iterator[str]:
    yield f"<{tag}{attributes}>\n<p>\n"
    yield from _segments(made, places, column)
    yield f"</p>\n</{tag}>\n"


def _check_places(made: Layout, *, sources: bool) -> None:
    """Refuse segments that would have no place: their number would be lost, and others would take it."""
    for segment, row in zip(made.segments, made.rows, strict=True):
        if not row and (not sources or segment.source is None):
            raise DataError(
                f"segment {segment.id} has {'neither source nor' if sources else 'no'} reference",
                remedy="this form has no place for it",
            )


def _segments(made: Layout, places: list[int], column: str | None) -> Iterator[str]:
    number = 0
    for place in places:
        segment, row = made.segments[place], made.rows[place]
        given = segment.extra.get("seg")
        number = given if isinstance(given, int) and given > number else number + 1
        text = (segment.source or "") if column is None else row[column].text if column in row else None
        if text is not None:
            yield f'<seg id="{number}">{_escaped(one_line(text), segment)}</seg>\n'


def sgml(made: Layout) -> Iterator[str]:
    """One reference set with a ``doc`` for each reference of a document."""
    _check_places(made, sources=False)
    source, target = made.languages
    yield f"<refset{_attributes(setid='references', srclang=source or 'any', trglang=target or 'any')}>\n"
    for name, places in made.documents():
        first = made.segments[places[0]]
        about = _attributes(genre=first.extra.get("domain"), origlang=first.extra.get("origlang"))
        for column in made.columns:
            if any(column in made.rows[place] for place in places):
                yield f"<doc sysid={_quoted(column)} docid={_quoted(name)}{about}>\n<p>\n"
                yield from _segments(made, places, column)
                yield "</p>\n</doc>\n"
    yield "</refset>\n"


def _escaped(text: str, segment: Segment) -> str:
    if found := _UNWRITABLE.search(text):
        raise DataError(f"segment {segment.id} holds U+{ord(found[0]):04X}, which XML has no way to write")
    return escape(text, quote=False)


def _quoted(text: str) -> str:
    return f'"{escape(_UNWRITABLE.sub("", one_line(text)))}"'


def _attributes(**values: Any) -> str:
    return "".join(f" {name}={_quoted(str(value))}" for name, value in values.items() if value)


def general(made: Layout) -> Iterator[str]:
    """Documents of the general task: a reference that lacks a paragraph of a document is left out of it."""
    source, target = made.languages
    for name, places in made.documents():
        sources = [made.segments[place].source for place in places]
        texts = [text for text in sources if text is not None]
        if len(texts) < len(sources):
            raise DataError(
                f"segment {made.segments[places[sources.index(None)]].id} has no source",
                remedy="documents of the general task hold their sources",
            )
        first = made.segments[places[0]]
        values: dict[str, Any] = {"doc_id": name, "src_lang": source, "tgt_lang": target}
        values |= {key: value for key, value in first.extra.items() if key not in KNOWN}
        values["src_text"] = _paragraphs(texts)
        values["refs"] = {
            column: {"ref": _paragraphs([made.rows[place][column].text for place in places])}
            for column in made.columns
            if all(column in made.rows[place] for place in places)
        }
        yield json.dumps({key: value for key, value in values.items() if value is not None}, ensure_ascii=False) + "\n"


def _paragraphs(texts: list[str]) -> str:
    return _BREAK.join(re.sub(r"\n(?=\n)", " ", text.strip("\n")) for text in texts)


def lost_in_documents(made: Layout) -> list[str]:
    """What :func:`general` leaves out: references whose document lacks others of their column, and keys of segments."""
    documents = made.documents()
    left_out = sum(
        sum(column in made.rows[place] for place in places)
        for _, places in documents
        for column in made.columns
        if not all(column in made.rows[place] for place in places)
    )
    keys = sum(
        any(
            key in KNOWN or made.segments[places[0]].extra.get(key) != value
            for key, value in made.segments[place].extra.items()
        )
        for _, places in documents
        for place in places
    )
    found = [
        ("references that not every paragraph of a document has", left_out, "reference"),
        ("other keys", keys, "segment"),
    ]
    return [f"{what} ({count} {unit}{'s' * (count != 1)})" for what, count, unit in found if count]


def folder(made: Layout, pair: str | None) -> Mapping[str, str]:
    """Path -> text of the files of mt-metrics-eval's layout."""
    if pair is None or not re.fullmatch(r"[^./-]+-[^./]+", pair):
        raise UsageError(f"`pair` is {pair}, expected SRC-TGT such as zh-en", remedy="the names of the files hold it")
    files = {}
    for column in made.columns:
        if not column or re.search(r"[./-]|\s", column) or column in {"all", "src"}:
            raise DataError(f"the reference name {column!r} is not allowed in the layout of mt-metrics-eval")
        texts = (row[column].text if column in row else ABSENT for row in made.rows)
        files[f"references/{pair}.{column}.txt"] = _lines(texts)
    if any(segment.source is not None for segment in made.segments):
        files[f"sources/{pair}.txt"] = _lines(segment.source or "" for segment in made.segments)
    if any(segment.doc is not None for segment in made.segments):
        about = (f"{segment.extra.get('domain') or 'all'} {segment.doc or NO_DOCUMENT}" for segment in made.segments)
        files[f"documents/{pair}.docs"] = _lines(about)
    return files


def _lines(texts: Iterator[str]) -> str:
    return "".join(f"{one_line(text)}\n" for text in texts)
