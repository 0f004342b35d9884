"""An evaluation as tables for a terminal: one for each statistic, what is the same in all rows said once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from polyref.eval.agreement import Row, p_behind
from polyref.eval.evaluation import Evaluation
from polyref.eval.names import LENGTH_ROW, arrow, gold_name, level_name, metric_names, statistic_name
from polyref.eval.statistics.base import Bootstrap
from polyref.eval.statistics.named import STATISTICS
from polyref.metrics.signature import digest
from polyref.tables import shown, text_table

#: A title, the header of its table, and the rows.
Titled = tuple[str, list[str], list[list[str]]]


class Table(Protocol):
    """What is printed of an evaluation: see :class:`polyref.eval.evaluation_table.EvaluationTable`."""

    @property
    def evaluations(self) -> Sequence[Evaluation]:
        """One for every set, language pair, generator and way with the human references."""

    @property
    def averages(self) -> Sequence[Mapping[str, Any]]:
        """Over language pairs."""

    @property
    def bootstrap(self) -> Bootstrap:
        """How intervals were made."""

    @property
    def correction(self) -> str | None:
        """How p-values were corrected."""

    @property
    def baseline(self) -> str | None:
        """What gains are measured from."""


def evaluation_text(table: Table, width: int, *, full: bool) -> str:
    """All tables with so many digits, and the signatures, in full or as hashes."""
    blocks = [_headline(table)]
    tables = [*statistic_tables(table, width), *_placebo_tables(table, width)]
    if table.averages:
        tables.append(("Pearson's r of systems ↑, averaged over language pairs", *_average_cells(table, width)))
    blocks += [f"{shown(title)}\n{text_table(header, body)}" for title, header, body in tables]
    blocks += [shown(remark) for remark in dict.fromkeys(text for one in table.evaluations for text in one.remarks)]
    own = [one.signature for one in table.evaluations]
    of_metrics = dict.fromkeys(s for one in table.evaluations for s in one.signatures.values())
    if full:
        blocks.append("\n".join(shown(signature) for signature in (*own, *of_metrics)))
    else:
        hashes = list(signatures(table))
        blocks.append(f"Signature{'s' * (len(own) > 1)}: {' '.join(hashes)} (in full, with those of the metrics: -v, "
                      f"--json, or polyref info {hashes[0]})")  # fmt: skip
    return "\n\n".join(blocks)


def signatures(table: Table) -> dict[str, str]:
    """What every hash that is printed stands for: the signature of an evaluation, and those of its metrics."""
    whole = ["\n".join([one.signature, *dict.fromkeys(one.signatures.values())]) for one in table.evaluations]
    return {digest(signatures): signatures for signatures in whole}


def statistic_tables(table: Table, width: int) -> Iterator[Titled]:
    """A table for every statistic, in the order of the rows; the rate of ties is a column of what leaves them out."""
    every = [(one, row) for one in table.evaluations for row in one.rows]
    names = metric_names(row.metric for _, row in every)
    ties = {(id(one), row.metric, row.k): row.value for one, row in every if row.statistic == "tie-rate"}
    groups: dict[tuple[str, str], list[tuple[Evaluation, Row]]] = {}
    for one, row in every:
        if row.statistic != "tie-rate":
            groups.setdefault((row.level, row.statistic), []).append((one, row))
    for (level, statistic), rows in groups.items():
        of_ties = ties if statistic.endswith("without-ties") else {}
        yield _title(level, statistic, rows), *_cells(table, rows, names, of_ties, width)


def _headline(table: Table) -> str:
    """What all tables share."""
    names = ", ".join(one.name for one in table.evaluations)
    said = [f"Agreement with people: {shown(names)}"]
    gains = f"{table.baseline}" if table.baseline else f"the same metric with k = {first_ks(table.evaluations)}"
    if table.bootstrap.resamples:
        over = {"both": "segments and systems"}.get(table.bootstrap.over, table.bootstrap.over)
        said.append(f"{_percent(table)} intervals: {over} redrawn {table.bootstrap.resamples} times")
    said.append(f"gains over {shown(gains)}")
    if any(row.p is not None for one in table.evaluations for row in one.rows):
        said.append("p-values are one-sided, verdicts two-sided at 5 %")
    return f"{'; '.join(said)}."


def first_ks(evaluations: Sequence[Evaluation]) -> str:
    """The values of k that gains start from."""
    firsts = {k for one in evaluations for series in one.series for k in series.ks[:1]}
    return " or ".join(map(str, sorted(k for k in firsts if k is not None))) or "0"


def _percent(table: Table) -> str:
    return f"{100 * table.bootstrap.confidence:g} %"


def _title(level: str, statistic: str, rows: Sequence[tuple[Evaluation, Row]]) -> str:
    """``Kendall's τ within segments (without ties) ↑, MQM, 14 outputs``."""
    label = statistic_name(statistic)
    if statistic in STATISTICS and "segment" not in label:
        place = level_name(statistic, level)
        label += {"systems": " of systems", "all outputs": " of all outputs (pooled)"}.get(place, f" {place}")
    parts = [" ".join(filter(None, [label, arrow(statistic, level)]))]
    golds = {gold_name(row.gold) for _, row in rows}
    parts += golds if len(golds) == 1 else []
    counts = {row.n for _, row in rows}
    if len(counts) == 1:
        what = "systems" if level == "sys" else "rankings" if "darr" in statistic else "outputs"
        parts.append(f"{counts.pop()} {'pairs' if statistic.startswith('pairs-') else what}")
    title = ", ".join(parts)
    return title[0].upper() + title[1:]


