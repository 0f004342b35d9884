"""Direct assessments of outputs: DA and DA+SQM (2020 to 2023) and ESA (2024), in the files that WMT publishes.

All give scores of 0 to 100 by annotators whose scales differ, so scores are standardised within each annotator and then
averaged over the annotators of an output. Segments are named by document: the evaluation set must have its documents.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from polyref.eval.data.score_files import (
    JUDGEMENT_RULE,
    FloatArray,
    numbered_lines,
    parse_score,
    shortened,
)
from polyref.eval.judgements.appraise import Judgement, assessed, plain_pair, read_exports
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
from polyref.textfiles import iter_lines

_TABLE: Final = ("SYS", "SEGID", "RAW.SCR", "Z.SCR", "N", "SID")
#: Judgements of the annotators who passed the checks, standardised (``ad-LP-good-stnd.csv``, ``...-redup.csv``).
_LIST: Final = (
    "HITId", "WorkerId", "Input.src", "Input.trg", "Input.item", "hit", "sys_id", "rid", "type", "sid", "score", "time",
)  # fmt: skip
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
    moved = []
    for one in judgements:
        mean, spread = scale[one.annotator]
        moved.append(Judgement(one.annotator, one.system, one.segment, (one.score - mean) / spread if spread else 0.0))
    return averaged(moved, segments)


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
    columns = tuple(first.split())
    if columns[:2] == ("SYS", "SID"):
        raise matcher.fault(
            "segments are numbered with the documents in another order (SID), which is not the line",
            1,
            "use the metrics-ad-seg-scores file, which names document and segment, or the list of judgements that it "
            "was made from (ad-...-good-stnd.csv)",
        )
    if first.lstrip().startswith("{"):
        return _LINES
    return {_TABLE: _AVERAGES, _LIST: _STANDING}.get(columns, _EXPORT)


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
    for number, fields in _rows(matcher, _TABLE):
        document, _, segment = fields[1].rpartition("::")
        at = matcher.cell(document, segment, number)
        system = matcher.system(fields[0])
        if (system, at) in named:
            raise matcher.fault(f"{fields[0]!r} has a second score of {fields[1]}", number)
        named.add((system, at))
        yield Judgement("", system, at, parse_score(fields[3], matcher.path, number, rule=JUDGEMENT_RULE))


def _list(matcher: Matcher) -> Iterator[Judgement]:
    """Lists of WMT18 to WMT22: a score an annotator and segment, standardised already. ``sid`` counts from 1."""
    at = {name: number for number, name in enumerate(_LIST)}
    wanted = plain_pair(matcher.place.pair)
    rows = []
    for number, fields in _rows(matcher, _LIST):
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
    documents = matcher.place.documents
    if documents is None:
        raise matcher.fault(
            "numbers segments in an order that only documents tell, but the evaluation set has none",
            None,
            f"add documents/{matcher.place.pair}.docs",
        )
    lines = range(len(documents))
    for order in (sorted(lines, key=lambda line: documents[line]), lines):
        if all(len({documents[order[segment]] for segment in run}) == 1 for run in runs):
            return order
    raise matcher.fault(
        "what was judged together is of several documents of the set, in the order of the set and of their names alike",
        None,
        "are these the documents of the set that was judged?",
    )


def _rows(matcher: Matcher, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows under a header, separated by white space of any kind."""
    for number, line in numbered_lines(matcher.path):
        fields = line.split()
        if len(fields) != len(columns):
            raise matcher.fault(f"{len(fields)} columns, expected {len(columns)}: {' '.join(columns)}", number)
        if number > 1:
            yield number, fields


_READERS: Final[dict[str, Callable[[Matcher], Iterator[Judgement]]]] = {
    _LINES: _dump, _AVERAGES: _table, _STANDING: _list,
}  # fmt: skip
READER: Final = GoldReader("da", read_direct, several=True)
