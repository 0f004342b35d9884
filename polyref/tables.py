"""Rows for people and for other programs: aligned text, LaTeX, HTML for notebooks, a pandas data frame."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, Final

from polyref.errors import UsageError

#: What a terminal obeys instead of showing it: control characters, line and paragraph separators, marks of direction;
#: and what cannot be written: surrogates.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: How Python reads bytes of file names that are not UTF-8 (PEP 383).
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
_LATEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\symbol{34}", "–": r"\textendash{}", "±": r"$\pm$", "τ": r"$\tau$", "ρ": r"$\rho$",
}  # fmt: skip


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
    seen = "".join(" " if unicodedata.category(one) in {"Cc", "Zl", "Zp"} else _LATEX.get(one, one) for one in text)
    return re.sub("-(?=-)", "-{}", seen)  # two would become a dash


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """The same for a notebook, with everything escaped."""
    titled = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{titled}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame with one line a row; objects within a row become columns of their own, ``outer.inner``."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise UsageError("pandas is not installed", remedy="pip install pandas, or use .rows") from None
    return pandas.json_normalize(list(rows))


def _numeric(cell: str) -> bool:
    return not cell or cell == "-" or cell.lstrip("+-").replace(".", "", 1).isdigit()
