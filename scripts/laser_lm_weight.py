"""Choose the weight of the cosine in LASER + LM on development data.

Texts are encoded and scored only once, whatever the number of weights. With this folder on ``PYTHONPATH``::

    from laser_lm_weight import tune_weight
    from polyref.metrics.embedding.laser_lm import LaserLM

    metric = LaserLM(model="minilm", lm="gpt2/")
    best, found = tune_weight(metric, systems, references, lambda scores: agreement(scores.segment))

``agreement`` is what to maximise: a correlation with judgements, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from polyref.errors import UsageError
from polyref.metrics.embedding.laser_lm import LaserLM
from polyref.metrics.statistics import Scores
from polyref.references import ReferenceSet

#: Weights of the cosine that :func:`tune_weight` tries.
GRID: Final = tuple(step / 20 for step in range(21))


def tune_weight(
    metric: LaserLM,
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    agreement: Callable[[Scores], float],
    *,
    k: int = 0,
    weights: Iterable[float] = GRID,
) -> tuple[float, dict[float, float]]:
    """The weight that agrees best with judgements of development data.

    Args:
        metric: With everything but the weight.
        systems: As for :meth:`Metric.statistics`.
        references: The same.
        agreement: What to maximise, such as a correlation of ``scores.segment`` with judgements.
        k: Number of extra references.
        weights: Candidates, each 0 to 1. Texts are encoded and scored once for all of them.

    Returns:
        The best weight (the first of equal ones), and the agreement of every candidate.

    Raises:
        UsageError: There is no candidate, or one is out of range.
    """
    found: dict[float, float] = {}
    for weight in weights:
        one = replace(metric, weight=weight)
        found[weight] = agreement(one.aggregate(one.statistics(systems, references, ks=[k]), k=k))
    if not found:
        raise UsageError("no weight is named, expected at least one")
    return max(found, key=lambda weight: found[weight]), found
