"""The bootstrap: segments, systems or both are redrawn, and every metric and k sees the same draws.

A redrawn test set is a row of counts: how often each segment was drawn. Most statistics are polynomials of those
counts, so thousands of resamples are a few matrix products and no score is computed twice. Redrawn systems are counted
likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

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


def redrawn(segments: bool, systems: bool) -> str:
    """What rows and tables call what was redrawn: ``segments and systems``; empty for nothing."""
    return " and ".join(name for name, there in ((SEGMENTS, segments), (SYSTEMS, systems)) if there)


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
