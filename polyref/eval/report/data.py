"""What the report shows of one evaluation, beside its rows: scores of systems, pairs of systems, smaller test sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from polyref.eval.data.languages import target_language
from polyref.eval.experiments.evaluation import Evaluation
from polyref.eval.experiments.rows import outcomes_of
from polyref.eval.experiments.slices import SizePoint, outliers, size_curve
from polyref.eval.experiments.system_pairs import PairOutcome, cross_bleu
from polyref.eval.statistics.agreement import Row
from polyref.eval.statistics.correlation import pearson
from polyref.eval.statistics.resampling import Bootstrap

#: Sizes of test sets in the curve, as far as the test set reaches.
SIZES: Final = (25, 50, 100, 200, 400, 800, 1600, 3200)
SIZE_SAMPLES: Final = 200
#: Statistic that is plotted -> its level.
_PLOTTED: Final = {
    "kendall-without-ties": "seg",
    "acc23": "seg",
    "kendall-darr-without-ties": "seg",
    "kendall-darr": "seg",
    "pearson": "sys",
}
#: For closeness, where words are not written apart; these need no further package.
_TOKENIZERS: Final = {"zh": "zh", "ja": "char", "ko": "char"}


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
class Sizes:
    """One metric on random parts of the test set."""

    metric: str
    points: list[SizePoint]


@dataclass(frozen=True)
class Derived:
    """Everything that is measured for the report alone.

    Attributes:
        scatters: One a metric with scores of systems.
        outcomes: For every metric, the smallest and the largest k; empty without scores of segments.
        sizes: One a metric that is computed here.
        closeness: System -> BLEU of its outputs with the first human reference, and with the first added one, as the
            only reference, over the segments that have both; empty without added references.
    """

    scatters: list[Scatter]
    outcomes: list[Outcomes]
    sizes: list[Sizes]
    closeness: dict[str, tuple[float, float]]


def derive(evaluation: Evaluation, bootstrap: Bootstrap) -> Derived:
    """Measure it."""
    return Derived(
        list(_scatters(evaluation)),
        list(_outcomes(evaluation)),
        list(_sizes(evaluation, bootstrap)),
        _closeness(evaluation),
    )


def _scatters(evaluation: Evaluation) -> Sequence[Scatter]:
    names = list(evaluation.gold.system)
    human = list(evaluation.gold.system.values())
    far = outliers({**evaluation.gold.system, **_finite(evaluation.excluded)})
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
            pairs = outcomes_of(series, k, evaluation.gold)
            if pairs is not None:
                found.append(Outcomes(series.metric, k, pairs))
    return found


def _sizes(evaluation: Evaluation, bootstrap: Bootstrap) -> Sequence[Sizes]:
    if evaluation.scored is None or len(evaluation.gold.system) < 3:
        return []
    most = int(evaluation.scored.sum())
    sizes = [size for size in SIZES if size < most] + [most]
    return [
        Sizes(
            series.metric,
            size_curve(
                series,
                evaluation.gold.system,
                sizes,
                segments=evaluation.scored,
                ks=evaluation.ends(series),
                samples=SIZE_SAMPLES,
                confidence=bootstrap.confidence,
                seed=bootstrap.seed,
            ),
        )
        for series in evaluation.series
        if series.resamples
    ]


def _closeness(evaluation: Evaluation) -> dict[str, tuple[float, float]]:
    """Systems that resemble the generator may profit from references that it made."""
    references = evaluation.references
    if references is None:
        return {}
    both = [i for i, segment in enumerate(references) if segment.originals and segment.extras]
    if evaluation.scored is not None:
        both = [i for i in both if evaluation.scored[i]]
    if not both:
        return {}
    outputs = {system: [texts[i] for i in both] for system, texts in evaluation.outputs.items()}
    human = [references[i].originals[0].text for i in both]
    added = [references[i].extras[0].text for i in both]
    tokenize = _TOKENIZERS.get(target_language(evaluation.pair), "13a")
    scores = cross_bleu(outputs, {"human": human, "added": added}, tokenize=tokenize)
    return {system: (scores[system, "human"], scores[system, "added"]) for system in outputs}


def main_statistics(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """(level, statistic) pairs that the headline shows, in the order of the rows: shares and counts are left out."""
    hidden = {"tie-rate", "pearson-of-part", "hybrid-score-lost"}
    found = {
        (row.level, row.statistic): None
        for one in evaluations
        for row in one.rows
        if row.statistic not in hidden
        and not row.statistic.startswith("pairs-")
        and "@" not in row.statistic.removeprefix("hybrid-hits@")
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


def _finite(scores: object) -> dict[str, float]:
    assert hasattr(scores, "items")
    return {name: value for name, value in scores.items() if not math.isnan(value)}
