"""Direct assessments of outputs: DA and DA+SQM (2020 to 2023) and ESA (2024), in the files that WMT publishes.

All give scores of 0 to 100 by annotators whose scales differ, so scores are standardised within each annotator and then
averaged over the annotators of an output. Segments are named by document: the evaluation set must have its documents.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np

from polyref.eval.data.score_files import (
    JUDGEMENT_RULE,
    FloatArray,
    numbered_lines,
    parse_score,
    shortened,
    table_rows,
    whole_number,
)
from polyref.eval.judgements.base import (
    LARGEST_SCORE,
    GoldReader,
    Judgements,
    Matcher,
    NothingHereError,
    Place,
    those_that_judge,
)
from polyref.json_files import parse_json
from polyref.languages import base, target_language
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
_CODES: Final = """
alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is mac:mk mao:mi may:ms per:fa rum:ro
slo:sk tib:bo wel:cy
"""
_OF_LIBRARIES: Final = dict(pair.split(":") for pair in _CODES.split())


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
    """What the exports of one campaign judge: ``da-z`` or ``esa-z``, the judgements of every file, and notes.

    An export is CSV without a header: user, system, segment, type, source, target, score, [document, whether the score
    is of the whole document,] [spans,] start, end. There are three widths: with documents (DA, DA+SQM), with spans too
    (ESA), and with neither.
    """
    read = {matcher: list(_csv(matcher)) for matcher in matchers}
    widths = [len(rows[0][1]) if rows else 0 for rows in read.values()]
    for (matcher, rows), width in zip(read.items(), widths, strict=True):
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
    files, notes = those_that_judge(matchers, lambda matcher: _judged(read[matcher], widths[0], matcher))
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
    documents = _documents(files[0][0], "names segments by line and document, but the evaluation set has no documents")
    every = [(matcher, number, _line(matcher, number, row), row) for matcher, rows in files for number, row in rows]

    def fits(line: int, row: list[str], start: int) -> bool:
        return 0 <= line - start < len(documents) and documents[line - start] == row[7]

    # Most fit where the count begins.
    start = max((0, 1), key=lambda start: sum(fits(line, row, start) for _, _, line, row in every))
    found: dict[Matcher, list[Judgement]] = {matcher: [] for matcher, _ in files}
    for matcher, number, line, row in every:
        if not fits(line, row, start):
            named = f"document {shortened(row[7])}"
            if row[7] not in documents:
                raise matcher.fault(f"the set has no {named}", number)
            raise matcher.fault(f"line {line} (from 0, after the canary line) is not in the {named} of the set", number)
        system = matcher.system(row[1])
        ended = parse_score(row[-1], matcher.path, number, rule="field 12 is the time at which it was given")
        found[matcher].append(Judgement(row[0], system, line - start, assessed(row[6], matcher, number), ended))
    return list(found.items())


def _line(matcher: Matcher, number: int, row: list[str]) -> int:
    line = whole_number(row[2])
    if line is None:
        raise matcher.fault(f"segment {shortened(row[2])}, expected a line of the set, counted from 0", number)
    return line


def _documents(matcher: Matcher, fault: str) -> Sequence[str]:
    """The document of every segment of the set, which the file cannot be read without."""
    if matcher.place.documents is None:
        raise matcher.fault(fault, None, f"add documents/{matcher.place.pair}.docs")
    return matcher.place.documents


def _csv(matcher: Matcher) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their last line; blank lines are none."""
    reader = csv.reader((line + "\n" for line in iter_lines(matcher.path)), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise matcher.fault(f"broken CSV: {error}", reader.line_num) from None


def _language(code: str) -> str:
    short = base(code)
    return _OF_LIBRARIES.get(short, short)


_TABLE: Final = "SYS SEGID RAW.SCR Z.SCR N SID"
#: Judgements of the annotators who passed the checks, standardised (``ad-LP-good-stnd.csv``, ``...-redup.csv``).
_LIST: Final = "HITId WorkerId Input.src Input.trg Input.item hit sys_id rid type sid score time"
#: Types of rows of such a list that judge an output, once and again; references and spoilt ones check the annotator.
_LISTED: Final = frozenset({"SYSTEM", "REPEAT"})
_LIST_CHECKS: Final = frozenset({"REF", "BAD_REF"})
#: Forms of files, as messages call them.
_EXPORT: Final = "an export of Appraise"
_LINES: Final = "ESA as JSON lines"
_AVERAGES: Final = "a table of averages"
_STANDING: Final = "a list of judgements of good standing"
#: In which scores are standardised already.
_STANDARD: Final = frozenset({_AVERAGES, _STANDING})


def read_direct(paths: str | Path | Sequence[str | Path], place: Place) -> Judgements:
    """Read direct assessments in any of the forms of docs/how-to/add-judgements.md, told apart by their content.

    Several files are read as one, such as the waves of a campaign: an annotator has one scale in all of them.

    Passed over are tutorials, documents that only fill up an annotator's work (``#dup``, ``#incomplete``), and what was
    recorded twice, as WMT24's own scripts do, and scores of whole documents.

    Returns:
        The judgement ``da-z`` or ``esa-z`` with standardised scores.
    """
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    matchers = [Matcher(path, place) for path in paths]
    forms = [_form(matcher) for matcher in matchers]
    for matcher, form in zip(matchers, forms, strict=True):
        if form != forms[0]:
            raise matcher.fault(f"is {form}, and {matchers[0].path} is {forms[0]}", None, "give them apart")
    if forms[0] == _EXPORT:
        name, found, notes = read_exports(matchers)
    else:
        name = "esa-z" if forms[0] == _LINES else "da-z"
        found, notes = those_that_judge(matchers, lambda matcher: list(_READERS[forms[0]](matcher)))
    kept = _latest(found) if name == "esa-z" else [one for _, judgements in found for one in judgements]
    scores = (averaged if forms[0] in _STANDARD else standardised)(kept, place.segments)
    return Judgements(name, scores, notes=(*(note for matcher, _ in found for note in matcher.notes()), *notes))


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

    def moved(one: Judgement) -> Judgement:
        mean, spread = scale[one.annotator]
        return replace(one, score=(one.score - mean) / spread if spread else 0.0)

    return averaged([moved(one) for one in judgements], segments)


def averaged(
    judgements: Sequence[Judgement], segments: int, mean: Callable[[Sequence[float]], float] = fmean
) -> dict[str, FloatArray]:
    """The mean score of every output, whoever gave it; NaN where nobody did."""
    cells: dict[tuple[str, int], list[float]] = {}
    for one in judgements:
        cells.setdefault((one.system, one.segment), []).append(one.score)
    result = {system: np.full(segments, np.nan) for system in dict.fromkeys(one.system for one in judgements)}
    for (system, segment), values in cells.items():
        result[system][segment] = mean(values)
    return result


def _form(matcher: Matcher) -> str:
    """Which form a file has, by its first line."""
    first = next(iter(iter_lines(matcher.path)), "")
    columns = first.split()
    if columns[:2] == ["SYS", "SID"]:
        raise matcher.fault(
            "segments are numbered with the documents in another order (SID), which is not the line",
            1,
            "use the metrics-ad-seg-scores file, which names document and segment, or the list of judgements that it "
            "was made from (ad-...-good-stnd.csv)",
        )
    if first.lstrip().startswith("{"):
        return _LINES
    return {_TABLE: _AVERAGES, _LIST: _STANDING}.get(" ".join(columns), _EXPORT)


def _latest(found: Sequence[tuple[Matcher, list[Judgement]]]) -> list[Judgement]:
    """Of scores that an annotator gave an output more than once, the last one, where files say when it was given."""
    untimed: list[Judgement] = []
    latest: dict[tuple[str, str, int], tuple[float, Judgement]] = {}
    for matcher, judgements in found:
        for one in judgements:
            key = (one.annotator, one.system, one.segment)
            if one.ended is None:
                untimed.append(one)
                continue
            if key in latest:
                matcher.pass_over("scores that their annotator gave anew")
            if key not in latest or one.ended >= latest[key][0]:
                latest[key] = one.ended, one
    return [*untimed, *(one for _, one in latest.values())]


def _dump(matcher: Matcher) -> Iterator[Judgement]:
    """ESA as JSON lines; ``line_id`` counts from 0 or 1, which the sources decide."""
    source, pair = matcher.place.source, matcher.place.pair
    if source is None:
        raise matcher.fault("needs the sources of the evaluation set to find the lines", None)
    rows = [(n, parse_json(line, matcher.path, n, finite=False)) for n, line in numbered_lines(matcher.path)]
    if rows and {"annotation", "item"} <= rows[0][1].keys():
        raise matcher.fault("is a log of Pearmut", 1, f"give it as one: `judgements` pearmut={Path(matcher.path).name}")
    here = [(number, row) for number, row in rows if plain_pair(str(row.get("langs", ""))) == plain_pair(pair)]
    if not any("langs" in row for _, row in rows):
        keys = ", ".join(list(rows[0][1])[:10])
        found = f"is no file of judgements: the first line has the keys {keys}"
        raise matcher.fault(found, 1, "expected lines of ESA, with langs, line_id, src, system and esa_score")
    if not here:
        raise NothingHereError(f"judges nothing of {pair}", file=matcher.path)
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
        score = assessed(str(row["esa_score"]), matcher, number)
        yield Judgement(str(row.get("annotator")), system, row["line_id"] - start, score)


def _at(source: Sequence[str], row: Mapping[str, Any], start: int) -> bool:
    position = row.get("line_id")
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position - start < len(source):
        return False
    return str(row.get("src", "")).split() == source[position - start].split()


def _table(matcher: Matcher) -> Iterator[Judgement]:
    """WMT20's and WMT21's table, in which scores are standardised and averaged already."""
    named: set[tuple[str, int]] = set()
    for number, fields in table_rows(matcher.path, _TABLE.split()):
        document, _, segment = fields[1].rpartition("::")
        at = matcher.cell(document, segment, number)
        system = matcher.system(fields[0])
        if (system, at) in named:
            raise matcher.fault(f"{fields[0]!r} has a second score of {fields[1]}", number)
        named.add((system, at))
        yield Judgement("", system, at, parse_score(fields[3], matcher.path, number, rule=JUDGEMENT_RULE))


def _list(matcher: Matcher) -> Iterator[Judgement]:
    """Lists of WMT18 to WMT22: a score an annotator and segment, standardised already. ``sid`` counts from 1."""
    at = {name: number for number, name in enumerate(_LIST.split())}
    wanted = plain_pair(matcher.place.pair)
    rows = []
    for number, fields in table_rows(matcher.path, _LIST.split()):
        kind = fields[at["type"]]
        if kind not in _LISTED | _LIST_CHECKS:
            expected = ", ".join(sorted(_LISTED | _LIST_CHECKS))
            raise matcher.fault(f"the type is {shortened(kind)}, expected one of {expected}", number)
        if kind in _LISTED and plain_pair(f"{fields[at['Input.src']]}-{fields[at['Input.trg']]}") == wanted:
            rows.append((number, fields, matcher.segment(fields[at["sid"]], number)))
    if not rows:
        raise NothingHereError(f"judges nothing of {matcher.place.pair}", file=matcher.path)
    runs: dict[str, set[int]] = {}
    for _, fields, segment in rows:
        runs.setdefault(fields[at["rid"]], set()).add(segment)
    place = _order(matcher, runs.values())
    for number, fields, segment in rows:
        score = parse_score(fields[at["score"]], matcher.path, number, rule=JUDGEMENT_RULE)
        if abs(score) > LARGEST_SCORE:
            raise matcher.fault(f"the score is {score:g}, expected at most {LARGEST_SCORE:g}", number)
        yield Judgement(fields[at["WorkerId"]], matcher.system(fields[at["sys_id"]]), place[segment], score)


def _order(matcher: Matcher, runs: Collection[Collection[int]]) -> Sequence[int]:
    """Which segment of the set each number means: lines, or segments with the documents in the order of their names.

    What was shown at a time (``rid``) is of one document, which tells one from the other.
    """
    fault = "numbers segments in an order that only documents tell, but the evaluation set has none"
    documents = _documents(matcher, fault)
    lines = range(len(documents))
    for order in (sorted(lines, key=lambda line: documents[line]), lines):
        if all(len({documents[order[segment]] for segment in run}) == 1 for run in runs):
            return order
    raise matcher.fault(
        "what was judged together is of several documents of the set, in the order of the set and of their names alike",
        None,
        "are these the documents of the set that was judged?",
    )


_READERS: Final[dict[str, Callable[[Matcher], Iterator[Judgement]]]] = {
    _LINES: _dump,
    _AVERAGES: _table,
    _STANDING: _list,
}
READER: Final = GoldReader("da", read_direct, several=True)
