"""The page: what was asked, whether more references help, and everything one needs to believe it.

The words and elements are in ``templates``; this is what goes into them. Everything is escaped there but the drawings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyref import __version__
from polyref.eval.evaluation import Evaluation
from polyref.eval.names import gold_name, metric_names, visible
from polyref.eval.report import page_tables, panels, plots
from polyref.eval.report.data import Derived, headline_rows, main_statistics
from polyref.eval.report.examples import Example
from polyref.eval.report.page_tables import Table
from polyref.eval.report.reference_summary import reference_summaries
from polyref.eval.report.settings import Settings
from polyref.eval.statistics.base import BOTH
from polyref.eval.text_tables import first_ks

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
        gains=table(page_tables.agreement_table(headline, "Gains", settings.correction, metrics)),
        placebo=table(page_tables.placebo_table(evaluations, metrics, largest=True)),
        placebo_rows=table(page_tables.placebo_table(evaluations, metrics, largest=False)),
        redrawn={BOTH: "segments and systems"}.get(settings.bootstrap.over, settings.bootstrap.over),
        averages=page_tables.averages_table(averages, metrics) if averages else None,
        rows=table(page_tables.agreement_table(every, "All rows", settings.correction, metrics)),
        curve_plots=panels.curve_panels(evaluations, metrics) if drawn else [],
        gain_plots=panels.gain_panels(evaluations, averages, settings.baseline, metrics) if drawn else [],
        references=(summaries := reference_summaries(evaluations)),
        reference_table=table(page_tables.references_table(summaries)),
        system_plots=panels.system_panels(both, metrics) if drawn else [],
        left_out=[f"{one.name}: {', '.join(one.excluded)}" for one in evaluations if one.excluded],
        systems=table(page_tables.systems_table(both, metrics)),
        decisions=table(page_tables.decisions_table(both, metrics)),
        examples=[
            (f"{one.name}, {metrics[found[0].metric]}", metrics[found[0].metric], _judgement(one),
             [(example, page_tables.outputs_table(example)) for example in found])
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
    environment.filters["signed"] = lambda value: page_tables.number(value, 2, "+").text
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
