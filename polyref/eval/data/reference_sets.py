"""The references of an evaluation set together with references added to them, and placebos of these.

A placebo has for each added reference another segment's, of the same rank and length. Added references change a score
in two ways: they hold words that a good translation may use, and they are more text, which breaks ties and moves the
scores of long and short outputs apart. Any text does the second. What a set of references is worth is its gain minus
the gain of a placebo: the same number of references for every segment, written by the same generator in the same
lengths, but for other sentences. What sees only lengths cannot tell the two apart.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.formats.documents import NO_REFERENCE
from polyref.metrics.base import Metric
from polyref.references import ReferenceSet, Segment, as_reference_set
from polyref.textfiles import check_parallel

#: What stands before the name of a reference of the set that is added to others.
OF_SET: Final = "ref:"


def chosen_references(evalset: EvalSet, names: Sequence[str], added: bool) -> tuple[str, ...]:
    """Names of references of the set, checked; none where it has none, none is named, and others are ``added``."""
    if not evalset.reference_files and added and not names:
        return ()
    return evalset.choose_references(names)


def reference_set(
    evalset: EvalSet,
    names: Sequence[str],
    extra: str | Path | ReferenceSet | None = None,
    form: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> ReferenceSet:
    """The chosen references of a set, followed by the extra references of an augmented file.

    Args:
        evalset: Where the human references are.
        names: Which of them; none where the set has none, and then the references are those of ``extra`` as they are.
        extra: An augmented set, or its file: one segment for each of the set's. The human references in it must be
            among the chosen ones: that proves that the two belong together. Or human references alone, which are then
            added ones: a file of them, or ``ref:NAME`` of the set. Where the set has none, sources prove it.
        form: Of the file, as for :meth:`polyref.references.ReferenceSet.load`.
        fields: Of the file, likewise.

    Raises:
        DataError: Another number of segments, a human reference or a source that the set does not have, or no extra
            reference.
    """
    texts = evalset.references(names) if names else [[] for _ in range(evalset.segments or 0)]
    base = _with_sources(ReferenceSet.from_texts(texts, meta={"references": list(names)}), evalset)
    if extra is None:
        return base
    if isinstance(extra, ReferenceSet):
        added = extra
    elif isinstance(extra, str) and extra.startswith(OF_SET):
        name = extra.removeprefix(OF_SET)
        evalset.choose_references([*names, name])
        added = ReferenceSet.from_texts([[text] for text in evalset.reference(name)], meta={"added": [name]})
    else:
        added = ReferenceSet.load(extra, form=form, fields=fields, pair=evalset.pair)
    file = None if isinstance(extra, ReferenceSet) else extra
    if len(added) != len(base):
        first = evalset.reference_files[names[0]] if names else _first_file(evalset)
        raise DataError(
            f"has {len(added)} segments, but {first} has {len(base)}",
            file=file,
            remedy="one segment for every line of the set, in the same order",
        )
    if not names:
        segments = [_alone(*both, file) for both in zip(base, added, strict=True)]
        return ReferenceSet(tuple(segments), {**added.meta, **base.meta})
    if not any(segment.extras for segment in added):
        added = _other_humans(added, base)
    segments = [_append(ours, theirs, names, file) for ours, theirs in zip(base, added, strict=True)]
    if not any(segment.extras for segment in segments):
        reason = f"holds no added reference: its texts are those of {'+'.join(names)}"
        remedy = "write some with `polyref augment`, or name another human reference"
        raise DataError(reason, file=file, remedy=remedy)
    return ReferenceSet(tuple(segments), {**added.meta, **base.meta})


def _other_humans(added: ReferenceSet, base: ReferenceSet) -> ReferenceSet:
    """Human references alone as added ones, where they are not the set's own."""
    known = [{one.text for one in ours.refs} for ours in base]
    if all(ref.text.rstrip() in there for there, theirs in zip(known, added, strict=True) for ref in theirs.refs):
        return added
    texts = [[replace(ref, added=True) for ref in one.refs if ref.text not in NO_REFERENCE] for one in added]
    segments = [replace(one, refs=tuple(refs)) for one, refs in zip(added, texts, strict=True)]
    return ReferenceSet(tuple(segments), added.meta)


def as_added(references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]]) -> ReferenceSet:
    """Added references from a set, or from a list with one text a segment or with the list of every segment's."""
    if isinstance(references, ReferenceSet):
        return references
    texts = as_reference_set(references).texts()
    return ReferenceSet.from_texts([[]] * len(texts), paraphrases=texts)


