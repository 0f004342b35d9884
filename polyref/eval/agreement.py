"""Agreement of metrics with human judgements against the number of references: the rows of ``polyref evaluate``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.eval.judgements.gold import BoolArray, FloatArray, Gold, RankingPairs
from polyref.eval.series import Series
from polyref.eval.statistics.base import (
    SYSTEMS,
    Bootstrap,
    Measure,
    Needs,
    People,
    Statistic,
    bootstrap_p,
    names_of_redrawn,
    percentile_interval,
)
from polyref.eval.statistics.named import PEARSON, block, chosen_statistics
from polyref.eval.statistics.significance import jackknife_p, spread_of_outputs, williams_test
from polyref.progress import Advance, work


@dataclass(frozen=True)
class Judged:
    """The judgements that a statistic needs, and whom they judge.

    Attributes:
        name: What rows call the judgement.
        systems: The systems, in the order of all arrays.
        people: The judgements.
        cells: How many judgements of outputs or pairs of them there are.
        segments: How many segments take part; None where there are no texts.
        over: Of scores of systems: the segments that they are over, None for all.
    """

    name: str
    systems: Sequence[str]
    people: People
    cells: int = 0
    segments: int | None = None
    over: BoolArray | None = None


def of_known(gold: Gold, known: BoolArray, systems: Sequence[str]) -> Gold:
    """Without judgements of unknown outputs: what has no text has no score to hold against them."""
    rows = {name: known[number] for number, name in enumerate(systems)}
    segment = {
        name: np.where(rows[name], scores, np.nan) if name in rows else scores for name, scores in gold.segment.items()
    }
    return replace(gold, segment={name: scores for name, scores in segment.items() if not np.isnan(scores).all()})


def check_known(pairs: RankingPairs, known: BoolArray, systems: Sequence[str]) -> None:
    """Refuse rankings of outputs that have no text."""
    rows = [list(systems).index(name) for name in pairs.systems]
    unknown = np.argwhere(pairs.cells(known.shape[1]) & ~known[rows])
    if len(unknown):
        system, segment = unknown[0]
        raise DataError(
            f"the relative rankings judge segment {segment + 1} of {pairs.systems[system]}, whose output is empty, "
            "which means unknown",
            remedy="add the output or leave the pair out",
        )


def of_systems(gold: Gold, known: BoolArray | None, systems: Sequence[str], bootstrap: Bootstrap) -> Judged:
    """Scores of systems.

    Args:
        gold: The judgements.
        known: Which systems (of ``systems``) have which segment's text; None where there are no texts.
        systems: The systems, in the order of ``known``.
        bootstrap: The redrawn test sets.
    """
    names = list(gold.system)
    human = np.array([gold.system[name] for name in names])
    kind = gold.system_name or gold.name
    if known is None:
        return Judged(kind, names, People(human, bootstrap=bootstrap))
    # All systems are scored on the same segments: those whose text is known for every one of them.
    over: BoolArray = np.logical_and.reduce(known[[list(systems).index(name) for name in names if name in systems]])
    segments = int(over.sum())
    if not segments:
        raise DataError("no segment has the outputs of all judged systems: no system-level scores")
    people = People(human, over, bootstrap)
    return Judged(kind, names, people, segments=segments, over=None if segments == len(over) else over)


def of_segments(gold: Gold, bootstrap: Bootstrap) -> Judged:
    """Scores of outputs."""
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    judged = ~np.isnan(human)
    universe: BoolArray = np.logical_or.reduce(judged)
    people = People(human, universe, bootstrap)
    return Judged(gold.name, names, people, int(judged.sum()), int(universe.sum()))


def of_rankings(gold: Gold, pairs: RankingPairs, bootstrap: Bootstrap) -> Judged:
    """Which of two outputs is better."""
    universe: BoolArray = np.bincount(pairs.segment).astype(np.bool_)
    people = People(np.zeros(0), universe, bootstrap, pairs)
    return Judged(gold.name, pairs.systems, people, len(pairs), int(universe.sum()))


#: What controls are called.
PLACEBO: Final = "placebo"
REAL_MINUS_PLACEBO: Final = "real - placebo"
LENGTH: Final = "length"


@dataclass(frozen=True)
class Row:
    """One number.

    Attributes:
        gold: Name of the human judgement at this level.
        level: ``sys`` or ``seg``.
        metric: Name of the metric.
        k: Number of extra references; None for stored scores.
        statistic: Name of the statistic, see :data:`polyref.eval.statistics.named.STATISTICS`; other experiments
            have names of their own.
        value: Its value; NaN where it is undefined.
        gain: ``value`` minus the value of the baseline: the metric itself at k = 0, or another metric.
        ci: Bootstrap interval of ``value``, or None; ``redrawn`` says over what.
        gain_ci: Bootstrap interval of ``gain`` over the same redrawn test sets, or None.
        n: What it was computed over: systems, judged cells, or pairs.
        segments: How many segments took part; None for stored system-level scores.
        p: One-sided p-value that verdicts are made from: that the value is higher than the baseline's, or, of ``real -
            placebo``, than the placebo's. Pearson's r of systems: by exchanging whole systems
            (:func:`~polyref.eval.statistics.significance.perm_systems`; the largest of the placebos'); all others: by
            the jackknife over systems (:func:`~polyref.eval.statistics.significance.jackknife_p`). None for statistics
            without a verdict.
        p_williams: The same of Williams' test, which papers report. It need not hold its level.
        p_perm_both: The same of PERM-BOTH, where it was asked for: it holds its level for these systems.
        p_adjusted: ``p_perm_both`` where there is one, else ``p``, corrected for many comparisons.
        p_bootstrap: One-sided p-value from the bootstrap that the gain is above zero, not corrected; at system level
            only where systems were redrawn. It speaks of what was redrawn, and no verdict is made from it.
        control: Empty for the references as they are; ``placebo`` for the mean of placebos; ``real - placebo`` for the
            difference of the two, which has an interval over the same redrawn test sets, and no gain; ``length`` for a
            metric that sees only lengths, over the references as they are.
        redrawn: What the intervals redraw: ``segments``, ``systems``, ``segments and systems``; empty where there are
            none.
    """

    gold: str
    level: str
    metric: str
    k: int | None
    statistic: str
    value: float
    gain: float | None
    ci: tuple[float, float] | None
    gain_ci: tuple[float, float] | None
    n: int
    segments: int | None
    p: float | None
    p_williams: float | None = None
    p_perm_both: float | None = None
    p_adjusted: float | None = None
    p_bootstrap: float | None = None
    control: str = ""
    redrawn: str = ""


@dataclass(frozen=True)
class _Measured:
    """A statistic and its bootstrap samples, before it is compared with its baseline."""

    statistic: Statistic
    judged: Judged
    metric: str
    k: int | None
    values: FloatArray  # the statistic, then its samples
    n: int
    segments: int | None
    scores: FloatArray  # of the metric on the given test set
    without: FloatArray | None  # the statistic without each system
    unit: float | None  # of scores of systems: the standard deviation of those of outputs of one system
    redrawn: str  # what the samples redraw


def agreement(
    series: Sequence[Series],
    gold: Gold,
    *,
    known: BoolArray | None,
    systems: Sequence[str],
    bootstrap: Bootstrap,
    baseline: str | None = None,
    statistics: Sequence[str] = (),
    placebos: Sequence[Sequence[Series]] = (),
    within_segments: bool = False,
) -> list[Row]:
    """Hold metrics against one kind of judgement: within segments, between systems and over all outputs, for every k.

    Rows within segments are over relative rankings where ``gold`` has them, else over the pairs of judged outputs of
    one segment. Human scores of systems are held fixed when segments are redrawn: the interval at system level is about
    the metric's sample of segments, and about the sample of systems where those are redrawn too.

    Args:
        series: The metrics.
        gold: The judgements.
        known: Which outputs are real texts, shape (systems, segments); None when there are no texts.
        systems: The rows of ``known``.
        bootstrap: How intervals are made.
        baseline: Name of the metric (at its smallest k) that gains are measured from; default: each metric itself at
            its smallest k, and none for stored scores.
        statistics: Names of further statistics, see :data:`polyref.eval.statistics.named.STATISTICS`; at every
            level that has them.
        placebos: The same metrics over placebos of the references, one list for every seed
            (:func:`polyref.eval.placebo.placebo`).
        within_segments: Only compare outputs of one segment.

    Returns:
        Rows by level, metric, k and statistic; with placebos, each row of added references is followed by that of the
        placebo and that of the difference.

    Raises:
        DataError: A metric has scores at no level that is judged, or lacks those of a judged system.
        UsageError: The baseline is not among the metrics, or the judgement cannot give a statistic.
    """
    chosen = chosen_statistics(statistics, gold, within_segments=within_segments)
    if baseline is not None and baseline not in {one.metric for one in series}:
        raise UsageError(f"the baseline {baseline!r} is not among the metrics", remedy="name it with -m as well")
    if known is not None:
        gold = of_known(gold, known, systems)
    every = [(one, k) for one in series for k in one.ks]
    numbers = len(chosen) * (len(every) + len(placebos) * sum(bool(k) for _, k in every))
    with work("resampling" if bootstrap.resamples else "correlating", "numbers", numbers) as advance:
        blocks = list(_blocks(gold, known, systems, bootstrap, chosen))
        measured = list(_counted(_measured(series, blocks), advance))
        # What no reference was added to is the same as in the rows themselves.
        controls = [list(_counted(_measured(one, blocks, added=True), advance)) for one in placebos]
    for one in series:
        if not any(item.metric == one.metric for item in measured):
            raise DataError(
                f"{one.metric} and the judgement {gold.name!r} have no level (sys, seg) in common",
                remedy="choose another `gold` or metric",
            )
    return list(_compared(measured, controls, bootstrap, baseline))


def _counted(measured: Iterable[_Measured], advance: Advance) -> Iterator[_Measured]:
    for one in measured:
        advance(1)
        yield one


#: Statistics of the same judgements, ready to measure any number of metrics.
_Block = tuple[Judged, list[tuple[Statistic, Measure]]]


def _blocks(
    gold: Gold, known: BoolArray | None, systems: Sequence[str], bootstrap: Bootstrap, chosen: Sequence[Statistic]
) -> Iterator[_Block]:
    """The statistics by :func:`~polyref.eval.statistics.named.block`; what depends on people is computed once."""

    @cache
    def judgements(needs: Needs) -> Judged | None:
        if needs == "systems":
            return of_systems(gold, known, systems, bootstrap) if gold.system else None
        if needs == "segments":
            return of_segments(gold, bootstrap) if gold.segment else None
        if gold.pairs is None:
            return None
        if known is not None:
            check_known(gold.pairs, known, systems)
        return of_rankings(gold, gold.pairs, bootstrap)

    for _, together in itertools.groupby(chosen, key=block):
        statistics = list(together)
        judged = judgements(statistics[0].needs)
        if judged is None:
            continue
        yield judged, [(one, one.against(judged.people)) for one in statistics]


def _measured(series: Sequence[Series], blocks: Sequence[_Block], *, added: bool = False) -> Iterator[_Measured]:
    """Every statistic of every metric and k; with ``added``, of k > 0 alone."""
    for judged, measures in blocks:
        needs = measures[0][0].needs
        for one in series:
            for k in one.ks:
                if added and not k:
                    continue
                scores = _scores(one, k, judged, needs)
                if scores is None:
                    break
                unit = _unit(one, k, judged, scores[0]) if needs == "systems" else None
                segments = judged.segments if one.resamples or needs != "systems" else None
                for statistic, measure in measures:
                    n = len(judged.systems) if statistic.level == "sys" else judged.cells
                    values = measure(scores)
                    over = _redrawn(one, judged.people, statistic) if len(values) > 1 else ""
                    without = statistic.without_each(scores, judged.people)
                    yield _Measured(statistic, judged, one.metric, k, values, n, segments, scores, without, unit, over)


def _redrawn(one: Series, people: People, statistic: Statistic) -> str:
    """What the samples of a statistic redraw; the segments behind a file's scores of systems are not known."""
    if statistic.redraws:
        return statistic.redraws
    segments = people.draws is not None and (one.resamples or statistic.needs != "systems")
    return names_of_redrawn(segments, people.system_draws is not None)


def _scores(one: Series, k: int | None, judged: Judged, needs: Needs) -> FloatArray | None:
    """A metric's scores in the form that statistics take them; None where it has none of this kind."""
    if needs != "systems":
        return one.segment(judged.systems, k)
    scores = one.system(judged.systems, k, judged.over)
    if scores is None:
        return None
    draws = judged.people.draws if one.resamples else None
    rows = scores[None, :]
    return rows if draws is None else np.concatenate([rows, one.drawn_system(judged.systems, k, draws)])


def _unit(one: Series, k: int | None, judged: Judged, scores: FloatArray) -> float | None:
    """Standard deviation of a metric's scores of outputs of one system, on the scale of its scores of systems.

    Args:
        one: The metric.
        k: Number of added references.
        judged: Whose scores.
        scores: Its scores of systems, shape (systems,).

    Returns:
        None where there is none.
    """
    try:
        cells = one.segment(judged.systems, k)
    except DataError:  # a file may have scores of segments of some systems only
        return None
    if cells is None:
        return None
    if one.resamples and judged.over is not None:
        cells = cells[:, judged.over]
    unit, means = spread_of_outputs(cells)
    if not one.resamples:  # a file may have the two on different scales
        unit *= float(scores.std()) / means if means > 0 else 0.0
    return unit if unit > 0 else None


def _compared(
    measured: Sequence[_Measured], controls: Sequence[Sequence[_Measured]], bootstrap: Bootstrap, baseline: str | None
) -> Iterator[Row]:
    """Every statistic against its baseline: the first item with the baseline's name, level and statistic."""
    first: dict[tuple[str, str, str], _Measured] = {}
    for item in measured:
        first.setdefault((item.metric, item.statistic.level, item.statistic.name), item)
    known = [{_key(item): item for item in items} for items in controls]
    for item in measured:
        statistic = item.statistic
        base = first.get((baseline or item.metric, statistic.level, statistic.name))
        # What gains start from gains nothing; k = 0, which people know, says so.
        if (baseline is None and item.k is None) or (item is base and item.k):
            base = None
        yield _row(item, base, bootstrap)
        placebos = [items[_key(item)] for items in known if _key(item) in items]
        if not item.k or not placebos:
            continue
        without = [one.without for one in placebos if one.without is not None]
        placebo = replace(
            item,
            values=np.mean([one.values for one in placebos], axis=0),
            without=np.mean(without, axis=0) if without else None,
        )
        # The tests of a metric are about its scores, and there is no one set of scores behind a mean over seeds.
        yield replace(_row(placebo, base, bootstrap), p=None, p_williams=None, control=PLACEBO)
        difference = replace(item, values=item.values - placebo.values)
        p = _p(item, placebo) if item.without is not None else _largest(_p(item, one) for one in placebos)
        yield replace(_row(difference, None, bootstrap), p=p, control=REAL_MINUS_PLACEBO)


def _key(item: _Measured) -> tuple[str, str, str, int | None]:
    return item.statistic.level, item.statistic.name, item.metric, item.k


def _row(item: _Measured, base: _Measured | None, bootstrap: Bootstrap) -> Row:
    gain, gain_ci, p, p_williams, p_bootstrap = None, None, None, None, None
    if base is not None:
        gain = float(item.values[0] - base.values[0])
        if len(item.values) == len(base.values) > 1:
            gains = (item.values - base.values)[1:]
            gain_ci = percentile_interval(gains, bootstrap.confidence)
            if item.statistic.level == "seg" or SYSTEMS in item.redrawn:
                p_bootstrap = bootstrap_p(gains)
        p = _p(item, base)
        if item.statistic is PEARSON[0]:
            p_williams = williams_test(item.scores[0], base.scores[0], item.judged.people.scores)
    return Row(
        item.judged.name,
        item.statistic.level,
        item.metric,
        item.k,
        item.statistic.name,
        float(item.values[0]),
        gain,
        percentile_interval(item.values[1:], bootstrap.confidence),
        gain_ci,
        item.n,
        item.segments,
        p,
        p_williams,
        p_bootstrap=p_bootstrap,
        redrawn=item.redrawn,
    )


def _p(item: _Measured, base: _Measured) -> float | None:
    """P-value that the one agrees better than the other, one-sided; None where nothing may be said."""
    if item.without is not None and base.without is not None:
        return jackknife_p(float(item.values[0] - base.values[0]), item.without - base.without)
    return item.statistic.test(*_on_one_scale(item, base), item.judged.people)


def _largest(several: Iterable[float | None]) -> float | None:
    """The p-value of being better than each of several placebos."""
    known = [one for one in several if one is not None]
    return float(np.max(known)) if known else None  # undefined where one is


def _on_one_scale(item: _Measured, base: _Measured) -> tuple[FloatArray, FloatArray]:
    """Scores of two metrics that a test can exchange, if they are of systems.

    In units of the standard deviation of their scores of outputs of one system, else of those of systems. A few unlike
    systems do not say well what the scale of a metric is; thousands of outputs do.
    """
    units = [item.unit, base.unit]
    scores = [item.scores[0], base.scores[0]]
    if item.statistic.needs == "systems":
        if None in units:
            units = [float(one.std()) or None for one in scores]
        scores = [one / (unit or 1.0) for one, unit in zip(scores, units, strict=True)]
    return scores[0], scores[1]
