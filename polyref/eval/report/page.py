"""The page: what was asked, whether more references help, and everything one needs to believe it.

The words and elements are in ``templates``, one a section; this is what goes into them. Everything is escaped there but
the drawings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from polyref import __version__
from polyref.eval.columns import (
    Line,
    agreement_columns,
    average_columns,
    headline_columns,
    placebo_columns,
    placebo_lines,
)
from polyref.eval.evaluation import Evaluation
from polyref.eval.report import plots
from polyref.eval.report.derived import Example, Outcomes, Output, ReferenceSummary, Report, Scatter, examples
from polyref.eval.statistics.named import gold_name
from polyref.eval.system_pairs import CORRECT, INCORRECT, NOT_SIGNIFICANT
from polyref.tables import Cell, Column, Item, Table, page_templates, written

_Section = Callable[[Report], "dict[str, Any] | None"]


def page(report: Report) -> str:
    """The whole page, which needs nothing but itself."""
    found = {anchor: made(report) for anchor, (_, made) in _SECTIONS.items()}
    there = {anchor: values for anchor, values in found.items() if values is not None}
    templates = page_templates("polyref.eval.report")
    templates.filters["signed"] = lambda value: written(value, 2, "+", nothing="–").replace("-", "−")
    templates.filters["unsigned"] = _unsigned
    templates.filters["setting"] = _setting
    templates.filters["amount"] = lambda value: written(value, 3)
    return templates.get_template("page.html.j2").render(
        **{name: value for values in there.values() for name, value in values.items()},
        sections=[(anchor, _SECTIONS[anchor][0]) for anchor in there],
        version=__version__,
        title=f"Agreement with human judgements: {report.title}",
        drawn=report.drawn,
        alone=report.alone,
        controlled=report.controlled,
        judged=report.judged,
        told=Counter(line.verdict for line in report.judged),
        headline_plot=plots.headline_panel(report) if report.drawn else None,
        remarks=list(dict.fromkeys(text for one in report.evaluations for text in one.remarks)),
        bootstrap=report.bootstrap,
        redrawn=report.redrawn,
    )


def _unsigned(text: str) -> str:
    """A cell without the signs of what rounds to zero: no ``+0.000``, and no interval from there to there."""
    if zeros := re.fullmatch(r"\[\+?0\.(0*)0, \+?0\.0+\]", text):
        return f"within ±0.{zeros[1]}1"
    return text if text.strip("+0.") else text.lstrip("+")


def _setting(value: Any) -> str:
    """An option's value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "–"
    return str(value)


def _table(report: Report, table: Table[Item], *kept: str) -> Table[Item]:
    """A table as the page shows it, without what is the same in all rows, and without empty columns but those kept."""
    golds = {row.gold for one in report.evaluations for row in one.rows}
    said = [*(["set"] if report.alone else []), *(["gold"] if len(golds) == 1 else [])]
    return table.on_page.filled(*kept).without(*said)


def _sorted(lines: list[Line]) -> list[Line]:
    """Those of one statistic together, the statistics in the order in which they first come."""
    order = list(dict.fromkeys((line.row.level, line.row.statistic) for line in lines))
    return sorted(lines, key=lambda line: order.index((line.row.level, line.row.statistic)))


def _gains(report: Report) -> dict[str, Any]:
    every = [(one, row) for one in report.evaluations for row in one.rows]
    golds = {row.gold for _, row in every}
    lines = _sorted([Line(one, row, report.metrics[row.metric]) for one, row in every])
    averages = Table("Averages over language pairs", average_columns(report), report.averages)
    return {
        "gold": gold_name(*golds) if len(golds) == 1 else None,
        "baseline": report.baseline and report.metrics[report.baseline],
        "start": report.first_ks,
        "permuted": any(row.p_perm_both is not None for _, row in report.headline),
        "corrected": any(row.p_adjusted is not None for _, row in report.headline),
        "gains": _table(report, Table("Gains", headline_columns(report), report.lines)),
        "rows": _table(report, Table("All rows", agreement_columns(report), lines)),
        "averages": averages.on_page.filled() if report.averages else None,
    }


def _placebo(report: Report) -> dict[str, Any] | None:
    if not report.controlled:
        return None
    lines = placebo_lines(report)
    real = _sorted([line for line in lines if line.beyond])
    lines = real + [line for line in lines if not line.beyond]
    largest = [line for line in lines if line.row.k == max(line.evaluation.ks)]
    columns = placebo_columns(report)
    placebo, rows = (_table(report, Table("Gains and the placebo's", columns, found)) for found in (largest, lines))
    return {"placebo": placebo, "placebo_rows": rows}


def _curves(report: Report) -> dict[str, Any] | None:
    return {"curve_plots": plots.curve_panels(report)} if report.drawn else None


