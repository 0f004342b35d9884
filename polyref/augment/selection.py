"""Which k of the candidates that pass the filter become references, and in what order.

All methods are greedy: they choose one candidate after another and never take one back, so the first k of a longer
choice are the choice of k, and a k sweep over the result is a sweep over selections. They depend on the candidates,
not on the order these come in; ties go to the better rank, then to the earlier reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from polyref.comparison import dice, ngrams
from polyref.errors import UsageError
from polyref.references import Segment


@dataclass(frozen=True)
class Candidate:
    """A text that may become a reference.

    Attributes:
        of: Index of the reference it was made from, or is compared with.
        rank: Place in the n-best list of that reference, from 0.
        score: Length-normalised log-probability, in nats; None of generators without probabilities.
        weight: Adequacy, 0 to 1; None where the filter measures none.
        generator: Name of what made it; None where nothing is known of it.
        kind: What it becomes: ``paraphrase`` or ``pseudo``.
        source: Which of several sources it comes from, from 0.
        place: Its place among the candidates of several sources; 0 for all candidates of a single one.
        truncated: Whether the generator read only the beginning of the reference.
        composed: Whether it was put together from sentences that were offered to the filter one by one.
        need: Which filter its generator needs.
    """

    text: str
    of: int = 0
    rank: int = 0
    score: float | None = 0.0
    weight: float | None = None
    generator: str | None = None
    kind: str = "paraphrase"
    source: int = 0
    place: int = 0
    truncated: bool = False
    composed: bool = False
    need: str = "small-model"


@dataclass(frozen=True)
class Dropped:
    """A candidate that did not pass the filter.

    Attributes:
        id: Of its segment.
        of: Index of the reference it was made from.
        rank: Place in the n-best list of that reference, from 0.
        text: The text.
        reason: One of ``FilterChain.reasons``.
    """

    id: str
    of: int
    rank: int
    text: str
    reason: str

    @classmethod
    def of_segment(cls, segment: Segment, candidate: Candidate, reason: str) -> Dropped:
        """A candidate of a segment."""
        return cls(segment.id, candidate.of, candidate.rank, candidate.text, reason)


class Select(Protocol):
    """A way to choose. Its name, with parameters, is written into signatures."""

    @property
    def name(self) -> str:
        """For signatures, parameters included."""

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""


def by_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first; with several references, one of each in turn; with several sources, as they were merged."""
    return sorted(candidates, key=lambda one: (one.place, one.rank, one.of))


@dataclass(frozen=True)
class Rank:
    """The order of the n-best lists."""

    name: str = "rank"

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""
        return by_rank(candidates)[:k]


@dataclass(frozen=True)
class MarginalRelevance:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): likely, and unlike what is there already.

    The next candidate c has the largest ``balance * p(c) - (1 - balance) * max sim(c, r)`` over the references r that
    the segment has and those chosen so far. p is the geometric mean of the token probabilities, sim the Dice
    coefficient of word n-grams up to 2, both 0 to 1.

    Attributes:
        balance: lambda, 0 (novelty alone) to 1 (probability alone).
    """

    balance: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= 1:
            raise UsageError(f"`select` mmr: lambda is {self.balance:g}, expected 0 to 1")

    @property
    def name(self) -> str:
        """For signatures, parameters included."""
        return f"mmr:{self.balance:g}"

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""
        rest = [(one, ngrams(one.text, 2)) for one in by_rank(candidates)]
        held = [ngrams(text, 2) for text in have]
        nearest = [max((dice(grams, one) for one in held), default=0.0) for _, grams in rest]
        chosen: list[Candidate] = []
        while rest and len(chosen) < k:
            values = [
                self.balance * _probability(one) - (1 - self.balance) * near
                for (one, _), near in zip(rest, nearest, strict=True)
            ]
            best = values.index(max(values))
            one, grams = rest.pop(best)
            nearest.pop(best)
            nearest = [max(near, dice(other, grams)) for near, (_, other) in zip(nearest, rest, strict=True)]
            chosen.append(one)
        return chosen


def _probability(candidate: Candidate) -> float:
    # Without probabilities, all candidates are alike; other semantics than the paper's may score above 0.
    return 1.0 if candidate.score is None else math.exp(min(candidate.score, 0.0))


SELECTIONS: Final = ("rank", "mmr")
#: Names of ways that polyref 0.1.0 had.
_GONE: Final = ("group", "coverage")


def selection(text: str = "rank") -> Select:
    """The way to choose that ``NAME[:PARAMETER]`` names: ``rank``, ``mmr`` or ``mmr:0.5``."""
    name, colon, value = text.partition(":")
    if name in _GONE:
        raise UsageError(f"`select` {name} has gone", remedy="mmr prefers what is unlike the references there already")
    if name not in SELECTIONS:
        raise UsageError(f"`select` is {text!r}, expected one of {', '.join(SELECTIONS)}")
    if name == "rank":
        if colon:
            raise UsageError(f"`select` rank takes no parameter, but has {value!r}")
        return Rank()
    if not colon:
        return MarginalRelevance()
    try:
        return MarginalRelevance(float(value))
    except ValueError:
        raise UsageError(f"`select` mmr: the parameter is {value!r}, expected a number from 0 to 1") from None
