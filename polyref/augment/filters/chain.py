"""Which candidates may become references: copies, duplicates and paraphrases that changed the content are dropped.

Every check looks at one candidate and the reference it was made from; a :class:`FilterChain` runs them in order and
gives each dropped candidate the name of the first check that refused it. Copies of any reference the segment already
has, and duplicates among the candidates, are always dropped: they would add weight, not coverage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polyref.augment.checks.base import Check
from polyref.augment.filters.measures import Measure
from polyref.augment.select import Candidate, Dropped
from polyref.comparison import Repeats, comparison_key
from polyref.references import Segment


@dataclass(frozen=True)
class FilterChain:
    """Checks in order, after the rules that always hold.

    Attributes:
        name: As it is written into signatures: the preset, the language and the checks.
        checks: Run in this order, after the rules that always hold.
        measures: Filters that need a model, run in this order on what passed the checks.
        by_need: The chains, by the need of a candidate, of which only the checks count; empty where one is for all.
    """

    name: str
    checks: tuple[Check, ...] = ()
    measures: tuple[Measure, ...] = ()
    by_need: Mapping[str, FilterChain] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons a candidate can be dropped for, in the order of the checks: those that signatures name."""
        every = [check for chain in self.by_need.values() or (self,) for check in chain.checks]
        checks = [check.name for check in every if check.stated]
        named = [*dict.fromkeys(checks), *(measure.name for measure in self.measures)]
        return ("empty", "copy", "duplicate", *named)

    def start(self, originals: Iterable[str], extras: Iterable[str] = ()) -> Offers:
        """Begin a segment that already has these references."""
        return Offers(self, originals, extras)

    def measure(
        self,
        segments: Sequence[Segment],
        candidates: Sequence[Sequence[Candidate]],
        dropped: Counter[str],
        refused: Sequence[list[Dropped]] = (),
    ) -> list[list[Candidate]]:
        """What is left of the candidates of some segments after the filters that need a model.

        Args:
            segments: Shape (N,).
            candidates: One list a segment.
            dropped: Refused candidates are counted here, by reason.
            refused: They are added here, one list a segment, if given.
        """
        left = [list(found) for found in candidates]
        for measure in self.measures:
            before, left = left, measure.apply(segments, left, dropped)
            for segment, found, kept, there in zip(segments, before, left, refused, strict=bool(refused)):
                texts = {one.text for one in kept}  # duplicates were dropped before: no two are equal
                there += (
                    Dropped(segment.id, one.of, one.rank, one.text, measure.name)
                    for one in found
                    if one.text not in texts
                )
        return left


class Offers:
    """The candidates of one segment, offered best first; remembers what was taken."""

    def __init__(self, chain: FilterChain, originals: Iterable[str], extras: Iterable[str]) -> None:
        self._chain = chain
        self._repeats = Repeats(originals, extras)

    def offer(
        self, reference: str, candidate: str, *, beginning: bool = False, composed: bool = False, need: str = ""
    ) -> str | None:
        """Take ``candidate``, a paraphrase of ``reference``; or say why not.

        Args:
            reference: The whole reference.
            candidate: The paraphrase.
            beginning: The paraphraser read only the beginning of ``reference``: repeating that is copying, too.
            composed: The paraphrase was put together from sentences that were offered one by one.
            need: Which filter its generator needs, where that makes a difference.

        Returns:
            None when it was taken, otherwise the reason, one of ``FilterChain.reasons``.
        """
        reason = self._repeats.reason(candidate)
        if reason in (None, "duplicate") and beginning:
            reason = "copy" if comparison_key(reference).startswith(comparison_key(candidate)) else reason
        if reason is not None:
            return reason
        for check in self._chain.by_need.get(need, self._chain).checks:
            if not (composed and check.within_sentences) and not check.accepts(reference, candidate):
                return check.name
        self._repeats.take(candidate)
        return None