def _pairs(report: Report) -> dict[str, Any] | None:
    found = plots.gain_panels(report) if report.drawn and not report.alone else []
    return {"gain_plots": found[1:]} if found[1:] else None  # the first one is at the head of the page


def _references(report: Report) -> dict[str, Any]:
    def between(ends: tuple[int, int]) -> Cell:
        low, high = ends
        return Cell(str(low) if low == high else f"{low}–{high}", float(low))

    columns: list[Column[ReferenceSummary]] = [
        Column("set", lambda one: one.place),
        Column("segments", lambda one: one.segments, whole=True),
        Column("human references", lambda one: one.human[0], whole=True, shown=lambda one: between(one.human)),
        Column("added references", lambda one: one.added[0], whole=True, shown=lambda one: between(one.added)),
        Column("characters, human", lambda one: one.human_length, 1),
        Column("characters, added", lambda one: one.added_length, 1),
        Column("repeated, %", lambda one: 100 * one.repeated, 1),
    ]
    summaries = report.references
    return {"references": summaries, "reference_table": _table(report, Table("References", columns, summaries))}


def _systems(report: Report) -> dict[str, Any]:
    # Every system of every scatter, by its number.
    lines = [
        (one, scatter, i) for one, found in report.scatters for scatter in found for i in range(len(scatter.systems))
    ]
    columns: list[Column[tuple[Evaluation, Scatter, int]]] = [
        Column("set", lambda line: line[0].name),
        Column("system", lambda line: line[1].systems[line[2]]),
        Column("human score", lambda line: line[1].human[line[2]], 3),
        Column("outlier", lambda line: "outlier" if line[1].systems[line[2]] in line[1].outliers else ""),
        Column("metric", lambda line: report.metrics[line[1].metric]),
        Column("smallest k", lambda line: next(iter(line[1].scores.values()))[line[2]], 3),
        Column("largest k", lambda line: [*line[1].scores.values()][-1][line[2]], 3),
    ]
    return {
        "system_plots": plots.system_panels(report) if report.drawn else [],
        "left_out": [f"{one.name}: {', '.join(one.excluded)}" for one in report.evaluations if one.excluded],
        "systems": _table(report, Table("Systems", columns, lines)),
    }


def _decisions(report: Report) -> dict[str, Any]:
    def counted(kind: str) -> Column[tuple[Evaluation, Outcomes]]:
        return Column(kind, lambda line: sum(pair.outcome == kind for pair in line[1].pairs), whole=True)

    columns: list[Column[tuple[Evaluation, Outcomes]]] = [
        Column("set", lambda line: line[0].name),
        Column("metric", lambda line: report.metrics[line[1].metric]),
        Column("k", lambda line: line[1].k, whole=True),
        *map(counted, (CORRECT, INCORRECT, NOT_SIGNIFICANT)),
        Column("pairs", lambda line: len(line[1].pairs), whole=True),
    ]
    return {"decisions": _table(report, Table("Pairs of systems", columns, report.outcomes), "k")}


def _examples(report: Report) -> dict[str, Any]:
    def scored(place: int, k: int) -> Column[Output]:
        return Column(f"k = {k}", lambda one: one.scores[place], 2)

    def outputs(example: Example) -> Table[Output]:
        columns: list[Column[Output]] = [
            Column("system", lambda one: one.system),
            Column("output", lambda one: one.text, shown=lambda one: Cell(one.text, style="text")),
            Column("human", lambda one: one.human, 2),
            *(scored(place, k) for place, k in enumerate(example.ks)),
        ]
        return Table(f"Segment {example.number}", columns, example.outputs)

    groups = []
    for one in report.evaluations:
        if found := examples(one):
            metric = report.metrics[found[0].metric]
            judgement = "wins minus losses" if one.gold.pairs is not None else gold_name(one.gold.name)
            shown = [(example, outputs(example)) for example in found]
            groups.append((f"{one.name}, {metric}", metric, judgement, shown))
    return {"examples": groups}


def _settings(report: Report) -> dict[str, Any]:
    return {
        "signatures": [one.signature for one in report.evaluations],
        "metric_signatures": list(dict.fromkeys(s for one in report.evaluations for s in one.signatures.values())),
        "notes": [(one.name, note) for one in report.evaluations for note in one.notes],
        "settings": report.described(),
    }


#: Anchor, which is also the name of the template: heading, and what goes into it; None leaves the section out.
_SECTIONS: Final[Mapping[str, tuple[str, _Section]]] = {
    "gains": ("Gains", _gains),
    "placebo": ("Against the placebo", _placebo),
    "curves": ("Agreement against the number of references", _curves),
    "pairs": ("Gain by language pair", _pairs),
    "references": ("References", _references),
    "systems": ("Systems", _systems),
    "decisions": ("Decisions about pairs of systems", _decisions),
    "examples": ("Examples", _examples),
    "settings": ("Signature and settings", _settings),
}
