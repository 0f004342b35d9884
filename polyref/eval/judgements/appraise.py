"""Appraise's exports: CSV without a header, a judgement a line.

Fields: user, system, segment, type, source, target, score, [document, whether the score is of the whole document,]
[spans,] start, end. There are three widths: with documents (DA, DA+SQM), with spans too (ESA), and with neither.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from polyref.eval.data.languages import target_language
from polyref.eval.data.score_files import JUDGEMENT_RULE, parse_score, shortened, whole_number
from polyref.eval.judgements.base import Matcher, NothingHereError, those_that_judge
from polyref.languages import base
from polyref.textfiles import iter_lines

DA_FIELDS: Final = 11
ESA_FIELDS: Final = 12
#: Of WMT22's judgements of single segments, Livonian with a reference and with a source.
LINE_FIELDS: Final = 9
#: Types of rows that judge an output; others check the annotator (spoilt outputs, repetitions).
JUDGED: Final = frozenset({"TGT", "REF"})
_TYPES: Final = JUDGED | {"BAD", "CHK", "BAD.REF"}
#: What follows # in the names of documents that only fill up an annotator's work; WMT24 counts neither.
_FILLING: Final = ("dup", "incomplete")
#: Raw exports name a part of a document by its segments, ``DOC#9-19``, or by the number of ten of them, ``DOC.0``; what
#: they number are the items of the part from 0 (reassign-segids.py of WMT22).
_PART: Final = re.compile(r"(.+)(?:#(\d{1,9})-(\d{1,9})|\.(\d{1,9}))")
_PART_SEGMENTS: Final = 10
#: Systems called by the file of their outputs: ``generaltest2022.en-liv.hyp.SYSTEM.liv.txt``, ``...ref.A.liv.txt``.
_OUTPUTS: Final = re.compile(r"[^.]+\.[a-zA-Z_]+-[a-zA-Z_]+\.(hyp|ref)\.(.+?)\.[a-zA-Z_]+(?:\.txt)?")
#: Appraise names languages by ISO 639-3, with or without a region, and some by the older codes of libraries.
_OF_LIBRARIES: Final = {
    "alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr",
    "geo": "ka", "ger": "de", "gre": "el", "ice": "is", "mac": "mk", "mao": "mi", "may": "ms", "per": "fa",
    "rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy",
}  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """One annotator's score of one output, and the time at which it was given where that counts."""

    annotator: str
    system: str
    segment: int
    score: float
    ended: float | None = None


_Rows: TypeAlias = list[tuple[int, list[str]]]


def read_exports(matchers: Sequence[Matcher]) -> tuple[str, list[tuple[Matcher, list[Judgement]]], list[str]]:
    """What the exports of one campaign judge: ``da-z`` or ``esa-z``, the judgements of every file, and notes."""
    read = [list(_csv(matcher)) for matcher in matchers]
    widths = [len(rows[0][1]) if rows else 0 for rows in read]
    for matcher, rows, width in zip(matchers, read, widths, strict=True):
        if width not in {DA_FIELDS, ESA_FIELDS, LINE_FIELDS}:
            first = ",".join(rows[0][1]) if rows else ""
            raise matcher.fault(
                f"{width} comma-separated fields, expected {DA_FIELDS} (DA, DA+SQM), {ESA_FIELDS} (ESA) or "
                f"{LINE_FIELDS} (without documents), no header",
                1,
                f"the first line is {shortened(first)}" if first else None,
            )
        if width != widths[0]:
            raise matcher.fault(f"{width} comma-separated fields, and {matchers[0].path} has {widths[0]}", 1)
    rows_of = dict(zip(matchers, read, strict=True))
    files, notes = those_that_judge(matchers, lambda matcher: _judged(rows_of[matcher], widths[0], matcher))
    if widths[0] == ESA_FIELDS:
        return "esa-z", _annotations(files), notes
    # Numbers from 0 show in one of the files.
    first_item = 0 if any(whole_number(row[2]) == 0 for _, rows in files for _, row in rows) else 1
    seen: set[tuple[str, ...]] = set()
    found = [(matcher, list(_assessments(rows, matcher, first_item, seen))) for matcher, rows in files]
    return "da-z", found, notes


def plain_pair(langs: str) -> str:
    """A language pair without regions and scripts, for comparisons: ``en-zh`` of ``eng-zho_Hans``."""
    return f"{_language(langs)}-{_language(target_language(langs))}"


def assessed(text: str, matcher: Matcher, number: int) -> float:
    """A score on the scale of direct assessments."""
    score = parse_score(text, matcher.path, number, rule=JUDGEMENT_RULE)
    if not 0 <= score <= 100:
        raise matcher.fault(f"the score is {text}, expected 0 to 100", number)
    return score


