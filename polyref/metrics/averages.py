"""Averages over the references of a segment, for every number of references: means, soft maxima, credit, blends.

What they are for is said in :mod:`polyref.metrics.combination`.
"""

from __future__ import annotations

import math
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


def consensus(
    plain: Floats, kept: npt.NDArray[Any], own: Integers, size: Integers, weights: Floats, cuts: Integers, share: float
) -> Floats:
    """Matches with a human reference when a part of their credit rests on the extra references that keep them.

    An n-gram of the human reference earns ``(1 - share) + share x w``, w the summed weight (of all: 1) of the extra
    references that hold it, times the factor that makes the credit of all its n-grams add up to their number.

    Args:
        plain: Shape (K, S, B): n-grams that output and human reference share.
        kept: Shape (B, S, R): those of them that a reference holds as well.
        own: Shape (B, R): n-grams of the human reference that a reference holds as well.
        size: Shape (B,): n-grams of the human reference.
        weights: Shape (B, R), not normalised; 0 for references that are not asked.
        cuts: Shape (K, B).
        share: 0 to below 1.

    Returns:
        Shape (K, S, B): ``plain`` where no extra reference has weight.
    """
    asked = at_cuts(np.cumsum(weights, axis=1)[:, None], cuts) > 0
    rest = 1 - share
    total = rest * size + share * weighted_mean(own[:, None], weights, cuts)
    factor = np.divide(size, total, out=np.ones_like(total), where=asked & (size > 0))
    return np.where(asked, (rest * plain + share * weighted_mean(kept, weights, cuts)) * factor, plain)


def soft_maximum(values: npt.NDArray[Any], weights: Floats, originals: Integers, cuts: Integers, t: float) -> Floats:
    """Log-sum-exp of sentence scores, ``t log sum_r w_r exp(score_r / t)``, and the statistics that belong to it.

    The weights of the human references add up to one half, as do those of the extra ones, or to 1 where there are none
    of the other kind. Statistics are weighted by ``w_r exp(score_r / t)``, the shares of the references in the sum.

    Args:
        values: Shape (B, S, R, C): statistics with single references, the last column their sentence scores.
        weights: Shape (B, R), not normalised.
        originals: Shape (B,): human references; they come first.
        cuts: Shape (K, B).
        t: The temperature, above 0.

    Returns:
        Shape (K, S, B, C); zeros where no reference counts or none has weight.
    """
    number = np.arange(values.shape[2])
    prior = np.zeros((len(cuts), *weights.shape))
    halves = np.zeros((*cuts.shape, 1))
    for part in (number < originals[:, None], number >= originals[:, None]):
        asked = weights * part * (number < cuts[..., None])
        norms = np.cumsum(asked, axis=2)[..., -1:]  # one after the other: zeros at the end change nothing
        prior += np.divide(asked, norms, out=np.zeros_like(asked), where=norms > 0)
        halves += norms > 0
    prior = np.divide(prior, halves, out=prior, where=halves > 0)[:, :, None]  # (K, B, 1, R)
    scores = values[..., -1]
    best = np.where(prior > 0, scores, -math.inf).max(axis=3, keepdims=True, initial=-math.inf)
    best = np.where(np.isfinite(best), best, 0.0)
    terms = prior * np.exp(np.minimum(scores - best, 0) / t)
    total = np.cumsum(terms, axis=3)[..., -1:]
    shares = np.divide(terms, total, out=np.zeros_like(terms), where=total > 0)
    result = np.zeros((len(cuts), *values.shape[:2], values.shape[3]))  # (K, B, S, C)
    for place in number:
        result += shares[..., place, None] * values[:, :, place]
    result = result.swapaxes(1, 2)
    level = best + t * np.log(total, out=np.zeros_like(total), where=total > 0)
    result[..., -1] = level[..., 0].swapaxes(1, 2)
    return result


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
