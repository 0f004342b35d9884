"""Which plots the page has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from polyref.eval.evaluation import Evaluation
from polyref.eval.names import gold_name, level_name, statistic_name
from polyref.eval.report import plots
from polyref.eval.report.data import Derived, curve_statistics, headline_rows

#: Metrics that get a plot of their own for each set; the others are in the tables.
MOST_PANELS: Final = 4


def curve_panels(evaluations: Sequence[Evaluation], metrics: Mapping[str, str]) -> list[plots.Plot]:
    """Agreement against k: one panel for every evaluation and statistic, a line a metric with several k."""
    drawn = []
    for place, one in enumerate(evaluations):
        for level, statistic in curve_statistics(one):
            curves = []
            for series in one.series:
                rows = [r for r in one.rows if (r.metric, r.level, r.statistic) == (series.metric, level, statistic)]
                rows = [row for row in rows if row.k is not None]
                if len(rows) > 1:
                    curves.append(
                        plots.Curve(metrics[series.metric], [r.k or 0 for r in rows], [r.value for r in rows],
                                    [r.ci for r in rows])
                    )  # fmt: skip
            if curves:
                gold = one.gold.system_name if level == "sys" else one.gold.name
                title = f"{one.name}, {level_name(statistic, level)} ({gold_name(gold or one.gold.name)})"
                name = f"curve{place}-{level}-{statistic}"
                drawn.append(plots.curve_plot(name, title, statistic_name(statistic), curves))
    return drawn


def gain_panels(
    evaluations: Sequence[Evaluation],
    averages: Sequence[Mapping[str, Any]],
    baseline: str | None,
    metrics: Mapping[str, str],
) -> list[plots.Plot]:
    """Gains of the largest k: one panel for every statistic, a row an evaluation."""
    drawn = []
    for level, statistic in dict.fromkeys(pair for one in evaluations for pair in curve_statistics(one)):
        points = [
            plots.GainPoint(one.name, _label(metrics[row.metric], row.k), row.gain, row.gain_ci)
            for one in evaluations
            for row in headline_rows(one, [(level, statistic)])
            if row.gain is not None and (row.k or row.gain != 0) and row.metric != baseline
        ]
        if (level, statistic) == ("sys", "pearson"):
            labels = {point.label for point in points}
            for mean in averages:
                label = _label(metrics[mean["metric"]], mean["k"])
                if mean["gain"] is not None and label in labels:
                    where = " ".join(filter(None, ["average", mean["generator"]]))
                    points.append(plots.GainPoint(where, label, mean["gain"], None))
        if points:
            title = f"Gain in {statistic_name(statistic)}, {level_name(statistic, level)}"
            drawn.append(plots.gain_plot(f"gain-{level}-{statistic}", title, points))
    return drawn


def system_panels(both: Sequence[tuple[Evaluation, Derived]], metrics: Mapping[str, str]) -> list[plots.Plot]:
    """Systems by human and metric score: one panel for every evaluation and metric."""
    return [
        plots.scatter_plot(
            f"systems{place}-{index}",
            f"{one.name}, {metrics[scatter.metric]}",
            scatter,
            gold_name(one.gold.system_name or one.gold.name),
            metrics[scatter.metric],
        )
        for place, (one, found) in enumerate(both)
        for index, scatter in enumerate(found.scatters[:MOST_PANELS])
    ]


def _label(metric: str, k: int | None) -> str:
    return metric if k is None else f"{metric}, k = {k}"
