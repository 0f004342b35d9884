"""Choose the confidence thresholds of peer evaluation on development data, by a grid search.

The model runs only once, whatever the grid. With this folder on ``PYTHONPATH``::

    from peer_thresholds import choose_thresholds
    from polyref.metrics.likelihood.peer import Peer

    plain = Peer(model="m2m/", source_lang="de")
    best, *others = choose_thresholds(plain, systems, references, human, statistic="kendall")
    metric = Peer(model="m2m/", source_lang="de", low=best.low, high=best.high)

``human`` has one row for each system and one column for each segment, with NaN where nobody judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau, pearsonr

from polyref.errors import DataError, UsageError
from polyref.metrics.likelihood.peer import Peer
from polyref.metrics.statistics import Floats
from polyref.references import ReferenceSet


@dataclass(frozen=True)
class Thresholds:
    """Confidence thresholds and how well the scores with them agree with people.

    Attributes:
        low: Least probability of a token.
        high: Largest.
        value: The correlation.
    """

    low: float
    high: float
    value: float


def choose_thresholds(
    metric: Peer,
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    human: npt.ArrayLike,
    *,
    lows: Sequence[float] = (0.0, 1e-4, 1e-3, 1e-2, 0.05, 0.1),
    highs: Sequence[float] = (0.5, 0.7, 0.9, 1.0),
    statistic: str = "pearson",
) -> list[Thresholds]:
    """Try all pairs of thresholds on development data: the model runs once, whatever the grid.

    Args:
        metric: Its own thresholds are ignored.
        systems: Name to outputs.
        references: Segments with their sources.
        human: Shape (S, N): human scores, larger is better; NaN for outputs that nobody judged.
        lows: Values of ``low`` to try.
        highs: Values of ``high``; pairs with ``low`` not below ``high`` are left out.
        statistic: ``pearson`` or ``kendall`` (tau-b) over judged outputs, or ``system``: Pearson over the systems'
            means of them.

    Returns:
        All pairs, the best first; of equal ones, the one that changes less.

    Raises:
        UsageError: A threshold is not in 0 to 1, no pair is left, or the statistic is unknown.
        DataError: A segment has no source, ``human`` has another shape, fewer than two outputs (or systems) are
            judged, or the human scores are all equal.
    """
    if statistic not in ("pearson", "kendall", "system"):
        raise UsageError(f"the statistic is {statistic!r}, expected pearson, kendall or system")
    tried = [replace(metric, low=low, high=high) for low, high in product(lows, highs) if low < high]
    if not tried:
        raise UsageError("no low threshold is below a high one")
    judged = np.asarray(human, dtype=np.float64)
    if judged.shape != (len(systems), len(references)):
        raise DataError(
            f"human scores have shape {judged.shape}, expected {len(systems)} systems x {len(references)} segments"
        )
    known = ~np.isnan(judged)
    sources = [segment.source for segment in references]
    missing = [segment.id for segment in references if segment.source is None]
    if missing:
        raise DataError(f"segment {missing[0]} has no source, which {metric.label} reads")
    metric._check_model()
    texts = [str(source) for source in sources]
    rows = zip(*(zip(texts, system, strict=True) for system in systems.values()), strict=True)
    pairs = list(dict.fromkeys(pair for row in rows for pair in row))
    place = {pair: number for number, pair in enumerate(pairs)}
    sampled = metric._samples(pairs)
    where = np.array([[place[pair] for pair in zip(texts, system)] for system in systems.values()])

    def wanted(values: Floats) -> Floats:
        if statistic != "system":
            return values[known]
        return np.array([row[mask].mean() for row, mask in zip(values, known) if mask.any()])

    goal = wanted(judged)
    if len(goal) < 2 or np.ptp(goal) == 0:
        raise DataError(f"{len(goal)} human scores with {len(np.unique(goal))} values, expected at least two")
    found = []
    for one in tried:
        values = wanted(one._summed(sampled)[where])
        value = 0.0  # where the thresholds leave no difference between outputs
        if np.ptp(values) > 0:
            value = float((kendalltau if statistic == "kendall" else pearsonr)(values, goal).statistic)
        found.append(Thresholds(one.low, one.high, value))
    return sorted(found, key=lambda one: (-one.value, one.low, -one.high))
