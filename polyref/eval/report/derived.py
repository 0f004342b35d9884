"""What the report shows: rows of the headline, scores and pairs of systems, examples, the references, settings."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.eval.agreement import Row
from polyref.eval.evaluation import Evaluation
from polyref.eval.judged import outliers
from polyref.eval.judgements.gold import Gold
from polyref.eval.names import metric_names
from polyref.eval.statistics.base import Bootstrap
from polyref.eval.statistics.correlation import darr_counts, pearson
from polyref.eval.system_pairs import PairOutcome, outcomes_of
from polyref.references import Reference, Segment

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


def curve_statistics(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What is plotted against k: the usual statistics, best first."""
    found = {(row.level, row.statistic): None for row in evaluation.rows if row.statistic in _PLOTTED}
    return [(level, name) for level, name in found if level == _PLOTTED[name]]


def headline_rows(evaluation: Evaluation, wanted: Sequence[tuple[str, str]]) -> list[Row]:
    """The rows of the largest k of every metric, in the given statistics."""
    last = {series.metric: evaluation.shown_ks(series)[-1] for series in evaluation.series}
    return [row for row in evaluation.rows if (row.level, row.statistic) in wanted and row.k == last[row.metric]]


FloatArray = npt.NDArray[np.float64]

#: Segments shown where agreement rose, and as many where it fell.
SHOWN: Final = 3
#: Values of k shown in one table.
MOST_KS: Final = 7


@dataclass(frozen=True)
class Output:
    """One system's output of the segment.

    Attributes:
        system: Its name.
        text: The output.
        human: Human score; for rankings, outputs it beats minus outputs that beat it.
        scores: The metric's score of the output for every k shown; larger is better.
    """

    system: str
    text: str
    human: float
    scores: list[float]


@dataclass(frozen=True)
class Example:
    """One segment.

    Attributes:
        number: Position in the test set, from 1.
        metric: Whose scores are shown.
        ks: The values of k.
        agreement: Agreement with people within the segment, -1 to 1, for the first and the last k.
        source: Source text, or None.
        references: Human references.
        added: Added references that the largest k uses.
        outputs: Judged outputs, best for people first.
    """

    number: int
    metric: str
    ks: list[int]
    agreement: tuple[float, float]
    source: str | None
    references: list[str]
    added: list[Reference]
    outputs: list[Output]


def examples(evaluation: Evaluation, shown: int = SHOWN) -> list[Example]:
    """The segments whose agreement rose most and fell most from the first to the last k, by the first metric that has
    several k; none where there is no such metric or no judgement of segments.
    """
    chosen = [one for one in evaluation.series if one.resamples and len(evaluation.ends(one)) > 1]
    names = _judged(evaluation.gold)
    if not chosen or not names or evaluation.references is None:
        return []
    series = chosen[0]
    ks = _some(sorted({k for k in (*evaluation.ends(series), *evaluation.shown_ks(series)) if k is not None}))
    scores = {k: series.segment(names, k) for k in ks}
    first, last = scores[ks[0]], scores[ks[-1]]
    if first is None or last is None:
        return []
    before, after = _within(evaluation.gold, names, first), _within(evaluation.gold, names, last)
    change = after - before
    defined = np.flatnonzero(~np.isnan(change))
    # Many segments move equally far: those with more to order say more.
    weight = _orders(evaluation.gold, names, len(change))
    rising = sorted(defined, key=lambda i: (-change[i], -weight[i], i))[:shown]
    falling = sorted(defined, key=lambda i: (change[i], -weight[i], i))[:shown]
    picked = [i for i in rising if change[i] > 0] + [i for i in falling if change[i] < 0]
    return [
        _example(
            evaluation,
            series.metric,
            int(i),
            ks,
            names,
            np.stack([value for k in ks if (value := scores[k]) is not None]),
            (before[i], after[i]),
        )
        for i in picked
    ]


