"""What an evaluation found: rows for programs, tables for people and notebooks, a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from polyref.eval.averages import average_rows
from polyref.eval.experiments.evaluation import Evaluation
from polyref.eval.statistics.resampling import Bootstrap
from polyref.tables import data_frame, html_table, shown, text_table


@dataclass(frozen=True, repr=False, eq=False)
class EvaluationTable:
    """What :func:`polyref.evaluate` found.

    Attributes:
        evaluations: One for every set, language pair, generator and way with the human references.
        averages: Over language pairs, where there are several with more than three systems.
        settings: Every choice of the call, as plain JSON values.
        bootstrap: How intervals were made.
        correction: How p-values were corrected for their number, or None.
        baseline: Metric that gains are measured from, or None: each metric's own k = 0.
    """

    evaluations: tuple[Evaluation, ...]
    averages: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    correction: str | None = None
    baseline: str | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table as plain JSON values: one row a number, averages last; None where a value is undefined."""
        return [row for one in self.evaluations for row in one.row_values()] + average_rows(self.averages)

    @property
    def signature(self) -> str | list[str]:
        """What the rows of an evaluation share; a list where there are several."""
        shared = [one.signature for one in self.evaluations]
        return shared[0] if len(shared) == 1 else shared

    @property
    def notes(self) -> list[str]:
        """What the reader has to know: systems left out, segments without outputs, too few references."""
        return list(dict.fromkeys(note for one in self.evaluations for note in one.notes))

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(self.rows)

    def report(self, folder: str | Path, settings: Mapping[str, Any] | None = None) -> Path:
        """Write a report: a page for people, and the same numbers as CSV, LaTeX and JSON.

        Args:
            folder: An older report in it is replaced; anything else is not.
            settings: What the report says of how it came about, instead of :attr:`settings`.

        Returns:
            The page.

        Raises:
            DataError: The folder holds something else or cannot be written, or matplotlib is not installed.
        """
        from polyref.eval.report import Settings, write_report

        shown = self.settings if settings is None else settings
        write_report(
            folder,
            self.evaluations,
            self.averages,
            Settings(shown, self.bootstrap, self.correction, self.baseline),
        )
        return Path(folder) / "index.html"

    def text(self, width: int = 4) -> str:
        """A table for people with so many digits, then the signatures."""
        blocks = [text_table(*_cells(self.evaluations, width, self.correction))]
        if any(one.controls for one in self.evaluations):
            blocks += ["", "Against the placebo:", text_table(*_control_cells(self.evaluations, width))]
        if self.averages:
            blocks += ["", _averages_table(self.averages, width)]
        signatures = dict.fromkeys(s for one in self.evaluations for s in one.signatures.values())
        return "\n".join([*blocks, "", *(shown(one.signature) for one in self.evaluations), *map(shown, signatures)])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        rows = sum(len(one.rows) for one in self.evaluations)
        return f"EvaluationTable({rows} rows: {'; '.join(one.name for one in self.evaluations)})"

    def _repr_html_(self) -> str:
        caption = "; ".join(one.name for one in self.evaluations)
        return html_table(*_cells(self.evaluations, 4, self.correction), caption=caption)


def _cells(evaluations: Sequence[Evaluation], width: int, correction: str | None) -> tuple[list[str], list[list[str]]]:
    """Header and rows for people; columns that are the same in every row of several evaluations are left out."""
    shown, interval = partial(_shown, width=width), partial(_interval, width=width)
    front = _varying(evaluations)
    permuted = any(row.p_perm_both is not None for one in evaluations for row in one.rows)
    header = [*(name.removesuffix("_name") for name in front), "gold", "level", "metric", "k", "statistic", "value"]
    header += ["interval", "gain", "interval of gain", "p", *(["p (PERM-BOTH)"] if permuted else [])]
    header += [*([f"p ({correction})"] if correction else []), "n"]
    body = []
    for one in evaluations:
        for row in one.rows:
            base = not row.k and row.gain == 0  # the baseline itself
            cells = [*(str(getattr(one, name)) for name in front), row.gold, row.level, row.metric]
            cells += ["-" if row.k is None else str(row.k), row.statistic, shown(row.value), interval(row.ci)]
            cells += (
                ["-", "-", "-"] if base else [shown(row.gain, sign="+"), interval(row.gain_ci, sign="+"), shown(row.p)]
            )
            cells += [shown(None if base else row.p_perm_both)] if permuted else []
            cells += [shown(row.p_adjusted)] if correction else []
            body.append([*cells, str(row.n)])
    return header, body


def _control_cells(evaluations: Sequence[Evaluation], width: int) -> tuple[list[str], list[list[str]]]:
    """Header and rows: what added references gain, what a placebo of them gains, and the difference."""
    front = _varying(evaluations)
    header = [*(name.removesuffix("_name") for name in front), "level", "metric", "k", "statistic", "gain"]
    header += ["placebo", "real - placebo", "interval"]
    body = []
    for one in evaluations:
        for real, fake, difference in one.compared_with_placebo():
            cells = [*(str(getattr(one, name)) for name in front), real.level, real.metric, str(real.k)]
            cells += [real.statistic, *(_shown(value, width, "+") for value in (real.gain, fake.gain))]
            body.append([*cells, _shown(difference.value, width, "+"), _interval(difference.ci, width, "+")])
    return header, body


def _varying(evaluations: Sequence[Evaluation]) -> list[str]:
    """What differs between evaluations and has to be said in every row."""
    names = ("set_name", "pair", "generator", "originals")
    return [name for name in names if len({getattr(one, name) for one in evaluations}) > 1]


def _shown(value: float | None, width: int, sign: str = "") -> str:
    return "-" if value is None or math.isnan(value) else f"{value:{sign}.{width}f}"


def _interval(pair: tuple[float, float] | None, width: int, sign: str = "") -> str:
    return "-" if pair is None else f"[{_shown(pair[0], width, sign)}, {_shown(pair[1], width, sign)}]"


def _averages_table(averages: Sequence[dict[str, Any]], width: int) -> str:
    """The averages over language pairs, for people."""
    header = ["generator", "originals", "metric", "k", "average of pearson", "gain", "pairs", "n"]

    shown = partial(_shown, width=width)
    body = [
        [
            one["generator"] or "-",
            one["originals"],
            one["metric"],
            "-" if one["k"] is None else str(one["k"]),
            shown(one["value"]),
            shown(one["gain"], sign="+"),
            str(one["pairs"]),
            str(one["n"]),
        ]
        for one in averages
    ]
    return text_table(header, body)
