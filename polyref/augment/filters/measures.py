"""Filters that need a model: adequacy of candidates, by threshold or by quantile of a segment's candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from polyref.augment.select import Candidate
from polyref.errors import ModelError
from polyref.references import Segment

#: Digits kept of values: most differences of float arithmetic between batches and machines are below.
DIGITS = 4


class Scorer(Protocol):
    """Measures pairs of texts.

    Attributes:
        signature: Kind and content hash of the model.
    """

    signature: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a (reference, candidate); larger is better."""

    def weight(self, value: float) -> float:
        """A value as a weight, 0 to 1."""


@dataclass(frozen=True)
class Measure:
    """One model-based filter.

    Attributes:
        name: With its parameters; becomes the reason.
        scorer: What it measures with.
        minimum: Candidates below are dropped.
        quantile: This share of every segment's candidates, rounded down, is dropped: those with the lowest values;
            of equal ones the worse ranks first. 0 to 1.
        power: The value, as a weight to this power, goes into ``Reference.weight``; None leaves the weight alone.
    """

    name: str
    scorer: Scorer
    minimum: float | None = None
    quantile: float | None = None
    power: float | None = None

    def apply(
        self, segments: Sequence[Segment], candidates: Sequence[Sequence[Candidate]], dropped: Counter[str]
    ) -> list[list[Candidate]]:
        """What is left of the candidates of some segments, in their order, with weights.

        Args:
            segments: Shape (N,).
            candidates: One list a segment.
            dropped: Refused candidates are counted here.

        Raises:
            ModelError: A value is NaN or infinite.
        """
        pairs = [
            (segment.refs[one.of].text, one.text)
            for segment, found in zip(segments, candidates, strict=True)
            for one in found
        ]
        scored = self.scorer.score(pairs) if pairs else []
        for (_, text), value in zip(pairs, scored, strict=True):
            if not math.isfinite(value):
                raise ModelError(
                    f"{self.name} measures {value} for {text[:80]!r}, expected a finite number",
                    remedy="is its model damaged? With half precision, try float32",
                )
        values = iter(scored)
        result = []
        for found in candidates:
            measured = [(round(next(values), DIGITS), one) for one in found]
            kept = self._kept(measured)
            dropped[self.name] += len(found) - len(kept)
            result.append([self._weighed(value, one) for value, one in kept])
        return result

    def _kept(self, measured: Sequence[tuple[float, Candidate]]) -> list[tuple[float, Candidate]]:
        lowest: set[int] = set()
        if self.quantile is not None:
            worst_first = sorted(
                range(len(measured)), key=lambda n: (measured[n][0], -measured[n][1].rank, -measured[n][1].of)
            )
            lowest = set(worst_first[: int(self.quantile * len(measured))])
        least = float("-inf") if self.minimum is None else self.minimum
        return [item for n, item in enumerate(measured) if n not in lowest and item[0] >= least]

    def _weighed(self, value: float, candidate: Candidate) -> Candidate:
        if self.power is None:
            return candidate
        before = 1.0 if candidate.weight is None else candidate.weight
        return replace(candidate, weight=round(before * self.scorer.weight(value) ** self.power, DIGITS))
