"""The scores of one metric with one number of references, and what a test finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from polyref.errors import UsageError
from polyref.metrics.base import Metric
from polyref.metrics.significance import (
    BOOTSTRAP_SAMPLES,
    RANDOMIZATION_TRIALS,
    Null,
    confidence,
    paired_bootstrap,
    paired_randomization,
)
from polyref.metrics.statistics import Floats, Scores, Statistics

#: Tests, and how often they resample where nothing else is said.
TESTS: Final = {
    "confidence": BOOTSTRAP_SAMPLES,
    "paired_ar": RANDOMIZATION_TRIALS,
    "paired_bs_shift": BOOTSTRAP_SAMPLES,
    "paired_bs": BOOTSTRAP_SAMPLES,
}


@dataclass(frozen=True)
class MetricScores:
    """The scores of one metric with one number of references.

    Attributes:
        metric: The name it was asked for by.
        digits: How many of a score people are shown.
        scores: Of all systems and segments.
        signature: How the scores of the systems came about, with the test.
        found: What the test found, an array with one value a system: ``mean``, ``ci`` (half the width of the 95 %
            interval), ``p_value`` (NaN for the first system).
        details: What else there is to say of every system's score: of BLEU ``precisions``, ``bp``, ``ratio``,
            ``sys_len`` and ``ref_len``.
        coverage: References of a segment on average, and segments that have no added one although k is above 0.
        added: Added references of a segment on average.
        higher_is_better: False for error rates, whose columns have an arrow.
    """

    metric: str
    digits: int
    scores: Scores
    signature: str
    found: Mapping[str, Floats]
    details: Sequence[Mapping[str, Any]]
    coverage: tuple[float, int]
    added: float
    higher_is_better: bool = True


def check_test(test: str, *, systems: int) -> None:
    """Refuse a test that there is not, or that has nothing to compare.

    Raises:
        UsageError: See above.
    """
    if test not in TESTS:
        raise UsageError(f"`test` is {test!r}, expected one of {', '.join(TESTS)}")
    if test != "confidence" and systems < 2:
        raise UsageError(f"`{test}` compares systems, but `systems` names one")


def measured(
    name: str, metric: Metric, stats: Statistics, k: int, test: str | None, trials: int | None, seed: int
) -> MetricScores:
    """The scores of one metric with ``k`` extra references, tested where a test is asked for.

    Args:
        name: What rows call the metric.
        metric: The metric.
        stats: Of all systems, for at least ``k`` extra references.
        k: Extra references, >= 0.
        test: One of :data:`TESTS`, or None.
        trials: How often the test resamples; None is what :data:`TESTS` says.
        seed: Of the test.
    """
    scores, details = metric.aggregate(stats, k=k), metric.details(stats, k=k)
    added = np.minimum(stats.extras, min(k, stats.most_extras))
    mean = float(added.mean())
    coverage = float((stats.originals + added).mean()), int((added == 0).sum()) if k else 0
    if test is None:
        return MetricScores(
            name, metric.digits, scores, scores.signature, {}, details, coverage, mean, metric.higher_is_better
        )
    drawn = TESTS[test] if trials is None else trials
    found: dict[str, Floats]
    if test == "paired_ar":
        found = {"p_value": paired_randomization(metric, stats, k=k, trials=drawn, seed=seed)}
    else:
        if test == "confidence":
            resampled = confidence(metric, stats, k=k, samples=drawn, seed=seed)
        else:
            null: Null = "shift" if test == "paired_bs_shift" else "sacrebleu"
            resampled = paired_bootstrap(metric, stats, k=k, samples=drawn, seed=seed, null=null)
        found = {"mean": resampled.mean, "ci": resampled.half_width}
        if resampled.p_value is not None:
            found["p_value"] = resampled.p_value
    kind = {"paired_ar": f"ar:{drawn}", "paired_bs_shift": f"bs:{drawn}|null:shift"}.get(test, f"bs:{drawn}")
    return MetricScores(
        name,
        metric.digits,
        scores,
        f"{scores.signature}|{kind}|rs:{seed}",
        found,
        details,
        coverage,
        mean,
        metric.higher_is_better,
    )
