"""Confidence intervals and paired tests of corpus scores, from stored statistics.

The samples are sacreBLEU's (same generator, same seed, same trials), so intervals and p-values agree with its own up to
the single precision it resamples in. One thing differs on purpose: a trial that ties with the observed difference
counts as extreme (Noreen 1989), so two identical systems get p = 1; sacreBLEU calls them different.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.metrics.base import Metric
from polyref.metrics.statistics import Floats, Statistics
from polyref.progress import work

#: sacreBLEU's defaults.
BOOTSTRAP_SAMPLES: Final = 1000
RANDOMIZATION_TRIALS: Final = 10_000
SEED: Final = 12345

#: How the bootstrap samples are moved to the null hypothesis of no difference (:func:`paired_bootstrap`).
Null = Literal["sacrebleu", "shift"]
NULLS: Final = ("sacrebleu", "shift")

# Trials that are worked on at a time: at most 1000, as many as 32 MB hold, but not so few that they take longer.
_BATCH: Final = 1000
_CELLS: Final = 1 << 22
_FEWEST: Final = 8
_ROUNDING: Final = 1e-9


#: Tests, and how often they resample where nothing else is said.
TESTS: Final = {
    "confidence": BOOTSTRAP_SAMPLES,
    "paired_ar": RANDOMIZATION_TRIALS,
    "paired_bs_shift": BOOTSTRAP_SAMPLES,
    "paired_bs": BOOTSTRAP_SAMPLES,
}


@dataclass(frozen=True)
class Resampled:
    """What resampling says about the systems' corpus scores.

    Attributes:
        mean: Shape (S,): mean over the samples.
        half_width: Shape (S,): half the width of the 95 % interval (sacreBLEU's "ci").
        low: Shape (S,): its lower end.
        high: Shape (S,): its upper end.
        p_value: Shape (S,): two-sided p-value of the difference to the baseline, NaN for the baseline itself; None
            where nothing was compared.
    """

    mean: Floats
    half_width: Floats
    low: Floats
    high: Floats
    p_value: Floats | None = None


def confidence(
    metric: Metric, stats: Statistics, *, k: int, samples: int = BOOTSTRAP_SAMPLES, seed: int = SEED
) -> Resampled:
    """95 % bootstrap intervals over segments (Koehn 2004), as ``sacrebleu --confidence``.

    Raises:
        UsageError: Fewer than 2 samples, or no segment has a reference.
    """
    return _interval(_bootstrap(metric, stats, k=k, samples=samples, seed=seed))


def paired_bootstrap(
    metric: Metric,
    stats: Statistics,
    *,
    k: int,
    baseline: int = 0,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = SEED,
    null: Null = "sacrebleu",
) -> Resampled:
    """Every system against the system at index ``baseline`` by paired bootstrap.

    The test asks how often samples under the null hypothesis differ as much as the systems do. ``shift`` moves the
    signed differences of the samples to a mean of 0 (Noreen 1989; Riezler and Maxwell 2005, section 4.2) and holds its
    level. ``sacrebleu`` is what ``sacrebleu --paired-bs`` does: it takes absolute values first and subtracts their
    mean, so that two equal systems differ "significantly" (p <= .05) in more than 10 % of test sets instead of 5 %. It
    is there to compare with published p-values; :func:`paired_randomization` is the test to prefer.

    Raises:
        UsageError: Fewer than 2 samples, no segment has a reference, or ``null`` is unknown.
    """
    if null not in NULLS:
        raise UsageError(f"`null` is {null!r}, expected one of {', '.join(NULLS)}")
    scores = _bootstrap(metric, stats, k=k, samples=samples, seed=seed)
    actual = metric.corpus(stats, k=k)
    differences = scores - scores[:, [baseline]]
    if null == "shift":
        shifted = np.abs(differences - differences.mean(axis=0))
    else:
        differences = np.abs(differences)
        shifted = differences - differences.mean(axis=0)
    p_value = _p_value(shifted, np.abs(actual - actual[baseline]), baseline)
    interval = _interval(scores)
    return Resampled(interval.mean, interval.half_width, interval.low, interval.high, p_value)


def paired_randomization(
    metric: Metric,
    stats: Statistics,
    *,
    k: int,
    baseline: int = 0,
    trials: int = RANDOMIZATION_TRIALS,
    seed: int = SEED,
) -> Floats:
    """Every system against a baseline by approximate randomisation, as ``sacrebleu --paired-ar``.

    Returns:
        Shape (S,): two-sided p-values, NaN for the baseline.

    Raises:
        UsageError: Fewer than 1 trial, or no segment has a reference.
    """
    if trials < 1:
        raise UsageError(f"{trials} trials, expected 1 or more")
    _scored(metric, stats, k)
    values = stats.at(k).astype(np.float64)
    systems, segments, columns = values.shape
    totals = values.sum(axis=1)
    surplus = (values[baseline] - values).transpose(1, 0, 2).reshape(segments, systems * columns)
    differences = np.empty((trials, systems))
    done = 0
    with work("permuting", "trials", trials) as advance:
        for swap in _coins(np.random.default_rng(seed), trials, segments):
            moved = (swap.astype(np.float64) @ surplus).reshape(-1, systems, columns)
            mixed = metric.score_sums(totals + moved) - metric.score_sums(totals[baseline] - moved)
            differences[done : done + len(mixed)] = np.abs(mixed)
            done += len(mixed)
            advance(len(mixed))
    actual = metric.score_sums(totals)
    return _p_value(differences, np.abs(actual - actual[baseline]), baseline)


def _bootstrap(metric: Metric, stats: Statistics, *, k: int, samples: int, seed: int) -> Floats:
    """Corpus scores of resampled test sets: shape (samples, S)."""
    if samples < 2:
        raise UsageError(f"{samples} bootstrap samples, expected 2 or more")
    segments = len(stats.segments)
    scored = _scored(metric, stats, k)
    # Laid out once as all batches need it.
    flat = stats.at(k).transpose(1, 0, 2).astype(np.float64, order="C")
    stats = replace(stats, ks=(min(k, stats.most_extras),), values=flat.transpose(1, 0, 2)[None])
    rng = np.random.default_rng(seed)
    parts = []
    with work("resampling", "samples", samples) as advance:
        for size in _batches(samples, segments):
            cells = scored[rng.choice(len(scored), size=(size, len(scored)), replace=True)]
            cells += np.arange(size)[:, None] * segments
            counts = np.bincount(cells.ravel(), minlength=size * segments).reshape(-1, segments)
            parts.append(metric.resample(stats, counts, k=k))
            advance(size)
    return np.concatenate(parts)


def _batches(trials: int, segments: int) -> Iterator[int]:
    """Sizes of the batches of trials."""
    size = max(_FEWEST, min(_BATCH, _CELLS // segments))
    yield from (min(size, trials - start) for start in range(0, trials, size))


def _coins(rng: np.random.Generator, trials: int, segments: int) -> Iterator[npt.NDArray[np.bool_]]:
    """Shape (B, N) a batch: what one call for all trials would draw, which makes 32 of a number and drops the rest."""
    left = np.empty(0, dtype=bool)
    for size in _batches(trials, segments):
        wanted = size * segments
        missing = max(wanted - len(left), 0)
        left = np.concatenate((left, rng.integers(2, size=-(-missing // 32) * 32, dtype=bool)))
        yield left[:wanted].reshape(size, segments)
        left = left[wanted:]


def _scored(metric: Metric, stats: Statistics, k: int) -> npt.NDArray[np.intp]:
    """Segments of the test set: not those without a reference, of which a sample alone would have no score."""
    scored = np.flatnonzero(stats.counts(k) > 0) if metric.needs_references else np.arange(len(stats.segments))
    if not len(scored):
        raise UsageError(f"no segment has a reference with k = {k}: nothing to resample")
    return scored


def _interval(scores: Floats) -> Resampled:
    ordered = np.sort(scores, axis=0)
    tail = len(ordered) // 40
    low, high = ordered[tail], ordered[len(ordered) - tail - 1]
    return Resampled(scores.mean(axis=0), 0.5 * (high - low), low, high)


def _p_value(trials: npt.NDArray[np.float64], actual: Floats, baseline: int) -> Floats:
    # The observed data count as one more trial, so that p is never zero. Sums of fractions (TER, means, credit) depend
    # on the order of adding, so that ties are equal up to rounding only.
    p_value: Floats = (np.sum(trials >= actual - _ROUNDING, axis=0) + 1) / (len(trials) + 1)
    p_value[baseline] = np.nan
    return p_value


def check_test(test: str, *, systems: int) -> None:
    """Refuse a test that there is not, or that has nothing to compare."""
    if test not in TESTS:
        raise UsageError(f"`test` is {test!r}, expected one of {', '.join(TESTS)}")
    if test != "confidence" and systems < 2:
        raise UsageError(f"`{test}` compares systems, but `systems` names one")


def tested(
    metric: Metric, stats: Statistics, k: int, test: str, trials: int | None, seed: int
) -> tuple[dict[str, Floats], str]:
    """What one of :data:`TESTS` finds with ``k`` extra references, by the names in rows; and how signatures say it."""
    drawn = TESTS[test] if trials is None else trials
    if test == "paired_ar":
        p_value = paired_randomization(metric, stats, k=k, trials=drawn, seed=seed)
        return {"p_value": p_value}, f"ar:{drawn}|rs:{seed}"
    if test == "confidence":
        found = confidence(metric, stats, k=k, samples=drawn, seed=seed)
        return {"mean": found.mean, "ci": found.half_width}, f"bs:{drawn}|rs:{seed}"
    null: Null = "shift" if test == "paired_bs_shift" else "sacrebleu"
    found = paired_bootstrap(metric, stats, k=k, samples=drawn, seed=seed, null=null)
    assert found.p_value is not None
    how = f"bs:{drawn}|null:shift" if null == "shift" else f"bs:{drawn}"
    return {"mean": found.mean, "ci": found.half_width, "p_value": found.p_value}, f"{how}|rs:{seed}"
