"""Parts of a test set: the best systems, those without outliers, segments by length, and smaller test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.experiments.series import Series
from polyref.eval.statistics.correlation import pearson_rows
from polyref.eval.statistics.resampling import percentile_interval
from polyref.references import ReferenceSet

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: Makes the median absolute deviation comparable with a standard deviation of normal data.
MAD_SCALE: Final = 1.483
#: Deviations beyond which a system is an outlier (Mathur et al. 2020, and WMT20).
CUTOFF: Final = 2.5


def top_systems(human: Mapping[str, float], n: int) -> list[str]:
    """The ``n`` systems with the highest human scores, best first; correlations fall as the field gets narrower
    (Mathur et al. 2020).

    Raises:
        ValueError: ``n`` is not between 1 and the number of systems.
    """
    if not 1 <= n <= len(human):
        raise ValueError(f"top {n}, expected 1 to {len(human)}")
    return sorted(human, key=lambda name: -human[name])[:n]


def outliers(human: Mapping[str, float], *, cutoff: float = CUTOFF) -> list[str]:
    """Systems whose human score is far from the median (Leys et al. 2013; Mathur et al. 2020, section 4.1).

    Args:
        human: System -> human score.
        cutoff: How many scaled median absolute deviations are far, > 0.

    Returns:
        Their names, in the order of ``human``; none where more than half of the systems have one score.

    Raises:
        ValueError: ``cutoff`` is not positive.
    """
    if cutoff <= 0:
        raise ValueError(f"cutoff is {cutoff}, expected more than 0")
    scores = np.array(list(human.values()), dtype=np.float64)
    if not len(scores):
        return []
    distance = np.abs(scores - np.median(scores))
    deviation = MAD_SCALE * float(np.median(distance))
    if deviation == 0:
        return []
    return [name for name, far in zip(human, distance / deviation > cutoff, strict=True) if far]


@dataclass(frozen=True)
class LengthBucket:
    """Segments of similar length.

    Attributes:
        shortest: Length of the shortest segment in it: mean words of its human references.
        longest: Of the longest.
        segments: Which segments, shape (segments,).
    """

    shortest: float
    longest: float
    segments: BoolArray


def length_buckets(references: ReferenceSet, count: int) -> list[LengthBucket]:
    """Cut a test set into buckets of about equal size by the length of its references; equal lengths stay together.

    Args:
        references: Their human references (all of them, where a segment has no human one) are measured in words
            between spaces.
        count: Number of buckets, 1 or more; fewer come back where many segments are equally long.

    Raises:
        ValueError: ``count`` is less than 1.
    """
    if count < 1:
        raise ValueError(f"{count} buckets, expected 1 or more")
    lengths = np.array(
        [np.mean([len(ref.text.split()) for ref in segment.originals or segment.refs]) for segment in references]
    )
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, count + 1)))
    number = np.clip(np.searchsorted(edges, lengths, side="right") - 1, 0, max(len(edges) - 2, 0))
    buckets = []
    for bucket in np.unique(number):
        members = number == bucket
        buckets.append(LengthBucket(float(lengths[members].min()), float(lengths[members].max()), members))
    return buckets


@dataclass(frozen=True)
class SizePoint:
    """Agreement on test sets of one size.

    Attributes:
        segments: Size of the test sets.
        k: Number of extra references.
        mean: Mean Pearson's r of the systems' scores over the samples.
        interval: Central interval of the samples.
    """

    segments: int
    k: int | None
    mean: float
    interval: tuple[float, float] | None


def size_curve(
    series: Series,
    human: Mapping[str, float],
    sizes: Sequence[int],
    *,
    segments: int | BoolArray,
    ks: Sequence[int | None] | None = None,
    samples: int = 200,
    confidence: float = 0.95,
    seed: int = 1,
) -> list[SizePoint]:
    """System-level Pearson on random parts of the test set, for every k: how many segments does it take?

    Parts are drawn without replacement, and every k sees the same ones.

    Args:
        series: A metric computed here.
        human: System -> human score, held fixed.
        sizes: Sizes of the parts, each 1 to the number of segments.
        segments: Number of segments, or a mask of those that are scored, shape (segments,).
        ks: Values of k; default: all that the series has.
        samples: Parts of each size.
        confidence: Of the interval.
        seed: Equal seeds give equal parts.

    Raises:
        ValueError: A size is out of range.
        UsageError: The series are stored scores.
    """
    mask = np.ones(segments, dtype=np.bool_) if isinstance(segments, int) else segments
    chosen = np.flatnonzero(mask)
    if wrong := [size for size in sizes if not 1 <= size <= len(chosen)]:
        raise ValueError(f"size {wrong[0]}, expected 1 to {len(chosen)}")
    names = list(human)
    gold = np.array([human[name] for name in names])
    generator = np.random.default_rng(seed)
    points = []
    for size in sizes:
        draws = np.zeros((samples, len(mask)))
        for row in draws:
            row[chosen[generator.choice(len(chosen), size=size, replace=False)]] = 1.0
        for k in series.ks if ks is None else ks:
            values = pearson_rows(series.drawn_system(names, k, draws), gold)
            defined = values[~np.isnan(values)]
            mean = float(defined.mean()) if len(defined) else float("nan")
            points.append(SizePoint(size, k, mean, percentile_interval(values, confidence)))
    return points
