"""JSONL of the general task, 2025 and 2026: one document a line, whose paragraphs are the segments.

Paragraphs are set apart by blank lines, and agree in number between source, references and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from polyref.errors import DataError, UsageError
from polyref.formats.base import Format, Lines, Opened, Outputs, without_blank_end
from polyref.formats.roles import references
from polyref.formats.wmt.documents import NO_DOCUMENT
from polyref.json_files import Record
from polyref.segments import Place, Segment

#: What sets the parts of a document's id apart, and which of them say the language pair.
_SEPARATORS: Final = ("_###_", "_#_")
_BREAK: Final = "\n\n"
#: Keys of a document that mean something here.
KNOWN: Final = frozenset({"doc_id", "src_text", "refs", "tgt_lang"})


def is_general(values: Mapping[str, object]) -> bool:
    """Whether an object is a document of a test set, or of a system."""
    name = values.get("doc_id")
    if not isinstance(name, str):
        return False
    if "src_text" in values and isinstance(values.get("refs"), dict):
        return True
    in_parts = any(separator in name for separator in _SEPARATORS)
    return "hypothesis" in values and (in_parts or bool({"paragraphs_match", "metadata"} & values.keys()))


def _records(file: Lines) -> Iterator[Record]:
    """The documents of the pair that is asked for."""
    seen: dict[str, int] = {}
    pairs: dict[str, None] = {}
    found = False
    for number, line in without_blank_end(file):
        record = Record.parse(line, file.name, number)
        name = record.text("doc_id")
        if not name:
            record.fail('no key "doc_id"', "expected a document of the general task a line")
        pair = _pair(record, name)
        if pair is not None:
            pairs.setdefault(pair)
        if file.reading.pair is not None and pair not in {file.reading.pair, None}:
            continue
        if file.reading.pair is None and len(pairs) > 1:
            raise UsageError(
                f"several language pairs: {', '.join(pairs)} ...", file=file.name, remedy="choose one: `pair`"
            )
        key = f"{pair} {name}"
        if key in seen:
            record.fail(f"the document {name!r} was already on line {seen[key]}")
        seen[key] = number
        found = True
        yield record
    if not found:
        there = f"no document of {file.reading.pair}, there are: {', '.join(pairs)}" if pairs else "no document"
        raise DataError(there, file=file.name)


def _pair(record: Record, name: str) -> str | None:
    source, target = record.text("src_lang"), record.text("tgt_lang")
    if source and target:
        return f"{source}-{target}"
    for separator in _SEPARATORS:
        parts = name.split(separator)
        if len(parts) > 3 and separator == _SEPARATORS[0]:
            return f"{parts[2]}-{parts[3]}"
        if len(parts) > 1:
            return parts[0] if "-" in parts[0] else None
    return None


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(FORMAT.name, {}, _segments(file))


def _segments(file: Lines) -> Iterator[Segment]:
    position = 0
    wanted = file.reading.fields
    for record in _records(file):
        source = record.text("src_text")
        refs = record.values.get("refs")
        if source is None or not isinstance(refs, dict):
            record.fail('no keys "src_text" and "refs"', "a system's file has no references")
        if missing := [name for name in wanted if refs and name not in refs]:
            record.fail(f"no reference {missing[0]!r} as `fields` says, there are: {', '.join(refs)}")
        sources = source.split(_BREAK)
        columns: list[tuple[str, list[str]]] = []
        for name, value in refs.items():
            text = (
                Record(value, record.file, record.line, f"refs[{name!r}]: ").text("ref")
                if isinstance(value, dict)
                else value
            )
            if text is None or (wanted and name not in wanted):
                continue
            if not isinstance(text, str):
                record.fail(f"refs[{name!r}] is neither a text nor an object with one")
            parts = text.split(_BREAK)
            if len(parts) != len(sources):
                record.fail(
                    f"reference {name!r} has {len(parts)} paragraphs, the source {len(sources)}",
                    "paragraphs are set apart by blank lines",
                )
            columns.append((name, parts))
        document = record.text("doc_id")
        document = None if document == NO_DOCUMENT else document
        for place, text in enumerate(sources):
            position += 1
            named = references([(name, parts[place]) for name, parts in columns], whole=file.reading.whole)
            if not file.reading.whole:
                yield Segment(Place(position), named)
                continue
            more: dict[str, Any] = {key: value for key, value in record.values.items() if key not in KNOWN}
            yield Segment(Place(position), named, text, document, record.text("tgt_lang"), more if place == 0 else {})


def _outputs(file: Lines) -> Outputs:
    texts: list[str] = []
    documents: list[str] = []
    for record in _records(file):
        text = record.text("hypothesis")
        if text is None:
            record.fail('no key "hypothesis"', "expected a system's document a line")
        texts += text.split(_BREAK)
        documents += [record.text("doc_id") or ""] * (len(texts) - len(documents))
    return Outputs({"": texts}, documents)


FORMAT: Final = Format("general", lambda name, first_line: False, _open, _outputs)
