"""Pairs of systems as rows of the same table: how many a metric gets right.

Gains are as in :func:`polyref.eval.statistics.agreement.agreement`: over each metric's own smallest k, or over a
baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.eval.experiments.series import Series
from polyref.eval.experiments.system_pairs import PairOutcome, outcome_table, pair_outcomes
from polyref.eval.judgements.gold import Gold
from polyref.eval.statistics.agreement import Row

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def outcomes_of(series: Series, k: int | None, gold: Gold, scored: BoolArray | None) -> list[PairOutcome] | None:
    """Pairs of systems that people tell apart, and what one metric says with one k, over the segments ``scored``.

    None where metric or judgement have no scores of segments, which the tests are over.
    """
    if not gold.segment:
        return None
    names = list(gold.segment)
    scores = series.segment(names, k)
    if scores is None:
        return None
    human = np.stack([gold.segment[name] for name in names])
    if scored is not None:
        scores, human = scores[:, scored], human[:, scored]
    return pair_outcomes(names, scores, human)


def outcome_rows(
    series: Sequence[Series], gold: Gold, scored: BoolArray | None = None, *, baseline: str | None = None
) -> list[Row]:
    """How many pairs of systems each metric and k gets right, wrong, or does not tell apart.

    Args:
        series: The metrics.
        gold: The judgements, with scores of segments.
        scored: Segments whose outputs are all known, shape (segments,); None: all of them.
        baseline: Metric that gains are measured from; default: each metric's own smallest k.
    """
    if not gold.segment:
        raise UsageError(
            f"`pairwise` needs scores of segments, which the judgement {gold.name!r} does not have",
            remedy="choose another `gold`",
        )
    return _with_gains(_outcome_rows(series, gold, scored), baseline)


def _outcome_rows(series: Sequence[Series], gold: Gold, scored: BoolArray | None) -> Iterator[Row]:
    for one in series:
        for k in one.ks:
            outcomes = outcomes_of(one, k, gold, scored)
            if outcomes is None:
                break
            for name, count in outcome_table(outcomes).items():
                statistic = f"pairs-{name.replace(' ', '-')}"
                value, n = float(count), len(outcomes)
                yield Row(gold.name, "sys", one.metric, k, statistic, value, None, None, None, n, None, None)


def _with_gains(rows: Iterable[Row], baseline: str | None) -> list[Row]:
    """The rows with their gains over the first row of the baseline (default: of the same metric) that is like them."""
    rows = list(rows)
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row.metric, row.statistic), row)
    result = []
    for row in rows:
        start = first.get((baseline or row.metric, row.statistic))
        # As in the usual rows, a score file is no baseline of its own.
        if start is not None and not (baseline is None and row.k is None) and not (row is start and row.k):
            row = replace(row, gain=row.value - start.value)
        result.append(row)
    return result
