"""What a report found, in plain words: whether agreement with people rises, and in what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from polyref.eval.agreement import BETTER, GAINS, UNCLEAR, WITHHELD, WORSE
from polyref.eval.columns import Line
from polyref.eval.report.derived import Report
from polyref.tables import written

#: How metrics agree with people, by verdict; others are said in another way.
_AGREE: Final = {BETTER: "better", GAINS: "more", WORSE: "less"}
#: Metrics that are named one by one.
_NAMED: Final = 3


def lead(report: Report) -> str:
    """One or two sentences about all verdicts of the largest k."""
    told = Counter(line.verdict for line in report.judged)
    total = sum(told.values())
    if not total:
        return "No gain has a test: every metric is a score file or has one number of references."
    rises, falls = told[BETTER] + told[GAINS], told[WORSE]
    if total == told[WITHHELD]:
        way = "is not judged"
    elif rises and falls:
        way = "rises in part and falls in part"
    elif rises or falls:
        way = ("rises" if rises else "falls") + ("" if total in (rises, falls) else " in part")
    else:
        way = "does not clearly change"
    kinds = {f"significant gain{'s' * (rises > 1)}": rises, f"significant loss{'es' * (falls > 1)}": falls}
    kinds |= {word: told[word] for word in (UNCLEAR, WITHHELD)}
    found = [f"{count} {kind}" for kind, count in kinds.items() if count]
    control = ""
    if told[GAINS]:
        control = " No placebo was run: any added text might gain as much."
    elif told[BETTER] and report.controlled:
        control = " Gains are significant both alone and beyond those of a placebo."
    return f"{_compared(report)}, agreement with people {way}: {', '.join(found)}.{control}"


def _compared(report: Report) -> str:
    """What the gains are gains of."""
    ks = {line.row.k for line in report.judged}
    if report.baseline is not None:
        return f"Compared with {report.metrics[report.baseline]}"
    if len(ks) == 1 and report.first_ks == "0":
        return f"With {(k := ks.pop())} added reference{'s' * (k != 1)}"
    return f"With the largest k instead of {report.first_ks}"


def findings(report: Report) -> Iterator[tuple[str, str]]:
    """Every statistic that has verdicts, and what they say of the metrics."""
    groups: dict[str, list[Line]] = {}
    for line in report.judged:
        groups.setdefault(line.statistic, []).append(line)
    for name, lines in groups.items():
        yield name, "; ".join(_of_one(report, lines) if report.alone else _of_several(lines))


def _of_one(report: Report, lines: Sequence[Line]) -> Iterator[str]:
    than = f" than {report.metrics[report.baseline]}" if report.baseline is not None else ""
    for word in (*_AGREE, UNCLEAR, WITHHELD):
        mine = [line for line in lines if line.verdict == word]
        if mine and word in _AGREE:
            amounts = [written(abs(line.claim or 0.0), 3) for line in mine]
            by = _listed(amounts) if len(mine) <= _NAMED else f"{min(amounts)} to {max(amounts)}"
            verb = "agrees" if len(mine) == 1 else "agree"
            yield f"{_metrics(mine)} {verb} {_AGREE[word]} with people{than}, by {by}"
        elif mine:
            yield f"{'no clear change' if word == UNCLEAR else 'no verdict'} for {_metrics(mine)}"


def _of_several(lines: Sequence[Line]) -> Iterator[str]:
    for metric in dict.fromkeys(line.metric for line in lines):
        told = Counter(line.verdict for line in lines if line.metric == metric)
        words = (BETTER, GAINS, WORSE, UNCLEAR, WITHHELD)
        yield f"{metric}: " + ", ".join(f"{told[word]} {word}" for word in words if told[word])


def _metrics(lines: Sequence[Line]) -> str:
    return _listed([line.metric for line in lines]) if len(lines) <= _NAMED else f"{len(lines)} metrics"


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