def sources_alone(evalset: EvalSet) -> ReferenceSet:
    """The set's sources as segments without references, for metrics that read no reference."""
    if not evalset.source:
        remedy = f"the metric reads them: add sources/{evalset.pair}.txt"
        file = evalset.source_file or evalset.directory
        raise DataError(f"no sources for {evalset.pair}", file=file, remedy=remedy)
    return ReferenceSet(tuple(Segment(str(n), (), source=text) for n, text in enumerate(evalset.source, 1)))


def check_sources(evalset: EvalSet, references: ReferenceSet, metrics: Iterable[Metric]) -> None:
    """Refuse segments without source where a metric reads it."""
    reading = next((metric.label for metric in metrics if metric.needs_sources), None)
    if reading is not None and any(segment.source is None for segment in references):
        reason = f"no sources for {evalset.pair}, which {reading} reads"
        remedy = f"add sources/{evalset.pair}.txt, or give `references` that hold them"
        raise DataError(reason, file=evalset.directory, remedy=remedy)


def _with_sources(references: ReferenceSet, evalset: EvalSet) -> ReferenceSet:
    """Every segment with its source, which some metrics read."""
    if evalset.source is None:
        return references
    path = evalset.source_file or evalset.directory
    check_parallel([(_first_file(evalset), len(references)), (path, len(evalset.source))])
    pairs = zip(references, evalset.source, strict=True)
    return ReferenceSet(tuple(replace(segment, source=text) for segment, text in pairs), references.meta)


def _first_file(evalset: EvalSet) -> Path:
    """A file with as many lines as the set has segments."""
    return next(iter((evalset.reference_files or evalset.output_files).values()))


def _alone(ours: Segment, theirs: Segment, file: str | Path | None) -> Segment:
    """A segment of a set without references, with those of the same source."""
    if ours.source is not None and theirs.source is not None and ours.source.strip() != theirs.source.strip():
        there = f"{_short(theirs.source)}, that of the set {_short(ours.source)}"
        remedy = "give references that were made from this set's sources"
        raise DataError(f"segment {ours.id}: its source is {there}", file=file, remedy=remedy)
    refs = tuple(replace(ref, text=ref.text.rstrip()) for ref in theirs.refs)
    return replace(ours, refs=refs, source=ours.source or theirs.source, doc=theirs.doc, lang=theirs.lang)


def _append(ours: Segment, theirs: Segment, names: Sequence[str], file: str | Path | None) -> Segment:
    """A segment with the added references of the other one, whose human references are among its own."""
    texts = [ref.text for ref in ours.refs]
    position: dict[int | None, int] = {}
    for index, ref in enumerate(theirs.refs):
        if ref.original:
            if ref.text.rstrip() not in texts:
                reason = f"its reference {_short(ref.text)} is not in {'+'.join(names)} of the set, which has"
                remedy = "give the `ref` it was made from"
                raise DataError(f"segment {ours.id}: {reason} {_short(texts[0])}", file=file, remedy=remedy)
            position[index] = texts.index(ref.text.rstrip())
    # ``of`` counts in the segment's list, which has changed; texts end as those of the set do.
    added = (replace(r, text=r.text.rstrip(), of=position.get(r.of)) for r in theirs.refs if not r.original)
    source = ours.source or theirs.source
    return replace(ours, refs=(*ours.refs, *added), source=source, doc=theirs.doc, lang=theirs.lang)


def _short(text: str, most: int = 60) -> str:
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")


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
        reason = f"{holders} segments have added references: a placebo exchanges those of two or more"
        raise UsageError(reason, remedy="give references with paraphrases")
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
        taken = {_folded(text) for text in (segment.source or "", *(ref.text for ref in segment.refs))}
        given = []
        for rank, ref in enumerate(segment.extras):
            length = len(ref.text)
            drawn = (shelf.near(length, taken, longer[rank], rng) for shelf in by_nearness[rank])
            text = next((text for text in drawn if text is not None), None)
            if text is None:
                text = every().nearest(length, taken)
            if text is None:  # all that there is
                break
            taken.add(_folded(text))
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
        different = {_folded(text): text for text in texts}
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


def _folded(text: str) -> str:
    """Texts with one key are copies of each other."""
    return " ".join(text.casefold().split())
