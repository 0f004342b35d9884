"""Agreement of metrics with human judgements against the number of references, and what it allows to say.

These are the rows of ``polyref evaluate``, their verdicts, PERM-BOTH, and corrections for many comparisons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.eval.data.score_files import BoolArray, FloatArray, Gold, RankingPairs
from polyref.eval.series import Series
from polyref.eval.statistics.base import (
    ROUNDING,
    SEGMENTS,
    SYSTEMS,
    Bootstrap,
    Measure,
    Needs,
    People,
    Statistic,
    bootstrap_p,
    percentile_interval,
)
from polyref.eval.statistics.named import PEARSON, block, chosen_statistics, statistic_at
from polyref.eval.statistics.significance import (
    adjusted,
    jackknife_p,
    perm_both,
    pooled_pearson,
    spread_of_outputs,
    system_pearson,
    williams_test,
)
from polyref.progress import each, work

#: What controls are called.
PLACEBO: Final = "placebo"
REAL_MINUS_PLACEBO: Final = "real - placebo"
LENGTH: Final = "length"
#: Words of verdicts. ``gains`` is what ``better`` is called where no placebo was run.
BETTER: Final = "better"
GAINS: Final = "gains"
WORSE: Final = "worse"
UNCLEAR: Final = "unclear"
WITHHELD: Final = "withheld"
#: Half of the level of a two-sided test at 5 %.
_TAIL: Final = 0.025
#: Level -> the correlation that PERM-BOTH compares, always Pearson's: of mean scores of systems, or of all cells.
_OF_PERM_BOTH: Final = {"sys": system_pearson, "seg": pooled_pearson}


@dataclass(frozen=True)
class Row:
    """One number.

    Attributes:
        gold: Name of the human judgement at this level.
        level: ``sys`` or ``seg``.
        metric: Name of the metric.
        k: Number of extra references; None for stored scores.
        statistic: Name of the statistic, see :data:`polyref.eval.statistics.named.STATISTICS`; other experiments have
            names of their own.
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

    @property
    def about(self) -> Statistic | None:
        """The statistic; None for those of other experiments."""
        return statistic_at(self.statistic, self.level)


@dataclass(frozen=True)
class Judged:
    """Judgements of one kind as arrays, in the order of ``systems``.

    ``cells`` counts judgements of outputs or pairs of them; ``segments`` those that take part, None where there are no
    texts; ``over``, of scores of systems, says which segments they are over, None for all.
    """

    name: str
    systems: Sequence[str]
    people: People
    cells: int = 0
    segments: int | None = None
    over: BoolArray | None = None


def judgements_for(
    gold: Gold, needs: Needs, bootstrap: Bootstrap, known: BoolArray | None = None, systems: Sequence[str] = ()
) -> Judged | None:
    """The judgements that a statistic needs; None where there are none of the kind.

    ``known`` says which outputs of ``systems`` are real texts, shape (systems, segments); None without texts.
    """
    if needs == SYSTEMS:
        names = list(gold.system)
        human = np.array([gold.system[name] for name in names])
        kind = gold.system_name or gold.name
        if known is None or not names:
            return Judged(kind, names, People(human, bootstrap=bootstrap)) if names else None
        # All systems are scored on the same segments: those whose text is known for every one of them.
        rows = [list(systems).index(name) for name in names if name in systems]
        over: BoolArray = np.logical_and.reduce(known[rows])
        segments = int(over.sum())
        if not segments:
            raise DataError("no segment has the outputs of all judged systems: no system-level scores")
        people = People(human, over, bootstrap)
        return Judged(kind, names, people, segments=segments, over=None if segments == len(over) else over)
    if needs == SEGMENTS:
        if not gold.segment:
            return None
        human = np.stack(list(gold.segment.values()))
        there = ~np.isnan(human)
        universe: BoolArray = np.logical_or.reduce(there)
        people = People(human, universe, bootstrap)
        return Judged(gold.name, list(gold.segment), people, int(there.sum()), int(universe.sum()))
    if gold.pairs is None:
        return None
    if known is not None:
        _check_known(gold.pairs, known, systems)
    universe = np.bincount(gold.pairs.segment).astype(np.bool_)
    people = People(np.zeros(0), universe, bootstrap, gold.pairs)
    return Judged(gold.name, gold.pairs.systems, people, len(gold.pairs), int(universe.sum()))


def _check_known(pairs: RankingPairs, known: BoolArray, systems: Sequence[str]) -> None:
    rows = [list(systems).index(name) for name in pairs.systems]
    unknown = np.argwhere(pairs.cells(known.shape[1]) & ~known[rows])
    if len(unknown):
        system, segment = unknown[0]
        raise DataError(
            f"the relative rankings judge segment {segment + 1} of {pairs.systems[system]}, whose output is empty, "
            "which means unknown",
            remedy="add the output or leave the pair out",
        )


