"""JSON of others: objects of any keys (COMET's, rows of data sets), and lists of texts (Div-Ref's releases)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from polyref.errors import DataError
from polyref.formats.base import (
    Format,
    Lines,
    Outputs,
    Start,
    never,
    objects_in,
    one_file,
    one_file_with_ids,
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
    json_line,
    json_parts,
    role_of,
    segment_of,
)
from polyref.json_files import Record, try_json
from polyref.references import Place, Reference, Segment

#: Most characters of an element of a list: as of a line.
_LONGEST: Final = 1 << 24
#: A Python literal is read by Python's own parser, whose memory is many times the text.
_LONGEST_LITERAL: Final = 1 << 20
# What cannot end goes to the end of its line, so that every character is looked at once.
_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|[\[\]{},]')
_STRING: Final = r"""(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|None)"""
#: Python's parser may break down on what is nested: it is given strings and None in a list, and nothing else.
_LITERALS: Final = re.compile(rf"\s*\[\s*(?:{_STRING}\s*,\s*)*(?:{_STRING}\s*)?\]\s*")


def as_list(text: str) -> list[Any] | None:
    """A line that is one list, or None. Nothing in it is ever evaluated."""
    if not text.lstrip().startswith("[") or len(text) > _LONGEST_LITERAL:
        return None
    value: list[Any] | None = try_json(text, list)
    if value is not None or not _LITERALS.fullmatch(text):
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return None
    return found if isinstance(found, list) else None


def is_texts(value: object) -> bool:
    """Whether it is a list of texts, or of texts and None."""
    return isinstance(value, list) and all(item is None or isinstance(item, str) for item in value)


def elements(file: Lines) -> Iterator[tuple[int, str]]:
    """Line and text of every value of JSON lines, or of every element of one list.

    A list is cut into its elements by brackets, and never lies in memory as a whole.
    """
    lines = without_blank_end(file)
    start = []
    for number, line in lines:
        start.append((number, line))
        if sum(bool(text.strip()) for _, text in start) == 2:
            break
    first = next((line for _, line in start if line.strip()), None)
    if first is None:
        raise DataError("the file is empty, expected JSON", file=file.name)
    lines = chain(start, lines)
    alone = len(start) == 1 and unpacked(file.name).endswith(".json")
    if first.lstrip().startswith("[") and (alone or not is_texts(as_list(first))):
        yield from _list(file, lines)
    else:
        yield from lines


def _list(file: Lines, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The elements of the list that the lines hold, told apart by brackets alone: each is parsed when it is whole."""
    depth = number = start = size = 0
    pieces: list[str] = []
    more = False
    for number, line in lines:
        place = 0
        for token in _TOKENS.finditer(line):
            mark = token[0]
            if mark in ("[", "{"):
                depth += 1
                place = token.end() if depth == 1 else place
            elif mark in ("]", "}"):
                depth -= 1
            if mark in (",", "]") and depth == (mark == ","):
                text = "".join([*pieces, line[place : token.start()]]).strip()
                if text or more or mark == ",":
                    more = mark == ","
                    yield start or number, text
                pieces, size, start, place = [], 0, 0, token.end()
            if depth <= 0:
                rest = line[token.end() :].strip() or next((text for _, text in lines if text.strip()), "")
                if rest or depth < 0:
                    raise DataError("text after the end of the list, expected one JSON list", file=file.name)
                return
        pieces.append(f"{line[place:]}\n")
        start = start or (number if line[place:].strip() else 0)
        size += len(line)
        if size > _LONGEST:
            raise DataError(f"longer than {_LONGEST} characters", file=file.name, line=start)
    raise DataError("the list does not end", file=file.name, line=number, remedy="is the file whole?")


def _records(file: Lines) -> Iterator[Record]:
    """The objects of a file of JSON lines or of one list."""
    return (Record.parse(text, file.name, number) for number, text in elements(file))


def _is_keyed(name: str, start: Start) -> bool:
    return objects_in(name, start) is not None or re.match(r'\{\s*"', _inside_list(start)) is not None


def _inside_list(start: Start) -> str:
    """What stands behind the bracket that a file begins with; empty where it begins otherwise."""
    first = start.written[0].lstrip() if start.written else ""
    if not first.startswith("["):
        return ""
    return ("".join(start.written) if first.rstrip() == "[" else first)[1:].lstrip()


