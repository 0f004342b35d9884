"""The page: what was asked, whether more references help, and everything one needs to believe it."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyref import __version__
from polyref.eval.agreement import Row, Verdict, p_behind
from polyref.eval.evaluation import Evaluation
from polyref.eval.names import LENGTH_ROW, gold_name, level_name, metric_names, statistic_name
from polyref.eval.report import plots
from polyref.eval.report.derived import (
    Derived,
    Example,
    ReferenceSummary,
    headline_rows,
    main_statistics,
    reference_summaries,
)
from polyref.eval.statistics.base import BOTH, Bootstrap
from polyref.eval.system_pairs import CORRECT, INCORRECT, NOT_SIGNIFICANT
from polyref.eval.text_tables import first_ks
from polyref.tables import visible

_PACKAGES: Final = ("numpy", "scipy", "sacrebleu")


@dataclass(frozen=True)
class Settings:
    """Every choice behind a report.

    Attributes:
        options: Name -> value of every option, defaults included; plain JSON values.
        bootstrap: How intervals were made.
        correction: How p-values were corrected for their number, or None.
        baseline: Metric that gains are measured from, or None: each metric's own k = 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    correction: str | None = None
    baseline: str | None = None

    def described(self) -> dict[str, Any]:
        """The options, then the versions of what computed the numbers; nothing depends on time or place."""
        versions = {"polyref": __version__, "python": platform.python_version()}
        packages = [*_PACKAGES, "matplotlib"] if plots.available() else _PACKAGES
        versions.update({name: version(name) for name in packages})
        return {**self.options, **{f"version of {name}": value for name, value in versions.items()}}


_CORRECTIONS: Final = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}
_VERDICTS: Final = {"better": "▲ better", "gains": "△ gains", "worse": "▼ worse"}


@dataclass(frozen=True)
class Column:
    """A column; numbers are aligned to the right and sorted by value."""

    title: str
    number: bool = False


@dataclass(frozen=True)
class Cell:
    """What a cell shows; ``value`` is what it is sorted by where that is another thing."""

    text: str
    value: float | None = None
    style: str = ""


