"""Bar charts as rectangles to put into an SVG element; the template draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from polyref.eval.inspection.counts import Histogram, Spread
from polyref.eval.inspection.tables import minus

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