@dataclass(frozen=True)
class _Measured:
    """A statistic of one metric and k, with its bootstrap samples."""

    statistic: Statistic
    judged: Judged
    series: Series
    k: int | None
    values: FloatArray  # the statistic, then its samples
    scores: FloatArray  # of the metric on the given test set
    without: FloatArray | None  # the statistic without each system
    unit: float | None  # of scores of systems: the standard deviation of those of outputs of one system

    @property
    def key(self) -> tuple[str, str, str, int | None]:
        return self.statistic.level, self.statistic.name, self.series.metric, self.k

    @property
    def segments_known(self) -> bool:
        """Whether it is known which segments are behind the scores; of a file's scores of systems it is not."""
        return self.series.resamples or self.statistic.needs != SYSTEMS

    @property
    def redrawn(self) -> str:
        """What the samples redraw."""
        if len(self.values) == 1:
            return ""
        people = self.judged.people
        drawn = {SEGMENTS: self.segments_known and people.draws is not None, SYSTEMS: people.system_draws is not None}
        return self.statistic.redraws or " and ".join(name for name, there in drawn.items() if there)

    def row(self, bootstrap: Bootstrap, base: _Measured | None) -> Row:
        """The row, with the gain over ``base``."""
        gain, gain_ci, p, p_williams, p_bootstrap = None, None, None, None, None
        if base is not None:
            gain = float(self.values[0] - base.values[0])
            if len(self.values) == len(base.values) > 1:
                gains = (self.values - base.values)[1:]
                gain_ci = percentile_interval(gains, bootstrap.confidence)
                if self.statistic.level == "seg" or SYSTEMS in self.redrawn:
                    p_bootstrap = bootstrap_p(gains)
            p = self.p_over(base)
            if self.statistic is PEARSON[0]:
                p_williams = williams_test(self.scores, base.scores, self.judged.people.scores)
        return Row(
            gold=self.judged.name,
            level=self.statistic.level,
            metric=self.series.metric,
            k=self.k,
            statistic=self.statistic.name,
            value=float(self.values[0]),
            gain=gain,
            ci=percentile_interval(self.values[1:], bootstrap.confidence),
            gain_ci=gain_ci,
            n=len(self.judged.systems) if self.statistic.level == "sys" else self.judged.cells,
            segments=self.judged.segments if self.segments_known else None,
            p=p,
            p_williams=p_williams,
            p_bootstrap=p_bootstrap,
            redrawn=self.redrawn,
        )

    def controls(self, placebos: Sequence[_Measured], bootstrap: Bootstrap, base: _Measured | None) -> Iterator[Row]:
        """The rows of the mean of placebos, and of the difference to it."""
        without = [one.without for one in placebos if one.without is not None]
        mean = replace(
            self,
            values=np.mean([one.values for one in placebos], axis=0),
            without=np.mean(without, axis=0) if without else None,
        )
        # The tests of a metric are about its scores, and there is no one set of scores behind a mean over seeds.
        yield replace(mean.row(bootstrap, base), p=None, p_williams=None, control=PLACEBO)
        difference = replace(self, values=self.values - mean.values).row(bootstrap, None)
        if self.without is not None:
            p = self.p_over(mean)
        else:  # better than each of them; undefined where one p-value is
            tested = [p for one in placebos if (p := self.p_over(one)) is not None]
            p = float(np.max(tested)) if tested else None
        yield replace(difference, p=p, control=REAL_MINUS_PLACEBO)

    def p_over(self, base: _Measured) -> float | None:
        """P-value that this agrees better than ``base``, one-sided; None where nothing may be said."""
        if self.without is not None and base.without is not None:
            return jackknife_p(float(self.values[0] - base.values[0]), self.without - base.without)
        units = [self.unit, base.unit]
        scores = [self.scores, base.scores]
        if self.statistic.needs == SYSTEMS:
            # On one scale, so that a test can exchange them: in units of the standard deviation of scores of outputs of
            # one system, else of those of systems. Thousands of outputs say better what the scale of a metric is than a
            # few unlike systems do.
            if None in units:
                units = [float(one.std()) or None for one in scores]
            scores = [one / (unit or 1.0) for one, unit in zip(scores, units, strict=True)]
        return self.statistic.test(scores[0], scores[1], self.judged.people)


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
        statistics: Names of further statistics, see :data:`polyref.eval.statistics.named.STATISTICS`; at every level
            that has them.
        placebos: The same metrics over placebos of the references, one list for every seed
            (:func:`polyref.eval.data.reference_sets.placebo`).
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
        # What has no text has no score to hold against judgements.
        rows_of = dict(zip(systems, known, strict=True))
        cells = {name: np.where(rows_of.get(name, True), scores, np.nan) for name, scores in gold.segment.items()}
        gold = replace(gold, segment={name: own for name, own in cells.items() if not np.isnan(own).all()})
    every = [k for one in series for k in one.ks]
    numbers = len(chosen) * (len(every) + len(placebos) * sum(map(bool, every)))
    with work("resampling" if bootstrap.resamples else "correlating", "numbers", numbers) as advance:
        people = cache(lambda needs: judgements_for(gold, needs, bootstrap, known, systems))
        # What depends on people is computed once for all metrics.
        blocks = [
            (found, [(one, one.against(found.people)) for one in together])
            for _, group in itertools.groupby(chosen, key=block)
            if (found := people((together := list(group))[0].needs)) is not None
        ]

        def measured(several: Sequence[Series], *, added: bool = False) -> Iterator[_Measured]:
            for found, measures in blocks:
                for one in several:
                    for item in _measured(one, found, measures, added):
                        advance(1)
                        yield item

        real = list(measured(series))
        # What no reference was added to is the same as in the rows themselves.
        controls = [{item.key: item for item in measured(one, added=True)} for one in placebos]
    for one in series:
        if not any(item.series is one for item in real):
            raise DataError(
                f"{one.metric} and the judgement {gold.name!r} have no level (sys, seg) in common",
                remedy="choose another `gold` or metric",
            )
    rows: list[Row] = []
    first: dict[tuple[str, str, str], _Measured] = {}
    for item in real:
        first.setdefault(item.key[:3], item)
    for item in real:
        base = first.get((*item.key[:2], baseline or item.series.metric))
        # What gains start from gains nothing; k = 0, which people know, says so.
        if (baseline is None and item.k is None) or (item is base and item.k):
            base = None
        rows.append(item.row(bootstrap, base))
        if fakes := [items[item.key] for items in controls if item.key in items]:
            rows += item.controls(fakes, bootstrap, base)
    return rows


