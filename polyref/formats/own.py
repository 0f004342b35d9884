"""polyref's own forms: plain text, the normal form, the simple form and n-best lists.

Plain text: one segment a line; several files are several human references per segment. The others are JSON lines:

- normal: a header, then ``{"id", "refs": [{"text", "kind", ...}]}`` a segment, with all that is known of references
- simple: ``{"id", "reference", "paraphrases": [...]}`` a segment
- n-best lists: ``{"id", "text", "paraphrases": [{"text", "score"}]}`` a sentence. Read as references, a sentence is the
  reference and its list the paraphrases, unfiltered. Where references alone are asked for, the lists are left out: what
  is in them becomes a reference by ``polyref augment --candidates``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from functools import partial
from itertools import chain, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, PolyrefWarning
from polyref.formats.base import (
    Format,
    Ids,
    Lines,
    Opened,
    Outputs,
    Start,
    object_in,
    one_file_with_ids,
    unique,
    unpacked,
    without_blank_end,
)
from polyref.formats.columns import ALL, Row, SetInColumns, Writing, counted, json_line, json_parts, padded, role_of
from polyref.formats.general_task import is_document, is_evaluation
from polyref.formats.metrics_task import is_item
from polyref.json_files import Record, check_depth
from polyref.publishing import write_atomically
from polyref.references import KINDS, Place, Reference, Segment
from polyref.textfiles import check_parallel, display_name

#: The version of the normal form.
VERSION: Final = 1
_KEYS: Final = frozenset({"polyref", "id", "refs", "reference", "paraphrases"})
#: A line that was meant to be one of our objects, even when it is broken further on.
_JSON_START: Final = re.compile(rf'\s*\{{\s*"({"|".join(sorted(_KEYS))})"\s*:')
_SEGMENT_KEYS: Final = frozenset({"id", "source", "doc", "lang", "refs"})
_REFERENCE_KEYS: Final = frozenset({"text", "kind", "of", "rank", "weight", "logprob", "generator"})
_SIMPLE_KEYS: Final = frozenset({"id", "reference", "paraphrases", "source", "doc", "lang"})
#: What no reader takes in a text.
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")


def _any_text(name: str, start: Start) -> bool:
    return True


def _open_plain(files: Sequence[Lines]) -> Opened:
    return Opened("plain", {}, _plain_segments(files))


def _plain_segments(files: Sequence[Lines]) -> Iterator[Segment]:
    counts = [0] * len(files)
    uneven = False
    for position, row in enumerate(zip_longest(*(file.lines for file in files)), 1):
        for column, line in enumerate(row):
            counts[column] += line is not None
        # Past the end of the shortest file, lines are only counted, so that the message can name both lengths.
        uneven = uneven or None in row
        if not uneven:
            # An empty line is a real, empty reference, not an absent one.
            yield Segment(Place(position), tuple(Reference(line) for line in row))
    check_parallel([(file.name, count) for file, count in zip(files, counts, strict=True)])


def _plain_outputs(file: Lines) -> Outputs:
    return Outputs({"": list(file.lines)})


def plain_files(made: SetInColumns) -> dict[str, Callable[[Segment, Row], str]]:
    """Column -> its line of a segment: every file has one for every segment."""
    return {column: partial(_line, column) for column in made.columns}


def _line(column: str, _: Segment, row: Row) -> str:
    return padded(column, row)


def _own_object(name: str, start: Start) -> dict[str, Any] | None:
    """The object that a file of polyref's own JSON lines begins with: ``{}`` where it is broken, None for others."""
    jsonl = unpacked(name).endswith((".jsonl", ".json"))
    values = object_in(start)
    if values is None:
        broken = jsonl or _JSON_START.match(start) is not None
        return {} if broken and not start.lstrip().startswith("[") else None
    ours = jsonl or not _KEYS.isdisjoint(values)
    return values if ours and not _of_others(values) else None


def _of_others(values: dict[str, Any]) -> bool:
    """Whether an object is of a form that is not polyref's, though a key may be called alike."""
    if is_document(values) or is_evaluation(values) or is_item(values):
        return True
    refs = values.get("refs")
    if "polyref" in values or (isinstance(refs, list) and (not refs or any(isinstance(item, dict) for item in refs))):
        return False
    if isinstance(values.get("reference"), str):
        return False
    others = values.keys() - {"id", "refs", "reference", "paraphrases"}
    if isinstance(values.get("paraphrases"), list):
        return any(role_of(key) == "reference" or key == "text" for key in others)
    return bool(others) or isinstance(refs, list)


