"""An inspection as one HTML page, and for a notebook.

The words and elements are in ``templates``; the style is that of the report.
"""

from __future__ import annotations

from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyref import __version__
from polyref.eval.inspection.charts import Bars, counted, scored
from polyref.eval.inspection.measures import Measures
from polyref.eval.inspection.tables import (
    copies_lines,
    diversity_table,
    minus,
    number,
    repeats_line,
    sample_note,
    spread_table,
    summary,
    whole,
)
from polyref.eval.names import visible

#: Added references of a segment to read; how many more there are is said.
_MOST_ADDED: Final = 10


def page(measures: Measures) -> str:
    """The whole page, which needs nothing but itself."""
    return _templates().get_template("inspection.html.j2").render(
        version=__version__,
        inspected=measures,
        counts=measures.counts,
        summary=summary(measures),
        tiles=_tiles(measures),
        spread=spread_table(measures),
        differ=diversity_table(measures),
        repeats=repeats_line(measures),
        copies=copies_lines(measures),
        note=sample_note(measures),
        spread_charts=[counted(one) for one in measures.counts.spreads if one.quartiles[0] < one.quartiles[-1]],
        score_charts=_score_charts(measures),
        most_added=_MOST_ADDED,
    )  # fmt: skip


def notebook_view(measures: Measures) -> str:
    """The tables and two examples, for the output of a cell."""
    return (
        _templates()
        .get_template("notebook.html.j2")
        .render(
            inspected=measures,
            summary=summary(measures),
            spread=spread_table(measures),
            differ=diversity_table(measures),
            examples=2,
            most_added=3,
        )
    )


def _tiles(measures: Measures) -> list[tuple[str, str]]:
    """The few numbers that people look for first: value and name."""
    counts = measures.counts
    found = [(whole(measures.segments), "segments")]
    added = counts.repeats.added
    if not added:
        return [*found, (number(sum(one.mean for one in counts.spreads)), "references a segment")]
    found += [
        (number(added / measures.segments), "added references a segment"),
        (whole(counts.without_added), "segments without any"),
        (whole(counts.repeats.copies + counts.repeats.repeats), "copies and repeats"),
    ]
    differ = measures.diversity[-1]
    return [
        *found,
        (number(differ.bleu_to_human), "BLEU to the human references"),
        (number(differ.self_bleu), "self-BLEU of the added ones"),
    ]


def _score_charts(measures: Measures) -> list[Bars]:
    counts = measures.counts
    every = [
        ("Log-probability of added references (nats a token)", counts.logprob),
        ("Weight or adequacy of added references", counts.weight),
        ("Length of an added reference over that of the one it was made from", counts.length_ratio),
    ]
    return [scored(title, values) for title, values in every if values is not None]


def _templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("polyref.eval.inspection"), PackageLoader("polyref.eval.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else visible(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(whole=whole, number=lambda value, digits=1: minus(number(value, digits)))
    return environment
