"""What an evaluation found: rows for programs, tables for people and notebooks, a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polyref.errors import UsageError
from polyref.eval.agreement import Row
from polyref.eval.evaluation import Evaluation, plain, without_human
from polyref.eval.statistics.base import Bootstrap
from polyref.eval.text_tables import evaluation_text, statistic_tables
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import plain_copies
from polyref.tables import data_frame, html_table


def fisher_average(correlations: Sequence[float], counts: Sequence[int]) -> float:
    """Average of correlations over language pairs by Fisher's z (Agrawal et al. 2021, section 3.3).

    z = atanh(r) has variance 1 / (n - 3), so pairs are weighted by n - 3; the mean is turned back by tanh.

    Args:
        correlations: One a language pair, -1 to 1; NaN is left out.
        counts: Number of points behind each, more than 3.

    Returns:
        The average; NaN where nothing is left.
    """
    total = weight = 0.0
    for r, n in zip(correlations, counts, strict=True):
        if math.isnan(r):
            continue
        # A perfect correlation has no finite z.
        total += (n - 3) * math.atanh(min(max(r, -1 + 1e-15), 1 - 1e-15))
        weight += n - 3
    return math.tanh(total / weight) if weight else math.nan


#: What an average is over: set, language pair, judgement, and which of several with the same names.
_Place = tuple[str, str, str, int]


def average_over_pairs(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Fisher-z averages over language pairs of Pearson's r at system level (Agrawal et al. 2021, section 3.3).

    Args:
        evaluations: Of several language pairs.

    Returns:
        One row for each generator, originals, metric and k, over the language pairs with more than three systems and a
        defined correlation: ``value``, ``gain`` (None for stored scores without a baseline), ``pairs`` and ``n``
        (systems in all). The gain is over those of them where the baseline's correlation is defined as well; None
        where that is nowhere.
    """
    grouped: dict[tuple[str, str, str, int | None], dict[_Place, Row]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for one, row in [(found, row) for found in evaluations for row in found.rows]:
        if row.level == "sys" and row.statistic == "pearson" and row.n > 3:
            key = (one.generator, one.originals, row.metric, row.k)
            named = (one.set_name, one.pair, row.gold)
            seen[key, named] += 1  # two sets may have one name
            if not math.isnan(row.value):
                grouped.setdefault(key, {})[(*named, seen[key, named])] = row

    def gain_of(rows: Iterable[Row]) -> float | None:
        """Over the pairs that have one: what a row gains over is its value without its gain, asked for or not."""
        gains = [row for row in rows if row.gain is not None and not math.isnan(row.gain)]
        if not gains:
            return None
        return _averaged(gains) - _averaged([replace(row, value=row.value - (row.gain or 0.0)) for row in gains])

    return [
        {
            "generator": generator,
            "originals": originals,
            "metric": metric,
            "k": k,
            "value": _averaged(list(rows.values())),
            "gain": gain_of(rows.values()),
            "pairs": len(rows),
            "n": sum(row.n for row in rows.values()),
        }
        for (generator, originals, metric, k), rows in grouped.items()
    ]


def average_rows(averages: Sequence[Mapping[str, Any]], keys: Iterable[str]) -> list[dict[str, Any]]:
    """The averages as rows with an evaluation's keys; ``pair`` says ``average``, ``n`` counts all systems."""
    empty = dict.fromkeys(keys)
    return [
        {
            **empty,
            "pair": "average",
            "generator": one["generator"] or None,
            "originals": one["originals"],
            "level": "sys",
            "metric": one["metric"],
            "k": one["k"],
            "statistic": "pearson",
            "value": plain(one["value"]),
            "gain": plain(one["gain"]),
            "n": one["n"],
            "signature": f"fisher-z|pairs:{one['pairs']}",
            **({"control": "real"} if "control" in empty else {}),
        }
        for one in averages
    ]


def _averaged(rows: Sequence[Row]) -> float:
    return fisher_average([row.value for row in rows], [row.n for row in rows])


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
        from polyref.eval.report.page import Settings
        from polyref.eval.report.write import write_report

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
