"""What an evaluation found, and the columns of its tables: for a terminal, a notebook and the report's page.

A column is said once: a new one is one more entry here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from polyref.eval.agreement import Row
from polyref.eval.evaluation import Evaluation
from polyref.eval.statistics.base import BOTH, Bootstrap
from polyref.eval.statistics.named import gold_name, level_name, metric_names, statistic_name
from polyref.tables import Cell, Column

_CORRECTIONS: Final = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}
_VERDICTS: Final = {"better": "▲ better", "gains": "△ gains", "worse": "▼ worse"}
#: What stands for a metric in rows of the control that sees nothing but lengths.
LENGTH_ROW: Final = "(length alone)"
#: Before p-values on the page, last in a terminal.
_LAST: Final = ("verdict", "n")


@dataclass(frozen=True, repr=False, eq=False)
class Evaluated:
    """Evaluations and how they were made, which tables and the report show."""

    evaluations: tuple[Evaluation, ...]
    averages: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    correction: str | None = None
    baseline: str | None = None

    @cached_property
    def metrics(self) -> dict[str, str]:
        """Names of the metrics as people write them."""
        return metric_names(row.metric for one in self.evaluations for row in one.rows)

    @property
    def confidence(self) -> str:
        """Level of the intervals: ``95 %``."""
        return f"{100 * self.bootstrap.confidence:g} %"

    @property
    def redrawn(self) -> str:
        """What intervals redraw: ``segments``, ``systems``, or ``segments and systems``."""
        return "segments and systems" if self.bootstrap.over == BOTH else self.bootstrap.over

    @property
    def first_ks(self) -> str:
        """The values of k that gains start from."""
        firsts = {k for one in self.evaluations for series in one.series for k in series.ks[:1]}
        return " or ".join(map(str, sorted(k for k in firsts if k is not None))) or "0"


@dataclass(frozen=True)
class Line:
    """A line of a table: a row, and what its cells say beside it.

    Attributes:
        evaluation: What the row is of.
        row: Of the references as they are, or of lengths alone.
        metric: The metric's name as people write it.
        ties: Share of ties, where the statistic leaves them out.
        fake: The same row of the placebo, in a comparison with it.
        beyond: That of the difference to the placebo.
    """

    evaluation: Evaluation
    row: Row
    metric: str
    ties: float | None = None
    fake: Row | None = None
    beyond: Row | None = None

    @property
    def covered(self) -> tuple[float, int] | None:
        """References of a segment, and segments without an added one."""
        return self.evaluation.coverage(self.row.k)

    @property
    def compared(self) -> Row | None:
        """The row, but for the baseline itself, which gains nothing."""
        return self.row if self.row.k or self.row.gain != 0 else None

    @property
    def verdict(self) -> str | None:
        """What is said of the gain, if anything."""
        return self.evaluation.verdict(self.row).word or None

    @property
    def claim(self) -> float | None:
        """What may be claimed of the gain, if anything."""
        return self.evaluation.claim(self.row)

    @property
    def before(self) -> float | None:
        """The value that the gain starts from."""
        row = self.compared
        return None if row is None or row.gain is None else row.value - row.gain

    @property
    def statistic(self) -> str:
        """The statistic, and what it is over."""
        return f"{statistic_name(self.row.statistic)}, {level_name(self.row.statistic, self.row.level)}"

    def p(self) -> float | None:
        """The p-value that the verdict is made from; of lengths alone, that of their gain."""
        row = self.beyond or self.row
        return row.p if self.verdict or self.metric == LENGTH_ROW else None

    def larger_p(self) -> float | None:
        """The larger p-value of the gain and of that beyond the placebo: a verdict needs both."""
        found = [row.p for row in (self.row, self.beyond) if row is not None and row.p is not None]
        # An undefined one, of too few systems, comes first.
        return max(found, key=lambda p: (p != p, p)) if found and self.verdict else None


def _marked(line: Line) -> Cell:
    word = line.verdict
    if line.metric == LENGTH_ROW:
        return Cell("–")
    return Cell(_VERDICTS.get(word or "", word or ""), style=word if word in ("better", "worse") else "")


#: What a line is of; in a terminal only where lines differ.
_PLACES: Final[tuple[Column[Line], ...]] = (
    Column("", lambda line: line.evaluation.name, page="set"),
    Column("set", lambda line: line.evaluation.set_name, page=""),
    Column("pair", lambda line: line.evaluation.pair, page=""),
    Column("generator", lambda line: line.evaluation.generator, page=""),
    Column("originals", lambda line: line.evaluation.originals, page=""),
)
_STATISTIC: Final[tuple[Column[Line], ...]] = (
    Column("", lambda line: line.statistic, page="statistic"),
    Column("metric", lambda line: line.metric),
    Column("k", lambda line: line.row.k, whole=True),
)


def agreement_columns(found: Evaluated) -> list[Column[Line]]:
    """Agreement with people: values, gains, tests and verdicts, in the order of the page."""
    level, correction = found.confidence, found.correction
    corrected = _CORRECTIONS.get(correction or "", correction)
    return [
        *_PLACES,
        Column("gold", lambda line: gold_name(line.row.gold)),
        *_STATISTIC,
        Column("refs", lambda line: line.covered and line.covered[0], 1, page="references", form=".3g"),
        Column("no extra", lambda line: line.covered and (line.covered[1] or None), whole=True, page=""),
        Column("value", lambda line: line.row.value, 3),
        Column(level, lambda line: line.row.ci, 3, page="interval"),
        Column("ties", lambda line: line.ties, 3, page=""),
        Column("gain", lambda line: line.compared and line.compared.gain, 3, "+"),
        Column(
            f"{level} of gain", lambda line: line.compared and line.compared.gain_ci, 3, "+", page="interval of gain"
        ),
        Column("verdict", lambda line: line.verdict, shown=_marked),
        Column("p", lambda line: line.compared and line.p(), 4, p=True, page="p, one-sided"),
        Column("p (Williams)", lambda line: line.compared and line.compared.p_williams, 4, p=True, page="p, Williams"),
        Column(
            "p (PERM-BOTH)", lambda line: line.compared and line.compared.p_perm_both, 4, p=True, page="p, PERM-BOTH"
        ),
        Column(f"p ({correction})", lambda line: line.row.p_adjusted, 4, p=True, page=f"p, {corrected}"),
        Column("n", lambda line: line.row.n, whole=True),
    ]


def headline_columns(found: Evaluated) -> list[Column[Line]]:
    """The first table of the page: where a gain leads, what of it may be claimed, and what is said of it."""
    start = found.metrics[found.baseline] if found.baseline else "without" if found.first_ks == "0" else "before"
    known = {one.title: one for one in (*placebo_columns(found), *agreement_columns(found))}
    changes = [known[title] for title in ("gain", f"{found.confidence} of gain", "placebo", "claim")]
    tests = [known[title] for title in ("p (PERM-BOTH)", f"p ({found.correction})", "verdict")]
    return [
        *_PLACES,
        known["gold"],
        *_STATISTIC,
        Column(start, lambda line: line.before, 3),
        replace(known["value"], page="with") if start == "without" else known["value"],
        *changes,
        Column("p", Line.larger_p, 4, p=True),
        *tests,
    ]


def in_a_terminal(columns: Sequence[Column[Line]]) -> list[Column[Line]]:
    """The same with verdicts last."""
    return sorted(columns, key=lambda one: one.title in _LAST)


def placebo_columns(found: Evaluated) -> list[Column[Line]]:
    """Gains of added references, of a placebo of them, and the difference."""
    return [
        *_PLACES,
        *_STATISTIC,
        Column("real", lambda line: line.row.gain, 3, "+"),
        Column("placebo", lambda line: line.fake and line.fake.gain, 3, "+"),
        Column("real - placebo", lambda line: line.beyond and line.beyond.value, 3, "+", page="real − placebo"),
        Column(
            found.confidence, lambda line: line.beyond and line.beyond.ci, 3, "+", page="interval of the difference"
        ),
        Column("p", Line.p, 4, p=True, page="p, one-sided"),
        Column("claim", lambda line: line.beyond and line.claim, 3, "+"),
        Column("verdict", lambda line: line.verdict, shown=_marked),
    ]


def placebo_lines(found: Evaluated) -> list[Line]:
    """A line for every gain that has a placebo, then those of lengths alone; without rates of ties."""
    every = [(one, rows) for one in found.evaluations for rows in one.compared_with_placebo()]
    compared = [(one, rows) for one, rows in every if rows[0].statistic != "tie-rate"]
    lines = [
        Line(one, real, found.metrics[real.metric], fake=fake, beyond=beyond) for one, (real, fake, beyond) in compared
    ]
    blind = [(one, row) for one in dict.fromkeys(one for one, _ in compared) for row in one.blind]
    return lines + [Line(one, row, LENGTH_ROW) for one, row in blind if row.statistic != "tie-rate"]


def average_columns(found: Evaluated) -> list[Column[Mapping[str, Any]]]:
    """Averages over language pairs."""
    return [
        Column("generator", lambda one: one["generator"] or None, shown=lambda one: Cell(one["generator"])),
        Column("originals", lambda one: one["originals"]),
        Column("metric", lambda one: found.metrics[one["metric"]]),
        Column("k", lambda one: one["k"], whole=True),
        Column("value", lambda one: one["value"], 3, page="average of Pearson's r"),
        Column("gain", lambda one: one["gain"], 3, "+"),
        Column("pairs", lambda one: one["pairs"], whole=True, page="language pairs"),
        Column("n", lambda one: one["n"], whole=True, page="systems"),
    ]
