"""Further experiments on one evaluation, as rows of the same table: pairs of systems, hybrids, smaller test sets.

Gains are as in :func:`polyref.eval.statistics.agreement.agreement`: over each metric's own smallest k, or over a
baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.eval.experiments.hybrid_systems import hybrids, pick_quality
from polyref.eval.experiments.series import Series
from polyref.eval.experiments.slices import SizePoint, length_buckets, size_curve
from polyref.eval.experiments.system_pairs import PairOutcome, outcome_table, pair_outcomes
from polyref.eval.judgements.gold import Gold
from polyref.eval.statistics.agreement import Row, agreement
from polyref.eval.statistics.correlation import pearson
from polyref.eval.statistics.resampling import SEGMENTS, Bootstrap
from polyref.progress import each
from polyref.references import ReferenceSet

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: Systems in a group from which a metric has to pick the best.
GROUP: Final = 10


def outcomes_of(series: Series, k: int | None, gold: Gold, *, level: float = 0.05) -> list[PairOutcome] | None:
    """Pairs of systems that people tell apart, and what one metric says with one k.

    None where metric or judgement have no scores of segments, which the tests are over.
    """
    if not gold.segment:
        return None
    names = list(gold.segment)
    scores = series.segment(names, k)
    if scores is None:
        return None
    human = np.stack([gold.segment[name] for name in names])
    return pair_outcomes(names, scores, human, level=level)


def outcome_rows(
    series: Sequence[Series], gold: Gold, *, baseline: str | None = None, level: float = 0.05
) -> list[Row]:
    """How many pairs of systems each metric and k gets right, wrong, or does not tell apart.

    Args:
        series: The metrics.
        gold: The judgements, with scores of segments.
        baseline: Metric that gains are measured from; default: each metric's own smallest k.
        level: Significance level.

    Raises:
        UsageError: The judgement has no scores of segments.
    """
    _need_segments(gold, "pairs of systems")
    return _with_gains(_outcome_rows(series, gold, level), baseline)


def _outcome_rows(series: Sequence[Series], gold: Gold, level: float) -> Iterator[Row]:
    for one in series:
        for k in one.ks:
            outcomes = outcomes_of(one, k, gold, level=level)
            if outcomes is None:
                break
            for name, count in outcome_table(outcomes).items():
                statistic = f"pairs-{name.replace(' ', '-')}"
                yield _row(gold.name, "sys", one.metric, k, statistic, float(count), len(outcomes))


def hybrid_rows(
    series: Sequence[Series], gold: Gold, *, baseline: str | None = None, count: int = 10_000, seed: int = 1
) -> list[Row]:
    """Agreement over super-sampled systems (Graham and Liu 2016): Pearson's r, and picking the best of ten.

    Args:
        series: The metrics; score files are left out, since no hybrid can be made of them.
        gold: The judgements, with scores of segments.
        baseline: Metric that gains are measured from, none from a score file; default: each metric's own smallest k.
        count: How many hybrids.
        seed: Equal seeds give equal hybrids.

    Raises:
        UsageError: The judgement has no scores of segments or of fewer than two systems, there is no metric computed
            here, or fewer than two of the hybrids have a judged segment.
    """
    _need_segments(gold, "hybrid systems")
    computed = [one for one in series if one.resamples]
    if not computed:
        raise UsageError("hybrid systems need a metric that is computed here, not score files")
    if len(gold.segment) < 2:
        raise UsageError(
            f"hybrid systems are made of two systems or more, and only {len(gold.segment)} is judged and not left out"
        )
    return _with_gains(_hybrid_rows(computed, gold, count, seed), baseline)


def _hybrid_rows(computed: Sequence[Series], gold: Gold, count: int, seed: int) -> Iterator[Row]:
    names = list(gold.segment)
    human = np.stack([gold.segment[name] for name in names])
    drawn = hybrids(*human.shape, count=count, seed=seed)
    people = drawn.human(human)
    judged = ~np.isnan(people)
    if judged.sum() < 2:
        raise UsageError(f"{int(judged.sum())} of {count} hybrid systems have a judged segment, needs 2",
                         remedy="make more")  # fmt: skip
    for one in computed:
        for k in one.ks:
            scores = one.hybrid(drawn, names, k)[judged]
            picked = pick_quality(scores, people[judged], group=min(GROUP, len(scores)), seed=seed)
            values = {
                "hybrid-pearson": pearson(scores, people[judged]),
                "hybrid-hits@1": picked.hits_at_1,
                "hybrid-mrr": picked.mrr,
                "hybrid-score-lost": picked.difference,
            }
            for name, value in values.items():
                yield _row(gold.name, "sys", one.metric, k, name, value, len(scores), human.shape[1])


def bucket_rows(
    series: Sequence[Series],
    gold: Gold,
    references: ReferenceSet,
    count: int,
    *,
    known: BoolArray,
    systems: Sequence[str],
    bootstrap: Bootstrap,
    baseline: str | None = None,
) -> Iterator[Row]:
    """The usual rows on segments of similar length; their statistic says of how many words, as ``pearson@3-12words``.

    Args:
        series: The metrics; score files of systems, which are over the whole set, are left out.
        gold: The judgements.
        references: What lengths are measured on.
        count: Number of buckets, 1 or more.
        known: As for :func:`polyref.eval.statistics.agreement.agreement`.
        systems: As there.
        bootstrap: As there.
        baseline: As there; there are no gains from a score file.
    """
    computed = [one for one in series if one.resamples]
    possible = baseline is None or baseline in {one.metric for one in computed}
    for bucket in length_buckets(references, count):
        inside = gold.within(bucket.segments)
        if inside.pairs is not None and not len(inside.pairs):
            continue
        for row in agreement(
            computed,
            inside,
            known=known & bucket.segments,
            systems=systems,
            bootstrap=bootstrap,
            baseline=baseline if possible else None,
        ):
            row = replace(row, statistic=f"{row.statistic}@{bucket.shortest:g}-{bucket.longest:g}words")
            yield row if possible else replace(row, gain=None, gain_ci=None, p=None)


def size_rows(
    series: Sequence[Series],
    gold: Gold,
    sizes: Sequence[int],
    *,
    segments: int | BoolArray,
    baseline: str | None = None,
    samples: int = 200,
    confidence: float = 0.95,
    seed: int = 1,
) -> list[Row]:
    """Mean Pearson's r at system level on random parts of the test set; ``segments`` of a row is the size.

    Args:
        series: The metrics; score files are left out.
        gold: The judgements, with scores of systems.
        sizes: Sizes of the parts.
        segments: As for :func:`polyref.eval.experiments.slices.size_curve`.
        baseline: Metric that gains are measured from, none from a score file; default: each metric's own smallest k.
        samples: Parts of each size.
        confidence: Of the interval.
        seed: Equal seeds give equal parts.

    Raises:
        UsageError: No scores of systems, no metric computed here, or a size is out of range.
    """
    computed = [one for one in series if one.resamples]
    if not gold.system or not computed:
        raise UsageError("test-set sizes need scores of systems and a metric that is computed here")
    most = segments if isinstance(segments, int) else int(segments.sum())
    if wrong := [size for size in sizes if not 1 <= size <= most]:
        raise UsageError(f"a part of {wrong[0]} segments, but there are {most}")
    rows = []
    for one in each(computed, "drawing parts", "metrics"):
        points = size_curve(
            one, gold.system, sizes, segments=segments, samples=samples, confidence=confidence, seed=seed
        )
        rows += [_size_row(gold, one.metric, point) for point in points]
    return _with_gains(rows, baseline)


def _with_gains(rows: Iterable[Row], baseline: str | None) -> list[Row]:
    """The rows with their gains over the first row of the baseline (default: of the same metric) that is like them."""
    rows = list(rows)
    first: dict[tuple[str, str, int | None], float] = {}
    for row in rows:
        first.setdefault((row.metric, row.statistic, row.segments), row.value)
    result = []
    for row in rows:
        start = first.get((baseline or row.metric, row.statistic, row.segments))
        # As in the usual rows, a score file is no baseline of its own.
        if start is not None and not (baseline is None and row.k is None):
            row = replace(row, gain=row.value - start)
        result.append(row)
    return result


def _size_row(gold: Gold, metric: str, point: SizePoint) -> Row:
    name = gold.system_name or gold.name
    return Row(
        name, "sys", metric, point.k, "pearson-of-part", point.mean, None, point.interval, None, len(gold.system),
        point.segments, None, redrawn=SEGMENTS if point.interval else "",
    )  # fmt: skip


def _row(
    gold: str,
    level: str,
    metric: str,
    k: int | None,
    statistic: str,
    value: float,
    n: int,
    segments: int | None = None,
) -> Row:
    return Row(gold, level, metric, k, statistic, value, None, None, None, n, segments, None)


def _need_segments(gold: Gold, what: str) -> None:
    if not gold.segment:
        raise UsageError(
            f"{what} need scores of segments, which the judgement {gold.name!r} does not have",
            remedy="choose another `gold`",
        )
