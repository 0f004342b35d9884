"""What a statistic of agreement is: the one interface behind every row of ``polyref evaluate``.

A statistic says at which level it speaks, which judgements it needs, and how a metric's scores agree with them, on the
test set as it is and on redrawn ones. Most are one function: see :class:`SystemStatistic`, :class:`SegmentStatistic`
and :class:`RankingStatistic`. Those that prepare something once for all metrics derive from :class:`Statistic`.

A redrawn test set is a row of counts: how often each segment was drawn. Most statistics are polynomials of those
counts, so thousands of resamples are a few matrix products and no score is computed twice. Redrawn systems are counted
likewise, and every metric and k sees the same draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeVar

import numpy as np

from polyref.eval.data.score_files import BoolArray, FloatArray, RankingPairs
from polyref.eval.statistics.correlation import DarrCounts, darr_counts
from polyref.eval.statistics.within_segments import SegmentPairs, weighted

SEGMENTS: Final = "segments"
SYSTEMS: Final = "systems"
BOTH: Final = "both"
#: Differences of statistics that are no larger come of rounding: their terms are near 1, and a double has 16 digits.
ROUNDING: Final = 1e-12
#: What can be redrawn, in the order of Deutsch et al. (2021): BOOT-INPUTS, BOOT-SYSTEMS, BOOT-BOTH.
REDRAWN: Final = (SEGMENTS, SYSTEMS, BOTH)


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made.

    Attributes:
        resamples: Number of redrawn test sets; 0 makes no interval.
        confidence: Share of them inside the interval, between 0 and 1.
        seed: Equal seeds give equal intervals.
        over: What is redrawn: ``segments``, ``systems`` or ``both``. An interval speaks of what is redrawn: with
            segments alone it says what other segments of the same systems would show.
    """

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 1
    over: str = SEGMENTS

    def draws(self, universe: BoolArray) -> FloatArray | None:
        """Counts of segments, shape (resamples, segments); None where they are not redrawn."""
        if not self.resamples or self.over == SYSTEMS:
            return None
        return segment_draws(universe, self.resamples, self.seed)

    def system_draws(self, systems: int) -> FloatArray | None:
        """Counts of systems, shape (resamples, systems); None where they are not redrawn."""
        if not self.resamples or self.over == SEGMENTS:
            return None
        # Another stream than that of the segments: the two are drawn independently.
        drawn = np.random.default_rng([self.seed, 1]).integers(systems, size=(self.resamples, systems))
        counts = np.zeros((self.resamples, systems))
        np.add.at(counts, (np.arange(self.resamples)[:, None], drawn), 1.0)
        return counts


def segment_draws(universe: BoolArray, resamples: int, seed: int) -> FloatArray:
    """Draw test sets of the same size with replacement.

    Args:
        universe: Which segments can be drawn, shape (segments,).
        resamples: How many test sets.
        seed: Equal seeds give equal draws.

    Returns:
        Counts, shape (resamples, segments); every row sums to the number of segments in ``universe``.
    """
    chosen = np.flatnonzero(universe)
    generator = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(universe)))
    if len(chosen):
        for row in counts:  # one draw at a time: memory stays at the size of the result
            drawn = generator.integers(len(chosen), size=len(chosen))
            row[chosen] = np.bincount(drawn, minlength=len(chosen))
    return counts


def percentile_interval(samples: FloatArray, confidence: float = 0.95) -> tuple[float, float] | None:
    """The central interval of bootstrap samples; None when none of them is defined."""
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return float(low), float(high)


def bootstrap_p(differences: FloatArray) -> float:
    """One-sided p-value of "not above zero" from bootstrap samples of a difference (Deutsch et al. 2021).

    The share of defined samples at or below zero, the given test set counted among them: never 0. NaN when none of
    them is defined.
    """
    defined = differences[~np.isnan(differences)]
    return (1 + int((defined <= ROUNDING).sum())) / (1 + len(defined)) if len(defined) else float("nan")


