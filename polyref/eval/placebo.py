"""A placebo for added references: for each of them another segment's reference, of the same rank and length.

Added references change a score in two ways: they hold words that a good translation may use, and they are more text,
which breaks ties and moves the scores of long and short outputs apart. Any text does the second. What a set of
references is worth is its gain minus the gain of a placebo: the same number of references for every segment, written by
the same generator in the same lengths, but for other sentences. What sees only lengths cannot tell the two apart.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Final

import numpy as np

from polyref.errors import UsageError
from polyref.references import ReferenceSet, Segment

#: What lengths may differ by: the larger of so many characters and this share.
_CHARACTERS: Final = 2
_SHARE: Final = 0.02
#: So many of exactly the same length are choice enough; with fewer, all that are near enough are drawn from.
_CHOICE: Final = 3


def placebo(references: ReferenceSet, seed: int) -> ReferenceSet:
    """Every added reference replaced by one of another segment, of the same rank and the same length.

    The length is in characters, whatever the script. One of the same place among the added references is taken, drawn
    by ``seed`` from those of exactly its length if there are three or more, else from those within two characters or
    2 %, as many shorter as longer ones; where there is none, one of the nearest place that has one; and where no place
    has one, the nearest in length. Human references, ranks and weights stay. A segment gets no text twice and none of
    its own, whatever the case, so it has fewer than before only where all others together have too few.

    Args:
        references: A set with added references.
        seed: Equal seeds give equal placebos.

    Raises:
        UsageError: Fewer than two segments have added references.
    """
    holders = sum(bool(segment.extras) for segment in references)
    if holders < 2:
        raise UsageError(
            f"{holders} segments have added references: a placebo exchanges those of two or more",
            remedy="give references with paraphrases",
        )
    ranks: list[list[str]] = [[] for _ in range(max(len(segment.extras) for segment in references))]
    for segment in references:
        for rank, ref in enumerate(segment.extras):
            ranks[rank].append(ref.text)
    shelves = [_Shelf(texts) for texts in ranks]
    every = cache(lambda: _Shelf(chain(*ranks)))  # seldom needed
    by_nearness = [
        [shelves[place] for place in sorted(range(len(ranks)), key=lambda place: abs(place - rank))]
        for rank in range(len(ranks))
    ]
    rng = random.Random(seed)
    # How many more are longer than shorter, so far, at every rank.
    longer: Counter[int] = Counter()

    def exchanged(segment: Segment) -> Segment:
        taken = {_key(text) for text in (segment.source or "", *(ref.text for ref in segment.refs))}
        given = []
        for rank, ref in enumerate(segment.extras):
            length = len(ref.text)
            drawn = (shelf.near(length, taken, longer[rank], rng) for shelf in by_nearness[rank])
            text = next((text for text in drawn if text is not None), None)
            if text is None:
                text = every().nearest(length, taken)
            if text is None:  # all that there is
                break
            taken.add(_key(text))
            longer[rank] += (len(text) > length) - (len(text) < length)
            given.append(replace(ref, text=text))
        return replace(segment, refs=(*segment.originals, *given))

    segments = tuple(exchanged(segment) if segment.extras else segment for segment in references)
    return ReferenceSet(segments, {**references.meta, "placebo": {"seed": seed}})


@dataclass(frozen=True)
class LengthLeft:
    """What is left of a difference in length between placebos and what they stand for, in characters.

    Attributes:
        mean: Mean of the differences, placebo minus reference.
        median: Their median.
        beyond: Share of those that differ by more than two characters and by more than 2 %, from 0 to 1.
    """

    mean: float
    median: float
    beyond: float

    def __str__(self) -> str:
        return (
            "Placebos are as long as the references they stand for: the difference is "
            f"{round(self.mean, 2) + 0.0:.2f} characters on average (median {self.median:g}), and "
            f"{100 * self.beyond:.2g} % differ by more than two characters and 2 %."
        )


def length_left(references: ReferenceSet, placebos: Sequence[ReferenceSet]) -> LengthLeft:
    """How far the placebos are from what they stand for in length."""
    pairs = [
        (len(ref.text), len(other.text))
        for one in placebos
        for before, after in zip(references, one, strict=True)
        for ref, other in zip(before.extras, after.extras, strict=False)
    ]
    lengths, others = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    if not len(lengths):
        return LengthLeft(math.nan, math.nan, 0.0)
    apart = others - lengths
    beyond = float(np.mean(abs(apart) > np.maximum(_CHARACTERS, _SHARE * lengths)))
    return LengthLeft(float(apart.mean()), float(np.median(apart)), beyond)


class _Shelf:
    """Different texts by length."""

    def __init__(self, texts: Iterable[str]) -> None:
        different = {_key(text): text for text in texts}
        self.items = sorted(((len(text), text, key) for key, text in different.items()), key=lambda item: item[:2])
        self.lengths = [length for length, _, _ in self.items]

    def near(self, length: int, taken: Container[str], longer: int, rng: random.Random) -> str | None:
        """One whose length is near enough, drawn; a shorter one where more were longer so far, and vice versa."""
        bound = max(_CHARACTERS, int(_SHARE * length))
        first, last = bisect_left(self.lengths, length - bound), bisect_right(self.lengths, length + bound)
        if first == last:
            return None
        same, above = bisect_left(self.lengths, length), bisect_right(self.lengths, length)
        ranges = [(same, above)] if above - same > _CHOICE else []  # one of them may be its own
        ranges += [(first, above)] if longer > 0 else [(same, last)] if longer < 0 else []
        for start, end in (*ranges, (first, last)):
            if start < end:
                at = rng.randrange(start, end)
                # Few are taken: a segment's own, and what it was given.
                for place in chain(range(at, end), range(start, at)):
                    if self.items[place][2] not in taken:
                        return self.items[place][1]
        return None

    def nearest(self, length: int, taken: Container[str]) -> str | None:
        """The nearest in length."""
        right = bisect_left(self.lengths, length)
        left = right - 1
        while left >= 0 or right < len(self.items):
            down = length - self.lengths[left] if left >= 0 else math.inf
            up = self.lengths[right] - length if right < len(self.items) else math.inf
            place = left if down < up else right
            if self.items[place][2] not in taken:
                return self.items[place][1]
            left, right = (left - 1, right) if place == left else (left, right + 1)
        return None


def _key(text: str) -> str:
    """Texts with one key are copies of each other."""
    return " ".join(text.casefold().split())
