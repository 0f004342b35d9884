"""Does a metric find the differences between systems that people find?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from polyref.errors import UsageError
from polyref.eval.agreement import Row
from polyref.eval.data.score_files import BoolArray, FloatArray, Gold
from polyref.eval.series import Series

CORRECT: Final = "correct"
INCORRECT: Final = "incorrect"
NOT_SIGNIFICANT: Final = "not significant"
#: Significance level of both tests.
LEVEL: Final = 0.05


def rank_sum_p(first: FloatArray, second: FloatArray) -> float:
    """Two-sided p-value of the Wilcoxon rank-sum test: independent samples, as WMT tests direct assessments.

    Args:
        first: Segment scores of a system, NaN where not judged.
        second: The same of another system; other segments may be judged.

    Returns:
        1 where the judged scores are all alike, NaN where a system has none.
    """
    from scipy.stats import mannwhitneyu

    x, y = first[~np.isnan(first)], second[~np.isnan(second)]
    if not len(x) or not len(y):
        return math.nan
    if len(np.unique(np.concatenate([x, y]))) == 1:
        return 1.0
    # The same test by another name, with the correction for ties that WMT's R script applies.
    return float(mannwhitneyu(x, y, alternative="two-sided", method="asymptotic").pvalue)


def paired_t_p(first: FloatArray, second: FloatArray) -> float:
    """Two-sided p-value of the paired t-test over the segments that both have.

    Returns:
        1 where all differences are 0, 0 where all are the same other number, NaN for fewer than two segments.
    """
    from scipy.stats import t as student

    differences = first - second
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2:
        return math.nan
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation <= 1e-13 * float(np.abs(differences).max()):
        return 1.0 if mean == 0 else 0.0
    statistic = abs(mean) / (deviation / math.sqrt(len(differences)))
    return float(2 * student.sf(statistic, len(differences) - 1))


@dataclass(frozen=True)
class PairOutcome:
    """Two systems that people find different, and what the metric says.

    Attributes:
        better: The system people prefer.
        worse: The other.
        human_p: P-value of the human difference.
        metric_p: P-value of the metric's difference.
        outcome: ``correct``, ``incorrect`` or ``not significant`` (the metric finds no difference).
    """

    better: str
    worse: str
    human_p: float
    metric_p: float
    outcome: str


def pair_outcomes(systems: Sequence[str], scores: FloatArray, human: FloatArray) -> list[PairOutcome]:
    """Every pair of systems that differ significantly for people, with what the metric makes of it.

    Args:
        systems: Names of the rows.
        scores: Metric's segment scores, shape (systems, segments), no NaN.
        human: Human scores, same shape, NaN where not judged.
    """
    found = []
    for i, j in itertools.combinations(range(len(systems)), 2):
        human_p = rank_sum_p(human[i], human[j])
        if not human_p < LEVEL:
            continue
        better, worse = (i, j) if np.nanmean(human[i]) > np.nanmean(human[j]) else (j, i)
        metric_p = paired_t_p(scores[better], scores[worse])
        outcome = NOT_SIGNIFICANT
        if metric_p < LEVEL:
            outcome = CORRECT if scores[better].mean() > scores[worse].mean() else INCORRECT
        found.append(PairOutcome(systems[better], systems[worse], human_p, metric_p, outcome))
    return found


def outcome_table(outcomes: Sequence[PairOutcome]) -> dict[str, int]:
    """How many pairs have each outcome."""
    return {name: sum(o.outcome == name for o in outcomes) for name in (CORRECT, INCORRECT, NOT_SIGNIFICANT)}


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

    Gains are as in :func:`polyref.eval.agreement.agreement`.

    Args:
        series: The metrics.
        gold: The judgements, with scores of segments.
        scored: Segments whose outputs are all known, shape (segments,); None: all of them.
        baseline: Metric that gains are measured from; default: each metric's own smallest k.
    """
    if not gold.segment:
        reason = f"`pairwise` needs scores of segments, which the judgement {gold.name!r} does not have"
        raise UsageError(reason, remedy="choose another `gold`")
    rows = [
        Row(
            gold=gold.name,
            level="sys",
            metric=one.metric,
            k=k,
            statistic=f"pairs-{name.replace(' ', '-')}",
            value=float(count),
            gain=None,
            ci=None,
            gain_ci=None,
            n=len(outcomes),
            segments=None,
            p=None,
        )
        for one in series
        for k in one.ks
        if (outcomes := outcomes_of(one, k, gold, scored)) is not None
        for name, count in outcome_table(outcomes).items()
    ]
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row.metric, row.statistic), row)

    def with_gain(row: Row) -> Row:
        start = first.get((baseline or row.metric, row.statistic))
        # As in the usual rows, a score file is no baseline of its own.
        if start is None or (baseline is None and row.k is None) or (start is row and row.k):
            return row
        return replace(row, gain=row.value - start.value)

    return [with_gain(row) for row in rows]
