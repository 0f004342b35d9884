"""JSONL of the metrics task, 2026: an item a line, of all language pairs, with its reference and the outputs.

``{"item_id": ..., "src": ..., "ref": {"text": ..., "type": "human" | "postedit" | "pseudo"}, "hyps": {NAME: TEXT}}``;
``ref`` is missing or has no text where there is no reference.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from polyref.errors import DataError, UsageError
from polyref.formats.base import (
    Format,
    Lines,
    Outputs,
    Start,
    objects_in,
    one_file_with_ids,
    shortened,
    without_blank_end,
)
from polyref.json_files import Record
from polyref.languages import find_pair
from polyref.references import Reference, Segment

#: What sets the parts of an id apart: set, source, target, and what else there is.
_SEPARATOR: Final = "_###_"
#: A language, with script and region: it becomes a part of names of files.
_CODE: Final = re.compile(r"[A-Za-z]{2,3}(_[A-Za-z0-9]{2,8}){0,3}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
#: What the task calls the kinds of references.
TYPES: Final = ("human", "postedit", "pseudo")
_KNOWN: Final = frozenset({"item_id", "src", "ref", "hyps"})
_FORM: Final = 'expected {"item_id", "src", "ref": {"text", "type"}, "hyps": {NAME: TEXT}} a line'


@dataclass(frozen=True, slots=True)
class Item:
    """One line."""

    name: str  # its id
    set_name: str  # what the id begins with: official, challenge
    pair: str  # SRC-TGT in the codes of the id
    document: str | None  # domain and document, where the id has them
    source: str
    reference: Reference | None
    outputs: Mapping[str, str]
    line: int
    extra: Mapping[str, Any]  # other keys


def is_item(values: Mapping[str, object]) -> bool:
    """Whether an object is a line of the metrics task."""
    return "item_id" in values and not {"src", "hyps"}.isdisjoint(values)


def _matches(name: str, start: Start) -> bool:
    return is_item(objects_in(name, start) or {})


def read_items(file: Lines) -> Iterator[Item]:
    """The items of a file, every one checked by itself."""
    number = 0
    for number, line in without_blank_end(file):
        yield _item(Record.parse(line, file.name, number))
    if not number:
        raise DataError("has no item", file=file.name, remedy=_FORM)


def _item(record: Record) -> Item:
    name = record.text("item_id")
    if not name:
        record.fail('no "item_id"', _FORM)
    parts = name.split(_SEPARATOR)
    if len(parts) < 3 or not all(map(_CODE.fullmatch, parts[1:3])) or _CONTROL.search(name):
        record.fail(f'"item_id" is {shortened(name)}, expected SET_###_SOURCE_###_TARGET_###_... with two languages')
    source = record.needed("src", record.text)
    hyps = record.needed("hyps", record.child)
    if not hyps.values:
        record.fail('"hyps" is empty, expected {NAME: TEXT} with an output at least')
    for system in hyps.values:
        if not system.strip() or _CONTROL.search(system):
            record.fail(f'"hyps" has the name {system!r}, expected a name in one line, without tabs')
        if hyps.text(system) is None:
            hyps.fail(f'"{system}" is null, expected the output of the system')
    document = _SEPARATOR.join(parts[3:-1]) or None
    extra = record.rest(_KNOWN)
    pair = f"{parts[1]}-{parts[2]}"
    return Item(name, parts[0], pair, document, source, _reference(record), hyps.values, record.line, extra)


def _reference(record: Record) -> Reference | None:
    found = record.child("ref")
    text = None if found is None else found.text("text")
    if found is None or text is None or not text.strip():
        return None
    kind = found.needed("type", found.text)
    if kind not in TYPES:
        found.fail(f'"type" is {shortened(kind)}, expected {", ".join(TYPES)}')
    return Reference(text, kind)


def fits(asked: str, pair: str) -> bool:
    """Whether a pair as someone names it is this one: ``en-de`` is ``eng_Latn-deu_Latn``."""
    return find_pair(asked, [pair]) is not None


def of_pair(items: Iterator[Item], asked: str | None, file: str) -> Iterator[Item]:
    """The items of one language pair, however ids and users spell it; where none is asked for, all are to be of one."""
    there: dict[str, bool] = {}
    for item in items:
        if item.pair not in there:
            there[item.pair] = asked is None or fits(asked, item.pair)
            same = [pair for pair, inside in there.items() if inside]
            if there[item.pair] and not all(fits(item.pair, pair) for pair in same):
                may = "several language pairs:" if asked is None else f"{asked} may be any of"
                raise UsageError(f"{may} {', '.join(same)} ...", file=file, remedy="choose one: `pair`")
        if there[item.pair]:
            yield item
    if not any(there.values()):
        raise DataError(f"no item of {asked}, there are: {', '.join(there)}", file=file)


def _segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    whole = file.reading.whole
    for item in of_pair(read_items(file), file.reading.pair, file.name):
        refs = () if item.reference is None else (item.reference,)
        if not whole:
            yield item.line, Segment(item.name, refs)
        else:
            target = item.pair.split("-", 1)[1]
            yield item.line, Segment(item.name, refs, item.source, item.document, target, item.extra)


def _outputs(file: Lines) -> Outputs:
    texts: dict[str, list[str]] = {}
    documents: list[str] = []
    for item in of_pair(read_items(file), file.reading.pair, file.name):
        texts = texts or {system: [] for system in item.outputs}
        check_systems(item, texts, file.name)
        for system, column in texts.items():
            column.append(item.outputs[system])
        documents.append(item.document or "")
    return Outputs(texts, documents)


def check_systems(item: Item, expected: Collection[str], file: str, remedy: str | None = None) -> None:
    """Refuse an item whose systems are not those of the items of its pair before it."""
    for names, others, fault in ((expected, item.outputs, "lacks {}, which {} have"),
                                 (item.outputs, expected, "has {}, which {} lack")):  # fmt: skip
        if odd := next((name for name in names if name not in others), None):
            told = fault.format(shortened(odd), f"the items of {item.pair} before it")
            raise DataError(f'"hyps" {told}', file=file, line=item.line, remedy=remedy)


METRICS_TASK: Final = Format(
    "metrics-task", _matches, one_file_with_ids("metrics-task", _segments), _outputs, json=True, pairs=True, begins="{"
)
