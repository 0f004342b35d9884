"""Does a metric order pairs as people do? Accuracies over pairs of outputs and pairs of systems."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: How pairs of outputs are grouped: of one segment, of one system, or any two.
GROUPINGS: Final = ("item", "system", "none")


@dataclass(frozen=True)
class TieAccuracy:
    """Accuracy with ties.

    Attributes:
        accuracy: Share of pairs that metric and people order (or tie) alike, averaged over groups, 0 to 1.
        epsilon: Differences of metric scores up to this count as a tie.
        groups: Number of groups with at least one pair.
    """

    accuracy: float
    epsilon: float
    groups: int


def pairwise_accuracy_with_ties(
    scores: FloatArray, human: FloatArray, *, grouping: str = "item", epsilon: float | None = None
) -> TieAccuracy:
    """Pairwise accuracy that gives credit for predicted ties, "acc23" (Deutsch et al. 2023, equations 8 and 9).

    Without ``epsilon`` it is calibrated: the difference of scores that gives the highest accuracy (section 5). The
    candidates are 0 and all differences that occur; of equally good ones the smallest is taken.

    Args:
        scores: Shape (systems, segments).
        human: Same shape, NaN where a cell was not judged; such cells take part in no pair.
        grouping: Pairs are within a segment (``item``), within a system (``system``), or any (``none``).
        epsilon: A fixed tie threshold, >= 0.

    Raises:
        ValueError: Shapes differ, a judged cell has no score, or an argument is out of range.
    """
    if scores.shape != human.shape:
        raise ValueError(f"scores of shape {scores.shape}, expected {human.shape}")
    if epsilon is not None and not epsilon >= 0:
        raise ValueError(f"epsilon is {epsilon}, expected 0 or more")
    differences, right, tied, weights = [], [], [], []
    for x, y in _groups(scores, human, grouping):
        i, j = np.triu_indices(len(x), 1)
        if len(i):
            metric, gold = x[i] - x[j], y[i] - y[j]
            differences.append(np.abs(metric))
            right.append((np.sign(metric) == np.sign(gold)) & (gold != 0))
            tied.append(gold == 0)
            weights.append(np.full(len(i), 1.0 / len(i)))
    groups = len(weights)
    if not groups:
        return TieAccuracy(math.nan, 0.0 if epsilon is None else epsilon, 0)
    distance, ordered, equal = np.concatenate(differences), np.concatenate(right), np.concatenate(tied)
    share = np.concatenate(weights) / groups
    if epsilon is not None:
        correct = np.where(distance <= epsilon, equal, ordered)
        return TieAccuracy(float(share @ correct), float(epsilon), groups)
    # Growing epsilon turns one pair after the other into a tie; each step changes what that pair contributes.
    order = np.argsort(distance, kind="stable")
    steps = share[order] * (equal[order].astype(float) - ordered[order].astype(float))
    reached = float(share @ ordered) + np.cumsum(steps)
    last = np.append(distance[order][1:] != distance[order][:-1], True)
    candidates, accuracies = distance[order][last], reached[last]
    if candidates[0] > 0:
        candidates = np.append(0.0, candidates)
        accuracies = np.append(float(share @ ordered), accuracies)
    # Sums in another order differ by rounding: take the smallest of those that are equal up to it.
    best = int(np.flatnonzero(accuracies >= accuracies.max() - 1e-12)[0])
    return TieAccuracy(float(accuracies[best]), float(candidates[best]), groups)


def _groups(scores: FloatArray, human: FloatArray, grouping: str) -> list[tuple[FloatArray, FloatArray]]:
    if grouping not in GROUPINGS:
        raise ValueError(f"grouping is {grouping!r}, expected one of {', '.join(GROUPINGS)}")
    if grouping == "none":
        rows = [(scores.ravel(), human.ravel())]
    elif grouping == "system":
        rows = list(zip(scores, human, strict=True))
    else:
        rows = list(zip(scores.T, human.T, strict=True))
    judged = [(x[~np.isnan(y)], y[~np.isnan(y)]) for x, y in rows]
    if any(np.isnan(x).any() for x, _ in judged):
        raise ValueError("a judged cell has no score")
    return judged


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
    cached: dict[int, npt.NDArray[np.int8]] = {}
    distances = []
    for i, j in itertools.combinations(range(len(human)), 2):
        both = ~np.isnan(human[i]) & ~np.isnan(human[j])
        n = int(both.sum())
        if n == 0:
            continue
        if n not in cached:
            # The same for the same number of segments, whichever pair comes first.
            cached[n] = _signs(n, resamples, np.random.default_rng(seed))
        p_human, p_metric = (_p_value((x[i] - x[j])[both], cached[n]) for x in (human, scores))
        distances.append(abs(p_human - p_metric))
    return 1.0 - float(np.mean(distances)) if distances else math.nan


def _signs(n: int, resamples: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Which differences are turned round, -1 or 1: all possibilities where they are few."""
    if 2**n <= resamples:
        return np.array(list(itertools.product((1, -1), repeat=n)), dtype=np.int8)
    drawn: npt.NDArray[np.int8] = (generator.integers(0, 2, size=(resamples, n), dtype=np.int8) * 2 - 1).astype(np.int8)
    return drawn


def _p_value(differences: FloatArray, signs: npt.NDArray[np.int8]) -> float:
    if not differences.any():
        return 0.5
    totals = signs @ differences
    observed = differences.sum()
    # Rounding must not decide whether a permutation reaches the observed sum.
    return float((totals >= observed - 1e-12 * np.abs(differences).sum()).mean())
