"""An inspection for a terminal, as one HTML page, and for a notebook."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyref import __version__
from polyref.eval.inspection.counts import Histogram, Spread
from polyref.eval.inspection.measures import Measures, Piece
from polyref.references import ORIGINAL_KINDS
from polyref.tables import shown, text_table, visible

#: In place of a number that is not defined.
MISSING: Final = "–"


@dataclass(frozen=True)
class Table:
    """Titles of columns, and cells; the first column holds names, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def spread_table(measures: Measures) -> Table:
    """References a segment, by kind."""
    rows = [
        [one.kind, whole(one.total), number(one.mean), whole(one.none), *(f"{value:g}" for value in one.quartiles)]
        for one in measures.counts.spreads
    ]
    return Table(["references a segment", "in all", "mean", "none", "least", "25 %", "median", "75 %", "most"], rows)


def diversity_table(measures: Measures) -> Table:
    """How much the references of a segment differ."""
    rows = [
        [
            one.group,
            number(one.self_bleu),
            number(one.bleu_to_human),
            *(number(100 * value) for value in (*one.distinct, *one.new)),
        ]
        for one in measures.diversity
    ]
    header = [
        "diversity",
        "self-BLEU",
        "BLEU to human",
        "distinct-1 %",
        "distinct-2 %",
        "new 1-grams %",
        "new 2-grams %",
    ]
    return Table(header, rows)


def repeats_line(measures: Measures) -> str:
    """Copies, repeats and empty references in a sentence."""
    found = measures.counts.repeats
    parts = [f"{whole(found.empty)} empty"]
    if found.added:
        parts = [f"{whole(found.copies)} copies of a human reference", f"{whole(found.repeats)} repeats", *parts]
    return ", ".join(parts)


def copies_lines(measures: Measures) -> list[str]:
    """Copies of outputs among the references: the nearest to every original one, and every system for added ones."""
    nearest = {one.reference: one for one in reversed(measures.originals or ())}
    suspect = {True: ": the reference may have been made from its outputs", False: ""}
    originals = [f"{one}{suspect[one.suspect]}" for one in reversed(nearest.values())]
    told = {True: "circular: more copies than by chance", False: "no more copies than by chance"}
    return [*originals, *(f"{one}: {told[one.circular]}" for one in measures.copies or ())]


def summary(measures: Measures) -> str:
    """Segments and references in a sentence."""
    kinds = ", ".join(f"{whole(one.total)} {one.kind}" for one in measures.counts.spreads)
    human = ORIGINAL_KINDS & {one.kind for one in measures.counts.spreads}
    alone = ", no human reference" if kinds and not human else ""
    return f"{whole(measures.segments)} segment{'s' * (measures.segments != 1)}: {kinds or 'no'} references{alone}"


def sample_note(measures: Measures) -> str:
    """What diversity was measured on, where that is not everything; else nothing."""
    if measures.sampled == measures.segments:
        return ""
    return f"Diversity is of {whole(measures.sampled)} random segments (seed {measures.seed})."


def number(value: float, digits: int = 1) -> str:
    """A number as people write it; a dash where it is not defined."""
    return MISSING if math.isnan(value) else f"{round(value, digits) + 0.0:,.{digits}f}"


def whole(value: int) -> str:
    """A whole number with its thousands set apart."""
    return f"{value:,}"


def minus(text: str) -> str:
    """A number with the sign of print: a page shows it, a program does not read it."""
    return text.replace("-", "\N{MINUS SIGN}")


#: Marks a piece of a text by whether it is ``gone`` or ``new``.
Mark = Callable[[str, str], str]

_WIDTH: Final = 100
_INDENT: Final = 10
_NAMED: Final = ("generator", "decoding")
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_EXAMPLES: Final = 2
_MOST_IN_TERMINAL: Final = 3


def brackets(change: str, text: str) -> str:
    """What is gone as ``[-text-]`` and what is new as ``{+text+}``, as wdiff writes it."""
    return f"[-{text}-]" if change == "gone" else f"{{+{text}+}}"


def terminal_view(measures: Measures, mark: Mark = brackets) -> str:
    """The set in the order of what people ask first; what it does not know is left out.

    Args:
        measures: What is known.
        mark: Shows the words that an added reference leaves out (``gone``) and brings (``new``).
    """
    blocks = [f"{shown(measures.name)}: {summary(measures)}"]
    blocks += [_table(table) for table in (spread_table(measures), diversity_table(measures)) if table.rows]
    facts = [(name, value) for name, value in _facts(measures) if value]
    blocks.append("\n".join(_fact(name, value) for name, value in facts))
    blocks += _examples(measures, mark)
    return "\n\n".join(filter(None, blocks))


