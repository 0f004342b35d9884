"""The data model: ragged reference sets that know where every reference came from.

Everything user-facing is segment-major: ``refs[i]`` holds the references of segment ``i``, human references and
paraphrases together, in a fixed order. The k sweep ("the first k extra references") and "replace the original" are
views (:meth:`ReferenceSet.take`) that share the same :class:`Reference` objects, never copies of text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from polyref.errors import UsageError
from polyref.values import as_texts, list_of

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


#: What is shown of a set in a notebook.
_SHOWN_SEGMENTS: Final = 3
_SHOWN_REFS: Final = 6


@dataclass(frozen=True, slots=True, repr=False)
class ReferenceSet:
    """An ordered collection of segments and the provenance of their references.

    Attributes:
        segments: One per segment of the test set, in the order of the systems' outputs.
        meta: Generator signature, decoding and filter parameters, seed, hashes of the inputs, tool version.
    """

    segments: Sequence[Segment]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __getitem__(self, index: int) -> Segment:
        return self.segments[index]

    def __repr__(self) -> str:
        return f"ReferenceSet({', '.join(value for _, value in self._described())})"

    def _repr_html_(self) -> str:
        facts = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in self._described())
        examples = "".join(
            f"<dt>{escape(segment.id)}</dt>"
            + "".join(f"<dd>{escape(ref.text)} <i>({escape(ref.kind)})</i></dd>" for ref in segment.refs[:_SHOWN_REFS])
            for segment in self.segments[:_SHOWN_SEGMENTS]
        )
        return f"<table>{facts}</table><dl>{examples}</dl>"

    def _described(self) -> list[tuple[str, str]]:
        """What the set holds, for people: name and value of every fact."""
        facts = [("segments", f"{len(self)} segment{'' if len(self) == 1 else 's'}")]
        kinds = [Counter(ref.kind for ref in segment.refs) for segment in self.segments]
        for kind in KINDS:
            counts = [found[kind] for found in kinds]
            if any(counts):
                low, high = min(counts), max(counts)
                facts.append((kind, f"{low if low == high else f'{low} to {high}'} {kind} each"))
        made = self.meta.get("generator")
        generators = made if isinstance(made, list) else [made] if made else []
        return [*facts, *(("generator", f"made by {one}") for one in generators)]

    @classmethod
    def load(
        cls,
        *paths: str | Path,
        form: str | None = None,
        fields: Mapping[str, str] | None = None,
        pair: str | None = None,
        lang: str | None = None,
    ) -> ReferenceSet:
        """Read a reference set from files in any form that polyref knows.

        Args:
            paths: One file; or plain text files with one segment a line, or SGML files (several are several human
                references per segment, and must have equal numbers of lines); or one folder of a test set
                (mt-metrics-eval's layout, or a WMT release); or ``sacrebleu:NAME``, a test set that sacreBLEU has in
                its cache. ``-`` is standard input, ``.gz`` and ``.xz`` are unpacked.
            form: Name of the form; None tells it by content, then by suffix.
            fields: Key or column (by name, or by number from 1) -> what it is: ``id``, ``reference``, ``paraphrase``,
                ``source``, ``output``, ``doc`` or ``lang``. For XML, SGML and folders, the names of the references to
                take. Where nothing is said, usual names are known.
            pair: Language pair, ``SRC-TGT``, of what holds several.
            lang: Language of the references, for XLIFF and TMX: ``en`` is ``en-US`` too. None is the one beside the
                source.

        Raises:
            DataError: A file is missing, empty or broken (file, line and reason are named), in no form that can be
                read, or lengths differ.
            UsageError: No path, ``-`` twice, several files of a form that has one, or an unknown form, role, set or
                pair, or several languages fit.
        """
        forms = _forms()
        with ExitStack() as stack:
            opened = forms.open_references(paths, stack, forms.Reading(form, dict(fields or {}), pair, lang=lang))
            return cls(tuple(opened.segments), opened.meta)

    def save(self, path: str | Path) -> None:
        """Write the set in the normal form, whole or not at all. Equal sets give equal bytes.

        Raises:
            DataError: ``path`` cannot be written, or a value of the set cannot be (a number that is not finite).
        """
        _forms().write_segments(self.segments, self.meta, path)

    def export(self, path: str | Path, form: str | None = None, *, pair: str | None = None) -> list[str]:
        """Write the set in a form that others read, whole or not at all.

        Args:
            path: The file. For several plain text files, a name with ``{}`` in which the names of the references are
                put, or a folder (that is there, or ends in ``/``); for mt-metrics-eval's layout, a folder. Folders must
                be new or empty.
            form: ``normal``, ``plain``, ``simple``, ``nbest``, ``json``, ``lists``, ``tsv``, ``csv``,
                ``sacrebleu-tsv``, ``comet``, ``xml``, ``sgml``, ``general`` or ``mt-metrics-eval``; None takes what the
                suffix says.
            pair: Language pair, for mt-metrics-eval's layout.

        Returns:
            What the form cannot hold of this set, one phrase each; nothing where it holds everything.

        Raises:
            DataError: ``path`` cannot be written, or the set cannot be written in this form.
            UsageError: There is no such form, or ``path`` does not fit it.
        """
        lost: list[str] = import_module("polyref.formats.writing").save(self.segments, self.meta, path, form, pair)
        return lost

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
            humans = [place for place, ref in enumerate(segment.refs) if ref.original]
            extras = [n for n, ref in enumerate(segment.refs) if not ref.original and ref.kind in wanted][:k]
            # The human references come first in a view, so that k only ever appends.
            segments.append(_view(segment, [*humans, *extras] if originals else extras))
        return ReferenceSet(tuple(segments), self.meta)

    def texts(self) -> list[list[str]]:
        """Segment-major texts: ``texts()[i][j]`` is reference ``j`` of segment ``i``."""
        return [[ref.text for ref in segment.refs] for segment in self.segments]

    def counts(self) -> tuple[int, int]:
        """Smallest and largest number of references a segment has; (0, 0) for an empty set."""
        sizes = [len(segment.refs) for segment in self.segments]
        return (min(sizes), max(sizes)) if sizes else (0, 0)


def as_reference_set(references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]]) -> ReferenceSet:
    """A reference set from whatever a caller has.

    Args:
        references: A set; or a list with one text a segment, its only reference; or a list with the list of every
            segment's references, in which None stands for an absent one. Columns and arrays of other libraries
            (datasets, pandas, NumPy) are lists here.

    Raises:
        UsageError: It is one string, or something in the list is neither a text nor a list of texts.
    """
    if isinstance(references, ReferenceSet):
        return references
    references = list_of(references)
    if not isinstance(references, Sequence) or isinstance(references, (str, bytes)):
        found = "one string" if isinstance(references, (str, bytes)) else f"of type {type(references).__name__}"
        raise UsageError(
            f"`references` is {found}, expected a ReferenceSet, or a list with the reference or references of every "
            "segment"
        )
    # A column reads a row whenever it is asked for it: once is enough.
    rows = [list_of(row) for row in references]
    if all(isinstance(row, str) for row in rows):
        return ReferenceSet.from_texts([[text] for text in rows])
    for index, texts in enumerate(rows):
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
            raise UsageError(f"`references`[{index}] is {texts!r}, expected a list of texts as for other segments")
        as_texts(["" if text is None else text for text in texts], f"`references`[{index}]")
    return ReferenceSet.from_texts(rows)


def _forms() -> Any:
    """The package of all forms of files. They are made of references, which know none of them by themselves."""
    return import_module("polyref.formats")


def _present(name: str, index: int, texts: Sequence[str | None] | None) -> list[tuple[int, str]]:
    """Place and text of what is not None."""
    if texts is None or isinstance(texts, str):
        found = "None" if texts is None else "a string"
        raise ValueError(f"{name}[{index}] is {found}, expected the list of that segment's {name}")
    return [(place, text) for place, text in enumerate(texts) if text is not None]


def _view(segment: Segment, places: Sequence[int]) -> Segment:
    """The references at these places; what was made from one that is left out was made from nothing there."""
    found: dict[int | None, int] = {place: index for index, place in enumerate(places)}
    refs = (segment.refs[place] for place in places)
    refs = (ref if found.get(ref.of) == ref.of else replace(ref, of=found.get(ref.of)) for ref in refs)
    return replace(segment, refs=tuple(refs))
