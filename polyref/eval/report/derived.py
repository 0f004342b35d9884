"""What the report shows: rows of the headline, scores and pairs of systems, examples, the references, settings."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from polyref import __version__
from polyref.eval.agreement import Row
from polyref.eval.columns import Evaluated, Line
from polyref.eval.data.score_files import FloatArray, Gold, RankingPairs
from polyref.eval.evaluation import Evaluation
from polyref.eval.judged import outliers
from polyref.eval.statistics.correlation import pearson
from polyref.eval.system_pairs import PairOutcome, outcomes_of
from polyref.references import Reference, Segment

#: Statistics that are plotted -> their levels.
_WITHIN: Final = ("kendall-without-ties", "acc23", "kendall-darr-without-ties", "kendall-darr")
_PLOTTED: Final = {**dict.fromkeys(_WITHIN, "seg"), "pearson": "sys"}
#: Segments shown where agreement rose, and as many where it fell.
SHOWN: Final = 3
#: Values of k shown in one table.
MOST_KS: Final = 7
#: Segments whose references are shown, spread evenly over the test set.
SAMPLES: Final = 3


@dataclass(frozen=True)
class Scatter:
    """One metric's scores of the systems against people's; larger is better, and outliers are so for people."""

    metric: str
    systems: Sequence[str]
    human: Sequence[float]
    scores: dict[int | None, list[float]]
    pearson: dict[int | None, float]
    outliers: Sequence[str]


def scatters(evaluation: Evaluation) -> list[Scatter]:
    """One a metric with scores of systems, for the smallest and the largest k."""
    names = list(evaluation.gold.system)
    human = list(evaluation.gold.system.values())
    excluded = {name: score for name, score in evaluation.excluded.items() if not math.isnan(score)}
    far = [name for name in outliers({**evaluation.gold.system, **excluded}) if name in names]
    over = None if evaluation.scored is None or evaluation.scored.all() else evaluation.scored
    found = []
    for series in evaluation.series if names else ():
        values = {k: series.system(names, k, over if series.resamples else None) for k in evaluation.ends(series)}
        scores = {k: [float(score) for score in some] for k, some in values.items() if some is not None}
        if scores:
            correlations = {k: pearson(some, human) for k, some in scores.items()}
            found.append(Scatter(series.metric, names, human, scores, correlations, far))
    return found


@dataclass(frozen=True)
class Outcomes:
    """Pairs of systems that people tell apart, and what a metric says with one k."""

    metric: str
    k: int | None
    pairs: list[PairOutcome]


def outcomes(evaluation: Evaluation) -> list[Outcomes]:
    """For every metric, the smallest and the largest k; empty without scores of segments."""
    every = [
        (series.metric, k, outcomes_of(series, k, evaluation.gold, evaluation.scored))
        for series in evaluation.series
        for k in evaluation.ends(series)
    ]
    return [Outcomes(metric, k, pairs) for metric, k, pairs in every if pairs is not None]


def curve_statistics(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What is plotted against k: the usual statistics, best first."""
    found = {(row.level, row.statistic): None for row in evaluation.rows if row.statistic in _PLOTTED}
    return [(level, name) for level, name in found if level == _PLOTTED[name]]


@dataclass(frozen=True)
class Output:
    """One system's output of a segment, and a metric's scores of it for every k shown.

    ``human`` is the human score; for rankings, the outputs it beats minus those that beat it.
    """

    system: str
    text: str
    human: float
    scores: list[float]


@dataclass(frozen=True)
class Example:
    """A segment, by its position from 1, with its judged outputs, best for people first.

    ``agreement`` is that of the metric with people within the segment, -1 to 1, for the first and the last k.
    """

    number: int
    metric: str
    ks: list[int]
    agreement: tuple[float, float]
    source: str | None
    references: list[str]
    added: list[Reference]
    outputs: list[Output]


