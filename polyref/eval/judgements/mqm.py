"""MQM: raw marks of errors with their weights, and the averages made from them.

- Marks (google/wmt-mqm-human-evaluation, ``mqm_TESTSET_LP.tsv``): tab-separated, unquoted, with a header; one mark a
  line, or one line that says that a rater found no error.
- Ratings (mt-metrics-eval, ``*.seg.rating``): ``SYSTEM JSON [RATER]``, all segments of one system in order, ``None``
  where nobody judged.
- Averages (``*.avg_seg_scores.tsv``): ``SYSTEM SCORE SEG``, or these among other columns that a header names.

Scores are negated error weights: higher is better, 0 is best.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError
from polyref.eval.data.score_files import FloatArray, is_score, numbered_lines, parse_score, shortened
from polyref.eval.judgements.base import GoldReader, Judgements, Matcher, Place
from polyref.json_files import parse_json

#: ``severity`` or ``severity/category``, in lower case -> weight; the most specific entry counts (Freitag et al. 2021).
WEIGHTS: Final[Mapping[str, float]] = {
    "major": 5.0,
    "minor": 1.0,
    "neutral": 0.0,
    "no-error": 0.0,
    "major/non-translation": 25.0,
    "minor/fluency/punctuation": 0.1,
}
#: Columns that must be there, and the names under which a file has the segment; others may stand between or follow.
COLUMNS: Final = ("system", "rater", "category", "severity")
SEGMENT_COLUMNS: Final = ("seg_id", "globalsegid", "global_seg_id")
#: Categories of errors that are the source's (``Source error``, ``Source issue``), in lower case.
_OF_SOURCE: Final = "source "
#: Marks of errors within the texts of a file.
_SPAN: Final = re.compile(r"</?v>")


class Weights:
    """What errors weigh; those of unknown severities weigh nothing, and are counted."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._unknown: Counter[str] = Counter()
        self._of_source: set[bool] = set()

    def of(self, severity: str, category: str) -> float:
        """Weight of one error, by the most specific entry."""
        self._of_source.add(_folded(category).startswith(_OF_SOURCE))
        if not severity.strip() and _folded(category) == "no-error":
            return 0.0  # Some files leave the severity of no error empty.
        parts = [_folded(severity), *map(_folded, category.split("/"))]
        for length in range(len(parts), 0, -1):
            weight = self._weights.get("/".join(parts[:length]))
            if weight is not None:
                return weight
        self._unknown[severity.strip()] += 1
        return 0.0

    def notes(self, path: str | Path) -> tuple[str, ...]:
        """What weighed nothing because its severity is unknown, and that outputs are not what the file judges."""
        whole = (f"{Path(path).name}: every mark is an error of the source: the file judges sources, not outputs",)
        return (whole if self._of_source == {True} else ()) + tuple(
            f"{Path(path).name}: errors of the severity {shortened(severity)}, which has no weight and counts 0 "
            f"(`mqm_weights` gives it one): {count}"
            for severity, count in self._unknown.items()
        )


def read_mqm(path: str | Path, place: Place, *, weights: Mapping[str, float] = WEIGHTS) -> Judgements:
    """Segment scores from a file of marks, of ratings or of averages, whichever its first line shows.

    A score is the mean over raters of their summed weights, negated; NaN where nobody judged. Marks and averages of
    systems without output are passed over; repeated marks count, as they do in the published averages. Segments count
    through the set from 1; where file and set have sources, they are held against each other.
    """
    matcher, weighing = Matcher(path, place), Weights(weights)
    lines = list(numbered_lines(path))
    if not lines:
        raise matcher.fault("the file is empty, expected a header", None)
    first = lines[0][1].split("\t")
    if len(first) in {2, 3} and _are_ratings(lines):
        scores = _ratings(lines, matcher, weighing)
    elif "severity" in (names := [name.strip().lower() for name in first]):
        scores = _marks(lines[1:], names, matcher, weighing)
    else:
        scores = _averages(lines, matcher)
    return Judgements("mqm", scores, notes=(*matcher.notes(), *weighing.notes(path)))


