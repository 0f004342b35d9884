"""The simple form: JSONL, ``{"id", "reference", "paraphrases": [...]}`` a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from polyref.formats.base import Format, Lines, Opened, first_object, unique
from polyref.json_files import Record
from polyref.segments import Place, Reference, Segment

_KEYS = frozenset({"id", "reference", "paraphrases", "source", "doc", "lang"})


def _matches(name: str, first_line: str) -> bool:
    values = first_object(name, first_line)
    return values is not None and "refs" not in values and not values.keys().isdisjoint({"reference", "paraphrases"})


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened("simple", {}, unique(_segments(file), file.name))


def _segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    for number, line in enumerate(file.lines, 1):
        record = Record.parse(line, file.name, number)
        yield number, _segment(record, Place(number))


def _segment(record: Record, default_id: str) -> Segment:
    if record.values.keys().isdisjoint({"reference", "paraphrases"}):
        record.fail('neither "reference" nor "paraphrases"', remedy="the file started in the simple form")
    text = record.text("reference")
    refs = [] if text is None else [Reference(text)]
    of = None if text is None else 0
    for rank, item in enumerate(record.items("paraphrases") or []):
        paraphrase = Record({"text": item}, record.file, record.line, f"paraphrases[{rank}]: ").text("text")
        if paraphrase is None:
            record.fail(f"paraphrases[{rank}] is null, expected a string")
        refs.append(Reference(paraphrase, kind="paraphrase", of=of, rank=rank))
    return Segment(
        record.identifier(default_id),
        tuple(refs),
        record.text("source"),
        record.text("doc"),
        record.text("lang"),
        record.rest(_KEYS),
    )


FORMAT: Final = Format("simple", _matches, _open)
