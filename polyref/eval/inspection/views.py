"""An inspection for a terminal, as one HTML page, and for a notebook.

The words and elements of the page are in ``templates``; the style is that of the report.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from polyref import __version__
from polyref.eval.inspection.counts import Diversity, Histogram, Spread
from polyref.eval.inspection.measures import Measures, Piece
from polyref.references import ORIGINAL_KINDS
from polyref.tables import Column, Table, page_templates, shown, text_table, written

if TYPE_CHECKING:
    from jinja2 import Environment

#: Marks a piece of a text by whether it is ``gone`` or ``new``.
Mark = Callable[[str, str], str]

_LINE: Final = 100
_INDENT: Final = 10
_NAMED: Final = ("generator", "decoding")
_BARS: Final = "▁▂▃▄▅▆▇█"
#: Examples in a terminal, and texts of a segment there and on the page; how many more there are is said.
_MOST_EXAMPLES: Final = 2
_MOST_TEXTS: Final = 3
_MOST_ON_PAGE: Final = 10
#: Size of a drawing without its labels.
_WIDTH: Final = 360.0
_HEIGHT: Final = 110.0
_MOST_BARS: Final = 26


def spread_table(measures: Measures) -> Table[Spread]:
    """References a segment, by kind."""

    def quartile(place: int, title: str) -> Column[Spread]:
        return Column(title, lambda one: f"{one.quartiles[place]:g}")

    columns: list[Column[Spread]] = [
        Column("references a segment", lambda one: one.kind),
        Column("in all", lambda one: one.total, sign=",", whole=True),
        Column("mean", lambda one: one.mean, 1, ","),
        Column("none", lambda one: one.none, sign=",", whole=True),
        *(quartile(place, title) for place, title in enumerate(("least", "25 %", "median", "75 %", "most"))),
    ]
    return Table("references a segment", columns, measures.counts.spreads)


def diversity_table(measures: Measures) -> Table[Diversity]:
    """How much the references of a segment differ."""
    columns: list[Column[Diversity]] = [
        Column("diversity", lambda one: one.group),
        Column("self-BLEU", lambda one: one.self_bleu, 1),
        Column("BLEU to human", lambda one: one.bleu_to_human, 1),
        Column("distinct-1 %", lambda one: 100 * one.distinct[0], 1),
        Column("distinct-2 %", lambda one: 100 * one.distinct[1], 1),
        Column("new 1-grams %", lambda one: 100 * one.new[0], 1),
        Column("new 2-grams %", lambda one: 100 * one.new[1], 1),
    ]
    return Table("diversity", columns, measures.diversity)


def _repeats(measures: Measures) -> str:
    """Copies, repeats and empty references in a sentence."""
    found = measures.counts.repeats
    added = f"{found.copies:,} copies of a human reference, {found.repeats:,} repeats, " if found.added else ""
    return f"{added}{found.empty:,} empty"


def _copies(measures: Measures) -> list[str]:
    """Copies of outputs among the references: the nearest to every original one, and every system for added ones."""
    nearest = {one.reference: one for one in reversed(measures.originals or ())}
    suspect = {True: ": the reference may have been made from its outputs", False: ""}
    told = {True: "circular: more copies than by chance", False: "no more copies than by chance"}
    return [
        *(f"{one}{suspect[one.suspect]}" for one in reversed(nearest.values())),
        *(f"{one}: {told[one.circular]}" for one in measures.copies or ()),
    ]


def summary(measures: Measures) -> str:
    """Segments and references in a sentence."""
    spreads, many = measures.counts.spreads, measures.segments
    kinds = ", ".join(f"{one.total:,} {one.kind}" for one in spreads)
    alone = ", no human reference" if spreads and not ORIGINAL_KINDS & {one.kind for one in spreads} else ""
    return f"{many:,} segment{'s' * (many != 1)}: {kinds or 'no'} references{alone}"


def _note(measures: Measures) -> str:
    """What diversity was measured on, where that is not everything."""
    if measures.sampled == measures.segments:
        return ""
    return f"Diversity is of {measures.sampled:,} random segments (seed {measures.seed})."


def brackets(change: str, text: str) -> str:
    """What is gone as ``[-text-]`` and what is new as ``{+text+}``, as wdiff writes it."""
    return f"[-{text}-]" if change == "gone" else f"{{+{text}+}}"


def terminal_view(measures: Measures, mark: Mark = brackets) -> str:
    """The set in the order of what people ask first; what it does not know is left out."""
    blocks = [f"{shown(measures.name)}: {summary(measures)}"]
    tables: list[Table[Spread] | Table[Diversity]] = [spread_table(measures), diversity_table(measures)]
    blocks += [text_table(one.header, one.texts()) for one in tables if one.items]
    blocks.append("\n".join(_fact(name, value) for name, value in _facts(measures) if value))
    return "\n\n".join(filter(None, [*blocks, *_examples(measures, mark)]))


def _facts(measures: Measures) -> Iterator[tuple[str, str]]:
    counts = measures.counts
    for run in measures.runs:
        # The checks of a preset follow its name.
        rest = ", ".join(f"{key} {str(run[key]).partition(':')[0]}" for key in run if key not in _NAMED)
        yield "made by", " ".join(filter(None, [*(str(run.get(key, "")) for key in _NAMED), rest]))
    yield "repeats", _repeats(measures)
    yield from (("outputs", line) for line in _copies(measures))
    yield "length", ", ".join(f"{written(value, 0, ',')} characters {name}" for name, value in counts.lengths.items())
    for name, values, unit in (("score", counts.logprob, "nats"), ("weight", counts.weight, "")):
        yield name, _histogram(values, unit) if values else ""
    if measures.refusals:
        every = sum(one.count for one in measures.refusals)
        reasons = ", ".join(f"{one.reason} {one.count:,}" for one in measures.refusals)
        yield "refused", f"{every:,} candidate{'s' * (every > 1)}: {reasons}"
    yield "note", _note(measures)


def _fact(name: str, value: str) -> str:
    lines = textwrap.wrap(shown(value), _LINE - _INDENT, break_on_hyphens=False, break_long_words=False)
    return f"{name:<{_INDENT}}" + f"\n{' ' * _INDENT}".join(lines)


def _histogram(values: Histogram, unit: str) -> str:
    most = max(values.counts)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] if count else " " for count in values.counts)
    return f"{values.low:g} {bars} {values.high:g} mean {written(values.mean, 2, ',')} {unit}".rstrip()


def _examples(measures: Measures, mark: Mark) -> Iterator[str]:
    def marked(piece: Piece) -> str:
        text = shown(piece.text)
        return (text if piece.change == "same" else mark(piece.change, text)) + shown(piece.space)

    for one in measures.examples[:_MOST_EXAMPLES]:
        lines = [f"segment {shown(one.segment.id)}"]
        lines += [f"  {shown(ref.text)}" for ref in one.segment.originals[:_MOST_TEXTS]]
        lines += [f"  + {''.join(map(marked, added.pieces))}" for added in one.added[:_MOST_TEXTS]]
        if len(one.added) > _MOST_TEXTS:
            lines.append(f"  and {len(one.added) - _MOST_TEXTS} more")
        yield "\n".join(lines)


def page(measures: Measures) -> str:
    """The whole page, which needs nothing but itself."""
    counts = measures.counts
    histograms = [
        ("Log-probability of added references (nats a token)", counts.logprob),
        ("Weight or adequacy of added references", counts.weight),
        ("Length of an added reference over that of the one it was made from", counts.length_ratio),
    ]
    return (
        _templates()
        .get_template("inspection.html.j2")
        .render(
            version=__version__,
            inspected=measures,
            counts=counts,
            summary=summary(measures),
            tiles=_tiles(measures),
            spread=spread_table(measures),
            differ=diversity_table(measures),
            repeats=_repeats(measures),
            copies=_copies(measures),
            note=_note(measures),
            spread_charts=[_counted(one) for one in counts.spreads if one.quartiles[0] < one.quartiles[-1]],
            score_charts=[_scored(title, values) for title, values in histograms if values is not None],
            most_added=_MOST_ON_PAGE,
        )
    )


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
            examples=_MOST_EXAMPLES,
            most_added=_MOST_TEXTS,
        )
    )


def _templates() -> Environment:
    templates = page_templates("polyref.eval.inspection", "polyref.eval.report")
    templates.filters.update(whole=lambda value: f"{value:,}", number=_printed)
    return templates


def _printed(value: float, digits: int = 1) -> str:
    """A number with the signs of print, which a program does not read."""
    return written(value, digits, ",", nothing="–").replace("-", "−")


def _tiles(measures: Measures) -> list[tuple[str, str]]:
    """The few numbers that people look for first: value and name."""
    counts, segments = measures.counts, (f"{measures.segments:,}", "segments")
    repeats = counts.repeats
    if not repeats.added:
        return [segments, (written(sum(one.mean for one in counts.spreads), 1, ","), "references a segment")]
    differ = measures.diversity[-1]
    return [
        segments,
        (written(repeats.added / measures.segments, 1, ","), "added references a segment"),
        (f"{counts.without_added:,}", "segments without any"),
        (f"{repeats.copies + repeats.repeats:,}", "copies and repeats"),
        (written(differ.bleu_to_human, 1, nothing="–"), "BLEU to the human references"),
        (written(differ.self_bleu, 1, nothing="–"), "self-BLEU of the added ones"),
    ]


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


def _scored(title: str, values: Histogram) -> Bars:
    """How often which value occurs."""

    def printed(text: str) -> str:
        return text.replace("-", "−")

    edges = [values.low + place * values.width for place in range(len(values.counts) + 1)]
    labels = [printed(f"{low:.3g} to {high:.3g}") for low, high in pairwise(edges)]
    places = {"start": (0.0, values.low), "middle": (_WIDTH / 2, (values.low + values.high) / 2)}
    places["end"] = (_WIDTH, values.high)
    ticks = [(x, anchor, printed(f"{value:g}")) for anchor, (x, value) in places.items()]
    return Bars(title, printed(f"mean {values.mean:.2f}"), _bars(values.counts, labels), ticks)


def _counted(spread: Spread) -> Bars:
    """How many segments have how many references."""
    size = -(-len(spread.segments) // _MOST_BARS)
    starts = range(0, len(spread.segments), size)
    counts = [sum(spread.segments[start : start + size]) for start in starts]
    labels = [f"{start if size == 1 else f'{start} to {start + size - 1}'} references" for start in starts]
    step, every = _WIDTH / len(counts), -(-len(counts) // 12)
    ticks = [(step * (place + 0.5), "middle", str(start)) for place, start in enumerate(starts) if place % every == 0]
    return Bars(f"Segments by number of {spread.kind} references", "", _bars(counts, labels), ticks)


def _bars(counts: Sequence[int], labels: Sequence[str]) -> list[Bar]:
    step, most = _WIDTH / len(counts), max(counts)
    gap = min(2.0, step / 5)
    return [
        Bar(
            round(place * step + gap / 2, 2),
            round(_HEIGHT * (1 - count / most), 2),
            round(step - gap, 2),
            round(_HEIGHT * count / most, 2),
            f"{label}: {count:,}",
        )
        for place, (count, label) in enumerate(zip(counts, labels, strict=True))
    ]
