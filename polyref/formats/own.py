"""polyref's own forms: plain text, the normal form, the simple form and n-best lists."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, PolyrefWarning
from polyref.formats.base import Format, Lines, Opened, Outputs, first_object, unique, without_blank_end
from polyref.json_files import Record, check_depth
from polyref.references import KINDS, Place, Reference, Segment
from polyref.textfiles import check_parallel, display_name, write_atomically


def _open_plain(files: Sequence[Lines]) -> Opened:
    return Opened("plain", {}, _segments_plain(files))


def _segments_plain(files: Sequence[Lines]) -> Iterator[Segment]:
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


def _outputs_plain(file: Lines) -> Outputs:
    return Outputs({"": list(file.lines)})


PLAIN: Final = Format("plain", lambda name, first_line: True, _open_plain, _outputs_plain, several=True)


VERSION: Final = 1
_HEADER_KEYS = frozenset({"polyref", "meta"})
_SEGMENT_KEYS = frozenset({"id", "source", "doc", "lang", "refs"})
#: What no reader takes in a text.
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_REFERENCE_KEYS = frozenset({"text", "kind", "of", "rank", "weight", "logprob", "generator"})


def _matches_normal(name: str, first_line: str) -> bool:
    # Also takes JSONL that is broken or in no known form, to say what is wrong with it.
    return first_object(name, first_line) is not None


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
    segments = unique(_segments_normal(numbered, file.name), file.name)
    try:
        first = next(segments)
    except StopIteration:
        raise DataError("has a header, but no segments", file=file.name) from None
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
    return {**record.rest(_HEADER_KEYS), **(meta or {})}


def _segments_normal(numbered: Iterator[tuple[int, str]], file: str) -> Iterator[tuple[int, Segment]]:
    for position, (number, line) in enumerate(numbered, 1):
        yield number, parse_segment(Record.parse(line, file, number), Place(position))


def parse_segment(record: Record, default_id: str) -> Segment:
    """One line of the normal form."""
    items = record.items("refs")
    if items is None:
        record.fail('no key "refs"', remedy='expected {"id": ..., "refs": [{"text": ...}, ...]}')
    refs = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            record.fail(f'refs[{index}] is not an object, expected {{"text": ...}}')
        refs.append(
            _reference_normal(Record(item, record.file, record.line, f"{record.where}refs[{index}]: "), len(items))
        )
    return Segment(
        record.identifier(default_id),
        tuple(refs),
        record.text("source"),
        record.text("doc"),
        record.text("lang"),
        record.rest(_SEGMENT_KEYS),
    )


def _reference_normal(record: Record, siblings: int) -> Reference:
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
    return _dump({"polyref": VERSION, "meta": dict(meta)})


def segment_line(segment: Segment) -> str:
    """One segment in the normal form, with its line end. Keys without a value are left out."""
    return _dump(_values(segment))


def _values(segment: Segment) -> dict[str, Any]:
    values: dict[str, Any] = {"id": segment.id}
    values.update(_present(source=segment.source, doc=segment.doc, lang=segment.lang))
    values["refs"] = [_reference_values(ref) for ref in segment.refs]
    return {**segment.extra, **values} if _SEGMENT_KEYS & segment.extra.keys() else {**values, **segment.extra}


def _reference_values(ref: Reference) -> dict[str, Any]:
    values: dict[str, Any] = {"text": ref.text, "kind": ref.kind}
    values.update(_present(of=ref.of, rank=ref.rank, weight=ref.weight, logprob=ref.logprob, generator=ref.generator))
    return {**ref.extra, **values} if _REFERENCE_KEYS & ref.extra.keys() else {**values, **ref.extra}


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def checked(segments: Iterable[Segment], *, ids: bool = True) -> Iterator[Segment]:
    """The segments, if a file of them can be read again.

    Args:
        segments: The segments.
        ids: Whether the file holds their ids, which must differ.

    Raises:
        DataError: There are none, two have one id, or a text holds what no reader takes.
    """
    known: set[str] = set()
    for segment in segments:
        if ids and segment.id in known:
            raise DataError(f"two segments have the id {segment.id!r}", remedy="ids must be unique")
        known.add(segment.id)
        named = (("id", segment.id), ("source", segment.source), ("doc", segment.doc), ("lang", segment.lang))
        for name, text in (*named, *((f"refs[{place}]", ref.text) for place, ref in enumerate(segment.refs))):
            if text is not None and (found := _NO_TEXT.search(text)):
                what = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
                raise DataError(f"segment {segment.id!r}: {name} holds {what}, which is no text")
        yield segment
    if not known:
        raise DataError("the set has no segments", remedy="no file without any can be read")


def write_segments(segments: Iterable[Segment], meta: Mapping[str, Any], path: str | Path) -> None:
    """Write segments in the normal form, whole or not at all. Equal segments give equal bytes.

    Args:
        segments: In the order of the test set.
        meta: Provenance, for the header.
        path: The file; ``-`` is standard output, ``.gz`` is packed.

    Raises:
        DataError: The file cannot be written, or the set holds what no reader takes.
    """
    name = display_name(path)
    with write_atomically(path) as stream:
        where = "the header"
        try:
            stream.write(header_line(meta))
            for place, segment in enumerate(checked(segments), 2):
                where = f"segment {segment.id!r}"
                values = _values(segment)
                parse_segment(Record(values, name, place, f"{where}: "), segment.id)
                stream.write(line := _dump(values))
                check_depth(line, values)
        except DataError as error:
            raise DataError(error.message, file=name, remedy=error.remedy) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{where} cannot be written: {error}", file=name) from None


NORMAL: Final = Format("normal", _matches_normal, _open_normal)


_KEYS_simple = frozenset({"id", "reference", "paraphrases", "source", "doc", "lang"})


def _matches_simple(name: str, first_line: str) -> bool:
    values = first_object(name, first_line)
    return values is not None and "refs" not in values and not values.keys().isdisjoint({"reference", "paraphrases"})


def _open_simple(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened("simple", {}, unique(_segments_simple(file), file.name))


def _segments_simple(file: Lines) -> Iterator[tuple[int, Segment]]:
    for number, line in enumerate(file.lines, 1):
        record = Record.parse(line, file.name, number)
        yield number, _segment_simple(record, Place(number))


def _segment_simple(record: Record, default_id: str) -> Segment:
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
        record.rest(_KEYS_simple),
    )


SIMPLE: Final = Format("simple", _matches_simple, _open_simple)


def is_nbest(values: dict[str, object]) -> bool:
    """Whether an object is a line of such a file, or the one object that ``polyref paraphrase --json`` writes."""
    if values.keys() >= {"signature", "rows"}:
        return True
    found = values.get("paraphrases")
    return (
        "text" in values
        and "reference" not in values
        and isinstance(found, list)
        and all(isinstance(item, dict) for item in found)
    )


def _open_nbest(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(NBEST.name, {}, unique(_segments_nbest(file), file.name))


def _segments_nbest(file: Lines) -> Iterator[tuple[int, Segment]]:
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
            yield number, _segment_nbest(Record(values, file.name, number), Place(position), whole=file.reading.whole)
    if left_out:
        said = f"its {left_out} n-best lists are left out: they are candidates, and not yet references"
        warnings.warn(f"{file.name}: {said}", PolyrefWarning, stacklevel=2)


def _segment_nbest(record: Record, default_id: str, *, whole: bool) -> Segment:
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


NBEST: Final = Format("nbest", lambda name, first_line: False, _open_nbest)