def _example(
    evaluation: Evaluation,
    metric: str,
    index: int,
    ks: list[int],
    names: list[str],
    scores: FloatArray,
    agreement: tuple[float, float],
) -> Example:
    assert evaluation.references is not None
    segment = evaluation.references[index]
    human = _human(evaluation.gold, names, index)
    outputs = [
        Output(name, evaluation.outputs[name][index], human[name], [float(value) for value in scores[:, row, index]])
        for row, name in enumerate(names)
        if name in human
    ]
    outputs.sort(key=lambda one: -one.human)
    return Example(
        index + 1,
        metric,
        ks,
        (float(agreement[0]), float(agreement[1])),
        segment.source or None,
        [ref.text for ref in segment.originals],
        list(segment.extras[: ks[-1]]),
        outputs,
    )


def _judged(gold: Gold) -> list[str]:
    return list(gold.pairs.systems) if gold.pairs is not None else list(gold.segment)


def _within(gold: Gold, names: list[str], scores: FloatArray) -> FloatArray:
    """Agreement within each segment, -1 to 1: (C - D) over the pairs that people order; NaN where they order none."""
    if gold.pairs is not None:
        counts = darr_counts(scores, gold.pairs)
        total = counts.concordant + counts.discordant + counts.tied
        return _ratio(counts.concordant - counts.discordant, total)
    human = np.stack([gold.segment[name] for name in names])
    i, j = np.triu_indices(len(names), 1)
    people = np.nan_to_num(np.sign(human[i] - human[j]))
    return _ratio((np.sign(scores[i] - scores[j]) * people).sum(axis=0), np.abs(people).sum(axis=0))


def _orders(gold: Gold, names: list[str], segments: int) -> FloatArray:
    """Number of pairs of outputs that people order in each segment."""
    if gold.pairs is not None:
        return np.bincount(gold.pairs.segment, minlength=segments).astype(np.float64)
    human = np.stack([gold.segment[name] for name in names])
    i, j = np.triu_indices(len(names), 1)
    ordered: FloatArray = (np.nan_to_num(human[i] - human[j]) != 0).sum(axis=0).astype(np.float64)
    return ordered


def _human(gold: Gold, names: list[str], index: int) -> dict[str, float]:
    if gold.pairs is None:
        return {name: float(gold.segment[name][index]) for name in names if not np.isnan(gold.segment[name][index])}
    here = gold.pairs.segment == index
    net: dict[str, float] = {}
    for better, worse in zip(gold.pairs.better[here], gold.pairs.worse[here], strict=True):
        net[names[better]] = net.get(names[better], 0.0) + 1
        net[names[worse]] = net.get(names[worse], 0.0) - 1
    return net


def _some(ks: Sequence[int]) -> list[int]:
    """At most ``MOST_KS`` values, the first and the last among them."""
    if len(ks) <= MOST_KS:
        return list(ks)
    places = np.unique(np.linspace(0, len(ks) - 1, MOST_KS).round().astype(int))
    return [ks[place] for place in places]


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


#: Segments to read, spread evenly over the test set.
SAMPLES: Final = 3


@dataclass(frozen=True)
class Sample:
    """One segment, picked by its place alone.

    Attributes:
        number: Position in the test set, from 1.
        source: Source text, or None.
        references: Human references.
        added: Added references that the largest k uses.
    """

    number: int
    source: str | None
    references: Sequence[str]
    added: Sequence[str]


@dataclass(frozen=True)
class ReferenceSummary:
    """The references of one evaluation set.

    Attributes:
        place: Set, language pair and generator.
        segments: Number of segments.
        human: Fewest and most human references of a segment.
        added: Fewest and most added references of a segment that the largest k uses.
        human_length: Mean length of the human references in characters; NaN without any.
        added_length: The same of the added ones.
        repeated: Share of added references, 0 to 1, that are equal to a reference before them; NaN without any.
        samples: Some of them.
    """

    place: str
    segments: int
    human: tuple[int, int]
    added: tuple[int, int]
    human_length: float
    added_length: float
    repeated: float
    samples: Sequence[Sample]


def reference_summaries(evaluations: Sequence[Evaluation]) -> list[ReferenceSummary]:
    """One for every set, pair and generator of the evaluations that have texts."""
    found: dict[str, ReferenceSummary] = {}
    for one in evaluations:
        place = " ".join(filter(None, [one.set_name, one.pair, one.generator]))
        if one.references is not None and len(one.references) and place not in found:
            found[place] = _summary(place, one.references.segments, max(one.ks, default=0))
    return list(found.values())