#: Where a number stands: about systems, or about outputs of single segments.
Level = Literal["sys", "seg"]
#: Which judgements a statistic is made from: scores of systems, scores of segments, or relative rankings.
Needs = Literal["systems", "segments", "rankings"]
T = TypeVar("T")
#: A metric's scores -> the statistic.
Measure = Callable[[FloatArray], FloatArray]

RANKINGS: Final = "rankings"


@dataclass(frozen=True)
class People:
    """Human judgements in the form that a statistic is held against.

    Attributes:
        scores: Human scores: of systems, shape (systems,), or of outputs, shape (systems, segments) with NaN where
            nobody judged; empty for relative rankings.
        universe: Segments that can be redrawn, shape (segments,), for relative rankings up to the last one that is
            judged; None where segments have no part in it.
        bootstrap: How they are redrawn.
        pairs: Relative rankings, or None.
    """

    scores: FloatArray
    universe: BoolArray | None = None
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    pairs: RankingPairs | None = None
    _last: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def draws(self) -> FloatArray | None:
        """How often each segment is in each redrawn test set, shape (resamples, segments); None where they stay."""
        return None if self.universe is None else self.bootstrap.draws(self.universe)

    @cached_property
    def system_draws(self) -> FloatArray | None:
        """How often each system is in each redrawn test set, shape (resamples, systems); None where they stay."""
        return self.bootstrap.system_draws(len(self.scores) if self.pairs is None else len(self.pairs.systems))

    @cached_property
    def weights(self) -> FloatArray | None:
        """:attr:`draws` with the test set as it is before them, shape (1 + resamples, segments)."""
        return weighted(self.draws)

    def redrawn(self, scores: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray | None]]:
        """Every redrawn set of systems: their scores, their human scores, and the draw of segments or None.

        A system that was drawn twice is there twice.

        Args:
            scores: Of a metric, in the form of :attr:`scores`.
        """
        if self.system_draws is None:
            return
        for number, counts in enumerate(self.system_draws.astype(np.intp)):
            chosen = np.repeat(np.arange(len(counts)), counts)
            draw = None if self.draws is None else self.draws[number : number + 1]
            yield scores[chosen], self.scores[chosen], draw

    def once(self, scores: FloatArray, prepare: Callable[[FloatArray, People], T]) -> T:
        """What ``prepare`` makes of a metric's scores; the last scores' is kept, since more than one asks for it."""
        if not self._last or self._last[0] is not scores:
            self._last[:] = [scores, {}]
        made: dict[Any, T] = self._last[1]
        if prepare not in made:
            made[prepare] = prepare(scores, self)
        return made[prepare]


@dataclass(frozen=True)
class Statistic(ABC):
    """A number that says how well a metric agrees with people.

    Attributes:
        name: What rows call it, and what it is asked for by. Two statistics of one name differ in their level.
        label: How a report writes it.
        higher_is_better: Whether more of it is more agreement; None where it is neither.
        usual: Whether it is always computed, or only when it is asked for.
        pooled: Whether it is over outputs of all segments at once, so that easy and hard segments are told apart too;
            such statistics come last.
        level: Where its rows stand, ``sys`` or ``seg``.
        needs: What it is made from, ``systems``, ``segments`` or ``rankings``.
        redraws: What its intervals redraw, whatever was asked for; empty for just that.
    """

    name: str
    label: str
    higher_is_better: bool | None = field(default=True, kw_only=True)
    usual: bool = field(default=False, kw_only=True)
    pooled: bool = field(default=False, kw_only=True)
    level: ClassVar[Level]
    needs: ClassVar[Needs]
    redraws: ClassVar[str] = ""

    @abstractmethod
    def against(self, people: People) -> Measure:
        """Make ready to measure any number of metrics against the same judgements.

        Returns:
            A function of one metric's scores, which are better when larger. For a statistic that needs scores of
            systems they have the shape (rows, systems), the test set and then every redrawn one, and the result is one
            number a row, with ``people.system_draws`` for the systems of each. Otherwise they have the shape (systems,
            segments), and the result is the value on the test set, followed by one value a redrawn test set
            (``people.draws`` and ``people.system_draws``) where that is cheap and exact; a result of one value has no
            interval. Undefined values are NaN.
        """

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """The statistic on the test set without each system in turn, shape (systems,): verdicts are made from it.

        None where there is a :meth:`test` of its own, and where nothing may be said (ties, pooled statistics).

        Args:
            scores: Of a metric, as ``against`` takes them; redrawn rows are not looked at.
            people: The judgements.
        """
        return None

    def test(self, first: FloatArray, second: FloatArray, people: People) -> float | None:
        """P-value that ``first`` agrees better with people than ``second`` does; None without such a test.

        Args:
            first: Scores of a metric as ``against`` takes them, the first row alone: shape (systems,), and those of
                systems in units of the standard deviation of its scores of outputs of one system, if both metrics have
                such.
            second: The same of another metric.
            people: The judgements.
        """
        return None


