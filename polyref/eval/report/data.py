"""What the report shows of one evaluation, beside its rows: scores of systems, pairs of systems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from polyref.eval.agreement import Row
from polyref.eval.evaluation import Evaluation
from polyref.eval.judged import outliers
from polyref.eval.statistics.correlation import pearson
from polyref.eval.system_pairs import PairOutcome, outcomes_of

#: Statistic that is plotted -> its level.
_PLOTTED: Final = {
    "kendall-without-ties": "seg",
    "acc23": "seg",
    "kendall-darr-without-ties": "seg",
    "kendall-darr": "seg",
    "pearson": "sys",
}


@dataclass(frozen=True)
class Scatter:
    """One metric's scores of the systems, against people's.

    Attributes:
        metric: Name of the metric.
        systems: Names.
        human: Human scores, in that order.
        scores: k -> the metric's scores; larger is better.
        pearson: k -> their correlation.
        outliers: Systems far from the median of the human scores.
    """

    metric: str
    systems: Sequence[str]
    human: Sequence[float]
    scores: dict[int | None, list[float]]
    pearson: dict[int | None, float]
    outliers: Sequence[str]


@dataclass(frozen=True)
class Outcomes:
    """Pairs of systems that people tell apart, and what a metric says with one k."""

    metric: str
    k: int | None
    pairs: list[PairOutcome]


@dataclass(frozen=True)
class Derived:
    """Everything that is measured for the report alone.

    Attributes:
        scatters: One a metric with scores of systems.
        outcomes: For every metric, the smallest and the largest k; empty without scores of segments.
    """

    scatters: list[Scatter]
    outcomes: list[Outcomes]


def derive(evaluation: Evaluation) -> Derived:
    """Measure it."""
    return Derived(list(_scatters(evaluation)), list(_outcomes(evaluation)))


def _scatters(evaluation: Evaluation) -> Sequence[Scatter]:
    names = list(evaluation.gold.system)
    human = list(evaluation.gold.system.values())
    excluded = {name: score for name, score in evaluation.excluded.items() if not math.isnan(score)}
    far = outliers({**evaluation.gold.system, **excluded})
    found = []
    for series in evaluation.series if names else ():
        scores = {}
        for k in evaluation.ends(series):
            over = None if evaluation.scored is None or evaluation.scored.all() else evaluation.scored
            values = series.system(names, k, over if series.resamples else None)
            if values is not None:
                scores[k] = [float(value) for value in values]
        if scores:
            correlations = {k: pearson(values, human) for k, values in scores.items()}
            here = [name for name in far if name in names]
            found.append(Scatter(series.metric, names, human, scores, correlations, here))
    return found


def _outcomes(evaluation: Evaluation) -> Sequence[Outcomes]:
    found = []
    for series in evaluation.series:
        for k in evaluation.ends(series):
            pairs = outcomes_of(series, k, evaluation.gold, evaluation.scored)
            if pairs is not None:
                found.append(Outcomes(series.metric, k, pairs))
    return found


def main_statistics(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """(level, statistic) pairs that the headline shows, in the order of the rows: shares and counts are left out."""
    found = {
        (row.level, row.statistic): None
        for one in evaluations
        for row in one.rows
        if row.statistic != "tie-rate" and not row.statistic.startswith("pairs-")
    }
    return list(found)


def curve_statistics(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What is plotted against k: the usual statistics, best first."""
    found = {(row.level, row.statistic): None for row in evaluation.rows if row.statistic in _PLOTTED}
    return [(level, name) for level, name in found if level == _PLOTTED[name]]


def headline_rows(evaluation: Evaluation, wanted: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows of the largest k of every metric, in the given statistics."""
    last = {series.metric: evaluation.shown_ks(series)[-1] for series in evaluation.series}
    return [row for row in evaluation.rows if (row.level, row.statistic) in wanted and row.k == last[row.metric]]
