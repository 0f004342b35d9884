"""Some segments of a set to read, with what the added references change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyref.eval.inspection.counts import base_of
from polyref.eval.inspection.differences import Piece, differences
from polyref.eval.inspection.sampling import sampled
from polyref.references import Reference, ReferenceSet, Segment


@dataclass(frozen=True)
class Added:
    """An added reference.

    Attributes:
        reference: With its kind, generator and scores.
        pieces: The reference it was made from and its own text as one; its text alone where that is not known.
    """

    reference: Reference
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class Example:
    """A segment to read."""

    segment: Segment
    added: Sequence[Added]


def examples(references: ReferenceSet, number: int, seed: int) -> list[Example]:
    """Random segments, of those that have added references if there are any."""
    there = [segment for segment in references if segment.extras] or list(references)
    return [Example(one, [_added(ref, one) for ref in one.extras]) for one in sampled(there, number, seed)]


def _added(reference: Reference, segment: Segment) -> Added:
    base = base_of(reference, segment)
    pieces = differences(base.text, reference.text) if base else [Piece("same", reference.text)]
    return Added(reference, pieces)