def _are_ratings(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether a file without a header has errors as JSON, and not averages; both write None where nobody judged."""
    rows = [line.split("\t") for _, line in lines]
    said = next((row[1] for row in rows if len(row) > 1 and row[1].strip() != "None"), None)
    if said is not None:
        return said.startswith("{") or (rows[0][1] == "None" and not is_score(said))
    return not all(len(row) == 3 and row[2].strip().isdigit() for row in rows)


def parse_weights(texts: Collection[str]) -> dict[str, float]:
    """``SEVERITY=WEIGHT`` and ``SEVERITY/CATEGORY=WEIGHT``, put over the usual weights."""
    weights = dict(WEIGHTS)
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = math.nan
        if not name or not 0 <= weight < math.inf:
            raise DataError(f"`mqm_weights` has {text!r}, expected SEVERITY=NUMBER or SEVERITY/CATEGORY=NUMBER from 0")
        weights["/".join(map(_folded, name.split("/")))] = weight
    return weights


def _marks(
    lines: Sequence[tuple[int, str]], names: Sequence[str], matcher: Matcher, weighing: Weights
) -> dict[str, FloatArray]:
    named = next((name for name in SEGMENT_COLUMNS if name in names), None)
    if missing := [name for name in COLUMNS if name not in names] or ([] if named else ["seg_id"]):
        needed = f"needed: {', '.join(COLUMNS)} and one of seg_id, globalSegId"
        raise matcher.fault(f"the header has no column {missing[0]!r}", 1, needed)
    at = {"segment": names.index(named or ""), **{name: names.index(name) for name in COLUMNS}}
    sources = _Sources(matcher) if "source" in names and matcher.place.source is not None else None
    totals: dict[tuple[str, int], dict[str, float]] = {}
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) != len(names):
            raise matcher.fault(f"{len(fields)} columns, expected {len(names)} as in the header", number)
        system = matcher.system(fields[at["system"]])
        segment = matcher.segment(fields[at["segment"]], number)
        if sources is not None:
            sources.hold(fields[names.index("source")], segment, number)
        raters = totals.setdefault((system, segment), {})
        rater = fields[at["rater"]]
        weight = weighing.of(fields[at["severity"]], fields[at["category"]]) if matcher.has(system) else 0.0
        raters[rater] = raters.get(rater, 0.0) + weight
    if not totals:
        raise matcher.fault("no marks, expected one a line after the header", None)
    if sources is not None:
        sources.finish()
    scores: dict[str, FloatArray] = {}
    for (system, segment), raters in totals.items():
        own = scores.setdefault(system, np.full(matcher.place.segments, np.nan))
        own[segment] = -math.fsum(raters.values()) / len(raters) + 0.0  # no negative zero
    return scores


class _Sources:
    """Holds the sources of a file against those of the set: another numbering would score other outputs unnoticed."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._set = [_plain(text) for text in matcher.place.source or ()]
        self._known = set(self._set)
        self._lines = 0
        self._unlike: list[int] = []

    def hold(self, source: str, segment: int, line: int) -> None:
        """Compare one line's source with that of its segment."""
        text = _plain(source)
        self._lines += 1
        if text == self._set[segment]:
            return
        if text in self._known:
            raise self._matcher.fault(
                f"the source of segment {segment + 1} is that of segment {self._set.index(text) + 1} of the set",
                line,
                "the numbers must count the segments of the set from 1",
            )
        self._unlike.append(line)

    def finish(self) -> None:
        """Judge the sources that are in the set nowhere: a few are spelt otherwise, many are of another set."""
        if 2 * len(self._unlike) > self._lines:
            raise self._matcher.fault(
                f"the sources of {len(self._unlike)} of {self._lines} lines are not those of the set", self._unlike[0]
            )
        for _ in self._unlike:
            self._matcher.remark("lines whose source differs from that of their segment")


def _plain(text: str) -> str:
    """A source without marks of errors, quotes around it and differences in white space."""
    return " ".join(_SPAN.sub("", text).replace('""', '"').strip('"').split())


def _ratings(lines: Sequence[tuple[int, str]], matcher: Matcher, weighing: Weights) -> dict[str, FloatArray]:
    blocks: dict[str, list[float]] = {}
    current, number = None, 0
    segments = matcher.place.segments
    for number, line in lines:
        fields = line.split("\t")
        if len(fields) not in {2, 3}:
            raise matcher.fault(f"{len(fields)} columns, expected 2 or 3: SYSTEM JSON [RATER]", number)
        system = matcher.system(fields[0])
        if system != current:
            if system in blocks:
                raise matcher.fault(
                    f"system {system!r} starts a second block",
                    number,
                    "all segments of a system in order, then the next system",
                )
            if current is not None:
                _whole_block(current, len(blocks[current]), matcher, number - 1)
            current, blocks[system] = system, []
        if len(blocks[system]) == segments:
            _whole_block(system, segments + 1, matcher, number)
        blocks[system].append(math.nan if fields[1] == "None" else -_errors(fields[1], weighing, matcher, number) + 0.0)
    if current is not None:
        _whole_block(current, len(blocks[current]), matcher, number)
    return {system: np.array(scores) for system, scores in blocks.items()}


def _whole_block(system: str, found: int, matcher: Matcher, number: int) -> None:
    if found != matcher.place.segments:
        more = " or more" if found > matcher.place.segments else ""
        raise matcher.fault(
            f"system {system!r} has {found}{more} segments, expected {matcher.place.segments}",
            number,
            "one line a segment; None for one that was not judged",
        )


def _errors(text: str, weighing: Weights, matcher: Matcher, number: int) -> float:
    fault = matcher.fault('expected {"errors": [{"severity", "category", ...}]}', number)
    errors = parse_json(text, matcher.path, number, finite=False).get("errors")
    if not isinstance(errors, list):
        raise fault
    total = []
    for one in errors:
        if not isinstance(one, dict) or "severity" not in one or "category" not in one:
            raise fault
        total.append(weighing.of(str(one["severity"]), str(one["category"])))
    return math.fsum(total)


def _averages(lines: Sequence[tuple[int, str]], matcher: Matcher) -> dict[str, FloatArray]:
    system_at, score_at, segment_at, width = 0, 1, 2, 3
    header = lines[0][1].split()
    # A line whose segment alone is broken is no header.
    if len(header) >= 3 and not is_score(header[1]) and not header[2].isdigit():
        lines = lines[1:]
        names = [name.lower() for name in header]
        width = len(names)
        if width > 3:
            system_at, score_at, segment_at = _average_columns(names, matcher)
    scores: dict[str, FloatArray] = {}
    first: dict[tuple[str, int], int] = {}
    for number, line in lines:
        fields = line.split("\t") if line.count("\t") == width - 1 else line.split()
        if len(fields) != width:
            named = "SYSTEM SCORE SEG" if width == 3 else "as in the header"
            raise matcher.fault(f"{len(fields)} columns, expected {width}: {named}", number)
        system = matcher.system(fields[system_at].strip())
        segment = matcher.segment(fields[segment_at].strip(), number)
        if (system, segment) in first:
            raise matcher.fault(
                f"{system!r} has a second score of segment {segment + 1}; the first: line {first[system, segment]}",
                number,
            )
        first[system, segment] = number
        score = parse_score(fields[score_at].strip(), matcher.path, number, allow_missing=True)
        scores.setdefault(system, np.full(matcher.place.segments, np.nan))[segment] = score
    if not scores:
        raise matcher.fault("no scores, expected SYSTEM SCORE SEG lines", None)
    return scores


def _average_columns(names: Sequence[str], matcher: Matcher) -> tuple[int, int, int]:
    """Where a header of more than three columns has system, score and segment."""
    segment = next((name for name in (*SEGMENT_COLUMNS, "seg", "segment") if name in names), None)
    score = [name for name in names if "score" in name]
    if "system" not in names or len(score) != 1 or segment is None:
        raise matcher.fault(
            f"the header is {shortened(' '.join(names))}, expected the columns system and seg_id, and one whose name "
            "has 'score' in it",
            1,
        )
    return names.index("system"), names.index(score[0]), names.index(segment)


def _folded(name: str) -> str:
    return name.strip().lower().rstrip("!")


READER: Final = GoldReader("mqm", read_mqm, ("weights",))