def examples(evaluation: Evaluation) -> list[Example]:
    """The segments whose agreement rose most and fell most from the first to the last k.

    By the first metric that has several k; none where there is no such metric or no judgement of segments.
    """
    chosen = [one for one in evaluation.series if one.resamples and len(evaluation.ends(one)) > 1]
    pairs = _orders(evaluation.gold)
    if not chosen or pairs is None or evaluation.references is None:
        return []
    series = chosen[0]
    ks = _some(sorted({k for k in (*evaluation.ends(series), *evaluation.shown_ks(series)) if k is not None}))
    values = [series.segment(pairs.systems, k) for k in ks]
    scores = [one for one in values if one is not None]
    if len(scores) < len(ks):
        return []
    before, after = _within(pairs, scores[0]), _within(pairs, scores[-1])
    change = after - before
    defined = np.flatnonzero(~np.isnan(change))
    # Many segments move equally far: those with more to order say more.
    weight = np.bincount(pairs.segment, minlength=len(change))
    rising = sorted(defined, key=lambda i: (-change[i], -weight[i], i))[:SHOWN]
    falling = sorted(defined, key=lambda i: (change[i], -weight[i], i))[:SHOWN]
    found = []
    for i in map(int, [*(i for i in rising if change[i] > 0), *(i for i in falling if change[i] < 0)]):
        segment, human = evaluation.references[i], _human(evaluation.gold, i)
        outputs = [
            Output(name, evaluation.outputs[name][i], human[name], [float(one[row, i]) for one in scores])
            for row, name in enumerate(pairs.systems)
            if name in human
        ]
        found.append(
            Example(
                i + 1,
                series.metric,
                ks,
                (float(before[i]), float(after[i])),
                segment.source or None,
                [ref.text for ref in segment.originals],
                list(segment.extras[: ks[-1]]),
                sorted(outputs, key=lambda one: -one.human),
            )
        )
    return found


def _orders(gold: Gold) -> RankingPairs | None:
    """Which of two outputs people prefer: rankings, or what scores of outputs say; None without either."""
    if gold.pairs is not None or not gold.segment:
        return gold.pairs
    human = np.stack([*gold.segment.values()])
    better, worse, segment = np.nonzero(human[:, None] > human[None])
    return RankingPairs(segment, better, worse, tuple(gold.segment))


def _within(pairs: RankingPairs, scores: FloatArray) -> FloatArray:
    """Agreement within each segment, -1 to 1: (C - D) over the pairs that people order; NaN where they order none."""
    orders = np.sign(scores[pairs.better, pairs.segment] - scores[pairs.worse, pairs.segment])
    total = np.bincount(pairs.segment, minlength=scores.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.bincount(pairs.segment, orders, minlength=scores.shape[1]) / total, np.nan)


def _human(gold: Gold, index: int) -> dict[str, float]:
    """What people say of the judged outputs of a segment."""
    if gold.pairs is None:
        return {name: float(scores[index]) for name, scores in gold.segment.items() if not np.isnan(scores[index])}
    here = gold.pairs.segment == index
    net: dict[str, float] = {}
    for better, worse in zip(gold.pairs.better[here], gold.pairs.worse[here], strict=True):
        for system, step in ((better, 1), (worse, -1)):
            name = gold.pairs.systems[system]
            net[name] = net.get(name, 0.0) + step
    return net


def _some(ks: Sequence[int]) -> list[int]:
    """At most ``MOST_KS`` values, the first and the last among them."""
    if len(ks) <= MOST_KS:
        return list(ks)
    places = np.unique(np.linspace(0, len(ks) - 1, MOST_KS).round().astype(int))
    return [ks[place] for place in places]


@dataclass(frozen=True)
class Sample:
    """References of a segment to read, which is picked by its place alone; numbers are from 1."""

    number: int
    source: str | None
    references: Sequence[str]
    added: Sequence[str]