@dataclass(frozen=True)
class Table:
    """A table; every row has a cell for every column."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def where_any(self) -> Table:
        """Without the columns in which no row has anything."""
        empty = (i for i in range(len(self.columns)) if all(row[i].text in {"", "–"} for row in self.rows))
        return self.without(*(self.columns[i].title for i in empty))

    def without(self, *titles: str) -> Table:
        """Without some columns."""
        shown = [i for i, column in enumerate(self.columns) if column.title not in titles]
        return Table(self.caption, [self.columns[i] for i in shown], [[row[i] for i in shown] for row in self.rows])


def number(value: float | None, digits: int = 3, sign: str = "") -> Cell:
    """A number with its full value to sort by; a dash where it is undefined."""
    if value is None or math.isnan(value):
        return Cell("–")
    return Cell(f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("-", "−"), float(value))


def whole(value: int | None) -> Cell:
    """A whole number."""
    return Cell("–") if value is None else Cell(str(value), float(value))


def interval(pair: tuple[float, float] | None, digits: int = 3, sign: str = "") -> Cell:
    """An interval, sorted by its lower end."""
    if pair is None:
        return Cell("–")
    low, high = (number(value, digits, sign).text for value in pair)
    return Cell(f"[{low}, {high}]", float(pair[0]))


def agreement_table(
    rows: Iterable[tuple[Evaluation, Row]], caption: str, correction: str | None, metrics: Mapping[str, str]
) -> Table:
    """Rows of agreement, without the columns that none of them needs. ``metrics``: as people write them."""
    columns = [Column("set"), Column("gold"), Column("statistic"), Column("level"), Column("metric"), Column("k", True)]
    columns += [Column("references", True), Column("value", True), Column("interval", True), Column("gain", True)]
    columns += [Column("interval of gain", True), Column("verdict"), Column("p, one-sided", True)]
    columns += [Column("p, Williams", True), Column("p, PERM-BOTH", True)]
    columns += [Column(f"p, {_CORRECTIONS.get(correction or '', correction)}", True), Column("n", True)]
    body = []
    for one, row in by_statistic(rows):
        base = not row.k and row.gain == 0  # the baseline itself
        told = one.verdict(row)
        gain = [Cell("–")] * 2 if base else [number(row.gain, sign="+"), interval(row.gain_ci, sign="+")]
        body.append(
            [
                Cell(one.name), Cell(gold_name(row.gold)), Cell(statistic_name(row.statistic)),
                Cell(level_name(row.statistic, row.level)), Cell(metrics[row.metric]), whole(row.k),
                number((one.coverage(row.k) or (math.nan,))[0], 1), number(row.value), interval(row.ci), *gain,
                _told(told),
                p_value(None if base else p_behind(row, told)),
                *(p_value(None if base else p) for p in (row.p_williams, row.p_perm_both)),
                p_value(row.p_adjusted), whole(row.n),
            ]
        )  # fmt: skip
    return Table(caption, columns, body).where_any()


def by_statistic(rows: Iterable[tuple[Evaluation, Row]]) -> list[tuple[Evaluation, Row]]:
    """Rows of one statistic together, the statistics in the order in which they first come."""
    rows = list(rows)
    order = list(dict.fromkeys((row.level, row.statistic) for _, row in rows))
    return sorted(rows, key=lambda found: order.index((found[1].level, found[1].statistic)))


def p_value(value: float | None) -> Cell:
    """A p-value, which is never zero."""
    cell = number(value, 4)
    return Cell("<0.0001", value) if cell.text == "0.0000" else cell


def placebo_table(evaluations: Sequence[Evaluation], metrics: Mapping[str, str], *, largest: bool) -> Table:
    """What added references gain, what a placebo of them gains, and the difference, with its interval and verdict.

    Args:
        evaluations: What was measured.
        metrics: Names as people write them.
        largest: Only the largest k of every evaluation.
    """
    columns = [Column("set"), Column("statistic"), Column("level"), Column("metric"), Column("k", True)]
    columns += [Column(name, True) for name in ("real", "placebo", "real − placebo", "interval of the difference")]
    columns += [Column("p, one-sided", True), Column("claim", True), Column("verdict")]
    body = []
    every = [(one, *rows) for one in evaluations for rows in one.compared_with_placebo()]
    every = [found for found in every if found[1].statistic != "tie-rate"]
    order = list(dict.fromkeys((real.level, real.statistic) for _, real, _, _ in every))
    for one, real, fake, difference in sorted(every, key=lambda row: order.index((row[1].level, row[1].statistic))):
        if largest and real.k != max(one.ks):
            continue
        told = one.verdict(difference)
        body.append(
            [
                Cell(one.name), Cell(statistic_name(real.statistic)), Cell(level_name(real.statistic, real.level)),
                Cell(metrics[real.metric]), whole(real.k), number(real.gain, sign="+"), number(fake.gain, sign="+"),
                number(difference.value, sign="+"), interval(difference.ci, sign="+"),
                p_value(p_behind(difference, told)), number(one.claim(difference), sign="+"), _told(told),
            ]
        )  # fmt: skip
    blind = [(one, row) for one in dict.fromkeys(one for one, *_ in every) for row in one.blind]
    body += [
        [
            Cell(one.name), Cell(statistic_name(row.statistic)), Cell(level_name(row.statistic, row.level)),
            Cell(LENGTH_ROW), whole(row.k), number(row.gain, sign="+"), *[Cell("–")] * 3, p_value(row.p),
            *[Cell("–")] * 2,
        ]
        for one, row in blind
        if row.statistic != "tie-rate" and not (largest and row.k != max(one.ks))
    ]  # fmt: skip
    return Table("Gains and the placebo's", columns, body).where_any()


def _told(told: Verdict) -> Cell:
    return Cell(_VERDICTS.get(told.word, told.word), style=told.word if told.word in {"better", "worse"} else "")


def averages_table(averages: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> Table:
    """Averages over language pairs."""
    columns = [Column(name) for name in ("generator", "originals", "metric")]
    columns += [Column(name, True) for name in ("k", "average of Pearson's r", "gain", "language pairs", "systems")]
    body = [
        [
            Cell(str(one["generator"])), Cell(str(one["originals"])), Cell(metrics[one["metric"]]), whole(one["k"]),
            number(one["value"]), number(one["gain"], sign="+"), whole(one["pairs"]), whole(one["n"]),
        ]
        for one in averages
    ]  # fmt: skip
    return Table("Averages over language pairs", columns, body).where_any()


def systems_table(both: Sequence[tuple[Evaluation, Derived]], metrics: Mapping[str, str]) -> Table:
    """Human scores of the systems and every metric's."""
    columns = [Column("set"), Column("system"), Column("human score", True), Column("outlier"), Column("metric")]
    columns += [Column("smallest k", True), Column("largest k", True)]
    body = []
    for one, found in both:
        for scatter in found.scatters:
            scores = list(scatter.scores.values())
            for index, system in enumerate(scatter.systems):
                body.append(
                    [
                        Cell(one.name), Cell(system), number(scatter.human[index]),
                        Cell("outlier" if system in scatter.outliers else ""), Cell(metrics[scatter.metric]),
                        number(scores[0][index]), number(scores[-1][index]),
                    ]
                )  # fmt: skip
    return Table("Systems", columns, body).where_any()