def _facts(measures: Measures) -> Iterator[tuple[str, str]]:
    counts = measures.counts
    for run in measures.runs:
        # The checks of a preset follow its name.
        rest = ", ".join(f"{key} {str(run[key]).partition(':')[0]}" for key in run if key not in _NAMED)
        yield "made by", " ".join(filter(None, [str(run.get("generator", "")), str(run.get("decoding", "")), rest]))
    yield "repeats", repeats_line(measures)
    yield from (("outputs", line) for line in copies_lines(measures))
    yield (
        "length",
        ", ".join(f"{number(value, 0)} characters {name}" for name, value in counts.lengths.items()),
    )
    for name, values, unit in (("score", counts.logprob, "nats"), ("weight", counts.weight, "")):
        yield name, _histogram(values, unit) if values else ""
    if measures.refusals:
        every = sum(one.count for one in measures.refusals)
        reasons = ", ".join(f"{one.reason} {whole(one.count)}" for one in measures.refusals)
        yield "refused", f"{whole(every)} candidate{'s' * (every > 1)}: {reasons}"
    yield "note", sample_note(measures)


def _histogram(values: Histogram, unit: str) -> str:
    most = max(values.counts)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] if count else " " for count in values.counts)
    return " ".join(filter(None, [f"{values.low:g} {bars} {values.high:g}", f"mean {number(values.mean, 2)}", unit]))


def _examples(measures: Measures, mark: Mark) -> Iterator[str]:
    for one in measures.examples[:_MOST_EXAMPLES]:
        lines = [f"segment {shown(one.segment.id)}"]
        lines += [f"  {shown(ref.text)}" for ref in one.segment.originals[:_MOST_IN_TERMINAL]]
        lines += [f"  + {_marked(added.pieces, mark)}" for added in one.added[:_MOST_IN_TERMINAL]]
        if len(one.added) > _MOST_IN_TERMINAL:
            lines.append(f"  and {len(one.added) - _MOST_IN_TERMINAL} more")
        yield "\n".join(lines)


def _marked(pieces: Sequence[Piece], mark: Mark) -> str:
    marked = (
        (shown(one.text) if one.change == "same" else mark(one.change, shown(one.text)), shown(one.space))
        for one in pieces
    )
    return "".join(text + space for text, space in marked)


def _table(table: Table) -> str:
    return text_table(table.header, [[cell.replace(MISSING, "-") for cell in row] for row in table.rows])


def _fact(name: str, value: str) -> str:
    lines = textwrap.wrap(shown(value), _WIDTH - _INDENT, break_on_hyphens=False, break_long_words=False)
    return f"{name:<{_INDENT}}" + f"\n{' ' * _INDENT}".join(lines)


#: Size of a drawing without its labels.
WIDTH: Final = 360.0
HEIGHT: Final = 110.0
_MOST_BARS: Final = 26


@dataclass(frozen=True)
class Bar:
    """One bar, in units of the drawing, and what it stands for."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True)
class Bars:
    """A bar chart: its bars, and labels under them: place from the left, which part of the label is there, label."""

    title: str
    note: str
    bars: Sequence[Bar]
    ticks: Sequence[tuple[float, str, str]]


def scored(title: str, values: Histogram) -> Bars:
    """How often which value occurs."""
    edges = [values.low + place * values.width for place in range(len(values.counts) + 1)]
    labels = [minus(f"{edges[i]:.3g} to {edges[i + 1]:.3g}") for i in range(len(values.counts))]
    middle = (values.low + values.high) / 2
    places = ((0.0, "start", values.low), (WIDTH / 2, "middle", middle), (WIDTH, "end", values.high))
    ticks = [(x, anchor, minus(f"{value:g}")) for x, anchor, value in places]
    return Bars(title, f"mean {minus(f'{values.mean:.2f}')}", _bars(values.counts, labels), ticks)


def counted(spread: Spread) -> Bars:
    """How many segments have how many references."""
    size = -(-len(spread.segments) // _MOST_BARS)
    starts = range(0, len(spread.segments), size)
    counts = [sum(spread.segments[start : start + size]) for start in starts]
    names = [str(start) if size == 1 else f"{start} to {start + size - 1}" for start in starts]
    step = WIDTH / len(counts)
    every = -(-len(counts) // 12)
    ticks = [(step * (place + 0.5), "middle", str(start)) for place, start in enumerate(starts) if place % every == 0]
    title = f"Segments by number of {spread.kind} references"
    return Bars(title, "", _bars(counts, [f"{name} references" for name in names]), ticks)


def _bars(counts: Sequence[int], labels: Sequence[str]) -> list[Bar]:
    step, most = WIDTH / len(counts), max(counts)
    gap = min(2.0, step / 5)
    return [
        Bar(
            round(place * step + gap / 2, 2),
            round(HEIGHT * (1 - count / most), 2),
            round(step - gap, 2),
            round(HEIGHT * count / most, 2),
            f"{label}: {count:,}",
        )
        for place, (count, label) in enumerate(zip(counts, labels, strict=True))
    ]


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