@dataclass(frozen=True)
class ReferenceSummary:
    """The references of one evaluation set; the added ones are those that the largest k uses.

    Attributes:
        place: Set, language pair and generator.
        segments: Number of segments.
        human: Fewest and most human references of a segment.
        added: The same of the added ones.
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


def _summary(place: str, segments: Sequence[Segment], k: int) -> ReferenceSummary:
    def ends(texts: Sequence[Sequence[str]]) -> tuple[int, int]:
        return min(map(len, texts)), max(map(len, texts))

    def length(texts: Sequence[Sequence[str]]) -> float:
        lengths = [len(text) for some in texts for text in some]
        return sum(lengths) / len(lengths) if lengths else math.nan

    human = [[ref.text for ref in segment.originals] for segment in segments]
    added = [[ref.text for ref in segment.extras[:k]] for segment in segments]
    every = sum(map(len, added))
    repeated = sum(len(new) - len(set(new) - set(given)) for given, new in zip(human, added, strict=True))
    # The middles of as many equal parts.
    count = min(SAMPLES, len(segments))
    picked = [(2 * part + 1) * len(segments) // (2 * count) for part in range(count)]
    return ReferenceSummary(
        place,
        len(segments),
        ends(human),
        ends(added),
        length(human),
        length(added),
        repeated / every if every else math.nan,
        [Sample(i + 1, segments[i].source or None, human[i], added[i]) for i in picked],
    )


class Report(Evaluated):
    """Everything that a report is made of."""

    def described(self) -> dict[str, Any]:
        """The settings, then the versions of what computed the numbers; nothing depends on time or place."""
        versions = {"polyref": __version__, "python": platform.python_version()}
        versions |= {one: version(one) for one in ("numpy", "scipy", "sacrebleu")}
        versions |= {"matplotlib": version("matplotlib")} if self.drawn else {}
        return {**self.settings, **{f"version of {name}": value for name, value in versions.items()}}

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
        """Whether there are plots: whether matplotlib, which draws, is installed."""
        return find_spec("matplotlib") is not None

    @cached_property
    def headline(self) -> list[tuple[Evaluation, Row]]:
        """The rows of the largest k of every metric, without shares and counts."""
        last = {(id(one), series.metric): one.shown_ks(series)[-1] for one in self.evaluations for series in one.series}
        rows = [(one, row) for one in self.evaluations for row in one.rows if row.k == last[id(one), row.metric]]
        return [(one, row) for one, row in rows if not row.statistic.startswith(("tie-rate", "pairs-"))]

    @cached_property
    def lines(self) -> list[Line]:
        """The same with the rows of the placebo, statistic by statistic, the largest gain of each first."""
        controls = {id(real): more for one in self.evaluations for real, *more in one.compared_with_placebo()}
        lines = [
            Line(one, row, self.metrics[row.metric], None, *controls.get(id(row), ())) for one, row in self.headline
        ]
        order = list(dict.fromkeys(line.statistic for line in lines))

        def descending(value: float | None) -> float:
            return math.inf if value is None or math.isnan(value) else -value

        return sorted(
            lines, key=lambda line: (order.index(line.statistic), descending(line.row.gain), descending(line.row.value))
        )

    @property
    def judged(self) -> list[Line]:
        """Those that have a verdict, metric by metric."""
        order = list(dict.fromkeys(row.metric for _, row in self.headline))
        return sorted((line for line in self.lines if line.verdict), key=lambda line: order.index(line.row.metric))

    @cached_property
    def scatters(self) -> list[tuple[Evaluation, list[Scatter]]]:
        """Scores of systems."""
        return [(one, scatters(one)) for one in self.evaluations]

    @cached_property
    def outcomes(self) -> list[tuple[Evaluation, Outcomes]]:
        """Pairs of systems."""
        return [(one, found) for one in self.evaluations for found in outcomes(one)]

    @property
    def references(self) -> list[ReferenceSummary]:
        """What the references are of every set, pair and generator that has texts."""
        found: dict[str, ReferenceSummary] = {}
        for one in self.evaluations:
            place = " ".join(filter(None, [one.set_name, one.pair, one.generator]))
            if one.references is not None and len(one.references) and place not in found:
                found[place] = _summary(place, one.references.segments, max(one.ks, default=0))
        return list(found.values())