def decisions_table(both: Sequence[tuple[Evaluation, Derived]], metrics: Mapping[str, str]) -> Table:
    """What metrics say of pairs of systems that people tell apart."""
    columns = [Column("set"), Column("metric"), Column("k", True), Column(CORRECT, True), Column(INCORRECT, True)]
    columns += [Column(NOT_SIGNIFICANT, True), Column("pairs", True)]
    body = []
    for one, found in both:
        for outcome in found.outcomes:
            counts = Counter(pair.outcome for pair in outcome.pairs)
            kinds = [whole(counts[kind]) for kind in (CORRECT, INCORRECT, NOT_SIGNIFICANT)]
            body.append(
                [Cell(one.name), Cell(metrics[outcome.metric]), whole(outcome.k), *kinds, whole(len(outcome.pairs))]
            )
    return Table("Pairs of systems", columns, body)


def outputs_table(example: Example) -> Table:
    """The judged outputs of one segment."""
    columns = [Column("system"), Column("output"), Column("human", True)]
    columns += [Column(f"k = {k}", True) for k in example.ks]
    body = [
        [Cell(one.system), Cell(one.text, style="text"), number(one.human, 2), *(number(s, 2) for s in one.scores)]
        for one in example.outputs
    ]
    return Table(f"Segment {example.number}", columns, body)


def references_table(summaries: Sequence[ReferenceSummary]) -> Table:
    """How many references there are, how long they are, and how many say the same."""
    columns = [Column("set"), Column("segments", True), Column("human references", True)]
    columns += [Column("added references", True), Column("characters, human", True), Column("characters, added", True)]
    columns += [Column("repeated, %", True)]
    body = [
        [
            Cell(one.place), whole(one.segments), _between(one.human), _between(one.added),
            number(one.human_length, 1), number(one.added_length, 1), number(100 * one.repeated, 1),
        ]
        for one in summaries
    ]  # fmt: skip
    return Table("References", columns, body).where_any()


def _between(ends: tuple[int, int]) -> Cell:
    low, high = ends
    return Cell(str(low) if low == high else f"{low}–{high}", float(low))


#: Anchor, which is also the name of the template, and heading.
_SECTIONS: Final = {
    "gains": "Gains",
    "placebo": "Against the placebo",
    "curves": "Agreement against the number of references",
    "pairs": "Gain by language pair",
    "references": "References",
    "systems": "Systems",
    "decisions": "Decisions about pairs of systems",
    "examples": "Examples",
    "settings": "Signature and settings",
}