def _summary(place: str, segments: Sequence[Segment], k: int) -> ReferenceSummary:
    human = [[ref.text for ref in segment.originals] for segment in segments]
    added = [[ref.text for ref in segment.extras[:k]] for segment in segments]
    every = sum(map(len, added))
    repeated = sum(
        len(new) - len(set(new) - set(given)) for given, new in zip(human, added, strict=True)
    )  # fmt: skip
    # The middles of as many equal parts.
    count = min(SAMPLES, len(segments))
    picked = [(2 * part + 1) * len(segments) // (2 * count) for part in range(count)]
    return ReferenceSummary(
        place,
        len(segments),
        _range(human),
        _range(added),
        _mean_length(human),
        _mean_length(added),
        repeated / every if every else float("nan"),
        [Sample(i + 1, segments[i].source or None, human[i], added[i]) for i in picked],
    )


def _range(texts: Sequence[Sequence[str]]) -> tuple[int, int]:
    return min(map(len, texts)), max(map(len, texts))


def _mean_length(texts: Sequence[Sequence[str]]) -> float:
    lengths = [len(text) for some in texts for text in some]
    return sum(lengths) / len(lengths) if lengths else float("nan")


def available() -> bool:
    """Whether matplotlib, which draws, is installed."""
    return find_spec("matplotlib") is not None


@dataclass(frozen=True)
class Settings:
    """Every choice behind a report.

    Attributes:
        options: Name -> value of every option, defaults included; plain JSON values.
        bootstrap: How intervals were made.
        correction: How p-values were corrected for their number, or None.
        baseline: Metric that gains are measured from, or None: each metric's own k = 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    correction: str | None = None
    baseline: str | None = None

    def described(self) -> dict[str, Any]:
        """The options, then the versions of what computed the numbers; nothing depends on time or place."""
        packages = ["numpy", "scipy", "sacrebleu", *(["matplotlib"] if available() else [])]
        versions = {
            "polyref": __version__,
            "python": platform.python_version(),
            **{one: version(one) for one in packages},
        }
        return {**self.options, **{f"version of {name}": value for name, value in versions.items()}}


@dataclass(frozen=True)
class Report:
    """Everything that a report is made of."""

    evaluations: Sequence[Evaluation]
    averages: Sequence[Mapping[str, Any]]
    settings: Settings

    @property
    def title(self) -> str:
        """The sets and language pairs."""
        return ", ".join(dict.fromkeys(f"{one.set_name} {one.pair}" for one in self.evaluations))

    @property
    def alone(self) -> bool:
        """Whether there is one evaluation."""
        return len(self.evaluations) == 1

    @property
    def controlled(self) -> bool:
        """Whether placebos were measured."""
        return any(one.controls for one in self.evaluations)

    @cached_property
    def drawn(self) -> bool:
        """Whether there are plots."""
        return available()

    @cached_property
    def metrics(self) -> dict[str, str]:
        """Names of the metrics as people write them."""
        return metric_names(row.metric for one in self.evaluations for row in one.rows)

    @cached_property
    def headline(self) -> list[tuple[Evaluation, Row]]:
        """The rows of the largest k of every metric, without shares and counts."""
        wanted = [
            (row.level, row.statistic)
            for one in self.evaluations
            for row in one.rows
            if row.statistic != "tie-rate" and not row.statistic.startswith("pairs-")
        ]
        return [(one, row) for one in self.evaluations for row in headline_rows(one, list(dict.fromkeys(wanted)))]

    @cached_property
    def derived(self) -> list[tuple[Evaluation, Derived]]:
        """Scores and pairs of systems of every evaluation."""
        return [(one, derive(one)) for one in self.evaluations]

    @cached_property
    def examples(self) -> list[list[Example]]:
        """Segments to read, of every evaluation."""
        return [examples(one) for one in self.evaluations]

    @cached_property
    def references(self) -> list[ReferenceSummary]:
        """What the references are."""
        return reference_summaries(self.evaluations)
