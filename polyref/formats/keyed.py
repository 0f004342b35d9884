"""JSON of any keys: one object a line, or a list of objects. Keys are known by name, or the user says what they are.

COMET's ``{"src", "mt", "ref"}``, lists of references for bert_score and rows of Hugging Face datasets are such
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from polyref.errors import DataError
from polyref.formats.base import Format, Lines, Opened, Outputs, unique
from polyref.formats.elements import elements
from polyref.formats.roles import REFERENCES, roles, segment
from polyref.json_files import Record
from polyref.segments import Place, Segment


def records(file: Lines) -> Iterator[Record]:
    """The objects of a file of JSON lines or of one list."""
    for number, text in elements(file):
        yield Record.parse(text, file.name, number)


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(FORMAT.name, {}, unique(_segments(file), file.name))


def _segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    known: dict[tuple[str, ...], dict[str, str]] = {}
    line = 0
    for position, record in enumerate(records(file), 1):
        keys, line = tuple(record.values), record.line
        if keys not in known:
            known[keys] = roles(keys, _there(file, keys), REFERENCES, file.name, record.line)
        values = [(key, known[keys].get(key, ""), value) for key, value in record.values.items()]
        yield record.line, segment(values, Place(position), record.fail, file.reading.fields, whole=file.reading.whole)
    seen = {key for keys in known for key in keys}
    if missing := [key for key in file.reading.fields if key not in seen]:
        raise DataError(f"no object has {missing[0]!r}, as `fields` says", file=file.name, line=line)


def _there(file: Lines, keys: Sequence[str]) -> Mapping[str, str]:
    """What the user says of the keys that an object has; of all, if it has no text that the user names."""
    fields = file.reading.fields
    there = {key: role for key, role in fields.items() if key in keys}
    texts = {*REFERENCES, "output"}
    return there if texts & set(there.values()) or not texts & set(fields.values()) else fields


def _outputs(file: Lines) -> Outputs:
    wanted = frozenset({"output"})
    texts: list[str] = []
    for record in records(file):
        found = roles(record.values, _there(file, tuple(record.values)), wanted, file.name, record.line)
        keys = [key for key, role in found.items() if role == "output"]
        if len(keys) > 1:
            record.fail(f"{' and '.join(keys)} are outputs", f"say which one: `fields` {keys[0]}=output")
        text = record.text(keys[0])
        if text is None:
            record.fail(f'"{keys[0]}" is null, expected the output of the segment')
        texts.append(text)
    return Outputs({"": texts})


FORMAT: Final = Format("json", lambda name, first_line: False, _open, _outputs)