def _is_normal(name: str, start: Start) -> bool:
    # Also JSON lines that are broken or in no known form: reading them says what is wrong.
    return _own_object(name, start) is not None


def _open_normal(files: Sequence[Lines]) -> Opened:
    (file,) = files
    numbered: Iterator[tuple[int, str]] = enumerate(file.lines, 1)
    number, line = next(numbered)
    record = Record.parse(line, file.name, number)
    meta: dict[str, Any] = {}
    if "polyref" in record.values:
        meta = _meta(record)
    else:
        numbered = chain([(number, line)], numbered)
    parsed = (
        (number, _segment(Record.parse(line, file.name, number), Place(place)))
        for place, (number, line) in enumerate(numbered, 1)
    )
    segments = unique(parsed, file.name)
    first = next(segments, None)
    if first is None:
        raise DataError("has a header, but no segments", file=file.name)
    return Opened("normal", meta, chain([first], segments))


def _meta(record: Record) -> dict[str, Any]:
    version = record.values["polyref"]
    if isinstance(version, bool) or not isinstance(version, int):
        record.fail(f'"polyref" is {json.dumps(version)}, expected the format version, {VERSION}')
    if version != VERSION:
        record.fail(f"format version {version}, expected {VERSION}", remedy="use a polyref that knows this version")
    meta = record.values.get("meta")
    if meta is not None and not isinstance(meta, dict):
        record.fail('"meta" is not an object')
    # Unknown keys are kept; "meta" is where everything about a set lives.
    return {**record.rest(frozenset({"polyref", "meta"})), **(meta or {})}


def _segment(record: Record, default_id: str) -> Segment:
    items = record.items("refs")
    if items is None:
        record.fail('no key "refs"', remedy='expected {"id": ..., "refs": [{"text": ...}, ...]}')
    refs = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            record.fail(f'refs[{index}] is not an object, expected {{"text": ...}}')
        refs.append(_reference(Record(item, record.file, record.line, f"{record.where}refs[{index}]: "), len(items)))
    return _with_parts(record, default_id, refs, _SEGMENT_KEYS)


def _with_parts(record: Record, default_id: str, refs: Sequence[Reference], known: frozenset[str]) -> Segment:
    """A segment of these references, with what else the record says of it."""
    return Segment(
        record.identifier(default_id),
        tuple(refs),
        record.text("source"),
        record.text("doc"),
        record.text("lang"),
        record.rest(known),
    )


def _reference(record: Record, siblings: int) -> Reference:
    text = record.text("text")
    if text is None:
        record.fail('no key "text"', remedy="an absent reference is left out of the list")
    kind = record.text("kind") or "human"
    if kind not in KINDS:
        record.fail(f'"kind" is {json.dumps(kind)}, expected one of {", ".join(KINDS)}')
    generator = record.text("generator")
    return Reference(
        text,
        sys.intern(kind),  # of the few kinds and generators there are, one text each for the whole set
        record.index("of", below=siblings),
        record.index("rank"),
        record.number("weight", minimum=0),
        record.number("logprob"),
        None if generator is None else sys.intern(generator),
        record.rest(_REFERENCE_KEYS),
    )


def header_line(meta: Mapping[str, Any]) -> str:
    """The first line of the normal form, with its line end."""
    return json_line({"polyref": VERSION, "meta": dict(meta)})


def segment_line(segment: Segment) -> str:
    """One segment in the normal form, with its line end. Keys without a value are left out."""
    return json_line(_segment_values(segment))


def _segment_values(segment: Segment) -> dict[str, Any]:
    values: dict[str, Any] = {"id": segment.id}
    values |= _present(source=segment.source, doc=segment.doc, lang=segment.lang)
    values["refs"] = [_reference_values(ref) for ref in segment.refs]
    return {**segment.extra, **values} if _SEGMENT_KEYS & segment.extra.keys() else {**values, **segment.extra}


