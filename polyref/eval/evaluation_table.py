"""What an evaluation found: rows for programs, tables for people and notebooks, a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyref.errors import UsageError
from polyref.eval.agreement import Row
from polyref.eval.columns import (
    LENGTH_ROW,
    Evaluated,
    Line,
    agreement_columns,
    average_columns,
    in_a_terminal,
    placebo_columns,
    placebo_lines,
)
from polyref.eval.evaluation import Evaluation, plain, without_human
from polyref.eval.statistics.named import STATISTICS, arrow, gold_name, level_name, statistic_name
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import plain_copies
from polyref.metrics.signature import digest
from polyref.tables import Table, data_frame, shown, text_table
from polyref.values import html_table


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


class EvaluationTable(Evaluated):
    """What :func:`polyref.evaluate` found.

    Attributes:
        evaluations: One for every set, language pair, generator and way with the human references.
        averages: Over language pairs, where there are several with more than three systems.
        settings: Every choice of the call, as plain JSON values.
        bootstrap: How intervals were made.
        correction: How p-values were corrected for their number, or None.
        baseline: Metric that gains are measured from, or None: each metric's own k = 0.
    """

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
        return [{**one.place, **row} for one in self.evaluations for row in plain_copies(one.copies)]

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
            DataError: The folder holds something else or cannot be written.
            UsageError: The metrics are about segments alone (``peers``).
        """
        if any(one.peers for one in self.evaluations):
            raise UsageError("a report is about systems, and `peers` about segments alone", remedy="take the rows")
        from polyref.eval.report.write import write_report

        write_report(folder, self if settings is None else replace(self, settings=settings))
        return Path(folder) / "index.html"

    def text(self, width: int = 4, *, full: bool = False) -> str:
        """Tables for people, one for each statistic, with so many digits.

        Args:
            width: Digits of values, gains and intervals.
            full: Write signatures in full, not as hashes of ten digits.
        """
        return _text(self, width, full=full)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        rows = sum(len(one.rows) for one in self.evaluations)
        return f"EvaluationTable({rows} rows: {'; '.join(one.name for one in self.evaluations)})"

    def _repr_html_(self) -> str:
        return "".join(html_table(one.header, one.texts(4), caption=one.title) for one in _statistic_tables(self))


def _text(table: EvaluationTable, width: int, *, full: bool) -> str:
    """All tables, and the signatures, in full or as hashes."""
    tables: list[Table[Any]] = [*_statistic_tables(table), *_placebo_tables(table)]
    if table.averages:
        title = "Pearson's r of systems ↑, averaged over language pairs"
        tables.append(Table(title, average_columns(table), table.averages))
    blocks = [_headline(table)]
    blocks += [f"{shown(one.title)}\n{text_table(one.header, one.texts(width))}" for one in tables]
    blocks += [shown(remark) for remark in dict.fromkeys(text for one in table.evaluations for text in one.remarks)]
    if full:
        of_metrics = dict.fromkeys(s for one in table.evaluations for s in one.signatures.values())
        blocks.append("\n".join(map(shown, (*(one.signature for one in table.evaluations), *of_metrics))))
    else:
        hashes = list(signatures(table))
        blocks.append(
            f"Signature{'s' * (len(table.evaluations) > 1)}: {' '.join(hashes)} (in full, with those of the metrics: "
            f"-v, --json, or polyref info {hashes[0]})"
        )
    return "\n\n".join(blocks)


def signatures(table: EvaluationTable) -> dict[str, str]:
    """What every hash that is printed stands for: the signature of an evaluation, and those of its metrics."""
    whole = ["\n".join([one.signature, *dict.fromkeys(one.signatures.values())]) for one in table.evaluations]
    return {digest(signatures): signatures for signatures in whole}


def _headline(table: EvaluationTable) -> str:
    """What all tables share."""
    said = [f"Agreement with people: {shown(', '.join(one.name for one in table.evaluations))}"]
    if table.bootstrap.resamples:
        often = f"{table.redrawn} redrawn {table.bootstrap.resamples} times"
        said.append(f"{table.confidence} intervals: {often}")
    gains = table.baseline or f"the same metric with k = {table.first_ks}"
    said.append(f"gains over {shown(gains)}")
    if any(row.p is not None for one in table.evaluations for row in one.rows):
        said.append("p-values are one-sided, verdicts two-sided at 5 %")
    return f"{'; '.join(said)}."


def _statistic_tables(table: EvaluationTable) -> Iterator[Table[Line]]:
    """A table for every statistic, in the order of the rows; the rate of ties is a column of what leaves them out."""
    every = [(one, row) for one in table.evaluations for row in one.rows]
    ties = {(id(one), row.metric, row.k): row.value for one, row in every if row.statistic == "tie-rate"}
    columns = in_a_terminal(agreement_columns(table))
    lines = [
        Line(
            one,
            row,
            table.metrics[row.metric],
            ties.get((id(one), row.metric, row.k)) if row.statistic.endswith("without-ties") else None,
        )
        for one, row in every
        if row.statistic != "tie-rate"
    ]
    for title, together in _by_statistic(lines):
        same = ["gold"] * (len({line.row.gold for line in together}) == 1)
        same += ["n"] * (len({line.row.n for line in together}) == 1)
        yield _without_shared(table, Table(title, columns, together)).without(*same).filled("value", "gold", "n")


def _placebo_tables(table: EvaluationTable) -> Iterator[Table[Line]]:
    """What added references gain, what a placebo of them gains, and the difference: a table for every statistic."""
    for title, lines in _by_statistic(placebo_lines(table)):
        yield _without_shared(table, Table(f"Against the placebo: {title}", placebo_columns(table), lines))


def _without_shared(table: EvaluationTable, made: Table[Line]) -> Table[Line]:
    """A table for a terminal without what all evaluations share."""
    places = [one.place for one in table.evaluations]
    return made.in_text.without(*(name for name in places[0] if len({one[name] for one in places}) == 1))


def _by_statistic(lines: Iterable[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Lines of one statistic, under titles such as ``Kendall's τ within segments (without ties) ↑, MQM, 9 outputs``."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.row.level, line.row.statistic), []).append(line)
    for (level, statistic), together in groups.items():
        label = statistic_name(statistic)
        if statistic in STATISTICS and "segment" not in label:
            place = level_name(statistic, level)
            label += {"systems": " of systems", "all outputs": " of all outputs (pooled)"}.get(place, f" {place}")
        parts = [f"{label} {arrow(statistic, level)}".rstrip()]
        rows = [line.row for line in together if line.metric != LENGTH_ROW]
        golds, counts = {gold_name(row.gold) for row in rows}, {row.n for row in rows}
        parts += golds if len(golds) == 1 else []
        if len(counts) == 1:
            what = "systems" if level == "sys" else "rankings" if "darr" in statistic else "outputs"
            parts.append(f"{counts.pop()} {'pairs' if statistic.startswith('pairs-') else what}")
        title = ", ".join(parts)
        yield title[0].upper() + title[1:], together
