"""Direct assessments of outputs: DA and DA+SQM (2020 to 2023) and ESA (2024), in the files that WMT publishes.

All give scores of 0 to 100 by annotators whose scales differ, so scores are standardised within each annotator and then
averaged over the annotators of an output. Segments are named by document: the evaluation set must have its documents.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyref.eval.data.languages import target_language
from polyref.eval.data.score_files import (
    JUDGEMENT_RULE,
    FloatArray,
    numbered_lines,
    parse_score,
    shortened,
    whole_number,
)
from polyref.eval.judgements.base import GoldReader, Judgements, Matcher, Place
from polyref.json_files import parse_json
from polyref.languages import base
from polyref.textfiles import iter_lines

#: Appraise's exports: user, system, segment, type, source, target, score, document, whether the score is of the whole
#: document, [spans,] start, end.
DA_FIELDS: Final = 11
ESA_FIELDS: Final = 12
#: Types of rows that judge an output; others check the annotator (spoilt outputs, repetitions).
JUDGED: Final = frozenset({"TGT", "REF"})
_TYPES: Final = JUDGED | {"BAD", "CHK", "BAD.REF"}
#: What follows # in the names of documents that only fill up an annotator's work; WMT24 counts neither.
_FILLING: Final = ("dup", "incomplete")
#: Appraise names languages by ISO 639-3, with or without a region, and some by the older codes of libraries.
_OF_LIBRARIES: Final = {
    "alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr",
    "geo": "ka", "ger": "de", "gre": "el", "ice": "is", "mac": "mk", "mao": "mi", "may": "ms", "per": "fa",
    "rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy",
}  # fmt: skip
_TABLE: Final = ("SYS", "SEGID", "RAW.SCR", "Z.SCR", "N", "SID")


@dataclass(frozen=True)
class Judgement:
    """One annotator's score of one output."""

    annotator: str
    system: str
    segment: int
    score: float


def read_direct(path: str | Path, place: Place) -> Judgements:
    """Read direct assessments in any of the forms of docs/how-to/add-judgements.md, told apart by their content.

    Passed over are tutorials, documents that only fill up an annotator's work (``#dup``, ``#incomplete``), and what was
    recorded twice, as WMT24's own scripts do, and scores of whole documents.

    Returns:
        The judgement ``da-z`` or ``esa-z`` with standardised scores.
    """
    matcher = Matcher(path, place)
    first = next(iter(iter_lines(path)), "")
    if first.lstrip().startswith("{"):
        name, scores = "esa-z", standardised(list(_dump(matcher)), place.segments)
    elif tuple(first.split()) == _TABLE:
        name, scores = "da-z", _table(matcher)
    elif first.split()[:2] == ["SYS", "SID"]:
        raise matcher.fault(
            "segments are numbered with the documents in another order (SID), which is not the line",
            1,
            "use the metrics-ad-seg-scores file, which names document and segment",
        )
    else:
        rows = list(_csv(matcher))
        width = len(rows[0][1]) if rows else 0
        if width not in {DA_FIELDS, ESA_FIELDS}:
            raise matcher.fault(
                f"{width} comma-separated fields, expected {DA_FIELDS} (DA, DA+SQM) or {ESA_FIELDS} (ESA), no header",
                1,
            )
        judged = _judged(rows, width, matcher)
        found = _assessments(judged, matcher) if width == DA_FIELDS else _annotations(judged, matcher)
        name, scores = "da-z" if width == DA_FIELDS else "esa-z", standardised(list(found), place.segments)
    return Judgements(name, scores, notes=matcher.notes())


