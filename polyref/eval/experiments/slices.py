"""Which systems stay: the best ones, those without outliers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

#: Makes the median absolute deviation comparable with a standard deviation of normal data.
MAD_SCALE: Final = 1.483
#: Deviations beyond which a system is an outlier (Mathur et al. 2020, and WMT20).
CUTOFF: Final = 2.5


def top_systems(human: Mapping[str, float], n: int) -> list[str]:
    """The ``n`` systems with the highest human scores, best first; correlations fall as the field gets narrower
    (Mathur et al. 2020).
    """
    return sorted(human, key=lambda name: -human[name])[:n]


def outliers(human: Mapping[str, float]) -> list[str]:
    """Systems whose human score is far from the median (Leys et al. 2013; Mathur et al. 2020, section 4.1).

    Args:
        human: System -> human score.

    Returns:
        Their names, in the order of ``human``; none where more than half of the systems have one score.
    """
    scores = np.array(list(human.values()), dtype=np.float64)
    if not len(scores):
        return []
    distance = np.abs(scores - np.median(scores))
    deviation = MAD_SCALE * float(np.median(distance))
    if deviation == 0:
        return []
    return [name for name, far in zip(human, distance / deviation > CUTOFF, strict=True) if far]
