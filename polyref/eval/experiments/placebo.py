"""A placebo for added references: those of another segment of like length.

Added references change a score in two ways: they hold words that a good translation may use, and they are more text,
which breaks ties and moves the scores of long and short segments apart. Any text does the second. What a set of
references is worth is its gain minus the gain of a placebo: the same number of references for every segment, written by
the same generator in like lengths, but for another sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from polyref.errors import UsageError
from polyref.references import Reference, ReferenceSet, Segment

#: Segments among which references are exchanged: neighbours by length.
_NEIGHBOURS: Final = 10


def placebo(references: ReferenceSet, seed: int) -> ReferenceSet:
    """Every added reference replaced by one of another segment of like length.

    Segments are sorted by the length (in characters, whatever the script) of what is added to them, and within groups
    of neighbours each one gets the references of another, drawn by ``seed``. It keeps the human references, the number
    of added ones, and the ranks and weights that these have. A segment whose neighbour has fewer references takes the
    rest from the next, and from those nearest in length where the group has too few. It gets no text twice and none of
    its own, so it has fewer than before only where all others together have too few.

    Args:
        references: A set with added references.
        seed: Equal seeds give equal placebos.

    Raises:
        UsageError: Fewer than two segments have added references.
    """
    holders = [place for place, segment in enumerate(references) if segment.extras]
    if len(holders) < 2:
        raise UsageError(
            f"{len(holders)} segments have added references: a placebo exchanges those of two or more",
            remedy="give references with paraphrases",
        )
    rng = np.random.default_rng(seed)
    lengths = {place: _length(references[place]) for place in holders}
    # Segments of one length come in an order of the seed's, so that groups differ from seed to seed.
    order = sorted(rng.permutation(holders).tolist(), key=lambda place: lengths[place])
    given: dict[int, tuple[Reference, ...]] = {}
    for start in range(0, len(order), _NEIGHBOURS):
        group = order[start : start + _NEIGHBOURS]
        if len(order) - start - len(group) == 1:  # nobody is left alone
            group = order[start:]
        if start and len(group) == 1:
            break
        # A cycle through a random order: everybody gives to somebody else.
        circle = rng.permutation(group).tolist()
        for index, place in enumerate(circle):
            others = circle[index + 1 :] + circle[:index]
            near = (references[other] for other in _nearest(place, others, lengths))
            given[place] = _exchanged(references[place], near)
    segments = tuple(
        replace(segment, refs=(*segment.originals, *given[place])) if place in given else segment
        for place, segment in enumerate(references)
    )
    return ReferenceSet(segments, {**references.meta, "placebo": {"seed": seed}})


def _length(segment: Segment) -> float:
    """Mean length of the added references, in characters."""
    return sum(len(ref.text) for ref in segment.extras) / len(segment.extras)


def _nearest(place: int, first: Sequence[int], lengths: Mapping[int, float]) -> Iterator[int]:
    """The segments to take from: those of the group, then the others, nearest in length first."""
    yield from first
    others = lengths.keys() - {place, *first}
    yield from sorted(others, key=lambda other: (abs(lengths[other] - lengths[place]), other))


def _exchanged(segment: Segment, others: Iterable[Segment]) -> tuple[Reference, ...]:
    """The texts of others, the nearest first and none twice, in the places of the segment's own added references."""
    own = {ref.text for ref in segment.refs}
    texts: dict[str, None] = {}
    for other in others:
        texts |= {ref.text: None for ref in other.extras if ref.text not in own}
        if len(texts) >= len(segment.extras):
            break
    return tuple(replace(ref, text=text) for ref, text in zip(segment.extras, texts, strict=False))