def _measured(
    series: Series, found: Judged, measures: Sequence[tuple[Statistic, Measure]], added: bool
) -> Iterator[_Measured]:
    """Statistics of the same judgements, of one metric and every k; with ``added``, of k > 0 alone."""
    of_systems = measures[0][0].needs == SYSTEMS
    for k in series.ks:
        if added and not k:
            continue
        scores = series.system(found.systems, k, found.over) if of_systems else series.segment(found.systems, k)
        if scores is None:
            return
        given, unit = scores, None
        if of_systems:
            unit = _unit(series, k, found, scores)
            scores = scores[None]
            if series.resamples and found.people.draws is not None:
                scores = np.concatenate([scores, series.drawn_system(found.systems, k, found.people.draws)])
        for statistic, measure in measures:
            without = statistic.without_each(scores, found.people)
            yield _Measured(statistic, found, series, k, measure(scores), given, without, unit)


def _unit(series: Series, k: int | None, found: Judged, scores: FloatArray) -> float | None:
    """Standard deviation of a metric's scores of outputs of one system, on the scale of its scores of systems."""
    try:
        cells = series.segment(found.systems, k)
    except DataError:  # a file may have scores of segments of some systems only
        return None
    if cells is None:
        return None
    if series.resamples and found.over is not None:
        cells = cells[:, found.over]
    unit, means = spread_of_outputs(cells)
    if not series.resamples:  # a file may have the two on different scales
        unit *= float(scores.std()) / means if means > 0 else 0.0
    return unit if unit > 0 else None


@dataclass(frozen=True)
class Verdict:
    """What may be said of a gain.

    Attributes:
        word: ``better``, ``gains``, ``worse``, ``unclear`` or ``withheld``; empty where nothing says.
        reason: Why it is not ``better`` though the gain, or the gain beyond the placebo, is significant.
    """

    word: str = ""
    reason: str = ""


