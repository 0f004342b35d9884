"""What an evaluation found: rows for programs, tables for people and notebooks, a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyref.errors import UsageError
from polyref.eval.averages import average_rows
from polyref.eval.evaluation import Evaluation, without_human
from polyref.eval.statistics.base import Bootstrap
from polyref.eval.text_tables import evaluation_text, statistic_tables
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import plain_copies
from polyref.tables import data_frame, html_table


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
        rows = [row for one in self.evaluations for row in one.row_values()]
        # Some rows say more, such as why a verdict is withheld.
        shared = [key for key in (rows[0] if rows else ()) if all(key in row for row in rows)]
        return rows + average_rows(self.averages, shared)

    @property
    def signature(self) -> str | list[str]:
        """What the rows of an evaluation share; a list where there are several."""
        shared = [one.signature for one in self.evaluations]
        return shared[0] if len(shared) == 1 else shared

    @property
    def notes(self) -> list[str]:
        """What the reader has to know: systems left out, segments without outputs, too few references."""
        return list(dict.fromkeys(note for one in self.evaluations for note in one.notes))

    @property
    def without_human(self) -> list[str]:
        """What is said of evaluations whose references are all added ones."""
        return [f"{one.name}: {NO_HUMAN}" for one in self.evaluations if without_human(one.references)]

    @property
    def circular(self) -> list[dict[str, Any]]:
        """Copies of outputs among the added references, of every system and k: counts, and whether it is circular."""
        return [
            {
                "set": one.set_name,
                "pair": one.pair,
                "generator": one.generator or None,
                "originals": one.originals,
                **row,
            }
            for one in self.evaluations
            for row in plain_copies(one.copies)
        ]

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
            UsageError: The metrics are about segments alone (``peers``).
        """
        if any(one.peers for one in self.evaluations):
            raise UsageError("a report is about systems, and `peers` about segments alone", remedy="take the rows")
        from polyref.eval.report import Settings, write_report

        shown = self.settings if settings is None else settings
        write_report(
            folder,
            self.evaluations,
            self.averages,
            Settings(shown, self.bootstrap, self.correction, self.baseline),
        )
        return Path(folder) / "index.html"

    def text(self, width: int = 4, *, full: bool = False) -> str:
        """Tables for people, one for each statistic, with so many digits.

        Args:
            width: Digits of values, gains and intervals.
            full: Write signatures in full, not as hashes of ten digits.
        """
        return evaluation_text(self, width, full=full)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        rows = sum(len(one.rows) for one in self.evaluations)
        return f"EvaluationTable({rows} rows: {'; '.join(one.name for one in self.evaluations)})"

    def _repr_html_(self) -> str:
        return "".join(html_table(header, body, caption=title) for title, header, body in statistic_tables(self, 4))
