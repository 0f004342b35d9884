"""The average of correlations over language pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence


def fisher_average(correlations: Sequence[float], counts: Sequence[int]) -> float:
    """Average of correlations over language pairs by Fisher's z (Agrawal et al. 2021, section 3.3).

    z = atanh(r) has variance 1 / (n - 3), so pairs are weighted by n - 3; the mean is turned back by tanh.

    Args:
        correlations: One a language pair, -1 to 1; NaN is left out.
        counts: Number of points behind each, more than 3.

    Returns:
        The average; NaN where nothing is left.
    """
    total = weight = 0.0
    for r, n in zip(correlations, counts, strict=True):
        if math.isnan(r):
            continue
        # A perfect correlation has no finite z.
        total += (n - 3) * math.atanh(min(max(r, -1 + 1e-15), 1 - 1e-15))
        weight += n - 3
    return math.tanh(total / weight) if weight else math.nan