def _cells(
    table: Table,
    rows: Sequence[tuple[Evaluation, Row]],
    names: Mapping[str, str],
    ties: Mapping[tuple[int, str, int | None], float],
    width: int,
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one statistic, without columns that say nothing."""
    number, interval = partial(_number, width=width), partial(_interval, width=width)
    front, percent = _varying(table.evaluations), _percent(table)
    header = [*(name.removesuffix("_name") for name in front), "gold", "metric", "k", "refs", "no extra", "value"]
    header += [percent, "ties", "gain", f"{percent} of gain", "p", "p (Williams)", "p (PERM-BOTH)"]
    header += [f"p ({table.correction})", "verdict", "n"]
    body = []
    for one, row in rows:
        base = not row.k and row.gain == 0  # the baseline itself
        covered = one.coverage(row.k)
        cells = [*(str(getattr(one, name)) for name in front), gold_name(row.gold), names[row.metric]]
        cells += ["-" if row.k is None else str(row.k), "-" if covered is None else f"{covered[0]:.3g}"]
        cells += [str(covered[1]) if covered and covered[1] else "-", number(row.value), interval(row.ci)]
        cells.append(number(ties.get((id(one), row.metric, row.k))))
        told = one.verdict(row)
        cells += (
            ["-"] * 3
            if base
            else [number(row.gain, sign="+"), interval(row.gain_ci, sign="+"), _p(p_behind(row, told), width)]
        )
        cells += [_p(None if base else p, width) for p in (row.p_williams, row.p_perm_both)]
        cells += [_p(row.p_adjusted, width), told.word or "-", str(row.n)]
        body.append(cells)
    same = {"gold", "n"} - ({"gold"} if len({row.gold for _, row in rows}) > 1 else set())
    same -= {"n"} if len({row.n for _, row in rows}) > 1 else set()
    kept = [
        place
        for place, name in enumerate(header)
        if name not in same and (name == "value" or any(cells[place] != "-" for cells in body))
    ]
    return [header[place] for place in kept], [[cells[place] for place in kept] for cells in body]


def _placebo_tables(table: Table, width: int) -> Iterator[Titled]:
    """What added references gain, what a placebo of them gains, and the difference: a table for every statistic."""
    every = [(one, *rows) for one in table.evaluations for rows in one.compared_with_placebo()]
    every = [found for found in every if found[1].statistic != "tie-rate"]
    names = metric_names(real.metric for _, real, _, _ in every)
    front = _varying(table.evaluations)
    header = [*(name.removesuffix("_name") for name in front), "metric", "k", "real", "placebo", "real - placebo"]
    header += [_percent(table), "p", "claim", "verdict"]
    groups: dict[tuple[str, str], list[tuple[Evaluation, Row, Row, Row]]] = {}
    for found in every:
        groups.setdefault((found[1].level, found[1].statistic), []).append(found)
    for (level, statistic), rows in groups.items():
        body = []
        for one, real, fake, difference in rows:
            cells = [*(str(getattr(one, name)) for name in front), names[real.metric], str(real.k)]
            cells += [_number(value, width, "+") for value in (real.gain, fake.gain, difference.value)]
            told = one.verdict(difference)
            cells += [_interval(difference.ci, width, "+"), _p(p_behind(difference, told), width)]
            body.append([*cells, _number(one.claim(difference), width, "+"), told.word or "-"])
        blind = ((one, row) for one in dict.fromkeys(one for one, *_ in rows) for row in one.blind)
        for one, row in blind:
            if (row.level, row.statistic) == (level, statistic):
                cells = [*(str(getattr(one, name)) for name in front), LENGTH_ROW, str(row.k)]
                body.append([*cells, _number(row.gain, width, "+"), *["-"] * 3, _p(row.p, width), "-", "-"])
        title = _title(level, statistic, [(one, real) for one, real, _, _ in rows])
        yield f"Against the placebo: {title}", header, body


def _average_cells(table: Table, width: int) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the averages over language pairs."""
    names = metric_names(one["metric"] for one in table.averages)
    header = ["generator", "originals", "metric", "k", "value", "gain", "pairs", "n"]
    body = [
        [
            one["generator"] or "-",
            one["originals"],
            names[one["metric"]],
            "-" if one["k"] is None else str(one["k"]),
            _number(one["value"], width),
            _number(one["gain"], width, "+"),
            str(one["pairs"]),
            str(one["n"]),
        ]
        for one in table.averages
    ]
    return header, body


def _varying(evaluations: Sequence[Evaluation]) -> list[str]:
    """What differs between evaluations and has to be said in every row."""
    names = ("set_name", "pair", "generator", "originals")
    return [name for name in names if len({getattr(one, name) for one in evaluations}) > 1]


def _number(value: float | None, width: int, sign: str = "") -> str:
    return "-" if value is None or math.isnan(value) else f"{round(value, width) + 0.0:{sign}.{width}f}"


def _p(value: float | None, width: int) -> str:
    """A p-value, which is never zero."""
    text = _number(value, width)
    return f"<{10.0**-width:.{width}f}" if value is not None and text == f"{0:.{width}f}" and width else text


def _interval(pair: tuple[float, float] | None, width: int, sign: str = "") -> str:
    return "-" if pair is None else f"[{_number(pair[0], width, sign)}, {_number(pair[1], width, sign)}]"