def _reference_values(ref: Reference) -> dict[str, Any]:
    values: dict[str, Any] = {"text": ref.text, "kind": ref.kind}
    values |= _present(of=ref.of, rank=ref.rank, weight=ref.weight, logprob=ref.logprob, generator=ref.generator)
    return {**ref.extra, **values} if _REFERENCE_KEYS & ref.extra.keys() else {**values, **ref.extra}


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def checked(segments: Iterable[Segment], *, ids: bool = True) -> Iterator[Segment]:
    """The segments, if a file of them (and of their ``ids``, which must differ) can be read again."""
    known = Ids()
    number = 0
    for number, segment in enumerate(segments, 1):
        if ids and known.earlier(segment.id, number) is not None:
            raise DataError(f"two segments have the id {segment.id!r}", remedy="ids must be unique")
        named = (("id", segment.id), ("source", segment.source), ("doc", segment.doc), ("lang", segment.lang))
        for name, text in (*named, *((f"refs[{place}]", ref.text) for place, ref in enumerate(segment.refs))):
            if text is not None and (found := _NO_TEXT.search(text)):
                what = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
                raise DataError(f"segment {segment.id!r}: {name} holds {what}, which is no text")
        yield segment
    if not number:
        raise DataError("the set has no segments", remedy="no file without any can be read")


#: What a file says of a reference.
_FIELDS: Final = attrgetter(*(one.name for one in fields(Reference) if one.name != "added"))


class Spool(Sequence[Segment]):
    """Segments in a temporary file, 8 bytes of memory each.

    Args:
        stack: Closes the file, which then is no more.
        segments: Read to their end.
    """

    def __init__(self, stack: ExitStack, segments: Iterable[Segment] = ()) -> None:
        with temporary():
            self._stream = tempfile.TemporaryFile(prefix="polyref-")
        stack.callback(self._close)
        self._ends = array("q", [0])
        for segment in segments:
            self.add(segment)
        self.finish()

    def add(self, segment: Segment) -> None:
        """Put a segment behind the others."""
        refs = [_FIELDS(one) for one in segment.refs]
        row = [segment.id, refs, segment.source, segment.doc, segment.lang, segment.extra]
        with temporary():
            size = self._stream.write(json.dumps([isinstance(segment.id, Place), *row]).encode("ascii"))
        self._ends.append(self._ends[-1] + size)

    def finish(self) -> None:
        """What was added can be read."""
        with temporary():
            self._stream.flush()

    def _close(self) -> None:
        with suppress(OSError):  # what does not reach the disk was told when it was written
            self._stream.close()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, place: Any) -> Any:
        """The segment at a place, from 0."""
        start, end = self._ends[place], self._ends[place + 1]
        # Without a position of its own: whoever feeds an engine may read in another thread.
        is_place, name, refs, *rest = json.loads(os.pread(self._stream.fileno(), end - start, start))
        return Segment(Place(name) if is_place else name, tuple(Reference(*one) for one in refs), *rest)

    def __iter__(self) -> Iterator[Segment]:
        return map(self.__getitem__, range(len(self)))


@contextmanager
def temporary() -> Iterator[None]:
    """What cannot be written to a temporary file is one clear error."""
    try:
        yield
    except OSError as error:
        remedy = "make room, or name a folder that has some in the environment: TMPDIR"
        raise DataError(f"no temporary file can be written: {error.strerror or error}", remedy=remedy) from None


def write_segments(segments: Iterable[Segment], meta: Mapping[str, Any], path: str | Path) -> None:
    """Write segments in the normal form, whole or not at all. Equal segments give equal bytes."""
    name = display_name(path)
    with write_atomically(path) as stream:
        where = "the header"
        try:
            stream.write(header_line(meta))
            for place, segment in enumerate(checked(segments), 2):
                where = f"segment {segment.id!r}"
                values = _segment_values(segment)
                _segment(Record(values, name, place, f"{where}: "), segment.id)
                stream.write(line := json_line(values))
                check_depth(line, values)
        except DataError as error:
            raise DataError(error.message, file=name, remedy=error.remedy) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{where} cannot be written: {error}", file=name) from None


def lost_in_normal(segments: Iterable[Segment]) -> list[str]:
    """What the normal form cannot hold of segments: keys that are called as its own are."""
    count = refs = 0
    for one in segments:
        count += not _SEGMENT_KEYS.isdisjoint(one.extra)
        refs += sum(not _REFERENCE_KEYS.isdisjoint(ref.extra) for ref in one.refs)
    return [*filter(None, (counted("other keys", count, "segment"), counted("other keys", refs, "reference")))]