@dataclass(frozen=True)
class SystemStatistic(Statistic):
    """A statistic of the systems' scores.

    Attributes:
        rows: Scores of shape (rows, systems) and human scores of shape (systems,) -> one number a row.
        p_value: Test that the first of two metrics, shape (systems,) each, agrees better with the third argument.
    """

    rows: Callable[[FloatArray, FloatArray], FloatArray]
    p_value: Callable[[FloatArray, FloatArray, FloatArray], float] | None = field(default=None, kw_only=True)
    level: ClassVar[Level] = "sys"
    needs: ClassVar[Needs] = SYSTEMS

    def against(self, people: People) -> Measure:
        """One number for every row of scores; where systems are redrawn, of those that each row's draw has."""
        if people.system_draws is None:
            return lambda scores: self.rows(scores, people.scores)
        drawn = [np.repeat(np.arange(len(row)), row) for row in people.system_draws.astype(np.intp)]

        def measure(scores: FloatArray) -> FloatArray:
            # Score files have no redrawn segments: the same scores for every draw of systems.
            rows = scores[1:] if len(scores) > 1 else np.broadcast_to(scores, (len(drawn), scores.shape[1]))
            values = [self.rows(row[None, one], people.scores[one]) for row, one in zip(rows, drawn, strict=True)]
            return np.concatenate([self.rows(scores[:1], people.scores), *values])

        return measure

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """Of the other systems, where there is no test of its own."""
        if self.p_value is not None or self.higher_is_better is None:
            return None
        others = _others(len(people.scores))
        return np.concatenate([self.rows(scores[:1, kept], people.scores[kept]) for kept in others])

    def test(self, first: FloatArray, second: FloatArray, people: People) -> float | None:
        """The test that was given."""
        return None if self.p_value is None else self.p_value(first, second, people.scores)


@dataclass(frozen=True)
class SegmentStatistic(Statistic):
    """A statistic of the scores of all judged outputs.

    Attributes:
        samples: Scores and human scores of shape (systems, segments), NaN where not judged, and draws of shape
            (resamples, segments) or None -> the value, and one a draw where that is cheap and exact.
            Where systems are redrawn, it is called for every set of them, in which a system that was drawn twice is
            there twice.
        redraws_segments: Whether ``samples`` gives one value a draw; else it has no interval over segments.
    """

    samples: Callable[[FloatArray, FloatArray, FloatArray | None], FloatArray]
    redraws_segments: bool = field(default=True, kw_only=True)
    level: ClassVar[Level] = "seg"
    needs: ClassVar[Needs] = SEGMENTS

    def against(self, people: People) -> Measure:
        """The value, then one for every draw of segments, of systems, or of both."""
        if people.system_draws is None:
            return lambda scores: self.samples(scores, people.scores, people.draws)

        def measure(scores: FloatArray) -> FloatArray:
            value = self.samples(scores, people.scores, None)
            if people.draws is not None and not self.redraws_segments:
                return value
            drawn = [self.samples(*one) for one in people.redrawn(scores)]
            if people.draws is not None and len(drawn[0]) == 1:  # a plug-in's that does not say so
                return value
            return np.concatenate([value, *(one[-1:] for one in drawn)])

        return measure

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """Of the other systems, where it may be said of these outputs."""
        if self.pooled or self.higher_is_better is None:
            return None
        others = _others(len(people.scores))
        return np.concatenate([self.samples(scores[kept], people.scores[kept], None)[:1] for kept in others])


