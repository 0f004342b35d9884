"""Does a metric order pairs as people do? Accuracies over pairs of outputs and pairs of systems."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
#: Signs that are numbers of eight bytes at a time: 32 MB.
_CELLS: Final = 1 << 22


@lru_cache(maxsize=64)
def pairs_of(systems: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first and the second of every pair of so many, in the order of ``itertools.combinations``; not to change."""
    first, second = np.triu_indices(systems, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


def tie_threshold(scores: FloatArray, human: FloatArray) -> float:
    """Differences of scores up to this are ties: the one that gives "acc23" its highest value (Deutsch et al. 2023).

    Acc23 is the share of pairs that metric and people order or tie alike, averaged over segments (equations 8 and 9);
    its threshold is calibrated on the scores themselves (section 5). The candidates are 0 and all differences between
    two outputs of a segment; of equally good ones the smallest is taken.

    Args:
        scores: Shape (systems, segments), no NaN in a judged cell.
        human: Same shape, NaN where a cell was not judged; such cells take part in no pair.

    Returns:
        0 or more; 0 where no segment has two judged outputs.
    """
    first, second = pairs_of(len(human))
    return threshold_of_pairs(scores[first] - scores[second], human[first] - human[second])


def threshold_of_pairs(metric: FloatArray, human: FloatArray) -> float:
    """:func:`tie_threshold` from the differences within pairs of outputs.

    Args:
        metric: Differences of scores, shape (pairs, segments).
        human: Those of human scores, NaN where one of the two was not judged.
    """
    judged = ~np.isnan(human).T  # by segment: the pairs of one come together
    counts = judged.sum(axis=1)
    if not counts.any():
        return 0.0
    differences, gold = metric.T[judged], human.T[judged]
    distance, equal = np.abs(differences), gold == 0
    ordered = (np.sign(differences) == np.sign(gold)) & ~equal
    counts = counts[counts > 0]
    share = np.repeat(1.0 / counts, counts) / len(counts)
    # A growing threshold turns one pair after the other into a tie; each step changes what that pair contributes.
    order = np.argsort(distance, kind="stable")
    steps = share[order] * (equal[order].astype(float) - ordered[order].astype(float))
    reached = float(share @ ordered) + np.cumsum(steps)
    last = np.append(distance[order][1:] != distance[order][:-1], True)
    candidates, accuracies = distance[order][last], reached[last]
    if candidates[0] > 0:
        candidates = np.append(0.0, candidates)
        accuracies = np.append(float(share @ ordered), accuracies)
    # Sums in another order differ by rounding: take the smallest of those that are equal up to it.
    return float(candidates[np.flatnonzero(accuracies >= accuracies.max() - 1e-12)[0]])


def soft_pairwise_accuracy(scores: FloatArray, human: FloatArray, *, resamples: int = 1000, seed: int = 1) -> float:
    """Soft pairwise accuracy (Thompson et al. 2024): is the metric as sure about each pair of systems as people are?

    One minus the mean difference of the p-values (one-sided paired permutation tests on segments) that the metric and
    people give the pairs of systems.

    A permutation whose sum equals the observed one counts as reaching it, as in the authors' implementation
    (``mt_metrics_eval.pce``). Two systems with the same score in every segment have p = .5: there they have 1 whichever
    comes first, and the result depends on the order of the systems.

    Args:
        scores: Shape (systems, segments).
        human: Same shape, NaN where a cell was not judged; a pair is tested on the segments judged for both systems.
        resamples: Random permutations; where there are no more than this many, all of them are taken.
        seed: Equal seeds give equal results; metric and people share the permutations.

    Returns:
        0 to 1; NaN where no two systems have a judged segment in common.
    """
    distances = surety_distances(scores, human, resamples=resamples, seed=seed)
    (result,) = soft_accuracy(distances, np.ones((1, len(human))))
    return float(result)


def surety_distances(scores: FloatArray, human: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    """How far the p-values of metric and people are apart, for every pair of systems.

    Args:
        scores: As for :func:`soft_pairwise_accuracy`.
        human: As there.
        resamples: As there.
        seed: As there.

    Returns:
        Shape (pairs,), in the order of ``itertools.combinations``, 0 to 1; NaN where two systems have no judged segment
        in common.
    """
    first, second = pairs_of(len(human))
    people, metric = (x[first] - x[second] for x in (human, scores))
    both = ~np.isnan(people)
    counts = both.sum(axis=1)
    distances = np.full(len(counts), math.nan)
    for n in np.unique(counts[counts > 0]):
        alike = counts == n
        # The same for the same number of segments, whichever pair comes first.
        signs = _signs(int(n), resamples, np.random.default_rng(seed))
        p_human, p_metric = (_p_values(x[alike][both[alike]].reshape(-1, n), signs) for x in (people, metric))
        distances[alike] = np.abs(p_human - p_metric)
    return distances


def soft_accuracy(distances: FloatArray, systems: FloatArray) -> FloatArray:
    """Soft pairwise accuracy of sets of systems.

    Args:
        distances: Of :func:`surety_distances`.
        systems: How often each system is in each set, shape (sets, systems); two copies of one are no pair.

    Returns:
        Shape (sets,); NaN where no pair is left.
    """
    there = ~np.isnan(distances)
    first, second = pairs_of(systems.shape[1])
    often = (systems[:, first] * systems[:, second])[:, there]
    total = often.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1.0 - (often * distances[there]).sum(axis=1) / total, np.nan)


def _signs(n: int, resamples: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Which differences are turned round, -1 or 1: all possibilities where they are few."""
    if 2**n <= resamples:
        return np.array(list(itertools.product((1, -1), repeat=n)), dtype=np.int8)
    drawn: npt.NDArray[np.int8] = (generator.integers(0, 2, size=(resamples, n), dtype=np.int8) * 2 - 1).astype(np.int8)
    return drawn


def _p_values(differences: FloatArray, signs: npt.NDArray[np.int8]) -> FloatArray:
    """Of differences of shape (pairs, segments), by all signs of shape (permutations, segments)."""
    observed = differences.sum(axis=1)
    # Rounding must not decide whether a permutation reaches the observed sum.
    least = observed - 1e-12 * np.abs(differences).sum(axis=1)
    rows = max(1, _CELLS // differences.shape[1])
    parts = (signs[start : start + rows].astype(np.float64) for start in range(0, len(signs), rows))
    reached = sum(((part @ differences.T) >= least).sum(axis=0) for part in parts)
    return np.where(differences.any(axis=1), reached / len(signs), 0.5)
