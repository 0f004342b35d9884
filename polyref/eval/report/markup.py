"""Pieces of HTML. Everything that comes from data goes through :func:`escape`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as _escape

from polyref.eval.report.plots import Plot


def escape(text: object) -> str:
    """Text that a browser shows as it is, in an element or an attribute."""
    return _escape(str(text), quote=True)


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are aligned to the right and sorted by value."""

    title: str
    number: bool = False


@dataclass(frozen=True)
class Cell:
    """What a cell shows; ``value`` is what it is sorted by where that is another thing."""

    text: str
    value: float | None = None
    style: str = ""


def number(value: float | None, digits: int = 3, sign: str = "") -> Cell:
    """A number with its full value to sort by; a dash where it is undefined."""
    if value is None or math.isnan(value):
        return Cell("–")
    return Cell(f"{value:{sign}.{digits}f}".replace("-", "−"), value)


def whole(value: int | None) -> Cell:
    """A whole number."""
    return Cell("–") if value is None else Cell(str(value), value)


def interval(pair: tuple[float, float] | None, digits: int = 3, sign: str = "") -> Cell:
    """An interval, sorted by its lower end."""
    if pair is None:
        return Cell("–")
    low, high = (number(value, digits, sign).text for value in pair)
    return Cell(f"[{low}, {high}]", pair[0])


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, caption: str, sortable: bool = True) -> str:
    """A table that scrolls within itself where the page is narrow."""
    head = "".join(
        f'<th scope="col"{" class=number" if column.number else ""}>{escape(column.title)}</th>' for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, column) for cell, column in zip(row, columns, strict=True)) + "</tr>"
        for row in rows
    )
    kind = ' class="sortable"' if sortable else ""
    # A region that scrolls must be reachable by keyboard.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">\n<table{kind}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _cell(cell: Cell, column: Column) -> str:
    styles = " ".join(filter(None, ["number" if column.number else "", cell.style]))
    attributes = f' class="{styles}"' if styles else ""
    if column.number:
        attributes += f' data-value="{"" if cell.value is None else repr(float(cell.value))}"'
    return f"<td{attributes}>{escape(cell.text)}</td>"


def figure(plot: Plot) -> str:
    """A drawing with its description."""
    label = f'role="img" aria-label="{escape(f"{plot.title}. {plot.description}")}"'
    return f"<figure>{plot.svg.replace('<svg', f'<svg {label}', 1)}</figure>"


def figures(plots: Sequence[Plot]) -> str:
    """Drawings side by side, as many as fit."""
    return f'<div class="plots">\n{chr(10).join(map(figure, plots))}\n</div>'


def section(anchor: str, title: str, *parts: str) -> str:
    """A part of the page that the navigation leads to."""
    return f'<section id="{anchor}">\n<h2>{escape(title)}</h2>\n{chr(10).join(parts)}\n</section>'


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{f' class={style}' if style else ''}>{escape(text)}</p>"