def standardised(judgements: Sequence[Judgement], segments: int) -> dict[str, FloatArray]:
    """Scores minus their annotator's mean, over the standard deviation (n - 1), averaged over annotators.

    An annotator with one score, or with all alike, says nothing about differences: those become 0.
    """
    by_annotator: dict[str, list[float]] = {}
    for one in judgements:
        by_annotator.setdefault(one.annotator, []).append(one.score)
    scale = {}
    for annotator, scores in by_annotator.items():
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((s - mean) ** 2 for s in scores) / (len(scores) - 1)) if len(scores) > 1 else 0.0
        scale[annotator] = (mean, spread)
    cells: dict[tuple[str, int], list[float]] = {}
    for one in judgements:
        mean, spread = scale[one.annotator]
        cells.setdefault((one.system, one.segment), []).append((one.score - mean) / spread if spread else 0.0)
    result = {system: np.full(segments, np.nan) for system in dict.fromkeys(one.system for one in judgements)}
    for (system, segment), values in cells.items():
        result[system][segment] = math.fsum(values) / len(values)
    return result


def _judged(rows: Sequence[tuple[int, list[str]]], width: int, matcher: Matcher) -> list[tuple[int, list[str]]]:
    """The rows of Appraise that judge an output in the language pair of the set."""
    place, wanted = matcher.place, _plain_pair(matcher.place.pair)
    pairs: set[str] = set()
    kept = []
    for number, row in rows:
        if len(row) != width:
            raise matcher.fault(f"{len(row)} comma-separated fields, expected {width}", number)
        _, system, _, kind, source, target, _, document, whole = row[:9]
        if kind not in _TYPES:
            raise matcher.fault(f"field 4 is {shortened(kind)}, expected one of {', '.join(sorted(_TYPES))}", number)
        pair = f"{_language(source)}-{_language(target)}"
        pairs.add(pair)
        if pair != wanted or kind not in JUDGED:
            continue
        if whole not in {"True", "False"}:
            raise matcher.fault(f"field 9 is {shortened(whole)}, expected True or False", number)
        if "tutorial" in system:
            matcher.pass_over("rows of tutorials")
        elif document.partition("#")[2].startswith(_FILLING):
            matcher.pass_over("rows of documents that fill up an annotator's work (#dup, #incomplete)")
        elif whole == "True":
            matcher.pass_over("scores of whole documents")
        else:
            kept.append((number, row))
    if not kept and wanted in pairs:
        checks = ", ".join(sorted(_TYPES - JUDGED))
        raise matcher.fault(f"judges nothing of {place.pair}: its lines only check annotators ({checks})", None)
    if not kept:
        raise matcher.fault(f"judges nothing of {place.pair}, only {', '.join(sorted(pairs)) or 'nothing'}", None)
    return kept


def _assessments(rows: Sequence[tuple[int, list[str]]], matcher: Matcher) -> Iterator[Judgement]:
    """DA: field 3 counts the segments of the document from 1."""
    seen: set[tuple[str, ...]] = set()
    for number, row in rows:
        if tuple(row) in seen:
            matcher.pass_over("rows that repeat another one")
            continue
        seen.add(tuple(row))
        at = matcher.cell(row[7], row[2], number)
        yield Judgement(row[0], matcher.system(row[1]), at, _score(row[6], matcher, number))


def _annotations(rows: Sequence[tuple[int, list[str]]], matcher: Matcher) -> Iterator[Judgement]:
    """ESA: field 3 is the line of the set from 0, with the canary line first, which the set may lack."""
    documents = matcher.place.documents
    if documents is None:
        raise matcher.fault(
            "names segments by line and document, but the evaluation set has no documents",
            None,
            f"add documents/{matcher.place.pair}.docs",
        )
    lines = []
    for number, row in rows:
        line = whole_number(row[2])
        if line is None:
            raise matcher.fault(f"segment {shortened(row[2])}, expected a line of the set, counted from 0", number)
        lines.append(line)

    def fits(line: int, row: list[str], start: int) -> bool:
        return 0 <= line - start < len(documents) and documents[line - start] == row[7]

    fitting = [sum(fits(n, row, start) for n, (_, row) in zip(lines, rows, strict=True)) for start in (0, 1)]
    start = 0 if fitting[0] >= fitting[1] else 1
    latest: dict[tuple[str, str, int], tuple[float, float]] = {}
    for line, (number, row) in zip(lines, rows, strict=True):
        if not fits(line, row, start):
            if row[7] not in documents:
                raise matcher.fault(f"the set has no document {shortened(row[7])}", number)
            raise matcher.fault(
                f"line {line} (from 0, after the canary line) is not in the document {shortened(row[7])} of the set",
                number,
            )
        key = (row[0], matcher.system(row[1]), line - start)
        ended = parse_score(row[-1], matcher.path, number, rule="field 12 is the time at which it was given")
        score = _score(row[6], matcher, number)
        if key in latest:
            matcher.pass_over("scores that their annotator gave anew")
        if key not in latest or ended >= latest[key][0]:
            latest[key] = (ended, score)
    for (annotator, system, segment), (_, score) in latest.items():
        yield Judgement(annotator, system, segment, score)


