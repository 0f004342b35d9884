"""Tables for people and for other programs: a column is said once, whether it is printed, put on a page or exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from polyref.errors import UsageError
from polyref.values import visible

if TYPE_CHECKING:
    from jinja2 import Environment

Item = TypeVar("Item")

#: What a terminal obeys instead of showing it: control characters, line and paragraph separators, marks of direction;
#: and what cannot be written: surrogates.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: How Python reads bytes of file names that are not UTF-8 (PEP 383).
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
_LATEX: Final = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "–": r"\textendash{}",
    "±": r"$\pm$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
}


class Cell(NamedTuple):
    """What a cell of a page shows.

    ``value`` is what it is sorted by in a column of numbers, ``style`` its class in the style sheet.
    """

    text: str
    value: float | None = None
    style: str = ""


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column of a table, said once for every form that the table has.

    Attributes:
        title: What stands above it; an empty one leaves it out of texts.
        value: What it holds of an item: a text, a number, or an interval of two numbers; None or NaN where there
            is nothing.
        digits: Of numbers and intervals, unless a table is asked for others; None for texts and whole numbers.
        sign: ``+`` is written before what is above zero, ``,`` between thousands.
        p: Whether it holds p-values, which are never zero.
        whole: Whether it holds whole numbers.
        page: Title on a page, if another one; an empty one leaves it out of pages.
        form: How texts write a number, instead of with ``digits``: ``.3g``.
        shown: What a page shows of an item, instead of ``value``.
    """

    title: str
    value: Callable[[Item], Any]
    digits: int | None = None
    sign: str = ""
    p: bool = False
    whole: bool = False
    page: str | None = None
    form: str = ""
    shown: Callable[[Item], Cell] | None = None

    @property
    def number(self) -> bool:
        """Whether a page aligns it to the right and sorts it by value."""
        return self.whole or self.digits is not None

    def text(self, item: Item, digits: int | None = None) -> str:
        """What is printed of an item, with so many digits instead of its own; ``-`` for nothing."""
        value = self.value(item)
        if self.form and value is not None:
            return f"{value:{self.form}}"
        return written(value, self.digits if digits is None or self.digits is None else digits, self.sign, p=self.p)

    def cell(self, item: Item) -> Cell:
        """What a page shows of an item, with the signs of print."""
        if self.shown is not None:
            return self.shown(item)
        value = self.value(item)
        if not self.number:
            return Cell("–" if value is None else str(value))
        text = written(value, self.digits, self.sign, p=self.p, nothing="–").replace("-", "−")
        first = value[0] if isinstance(value, tuple) else value
        return Cell(text, None if first is None or first != first else float(first))


@dataclass(frozen=True)
class Table(Generic[Item]):
    """A table: its title, its columns, and a row for every item."""

    title: str
    columns: Sequence[Column[Item]]
    items: Sequence[Item]

    def filled(self, *kept: str) -> Table[Item]:
        """Without the columns that hold nothing, but for those that are named."""
        empty = {"", "-", "–"}
        there = [
            one for one in self.columns if one.title in kept or any(one.text(item) not in empty for item in self.items)
        ]
        return replace(self, columns=there)

    def without(self, *titles: str) -> Table[Item]:
        """Without some columns."""
        return replace(self, columns=[one for one in self.columns if one.title not in titles])

    @property
    def in_text(self) -> Table[Item]:
        """With the columns of texts."""
        return replace(self, columns=[one for one in self.columns if one.title])

    @property
    def on_page(self) -> Table[Item]:
        """With the columns of pages, under the titles they have there."""
        titled = [one if one.page is None else replace(one, title=one.page) for one in self.columns]
        return replace(self, columns=[one for one in titled if one.title])

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return [one.title for one in self.columns]

    def texts(self, digits: int | None = None) -> list[list[str]]:
        """The rows as they are printed, with so many digits instead of those of the columns."""
        return [[one.text(item, digits) for one in self.columns] for item in self.items]

    @property
    def rows(self) -> list[list[Cell]]:
        """The rows of a page."""
        return [[one.cell(item) for one in self.columns] for item in self.items]


def written(value: Any, digits: int | None = None, sign: str = "", *, p: bool = False, nothing: str = "-") -> str:
    """A value as people read it: a number with so many digits, or an interval; ``nothing`` for None and NaN.

    Args:
        value: A text, a number, or a tuple of two.
        digits: None writes texts and whole numbers as they are.
        sign: Of the format: ``+`` before what is above zero, ``,`` between thousands.
        p: It is a p-value, which is never zero.
        nothing: What stands for None and NaN.
    """
    if value is None or value != value:
        return nothing
    if isinstance(value, tuple):
        return f"[{', '.join(written(end, digits, sign, nothing=nothing) for end in value)}]"
    if digits is None:
        return f"{value:{sign}}" if sign else str(value)
    text = f"{round(value, digits) + 0.0:{sign}.{digits}f}"
    return f"<{10.0**-digits:.{digits}f}" if p and digits and text == f"{0:.{digits}f}" else text


def page_templates(*packages: str) -> Environment:
    """The templates of some packages, which escape everything but markup."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    return Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else visible(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown(text: str) -> str:
    r"""Text on one line that a terminal shows and does not obey: an escape character becomes ``\x1b``."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), name_as_text(text))


def name_as_text(name: str) -> str:
    r"""A file name as text that can be written: a byte of it that is not UTF-8 becomes ``\xff``."""
    return _NO_TEXT.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", name)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with two spaces between them: the first to the left, those that are all numbers to the right.

    Names come from files and can hold anything: they are :func:`shown`.
    """
    header, rows = [shown(cell) for cell in header], [[shown(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    right = [bool(rows) and all(_numeric(row[i]) for row in rows) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""The same for a paper (needs ``\usepackage{booktabs}``), with everything escaped."""
    right = [bool(rows) and all(_numeric(row[i]) for row in rows) for i in range(len(header))]
    head, *body = [" & ".join(map(escape_latex, line)) + r" \\" for line in [header, *rows]]
    columns = "".join("r" if one else "l" for one in right)
    end = (r"\bottomrule", r"\end{tabular}")
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, *end])


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    seen = "".join(_LATEX.get(one, one) for one in _UNSEEN.sub(" ", text))
    return re.sub("-(?=-)", "-{}", seen)  # two would become a dash


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame with one line a row; objects within a row become columns of their own, ``outer.inner``."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise UsageError("pandas is not installed", remedy="pip install pandas, or use .rows") from None
    return pandas.json_normalize(list(rows))


def _numeric(cell: str) -> bool:
    return not cell or cell == "-" or cell.lstrip("+-").replace(".", "", 1).isdigit()
