"""JSONL of the general task, 2025 and 2026: one document a line, whose paragraphs are the segments.

Paragraphs are set apart by blank lines, and agree in number between source, references and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from polyref.formats.base import Format, Lines, Opened, Outputs, without_blank_end
from polyref.formats.roles import references
from polyref.formats.wmt.documents import NO_DOCUMENT, Made, of_pair
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


def _of_pair(file: Lines, made: Callable[[Record], Made]) -> tuple[str | None, list[Made]]:
    """What is made of the documents of the pair that is asked for, each of which is there once."""
    seen: dict[str, int] = {}

    def once(record: Record) -> Made:
        name = f"{record.text('src_lang')} {record.text('tgt_lang')} {record.values['doc_id']}"
        if name in seen:
            record.fail(f"the document {record.values['doc_id']!r} was already on line {seen[name]}")
        seen[name] = record.line
        return made(record)

    records = (Record.parse(line, file.name, number) for number, line in without_blank_end(file))
    return of_pair(file, ((_pair(record), record) for record in records), once)


def _pair(record: Record) -> str | None:
    name = record.text("doc_id")
    if not name:
        record.fail('no key "doc_id"', "expected a document of the general task a line")
    source, target = record.text("src_lang"), record.text("tgt_lang")
    return f"{source}-{target}" if source and target else _parts(name)[0]


def _parts(name: str) -> tuple[str | None, str | None, str]:
    """Language pair, domain and document that an id says; the first two may be missing."""
    for separator in _SEPARATORS:
        parts = name.split(separator)
        if separator == _SEPARATORS[0] and len(parts) > 3:
            return f"{parts[2]}-{parts[3]}", parts[1], separator.join(parts[4:]) or name
        if separator == _SEPARATORS[1] and len(parts) > 2 and "-" in parts[0]:
            return parts[0], parts[1], separator.join(parts[2:])
        if len(parts) > 1:
            return parts[0] if "-" in parts[0] else None, None, name
    return None, None, name


@dataclass(frozen=True)
class Text:
    """A document of a test set.

    Attributes:
        record: The line it was read from.
        sources: Its paragraphs.
        references: Name -> its paragraphs.
    """

    record: Record
    sources: list[str]
    references: dict[str, list[str]]

    @property
    def name(self) -> str:
        """Its id."""
        return self.record.needed("doc_id", self.record.text)

    @property
    def place(self) -> tuple[str, str]:
        """Domain and document, as its id says them."""
        _, domain, document = _parts(self.name)
        return self.record.text("domain") or domain or "all", document


def read_texts(file: Lines) -> tuple[str | None, list[Text]]:
    """The pair that is asked for, as a test set names it, and its documents.

    Raises:
        DataError: A document is broken, or there twice, or none is of the pair.
        UsageError: Several pairs, and none is asked for or several fit.
    """
    return _of_pair(file, lambda record: _text(record, file.reading.fields))


def read_hypotheses(file: Lines) -> list[tuple[str, list[str]]]:
    """Id and paragraphs of a system's documents of the pair that is asked for; raises as :func:`read_texts`."""

    def of(record: Record) -> tuple[str, list[str]]:
        text = record.text("hypothesis")
        if text is None:
            record.fail('no key "hypothesis"', "expected a system's document a line")
        return record.needed("doc_id", record.text), text.split(_BREAK)

    return _of_pair(file, of)[1]


def _text(record: Record, wanted: Mapping[str, str]) -> Text:
    source = record.text("src_text")
    refs = record.values.get("refs")
    if source is None or not isinstance(refs, dict):
        record.fail('no keys "src_text" and "refs"', "a system's file has no references")
    if missing := [name for name in wanted if refs and name not in refs]:
        record.fail(f"no reference {missing[0]!r} as `fields` says, there are: {', '.join(refs)}")
    sources = source.split(_BREAK)
    found: dict[str, list[str]] = {}
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
        found[name] = text.split(_BREAK)
        if len(found[name]) != len(sources):
            record.fail(
                f"reference {name!r} has {len(found[name])} paragraphs, the source {len(sources)}",
                "paragraphs are set apart by blank lines",
            )
    return Text(record, sources, found)


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(FORMAT.name, {}, _segments(file))


def _segments(file: Lines) -> Iterator[Segment]:
    position = 0
    for text in read_texts(file)[1]:
        record, document = text.record, None if text.name == NO_DOCUMENT else text.name
        for place, source in enumerate(text.sources):
            position += 1
            named = [(name, parts[place]) for name, parts in text.references.items()]
            refs = references(named, whole=file.reading.whole)
            if not file.reading.whole:
                yield Segment(Place(position), refs)
                continue
            more: dict[str, Any] = {key: value for key, value in record.values.items() if key not in KNOWN}
            yield Segment(Place(position), refs, source, document, record.text("tgt_lang"), more if place == 0 else {})


def _outputs(file: Lines) -> Outputs:
    found = read_hypotheses(file)
    return Outputs({"": [text for _, parts in found for text in parts]}, [name for name, parts in found for _ in parts])


FORMAT: Final = Format("general", lambda name, first_line: False, _open, _outputs)
