"""Averages over the references of a segment, for every number of references: means, credit, blends.

What they are for is said in :mod:`polyref.metrics.combination`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from polyref.metrics.statistics import Floats, Integers


def at_cuts(running: npt.NDArray[Any], cuts: Integers) -> npt.NDArray[Any]:
    """Pick what the first references give, for every number of references.

    Args:
        running: Shape (B, S, R, ...): entry j is what references 0 .. j give.
        cuts: Shape (K, B): how many references count.

    Returns:
        Shape (K, S, B, ...); zeros where no reference counts.
    """
    picked = running[np.arange(len(running)), :, np.maximum(cuts - 1, 0)]
    picked[cuts == 0] = 0
    return picked.swapaxes(1, 2)


def first_best(scores: npt.NDArray[Any]) -> Integers:
    """``result[:, :, j]`` is the first of references 0 .. j that has the best score; shape (B, S, R), as ``scores``."""
    best = np.zeros(scores.shape, dtype=np.int64)
    better = scores[:, :, 1:] > np.maximum.accumulate(scores, axis=2)[:, :, :-1]
    best[:, :, 1:] = np.maximum.accumulate(np.where(better, np.arange(1, scores.shape[2]), 0), axis=2)
    return best


def added_weights(weights: Floats, originals: Integers) -> Floats:
    """Weights of shape (B, R) with zeros for the human references, which come first: ``originals`` of each segment."""
    return np.where(np.arange(weights.shape[1]) < originals[:, None], 0.0, weights)


def both_parts(
    human: Floats, single: npt.NDArray[Any], weights: Floats, originals: Integers, cuts: Integers
) -> tuple[Floats, Floats]:
    """What :class:`polyref.metrics.combination.Blend` blends: the human references' part and the added ones'.

    Args:
        human: Shape (K, S, B, C): values with the human references.
        single: Shape (B, S, R, C): values with single references.
        weights: Shape (B, R), not normalised.
        originals: Shape (B,): human references; they come first.
        cuts: Shape (K, B).

    Returns:
        Both parts, shape (K, S, B, C). Where a segment has no reference of one kind (or none with weight), its part is
        that of the other kind.
    """
    asked = added_weights(weights, originals)
    known = at_cuts(np.cumsum(asked, axis=1)[:, None], cuts)[..., None] > 0
    added = np.where(known, weighted_mean(single, asked, cuts), human)
    return np.where((originals > 0)[:, None], human, added), added


def credit(
    held: npt.NDArray[np.float32], new: npt.NDArray[np.float32], weights: Floats, cuts: Integers, power: float
) -> Floats:
    """N-grams of every output, each counted by the ``power`` of the weight of the references that hold it.

    Args:
        held: Shape (B, R, W): which reference holds which feature.
        new: Shape (B, S, W): the features of every output that count.
        weights: Shape (B, R), not normalised; 0 for references that are not asked.
        cuts: Shape (K, B).
        power: Above 0; 1 gives :func:`weighted_mean` of the matches with single references.

    Returns:
        Shape (K, S, B); zeros where no reference counts or none has weight.
    """
    result = np.zeros((len(cuts), new.shape[1], len(held)))
    for n in range(len(held)):
        asked = weights[n] * (np.arange(held.shape[1]) < cuts[:, n, None])
        norms = np.cumsum(asked, axis=1)[:, -1:]
        shares = _coarse(np.divide(asked, norms, out=np.zeros_like(asked), where=norms > 0))
        shares = np.minimum(shares @ held[n].astype(np.float64), 1)
        result[:, :, n] = _coarse(shares**power) @ new[n].T.astype(np.float64)
    return result


def _coarse(values: Floats) -> Floats:
    """Multiples of 2**-40: sums of them are exact, so that neither their order nor zeros between them matter."""
    return np.asarray(np.round(values * 2.0**40) * 2.0**-40)


def weighted_mean(values: npt.NDArray[Any], weights: Floats, cuts: Integers) -> Floats:
    """Weighted means over the first references, for every number of references.

    Args:
        values: Shape (B, S, R, ...), by reference.
        weights: Shape (B, R), not normalised.
        cuts: Shape (K, B).

    Returns:
        Shape (K, S, B, ...); zeros where no reference counts or none has weight.
    """
    spread = weights.reshape(len(weights), 1, -1, *[1] * (values.ndim - 3))
    sums = at_cuts(np.cumsum(values * spread, axis=2, dtype=np.float64), cuts)
    norms = at_cuts(np.cumsum(weights, axis=1)[:, None], cuts)
    norms = norms.reshape(*norms.shape, *[1] * (sums.ndim - 3))
    means: Floats = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)
    return means
