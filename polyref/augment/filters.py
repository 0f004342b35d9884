"""Which candidates may become references: copies, duplicates and paraphrases that changed the content are dropped.

Every check looks at one candidate and the reference it was made from; a :class:`FilterChain` runs them in order and
gives each dropped candidate the name of the first check that refused it. Copies of any reference the segment already
has, and duplicates among the candidates, are always dropped: they would add weight, not coverage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from polyref.augment import checks, english
from polyref.augment.checks import Check
from polyref.augment.measures import Measure
from polyref.augment.normalize import comparison_key
from polyref.augment.select import Candidate
from polyref.errors import UsageError
from polyref.references import Segment

PRESETS: Final = ("default", "strict", "none")


@dataclass(frozen=True)
class FilterChain:
    """Checks in order, after the rules that always hold.

    Attributes:
        name: As it is written into signatures: the preset, the language and the checks.
        checks: Run in this order, after the rules that always hold.
        measures: Filters that need a model, run in this order on what passed the checks.
    """

    name: str
    checks: tuple[Check, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason a candidate can be dropped for, in the order of the checks."""
        return ("empty", "copy", "duplicate", *(rule.name for rule in (*self.checks, *self.measures)))

    def start(self, originals: Iterable[str], extras: Iterable[str] = ()) -> Offers:
        """Begin a segment that already has these references."""
        return Offers(self, originals, extras)

    def measure(
        self, segments: Sequence[Segment], candidates: Sequence[Sequence[Candidate]], dropped: Counter[str]
    ) -> list[list[Candidate]]:
        """What is left of the candidates of some segments after the filters that need a model.

        Args:
            segments: Shape (N,).
            candidates: One list a segment.
            dropped: Refused candidates are counted here, by reason.
        """
        left = [list(found) for found in candidates]
        for measure in self.measures:
            left = measure.apply(segments, left, dropped)
        return left


class Offers:
    """The candidates of one segment, offered best first; remembers what was taken."""

    def __init__(self, chain: FilterChain, originals: Iterable[str], extras: Iterable[str]) -> None:
        self._chain = chain
        self._originals = {comparison_key(text) for text in originals}
        self._taken = {comparison_key(text) for text in extras}

    def offer(self, reference: str, candidate: str, *, beginning: bool = False) -> str | None:
        """Take ``candidate``, a paraphrase of ``reference``; or say why not.

        Args:
            reference: The whole reference.
            candidate: The paraphrase.
            beginning: The paraphraser read only the beginning of ``reference``: repeating that is copying, too.

        Returns:
            None when it was taken, otherwise the reason, one of ``FilterChain.reasons``.
        """
        key = comparison_key(candidate)
        if not key:
            # Nothing but punctuation: fine as a copy of "...", but then it is a copy.
            return "copy" if key in self._originals and candidate.strip() else "empty"
        if key in self._originals or (beginning and comparison_key(reference).startswith(key)):
            return "copy"
        if key in self._taken:
            return "duplicate"
        for check in self._chain.checks:
            if not check.accepts(reference, candidate):
                return check.name
        self._taken.add(key)
        return None


def filter_chain(preset: str = "default", lang: str = "en") -> FilterChain:
    """The chain with a name: ``default``, ``strict`` or ``none`` (copies and duplicates only).

    ``default`` drops changed numbers, links and handles, broken sentences, repeated phrases and outliers of length;
    for English also candidates that gained or lost their negation or say a content word again. ``strict`` is tighter
    on length and negation and, for English, drops candidates that lost a name or content words.

    Args:
        preset: One of ``PRESETS``.
        lang: Language code of the references; only its first part counts (``en-GB`` is English).

    Raises:
        UsageError: No such preset.
    """
    if preset not in PRESETS:
        raise UsageError(f"there is no filter {preset!r}, expected one of {', '.join(PRESETS)}")
    if preset == "none":
        return FilterChain("none")
    strict = preset == "strict"
    rules = [
        checks.numbers(),
        checks.links(),
        checks.form(),
        checks.repetition(),
        checks.length(0.75, 1.4) if strict else checks.length(0.6, 1.6),
    ]
    if re.split("[-_]", lang.lower())[0] == "en":
        rules += [english.negation(exact=strict), english.echo()]
        if strict:
            rules += [english.names(), english.omission()]
    return FilterChain(f"{preset}:{'+'.join(rule.name for rule in rules)}", tuple(rules))