def verdict(row: Row, beyond: Row | None = None, reasons: Sequence[str] = ()) -> Verdict:
    """What may be said of a gain: the one place where it is decided.

    All tests are two-sided at 5 %. Added references are ``better`` where two things are significant: the gain itself,
    and the gain beyond the placebo. Either alone can mislead. Any text breaks ties, and a placebo can harm. Without a
    placebo they have a gain, which is called ``gains``. A loss (``worse``) needs no control. A gain without added
    references, over another metric, is ``better`` or ``worse`` by itself.

    Two kinds of statistics have no verdict. A tie rate is neither better nor worse. Those that are pooled over all
    segments move with how hard and how long segments are: a metric that sees nothing but lengths gains there.

    Args:
        row: A row with a gain.
        beyond: The row of the difference to the placebo, where one was run.
        reasons: What is wrong with the added references: whatever the gain, the verdict is ``withheld``.
    """
    if row.control or row.gain is None or np.isnan(row.gain) or (not row.k and row.gain == 0):
        return Verdict()
    gain = _significance(row)
    if gain is None:
        return Verdict()
    if not row.k:
        return Verdict((UNCLEAR, BETTER, WORSE)[gain])
    if reasons:
        return Verdict(WITHHELD, "; ".join(reasons))
    if gain < 0:
        return Verdict(WORSE)
    if beyond is None:
        return Verdict(GAINS if gain else UNCLEAR)
    more = _significance(beyond) == 1
    if gain and more:
        return Verdict(BETTER)
    if gain:
        return Verdict(UNCLEAR, "the gain is significant, the gain beyond the placebo is not")
    return Verdict(UNCLEAR, "the gain beyond the placebo is significant, the gain is not" if more else "")


def _significance(row: Row) -> int | None:
    """1 or -1 for a significant gain or loss, 0 for neither, None where nothing says."""
    about = row.about
    if row.p is None or (about is not None and (about.pooled or about.higher_is_better is None)):
        return None
    amount = row.value if row.control else row.gain
    if amount is None or abs(amount) <= ROUNDING:  # exchanging or leaving out equal scores is no test
        return 0
    # An undefined p-value, of too few systems, is neither.
    return 1 if row.p < _TAIL else -1 if row.p > 1 - _TAIL else 0


def with_perm_both(
    rows: Sequence[Row],
    series: Sequence[Series],
    gold: Gold,
    *,
    baseline: str | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Row]:
    """The rows, those of Pearson's r with the p-value of PERM-BOTH against their baseline.

    The test permutes scores of single outputs (Deutsch et al. 2021), so the score of a system is the mean of its
    segments' here, for people and for metrics. It is over the segments that were judged for every system. A row of an
    undefined gain has an undefined p-value.

    Args:
        rows: What :func:`agreement` returned.
        series: The metrics in them.
        gold: The judgements, with enough scores of segments (:func:`perm_both_fault`).
        baseline: As for :func:`agreement`.
        resamples: Number of permutations.
        seed: Equal seeds give equal p-values.
    """
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    there = ~np.isnan(human).any(axis=0)
    by_name = {one.metric: one for one in series}

    @cache
    def scores(metric: str, k: int | None) -> FloatArray | None:
        found = by_name[metric].segment(names, k)
        return None if found is None else found[:, there]

    result = []
    for row in each(rows, "permuting", "numbers"):
        if row.gain is not None and row.statistic == "pearson":
            base = baseline or row.metric
            first, second = scores(row.metric, row.k), scores(base, by_name[base].ks[0])
            if np.isnan(row.gain):
                row = replace(row, p_perm_both=float("nan"))
            elif first is not None and second is not None:
                compared = _OF_PERM_BOTH[row.level]
                p = perm_both(first, second, human[:, there], statistic=compared, resamples=resamples, seed=seed)
                row = replace(row, p_perm_both=p)
        result.append(row)
    return result


def perm_both_fault(gold: Gold) -> UsageError | None:
    """Why judgements have too little for PERM-BOTH; None where they have enough."""
    if not gold.segment:
        return UsageError(
            f"`perm_both` needs scores of segments, which the judgement {gold.name!r} does not have",
            remedy="choose another `gold`",
        )
    there = int((~np.isnan(np.stack(list(gold.segment.values()))).any(axis=0)).sum())
    if there >= 2:
        return None
    return UsageError(
        f"`perm_both` needs 2 segments with all {len(gold.segment)} systems judged, and the judgement "
        f"{gold.name!r} has {there}"
    )


def with_correction(rows: Sequence[Row], method: str) -> list[Row]:
    """The rows with p-values corrected for the number of comparisons in them, those of each test by themselves.

    Rows without a gain are no comparisons and do not count: the baseline itself, scores equal to its, and undefined
    correlations.

    Args:
        rows: All rows that a claim is picked from, of all language pairs.
        method: ``holm``, ``bonferroni`` or ``bh``.
    """
    result = list(rows)
    families: dict[str, dict[int, float]] = {}
    for place, row in enumerate(rows):
        p = row.p if row.p_perm_both is None else row.p_perm_both
        if p is not None and not np.isnan(p) and row.gain and not np.isnan(row.gain):
            test = "perm-systems" if (row.level, row.statistic) == ("sys", "pearson") else "jackknife"
            families.setdefault(test if row.p_perm_both is None else "perm-both", {})[place] = p
    for family in families.values():
        for place, p in zip(family, adjusted(list(family.values()), method), strict=True):
            result[place] = replace(rows[place], p_adjusted=p)
    return result