def _keyed_segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    fields, whole = file.reading.fields, file.reading.whole
    known: dict[tuple[str, ...], list[Field]] = {}
    line = 0
    for position, record in enumerate(_records(file), 1):
        keys, line = tuple(record.values), record.line
        if keys not in known:
            known[keys] = columns(keys, _there(file, keys), REFERENCES, file.name, line)
        values = zip(known[keys], record.values.values(), strict=True)
        yield line, segment_of(values, Place(position), record.fail, fields, whole=whole)
    seen = {key for keys in known for key in keys}
    if missing := [key for key in fields if key not in seen]:
        raise DataError(f"no object has {missing[0]!r}, as `fields` says", file=file.name, line=line)


def _there(file: Lines, keys: Collection[str]) -> Mapping[str, str]:
    """What the user says of the keys that an object has; of all, if it has no text that the user names."""
    fields = file.reading.fields
    there = {key: role for key, role in fields.items() if key in keys}
    texts = {*REFERENCES, "output"}
    return there if texts & set(there.values()) or not texts & set(fields.values()) else fields


def _keyed_outputs(file: Lines) -> Outputs:
    texts: list[str] = []
    for record in _records(file):
        keys = record.values.keys()
        found = columns(keys, _there(file, keys), frozenset({"output"}), file.name, record.line)
        named = [column.key for column in found if column.role == "output"]
        if len(named) > 1:
            record.fail(f"{' and '.join(named)} are outputs", f"say which one: `fields` {named[0]}=output")
        text = record.text(named[0])
        if text is None:
            record.fail(f'"{named[0]}" is null, expected the output of the segment')
        texts.append(text)
    return Outputs({"": texts})


def _taken_in_keyed(key: str) -> bool:
    return role_of(key) not in {None, "output"}


def _keyed_lines(made: SetInColumns) -> Iterator[str]:
    for segment in made.segments:
        values = {**json_parts(segment, _taken_in_keyed), "references": [ref.text for ref in segment.originals]}
        if segment.extras:
            values["paraphrases"] = [ref.text for ref in segment.extras]
        yield json_line(values)


def _comet_lines(made: SetInColumns) -> Iterator[str]:
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


def _is_lists(name: str, start: Start) -> bool:
    inside = _inside_list(start)
    if not inside:
        return False
    lines = [as_list(line) for line in start.written]
    if all(map(is_texts, lines)) and (len(lines) > 1 or not unpacked(name).endswith(".json")) and any(lines):
        return True
    if not inside.startswith(("[", '"')):
        return unpacked(name).endswith(".jsonl") and all(line == [] for line in lines)
    whole = len(lines) == 1 and lines[0] is not None
    return whole or start.written[0].strip() == "[" or unpacked(name).endswith((".json", ".jsonl"))


def _list_segments(file: Lines) -> Iterator[Segment]:
    for position, (number, text) in enumerate(elements(file), 1):
        value = as_list(text) if text.lstrip().startswith("[") else try_json(text, str)
        value = [value] if isinstance(value, str) else value
        if not is_texts(value):
            raise DataError(
                "expected a list with the references of one segment, or one text", file=file.name, line=number
            )
        texts = [item for item in value or () if item is not None]
        for item in texts:
            if "\0" in item or any("\ud800" <= letter <= "\udfff" for letter in item):
                raise DataError("a NUL or half a surrogate pair, expected text", file=file.name, line=number)
        yield Segment(Place(position), tuple(Reference(item) for item in texts))


def _list_lines(made: SetInColumns) -> Iterator[str]:
    return (json_line([ref.text for ref in segment.refs]) for segment in made.segments)


KEYED: Final = Format(
    "json",
    _is_keyed,
    one_file_with_ids("json", _keyed_segments),
    _keyed_outputs,
    json=True,
    begins="{[",
    writing=Writing(frozenset({"names", "kinds", "logprob", "meta"}), _keyed_lines, taken=_taken_in_keyed),
)
LISTS: Final = Format(
    "lists",
    _is_lists,
    one_file("lists", _list_segments),
    json=True,
    begins="[",
    writing=Writing(
        ALL
        - {"several", "extras", "ragged", "none", "bare", "empty", "mark", "order"}
        - {"spaces", "lines", "returns", "tabs"},
        _list_lines,
    ),
)
#: For writing alone: it is read as :data:`KEYED`.
COMET: Final = Format(
    "comet",
    never,
    one_file_with_ids("json", _keyed_segments),
    json=True,
    suffixes=(".json",),
    writing=Writing(
        ALL
        - {"source", "none", "bare", "ragged", "empty", "mark", "order"}
        - {"bare sources", "spaces", "lines", "returns", "tabs"},
        _comet_lines,
    ),
)