def _dump(matcher: Matcher) -> Iterator[Judgement]:
    """ESA as JSON lines; ``line_id`` counts from 0 or 1, which the sources decide."""
    source, pair = matcher.place.source, matcher.place.pair
    if source is None:
        raise matcher.fault("needs the sources of the evaluation set to find the lines", None)
    rows = [(n, parse_json(line, matcher.path, n, finite=False)) for n, line in numbered_lines(matcher.path)]
    here = [(number, row) for number, row in rows if _plain_pair(str(row.get("langs", ""))) == _plain_pair(pair)]
    if not here:
        raise matcher.fault(f"judges nothing of {pair}", None)
    start = 0 if all(_at(source, row, 0) for _, row in here) else 1
    seen: set[str] = set()
    for number, row in here:
        if not _at(source, row, start):
            found = shortened(str(row.get("line_id")))
            raise matcher.fault(f"the text of line_id {found} is not that of the set's sources", number)
        key = json.dumps(row, sort_keys=True)
        if key in seen:
            matcher.pass_over("lines that repeat another one")
            continue
        seen.add(key)
        system = matcher.system(str(row.get("system")))
        if row.get("esa_score") is None:
            missing = "is null" if "esa_score" in row else "is not there"
            raise matcher.fault(f"esa_score {missing}, but {JUDGEMENT_RULE}", number)
        score = _score(str(row["esa_score"]), matcher, number)
        yield Judgement(str(row.get("annotator")), system, row["line_id"] - start, score)


def _table(matcher: Matcher) -> dict[str, FloatArray]:
    """WMT20's and WMT21's table, in which scores are standardised and averaged already."""
    scores: dict[str, FloatArray] = {}
    for number, line in numbered_lines(matcher.path):
        if number == 1:
            continue
        fields = line.split()
        if len(fields) != len(_TABLE):
            raise matcher.fault(f"{len(fields)} columns, expected {len(_TABLE)}: {' '.join(_TABLE)}", number)
        document, _, segment = fields[1].rpartition("::")
        at = matcher.cell(document, segment, number)
        own = scores.setdefault(matcher.system(fields[0]), np.full(matcher.place.segments, np.nan))
        if not np.isnan(own[at]):
            raise matcher.fault(f"{fields[0]!r} has a second score of {fields[1]}", number)
        own[at] = parse_score(fields[3], matcher.path, number, rule=JUDGEMENT_RULE)
    return scores


def _score(text: str, matcher: Matcher, number: int) -> float:
    score = parse_score(text, matcher.path, number, rule=JUDGEMENT_RULE)
    if not 0 <= score <= 100:
        raise matcher.fault(f"the score is {text}, expected 0 to 100", number)
    return score


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


def _at(source: Sequence[str], row: Mapping[str, Any], start: int) -> bool:
    position = row.get("line_id")
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position - start < len(source):
        return False
    return str(row.get("src", "")).split() == source[position - start].split()


def _plain_pair(langs: str) -> str:
    return f"{_language(langs)}-{_language(target_language(langs))}"


def _language(code: str) -> str:
    short = base(code)
    return _OF_LIBRARIES.get(short, short)


READER: Final = GoldReader("da", read_direct)
