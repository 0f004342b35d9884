"""Does a metric find the differences between systems that people find?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

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


def pair_outcomes(
    systems: Sequence[str],
    scores: FloatArray,
    human: FloatArray,
) -> list[PairOutcome]:
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