def _judged(rows: _Rows, width: int, matcher: Matcher) -> _Rows:
    """The rows that judge an output in the language pair of the set."""
    place, wanted = matcher.place, plain_pair(matcher.place.pair)
    pairs: set[str] = set()
    kept = []
    for number, row in rows:
        if len(row) != width:
            raise matcher.fault(f"{len(row)} comma-separated fields, expected {width}", number)
        _, system, _, kind, source, target, _ = row[:7]
        if kind not in _TYPES:
            raise matcher.fault(f"field 4 is {shortened(kind)}, expected one of {', '.join(sorted(_TYPES))}", number)
        pair = f"{_language(source)}-{_language(target)}"
        pairs.add(pair)
        if pair != wanted or kind not in JUDGED:
            continue
        document, whole = ("", "False") if width == LINE_FIELDS else row[7:9]
        if whole not in {"True", "False"}:
            raise matcher.fault(f"field 9 is {shortened(whole)}, expected True or False", number)
        if "tutorial" in system:
            matcher.pass_over("rows of tutorials")
        elif any(mark.startswith(_FILLING) for mark in document.split("#")[1:]):
            matcher.pass_over("rows of documents that fill up an annotator's work (#dup, #incomplete)")
        elif whole == "True":
            matcher.pass_over("scores of whole documents")
        else:
            kept.append((number, row))
    if not kept and wanted in pairs:
        checks = ", ".join(sorted(_TYPES - JUDGED))
        raise matcher.fault(f"judges nothing of {place.pair}: its lines only check annotators ({checks})", None)
    if not kept:
        raise NothingHereError(
            f"judges nothing of {place.pair}, only {', '.join(sorted(pairs)) or 'nothing'}", file=matcher.path
        )
    return kept


def _assessments(rows: _Rows, matcher: Matcher, first: int, seen: set[tuple[str, ...]]) -> Iterator[Judgement]:
    """DA: field 3 counts the segments of the document, or of the set where no document is named."""
    for number, row in rows:
        if tuple(row) in seen:
            matcher.pass_over("rows that repeat another one")
            continue
        seen.add(tuple(row))
        if len(row) == LINE_FIELDS:
            at = matcher.segment(row[2], number, first=first)
        else:
            at = _cell(row[7], row[2], first, matcher, number)
        yield Judgement(row[0], _system(row[1], matcher), at, assessed(row[6], matcher, number))


def _cell(document: str, item: str, first: int, matcher: Matcher, number: int) -> int:
    """The segment of a document, or of a part of it that a raw export names."""
    index, part = matcher.place.index, _PART.fullmatch(document)
    if document in index or part is None or part[1] not in index:
        return matcher.cell(document, item, number, first)
    if part[4]:
        start, end = int(part[4]) * _PART_SEGMENTS, (int(part[4]) + 1) * _PART_SEGMENTS - 1
    else:
        start, end = int(part[2]) - 1, int(part[3]) - 1
    inside = matcher.segment(item, number, end - start + 1, first=0)
    return matcher.cell(part[1], str(start + inside), number, first=0)


def _system(name: str, matcher: Matcher) -> str:
    outputs = _OUTPUTS.fullmatch(name)
    if outputs and not matcher.has(name):
        name = outputs[2] if outputs[1] == "hyp" else f"ref-{outputs[2]}"
    return matcher.system(name)


def _annotations(files: Sequence[tuple[Matcher, _Rows]]) -> list[tuple[Matcher, list[Judgement]]]:
    """ESA: field 3 is the line of the set from 0, with the canary line first, which the set may lack."""
    documents = files[0][0].place.documents
    if documents is None:
        raise files[0][0].fault(
            "names segments by line and document, but the evaluation set has no documents",
            None,
            f"add documents/{files[0][0].place.pair}.docs",
        )
    lines = {}
    for matcher, rows in files:
        for number, row in rows:
            line = whole_number(row[2])
            if line is None:
                raise matcher.fault(f"segment {shortened(row[2])}, expected a line of the set, counted from 0", number)
            lines[matcher, number] = line

    def fits(line: int, row: list[str], start: int) -> bool:
        return 0 <= line - start < len(documents) and documents[line - start] == row[7]

    fitting = [sum(fits(lines[m, n], row, start) for m, rows in files for n, row in rows) for start in (0, 1)]
    start = 0 if fitting[0] >= fitting[1] else 1
    found = []
    for matcher, rows in files:
        own = []
        for number, row in rows:
            line = lines[matcher, number]
            if not fits(line, row, start):
                if row[7] not in documents:
                    raise matcher.fault(f"the set has no document {shortened(row[7])}", number)
                raise matcher.fault(
                    f"line {line} (from 0, after the canary line) is not in the document {shortened(row[7])} of the "
                    "set",
                    number,
                )
            system = matcher.system(row[1])
            ended = parse_score(row[-1], matcher.path, number, rule="field 12 is the time at which it was given")
            own.append(Judgement(row[0], system, line - start, assessed(row[6], matcher, number), ended))
        found.append((matcher, own))
    return found


def _csv(matcher: Matcher) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their last line; blank lines are none."""
    reader = csv.reader(_ended(iter_lines(matcher.path)), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise matcher.fault(f"broken CSV: {error}", reader.line_num) from None


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (line + "\n" for line in lines)


def _language(code: str) -> str:
    short = base(code)
    return _OF_LIBRARIES.get(short, short)