def page(
    evaluations: Sequence[Evaluation],
    derived: Sequence[Derived],
    examples: Sequence[Sequence[Example]],
    averages: Sequence[Mapping[str, Any]],
    settings: Settings,
) -> str:
    """The whole page, which needs nothing but itself."""
    both = list(zip(evaluations, derived, strict=True))
    wanted = main_statistics(evaluations)
    headline = [(one, row) for one in evaluations for row in headline_rows(one, wanted)]
    every = [(one, row) for one in evaluations for row in one.rows]
    names = ", ".join(dict.fromkeys(f"{one.set_name} {one.pair}" for one in evaluations))
    metrics = metric_names(row.metric for _, row in every)
    golds = {row.gold for _, row in every}
    # What is the same in all rows is said once.
    repeated = [*(["set"] if len(evaluations) == 1 else []), *(["gold"] if len(golds) == 1 else [])]

    def table(made: Table) -> Table:
        return made.without(*repeated)

    drawn = plots.available()
    return _templates().get_template("page.html.j2").render(
        version=__version__,
        title=f"Agreement with human judgements: {names}",
        sections=list(_sections(evaluations, drawn)),
        drawn=drawn,
        alone=len(evaluations) == 1,
        gold=gold_name(*golds) if len(golds) == 1 else None,
        summary=_summary(
            Counter(one.verdict(row).word for one, row in headline), any(one.controls for one in evaluations)
        ),
        remarks=list(dict.fromkeys(text for one in evaluations for text in one.remarks)),
        bootstrap=settings.bootstrap,
        confidence=_percent(settings),
        baseline=settings.baseline and metrics[settings.baseline],
        start=first_ks(evaluations),
        permuted=any(row.p_perm_both is not None for _, row in headline),
        corrected=any(row.p_adjusted is not None for _, row in headline),
        gains=table(agreement_table(headline, "Gains", settings.correction, metrics)),
        placebo=table(placebo_table(evaluations, metrics, largest=True)),
        placebo_rows=table(placebo_table(evaluations, metrics, largest=False)),
        redrawn={BOTH: "segments and systems"}.get(settings.bootstrap.over, settings.bootstrap.over),
        averages=averages_table(averages, metrics) if averages else None,
        rows=table(agreement_table(every, "All rows", settings.correction, metrics)),
        curve_plots=plots.curve_panels(evaluations, metrics) if drawn else [],
        gain_plots=plots.gain_panels(evaluations, averages, settings.baseline, metrics) if drawn else [],
        references=(summaries := reference_summaries(evaluations)),
        reference_table=table(references_table(summaries)),
        system_plots=plots.system_panels(both, metrics) if drawn else [],
        left_out=[f"{one.name}: {', '.join(one.excluded)}" for one in evaluations if one.excluded],
        systems=table(systems_table(both, metrics)),
        decisions=table(decisions_table(both, metrics)),
        examples=[
            (f"{one.name}, {metrics[found[0].metric]}", metrics[found[0].metric], _judgement(one),
             [(example, outputs_table(example)) for example in found])
            for one, found in zip(evaluations, examples, strict=True)
            if found
        ],
        signatures=[one.signature for one in evaluations],
        metric_signatures=list(dict.fromkeys(text for one in evaluations for text in one.signatures.values())),
        notes=[(one.name, note) for one in evaluations for note in one.notes],
        settings=settings.described(),
    )  # fmt: skip


def _sections(evaluations: Sequence[Evaluation], drawn: bool) -> Iterator[tuple[str, str]]:
    """Those with something to say: some are plots alone, and with one pair the plots of gains go with their table."""
    silent = set() if drawn else {"curves", "pairs"}
    silent |= {"pairs"} if len(evaluations) == 1 else set()
    silent |= set() if any(one.controls for one in evaluations) else {"placebo"}
    for anchor, heading in _SECTIONS.items():
        if anchor not in silent:
            yield anchor, heading


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("polyref.eval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else visible(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed"] = lambda value: number(value, 2, "+").text
    environment.filters["setting"] = _setting
    return environment


def _setting(value: Any) -> str:
    """An option's value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "–"
    return str(value)


def _summary(verdicts: Mapping[str, int], controlled: bool) -> str:
    told = verdicts["better"] + verdicts["gains"] + verdicts["worse"] + verdicts["unclear"] + verdicts["withheld"]
    if not told:
        return "No gain has a test: every metric is a score file or has one number of references."
    control = "are better (the gain and the gain beyond the placebo are significant)"
    gains = control if controlled else "are significant, without a control"
    withheld = f", {verdicts['withheld']} withheld" if verdicts["withheld"] else ""
    return (
        f"Gains in agreement with people: {verdicts['better'] + verdicts['gains']} {gains}, {verdicts['worse']} "
        f"significant losses, {verdicts['unclear']} unclear{withheld} (two-sided at 5 %; Pearson's r of systems: "
        "PERM-SYSTEMS, all others: the jackknife over systems)."
    )


def _judgement(evaluation: Evaluation) -> str:
    return "wins minus losses" if evaluation.gold.pairs is not None else gold_name(evaluation.gold.name)


def _percent(settings: Settings) -> str:
    return f"{100 * settings.bootstrap.confidence:g} %"