def _is_simple(name: str, start: Start) -> bool:
    values = _own_object(name, start)
    return values is not None and "refs" not in values and not values.keys().isdisjoint({"reference", "paraphrases"})


def _simple_segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    for number, line in enumerate(file.lines, 1):
        yield number, _simple_segment(Record.parse(line, file.name, number), Place(number))


def _simple_segment(record: Record, default_id: str) -> Segment:
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
    return _with_parts(record, default_id, refs, _SIMPLE_KEYS)


def _taken_in_simple(key: str) -> bool:
    return key == "polyref" or role_of(key) not in {None, "output"}


def _simple_lines(made: SetInColumns) -> Iterator[str]:
    for segment in made.segments:
        values = json_parts(segment, _taken_in_simple)
        if segment.originals:
            values["reference"] = segment.originals[0].text
        yield json_line({**values, "paraphrases": [ref.text for ref in segment.extras]})


def _is_nbest(name: str, start: Start) -> bool:
    """A line of such a file, or the one object that ``polyref paraphrase --json`` writes."""
    values = object_in(start) or {}
    if values.keys() >= {"signature", "rows"}:
        return True
    found = values.get("paraphrases")
    listed = isinstance(found, list) and all(isinstance(item, dict) for item in found)
    return listed and "text" in values and "reference" not in values


def _nbest_segments(file: Lines) -> Iterator[tuple[int, Segment]]:
    position = 0
    left_out = 0
    for number, line in without_blank_end(file):
        record = Record.parse(line, file.name, number)
        rows = record.items("rows") if "rows" in record.values else [record.values]
        for values in rows or ():
            position += 1
            if not isinstance(values, dict):
                record.fail('"rows" holds something else than objects')
            left_out += not file.reading.whole and bool(values.get("paraphrases"))
            own = Record(values, file.name, number)
            yield number, _nbest_segment(own, Place(position), whole=file.reading.whole)
    if left_out:
        said = f"its {left_out} n-best lists are left out: they are candidates, and not yet references"
        warnings.warn(f"{file.name}: {said}", PolyrefWarning, stacklevel=2)


def _nbest_segment(record: Record, default_id: str, *, whole: bool) -> Segment:
    text = record.text("text")
    if text is None:
        record.fail('no key "text"', remedy='expected {"id": ..., "text": ..., "paraphrases": [{"text": ...}, ...]}')
    refs = [Reference(text)]
    for rank, item in enumerate(record.items("paraphrases") or () if whole else ()):
        where = f"paraphrases[{rank}]: "
        if not isinstance(item, dict):
            record.fail(f"{where}not an object")
        own = Record(item, record.file, record.line, where)
        found = own.text("text")
        if found is None:
            own.fail('no key "text"')
        refs.append(Reference(found, "paraphrase", of=0, rank=rank, logprob=own.number("score")))
    return Segment(record.identifier(default_id), tuple(refs))


def _nbest_lines(made: SetInColumns) -> Iterator[str]:
    for segment in made.segments:
        text = segment.originals[0].text if segment.originals else ""
        found = [
            {"text": ref.text} if ref.logprob is None else {"text": ref.text, "score": ref.logprob}
            for ref in segment.extras
        ]
        yield json_line({"id": segment.id, "text": text, "paraphrases": found})


PLAIN: Final = Format(
    "plain",
    _any_text,
    _open_plain,
    _plain_outputs,
    several=True,
    writing=Writing(ALL - {"several", "extras", "returns", "tabs", "spaces", "empty", "mark", "bare"}),
)
NORMAL: Final = Format(
    "normal", _is_normal, _open_normal, json=True, suffixes=(".jsonl",), writing=Writing(frozenset())
)
SIMPLE: Final = Format(
    "simple",
    _is_simple,
    one_file_with_ids("simple", _simple_segments),
    json=True,
    writing=Writing(frozenset({"several", "names", "kinds", "logprob", "meta"}), _simple_lines, taken=_taken_in_simple),
)
NBEST: Final = Format(
    "nbest",
    _is_nbest,
    one_file_with_ids("nbest", _nbest_segments),
    json=True,
    begins="{",
    writing=Writing(
        frozenset({"none", "bare", "source", "doc", "lang", "several", "names", "kinds", "keys", "meta"}), _nbest_lines
    ),
)
