"""One reference and one segment: texts, and where they came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final = ("human", "postedit", "paraphrase", "pseudo", "translation")
#: Kinds a person wrote or corrected: they are "the originals"; everything else is an extra reference.
ORIGINAL_KINDS: Final = frozenset({"human", "postedit"})


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference text and where it came from.

    Attributes:
        text: The text. ``""`` is a real, empty reference; an absent reference is simply not in the list.
        kind: ``human``, ``postedit``, ``paraphrase``, ``pseudo`` (the output of a system) or ``translation``
            (made of the source).
        of: 0-based index (in the segment's ``refs``) of the reference this one was made from.
        rank: 0-based rank in the generator's n-best list, before filtering.
        weight: Non-negative weight for weighted aggregation; None means "no opinion" (uniform).
        logprob: Length-normalised log-probability under the generator, in nats.
        generator: Identifier of the generator; its parameters are in the set's ``meta``.
        extra: Unknown keys of the normal form, kept as they were read.
        added: Whether it counts among the added references although a person wrote it: a second human reference whose
            worth is measured. It is of one run, and is not written to files.
    """

    text: str
    kind: str = "human"
    of: int | None = None
    rank: int | None = None
    weight: float | None = None
    logprob: float | None = None
    generator: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    added: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"text is {self.text!r}, expected a string")
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")
        if self.weight is not None and not 0 <= self.weight < math.inf:
            raise ValueError(f"weight is {self.weight!r}, expected a finite number from 0")
        if self.logprob is not None and not -math.inf < self.logprob < math.inf:
            raise ValueError(f"logprob is {self.logprob!r}, expected a finite number")

    @property
    def original(self) -> bool:
        """Whether a person wrote (or post-edited) it, and it is no added one."""
        return self.kind in ORIGINAL_KINDS and not self.added


class Place(str):
    """The id of a segment whose file names none: its place, from 1."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """The references of one segment, with what is known about the segment itself."""

    id: str
    refs: tuple[Reference, ...]
    source: str | None = None
    doc: str | None = None
    lang: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def originals(self) -> tuple[Reference, ...]:
        """The references a person wrote, in order."""
        return tuple(ref for ref in self.refs if ref.original)

    @property
    def extras(self) -> tuple[Reference, ...]:
        """The added references, in order."""
        return tuple(ref for ref in self.refs if not ref.original)
