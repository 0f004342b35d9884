"""The data model: ragged, provenance-carrying reference sets.

Everything user-facing is segment-major: ``refs[i]`` holds the references of segment ``i``, human references and
paraphrases together, in a fixed order. The k sweep ("the first k extra references") and "replace the original" are
views (:meth:`ReferenceSet.take`) that share the same :class:`Reference` objects, never copies of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final = ("human", "postedit", "paraphrase", "pseudo")
#: Kinds a person wrote or corrected: they are "the originals"; everything else is an extra reference.
ORIGINAL_KINDS: Final = frozenset({"human", "postedit"})


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference text and where it came from.

    Attributes:
        text: The text. ``""`` is a real, empty reference; an absent reference is simply not in the list.
        kind: ``human``, ``postedit``, ``paraphrase`` or ``pseudo``.
        of: 0-based index (in the segment's ``refs``) of the reference this one was made from.
        rank: 0-based rank in the generator's n-best list, before filtering.
        weight: Non-negative weight for weighted aggregation; None means "no opinion" (uniform).
        logprob: Length-normalised log-probability under the generator, in nats.
        generator: Identifier of the generator; its parameters are in the set's ``meta``.
        extra: Unknown keys of the normal form, kept as they were read.
    """

    text: str
    kind: str = "human"
    of: int | None = None
    rank: int | None = None
    weight: float | None = None
    logprob: float | None = None
    generator: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"text is {self.text!r}, expected a string")
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")

    @property
    def original(self) -> bool:
        """Whether a person wrote (or post-edited) it."""
        return self.kind in ORIGINAL_KINDS


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


@dataclass(frozen=True, slots=True)
class ReferenceSet:
    """An ordered collection of segments and the provenance of their references.

    Attributes:
        segments: One per segment of the test set, in the order of the systems' outputs.
        meta: Generator signature, decoding and filter parameters, seed, hashes of the inputs, tool version.
    """

    segments: tuple[Segment, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __getitem__(self, index: int) -> Segment:
        return self.segments[index]

    @classmethod
    def from_texts(
        cls,
        references: Sequence[Sequence[str | None]],
        *,
        paraphrases: Sequence[Sequence[str | None]] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReferenceSet:
        """Build a set from segment-major texts: ``references[i]`` are the human references of segment ``i``.

        None stands for an absent one and is left out; ``paraphrases[i]`` follow as ``paraphrase`` references.

        Raises:
            ValueError: A segment is no list of texts (rank-major lists are the usual mistake), or lengths differ.
        """
        if paraphrases is not None and len(paraphrases) != len(references):
            raise ValueError(f"{len(references)} segments of references, but {len(paraphrases)} of paraphrases")
        segments = []
        for index, texts in enumerate(references):
            refs = [Reference(text) for _, text in _present("references", index, texts)]
            if paraphrases is not None:
                of = 0 if refs else None
                present = _present("paraphrases", index, paraphrases[index])
                refs += [Reference(text, kind="paraphrase", of=of, rank=rank) for rank, text in present]
            segments.append(Segment(str(index + 1), tuple(refs)))
        return cls(tuple(segments), dict(meta or {}))

    def take(self, k: int | None, *, kinds: Sequence[str] | None = None, originals: bool = True) -> ReferenceSet:
        """The view with the first ``k`` extra references of every segment (all of them when ``k`` is None).

        A segment with fewer than ``k`` keeps what it has: sets are ragged by nature.

        Args:
            k: Number of extra references, >= 0.
            kinds: Count only extras of these kinds (default: every kind that is not an original).
            originals: False leaves the human references out ("replace the original").

        Raises:
            ValueError: ``k`` is negative or a kind is unknown.
        """
        if k is not None and k < 0:
            raise ValueError(f"k is {k}, expected 0 or more")
        wanted = frozenset(KINDS) - ORIGINAL_KINDS if kinds is None else frozenset(kinds)
        if unknown := wanted - frozenset(KINDS):
            raise ValueError(f"unknown kind {sorted(unknown)[0]!r}, expected some of {', '.join(KINDS)}")
        segments = []
        for segment in self.segments:
            extras = [ref for ref in segment.extras if ref.kind in wanted][:k]
            refs = (*segment.originals, *extras) if originals else tuple(extras)
            # The human references come first in a view, so that k only ever appends.
            segments.append(_with_refs(segment, refs))
        return ReferenceSet(tuple(segments), self.meta)

    def texts(self) -> list[list[str]]:
        """Segment-major texts: ``texts()[i][j]`` is reference ``j`` of segment ``i``."""
        return [[ref.text for ref in segment.refs] for segment in self.segments]

    def counts(self) -> tuple[int, int]:
        """Smallest and largest number of references a segment has; (0, 0) for an empty set."""
        sizes = [len(segment.refs) for segment in self.segments]
        return (min(sizes), max(sizes)) if sizes else (0, 0)


def _present(name: str, index: int, texts: Sequence[str | None] | None) -> list[tuple[int, str]]:
    """Place and text of what is not None."""
    if texts is None or isinstance(texts, str):
        found = "None" if texts is None else "a string"
        raise ValueError(f"{name}[{index}] is {found}, expected the list of that segment's {name}")
    return [(place, text) for place, text in enumerate(texts) if text is not None]


def _with_refs(segment: Segment, refs: tuple[Reference, ...]) -> Segment:
    return Segment(segment.id, refs, segment.source, segment.doc, segment.lang, segment.extra)
