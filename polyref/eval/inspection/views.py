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
_MOST_EXAMPLES: Final = 3
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
        Column("BLEU to human", lambda one: one.bleu_to_human, 1),
        Column("distinct-1 %", lambda one: 100 * one.distinct[0], 1),
        Column("distinct-2 %", lambda one: 100 * one.distinct[1], 1),
        Column("new 1-grams %", lambda one: 100 * one.new[0], 1),
        Column("new 2-grams %", lambda one: 100 * one.new[1], 1),
        Column("self-BLEU", lambda one: one.self_bleu, 1),
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
    """What faults were looked for in and diversity was measured on, where that is not everything."""
    if measures.sampled == measures.segments:
        return ""
    return f"Faults and diversity are of {measures.sampled:,} random segments (seed {measures.seed})."


def _faults(measures: Measures) -> str:
    """How many references have a fault, and which."""
    where = "" if measures.sampled == measures.segments else f" in {measures.sampled:,} random segments"
    if not measures.faults:
        return f"No reference with a fault was found{where}; random ones:"
    many = sum(measures.faults.values())
    named = ", ".join(f"{fault} {count:,}" for fault, count in measures.faults.items())
    return f"{many:,} reference{' has' if many == 1 else 's have'} a fault{where} ({named}). Such segments come first:"


def _missing(measures: Measures) -> list[str]:
    """What the set does not say, and how it can be had."""
    counts = measures.counts
    if not counts.repeats.added:
        return ["added references (polyref augment makes some)"]
    missing = {
        "who made the references": bool(measures.runs) or any(counts.generators),
        "scores of their generator": counts.logprob is not None,
        "weights (a filter that measures adequacy writes them)": counts.weight is not None,
        "refused candidates (polyref augment --dropped FILE, polyref inspect --dropped FILE)": measures.refusals
        is not None,
        "whether outputs of systems are among them (polyref inspect -i SYS)": measures.copies is not None,
    }
    return [what for what, there in missing.items() if not there]


def brackets(change: str, text: str) -> str:
    """What is gone as ``[-text-]`` and what is new as ``{+text+}``, as wdiff writes it."""
    return f"[-{text}-]" if change == "gone" else f"{{+{text}+}}"


def terminal_view(measures: Measures, mark: Mark = brackets) -> str:
    """The set in the order of what people ask first; what it does not know is left out."""
    blocks = [f"{shown(measures.name)}: {summary(measures)}", *_examples(measures, mark)]
    spread, differ = spread_table(measures), diversity_table(measures)
    blocks += [text_table(spread.header, spread.texts())] if spread.items else []
    blocks.append("\n".join(_fact(name, value) for name, value in _facts(measures) if value))
    blocks += [text_table(differ.header, differ.texts())] if differ.items else []
    return "\n\n".join(filter(None, blocks))


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
    yield "unknown", "; ".join(_missing(measures))
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

    if not measures.examples:
        return
    added = measures.counts.repeats.added
    differ = f"{mark('gone', 'words')} it leaves out, {mark('new', 'words')} it brings"
    legend = f"! has that fault, + none was found; {differ}" if measures.faults else differ
    yield f"{_faults(measures)}\n({legend})" if added else _faults(measures)
    for one in measures.examples[:_MOST_EXAMPLES]:
        lines = [f"segment {shown(one.segment.id)}"]
        originals = one.segment.originals[:_MOST_TEXTS]
        lines += [f"  {shown(ref.text)}" if ref.text.strip() else "  ! empty" for ref in originals]
        for own in one.added[:_MOST_TEXTS]:
            lines.append(f"  {f'! {own.fault}:' if own.fault else '+'} {''.join(map(marked, own.pieces))}")
        if len(one.added) > _MOST_TEXTS:
            lines.append(f"  and {len(one.added) - _MOST_TEXTS} more")
        yield "\n".join(lines)


def page(measures: Measures) -> str:
    """The whole page, which needs nothing but itself."""
    counts = measures.counts
    histograms = [
        ("Log-probability of added references", "nats a token, as their generator gave it", counts.logprob),
        ("Weight of added references", "adequacy that a filter measured, 1 is best", counts.weight),
        (
            "Length of added references",
            "characters over those of the reference each was made from",
            counts.length_ratio,
        ),
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
            faults=_faults(measures),
            missing=_missing(measures),
            spread_charts=[_counted(one) for one in counts.spreads if one.quartiles[0] < one.quartiles[-1]],
            score_charts=[_scored(title, axis, values) for title, axis, values in histograms if values],
            most_added=_MOST_ON_PAGE,
        )
    )


def notebook_view(measures: Measures) -> str:
    """Some examples and the tables, for the output of a cell."""
    return (
        _templates()
        .get_template("notebook.html.j2")
        .render(
            inspected=measures,
            summary=summary(measures),
            spread=spread_table(measures),
            differ=diversity_table(measures),
            faults=_faults(measures),
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
    return [
        segments,
        (written(repeats.added / measures.segments, 1, ","), "added references a segment"),
        (f"{counts.without_added:,}", "segments without any"),
        (f"{sum(measures.faults.values()):,}", f"faults in {measures.sampled:,} segments"),
        (f"{repeats.copies + repeats.repeats:,}", "copies and repeats"),
        (written(measures.diversity[-1].bleu_to_human, 1, nothing="–"), "BLEU to the human references"),
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
    """A bar chart: its title, what its axes are, its bars, and labels under them: place, part that is there, label."""

    title: str
    caption: str
    bars: Sequence[Bar]
    ticks: Sequence[tuple[float, str, str]]


def _scored(title: str, axis: str, values: Histogram) -> Bars:
    """How often which value occurs."""

    def printed(text: str) -> str:
        return text.replace("-", "−")

    edges = [values.low + place * values.width for place in range(len(values.counts) + 1)]
    labels = [printed(f"{low:.3g} to {high:.3g}") for low, high in pairwise(edges)]
    places = {"start": (0.0, values.low), "middle": (_WIDTH / 2, (values.low + values.high) / 2)}
    places["end"] = (_WIDTH, values.high)
    ticks = [(x, anchor, printed(f"{value:g}")) for anchor, (x, value) in places.items()]
    many = f"Height: references, the highest bar {max(values.counts):,}; mean {printed(f'{values.mean:.2f}')}."
    return Bars(title, f"Across: {axis}. {many}", _bars(values.counts, labels), ticks)


def _counted(spread: Spread) -> Bars:
    """How many segments have how many references."""
    size = -(-len(spread.segments) // _MOST_BARS)
    starts = range(0, len(spread.segments), size)
    counts = [sum(spread.segments[start : start + size]) for start in starts]
    labels = [f"{start if size == 1 else f'{start} to {start + size - 1}'} references" for start in starts]
    step, every = _WIDTH / len(counts), -(-len(counts) // 12)
    ticks = [(step * (place + 0.5), "middle", str(start)) for place, start in enumerate(starts) if place % every == 0]
    many = f"Height: segments, the highest bar {max(counts):,}."
    title = f"{spread.kind.capitalize()} references of a segment"
    return Bars(title, f"Across: number of them. {many}", _bars(counts, labels), ticks)


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
