"""polyref's n-best lists: JSONL, ``{"id", "text", "paraphrases": [{"text", "score"}]}`` a sentence.

Read as references, a sentence is the reference and its list the paraphrases, unfiltered. Where references alone are
asked for, the lists are left out: what is in them becomes a reference by ``polyref augment --candidates``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Final

from polyref.errors import PolyrefWarning
from polyref.formats.base import Format, Lines, Opened, unique, without_blank_end
from polyref.json_files import Record
from polyref.segments import Place, Reference, Segment


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


def _open(files: Sequence[Lines]) -> Opened:
    (file,) = files
    return Opened(FORMAT.name, {}, unique(_segments(file), file.name))


def _segments(file: Lines) -> Iterator[tuple[int, Segment]]:
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
            yield number, _segment(Record(values, file.name, number), Place(position), whole=file.reading.whole)
    if left_out:
        said = f"its {left_out} n-best lists are left out: they are candidates, and not yet references"
        warnings.warn(f"{file.name}: {said}", PolyrefWarning, stacklevel=2)


def _segment(record: Record, default_id: str, *, whole: bool) -> Segment:
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


FORMAT: Final = Format("nbest", lambda name, first_line: False, _open)