@dataclass(frozen=True)
class PairStatistic(Statistic):
    """A statistic of pairs of outputs of one segment.

    Attributes:
        samples: Pairs, weights of segments and draws of systems -> the value, and one a draw
            (:mod:`polyref.eval.statistics.within_segments`).
    """

    samples: Callable[[SegmentPairs, FloatArray | None, FloatArray | None], FloatArray]
    level: ClassVar[Level] = "seg"
    needs: ClassVar[Needs] = SEGMENTS

    def against(self, people: People) -> Measure:
        """The value, then one for every draw, from the same pairs for all statistics."""
        return lambda scores: self.samples(people.once(scores, _pairs), people.weights, people.system_draws)

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """Every system in turn is drawn never, and the others once."""
        if self.higher_is_better is None:
            return None
        others = _others(len(people.scores)).astype(np.float64)
        return self.samples(people.once(scores, _pairs), None, others)[1:]


def _pairs(scores: FloatArray, people: People) -> SegmentPairs:
    return SegmentPairs.of(scores, people.scores)


@dataclass(frozen=True)
class RankingStatistic(Statistic):
    """A statistic of how a metric orders the pairs of relative rankings.

    Attributes:
        of_counts: Concordant, discordant and tied pairs, and weights of shape (rows, segments) or None -> one number a
            row, or one in all without weights.
    """

    of_counts: Callable[[DarrCounts, FloatArray | None], FloatArray]
    level: ClassVar[Level] = "seg"
    needs: ClassVar[Needs] = RANKINGS

    def against(self, people: People) -> Measure:
        """The value, then one for every draw; a pair is there as often as both of its systems were drawn."""
        draws, drawn = people.draws, people.system_draws

        def measure(scores: FloatArray) -> FloatArray:
            counts = _counted(scores, people, None)
            value = self.of_counts(counts, None)
            if drawn is None:
                return value if draws is None else np.concatenate([value, self.of_counts(counts, draws)])
            of_segments = [None] * len(drawn) if draws is None else draws[:, None]
            both = zip(drawn, of_segments, strict=True)
            return np.concatenate([value, *(self.of_counts(_counted(scores, people, s), d) for s, d in both)])

        return measure

    def without_each(self, scores: FloatArray, people: People) -> FloatArray | None:
        """Over the pairs of the other systems."""
        if people.pairs is None or self.higher_is_better is None:
            return None
        there = _others(len(people.pairs.systems)).astype(np.float64)
        return np.concatenate([self.of_counts(_counted(scores, people, kept), None) for kept in there])


def _counted(scores: FloatArray, people: People, systems: FloatArray | None) -> DarrCounts:
    """How a metric orders the pairs, each as often as both of its systems were drawn; None for once."""
    pairs = people.pairs
    assert pairs is not None, "a statistic of rankings is held against rankings"
    counts = darr_counts(scores, pairs, None if systems is None else systems[pairs.better] * systems[pairs.worse])
    return counts if people.universe is None else counts.first(len(people.universe))


def _others(systems: int) -> BoolArray:
    """Every system's others, shape (systems, systems)."""
    others: BoolArray = ~np.eye(systems, dtype=np.bool_)
    return others
