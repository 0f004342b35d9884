"""References to augmented reference sets: candidates, of which a filter passes some and k are selected."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from polyref import __version__
from polyref.augment.candidates import (
    Candidate,
    Dropped,
    Proposed,
    Proposing,
    Rank,
    Select,
    Source,
    in_turn,
    paraphrased,
)
from polyref.augment.filters import FilterChain
from polyref.engine import Engine
from polyref.errors import UsageError
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.sentences import SentenceBySentence, by_sentences
from polyref.progress import Part, listening
from polyref.progress import work as piece_of_work
from polyref.references import Reference, Segment
from polyref.tables import text_table

#: Candidates asked for per wanted paraphrase: filters drop about half of a small model's n-best list.
OVERGENERATE: Final = 2


@dataclass
class Tally:
    """What happened to the candidates.

    Attributes:
        segments: Segments seen.
        references: References paraphrased.
        empty: References that are empty or white space: kept, not paraphrased.
        truncated: References longer than the paraphraser reads: kept whole, paraphrased from their beginning.
        short: Segments with something to paraphrase that got fewer than k.
        none: Those of them that got none.
        candidates: Candidates looked at.
        kept: Candidates that became references.
        surplus: Candidates that passed the filter but were not selected.
        dropped: Candidates that the filter refused, by reason.
        failed: References for which the paraphraser failed, by reason.
    """

    segments: int = 0
    references: int = 0
    empty: int = 0
    truncated: int = 0
    short: int = 0
    none: int = 0
    candidates: int = 0
    kept: int = 0
    surplus: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        """The counts as JSON values, for :meth:`of_record`."""
        return {**vars(self), "dropped": dict(self.dropped), "failed": dict(self.failed)}

    @classmethod
    def of_record(cls, values: Mapping[str, Any]) -> Tally:
        """The counts in a record of the shape :data:`RECORD`."""
        kept: dict[str, Any] = {name: values[name] for name in RECORD}
        return cls(**kept | {name: Counter(kept[name]) for name in ("dropped", "failed")})

    def add(self, other: Tally) -> None:
        """Count ``other`` in."""
        for name, value in vars(other).items():
            # A counter is added to without losing counts of 0.
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def as_row(self, reasons: Iterable[str]) -> dict[str, Any]:
        """All counts as plain values; ``reasons`` are those that the filter can give, in their order."""
        dropped = {reason: self.dropped[reason] for reason in self._reasons(reasons)}
        before = {name: getattr(self, name) for name in ("segments", "references", "candidates", "kept", "surplus")}
        after = {name: getattr(self, name) for name in ("short", "none", "empty", "truncated")}
        failed = {"failed": dict(sorted(self.failed.items()))} if self.failed else {}
        return {**before, "dropped": dropped, **after, **failed}

    def outcomes(self, reasons: Iterable[str]) -> list[tuple[str, int]]:
        """What became of the candidates, for people: a few words and a count; reasons that were none are left out."""
        found = [
            ("not selected", self.surplus),
            *((f"dropped: {one}", self.dropped[one]) for one in self._reasons(reasons)),
        ]
        return [("kept", self.kept), *(item for item in found if item[1])]

    def _reasons(self, known: Iterable[str]) -> Iterable[str]:
        """The reasons that are given, then those that came up besides."""
        return dict.fromkeys((*known, *sorted(reason for reason, count in self.dropped.items() if count)))

    def summary(self, reasons: Iterable[str], k: int, longest: int | None = None) -> str:
        """The outcomes as a table, new references a segment, and whether ``longest`` lists are why some got few."""
        total = max(self.candidates, 1)
        lines = [[name, str(count), f"{100 * count / total:.1f}"] for name, count in self.outcomes(reasons)]
        table = text_table(["candidates", "count", "%"], lines)
        a_segment = self.kept / max(self.segments, 1)
        made = f"polyref: {self.kept} new reference{'s' * (self.kept != 1)}, {a_segment:.1f} a segment"
        made += f"; {self.short} of {self.segments} segments got fewer than {k}" if self.short else ""
        made += f", {self.none} of them none" if self.none else ""
        if self.short and longest is not None and longest < OVERGENERATE * k:
            share = 100 * self.dropped.total() / total
            made += (
                f"\npolyref: the lists hold {longest} candidate{'s' * (longest != 1)} a segment at most, of which the "
                f"filter drops {share:.0f} %: longer lists may give more (polyref paraphrase -k {OVERGENERATE * k})"
            )
        return f"{table}\n{made}"

    def warnings(self, *, translated: bool = False) -> list[str]:
        """What a user should know about references, or sources, that are empty, too long, or failed."""
        why = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.failed.items()))
        counts = (self.empty, self.truncated, self.failed.total())
        what: tuple[str, ...] = (
            "empty",
            "longer than the model reads: what was made of the beginning is left out",
            f"without a translation: {why}",
        )
        if not translated:
            verbs = ["is" if count == 1 else "are" for count in counts]
            what = (
                f"{verbs[0]} empty: kept, without paraphrases",
                f"{verbs[1]} longer than the model reads: kept whole, what the model writes is of the beginning",
                f"failed and got no paraphrases: {why}",
            )
        noun = "source" if translated else "reference"
        return [f"{n} {noun}{'s' * (n != 1)} {text}" for n, text in zip(counts, what, strict=True) if n]


#: The shape of a record (see :func:`polyref.json_files.misfit`).
RECORD: Final[dict[str, Any]] = {
    one.name: {str: int} if one.name in ("dropped", "failed") else int for one in fields(Tally)
}


def filtered_sentences(
    paraphraser: Paraphraser, filters: FilterChain, lang: str, mode: str, *, copies: bool = True
) -> Paraphraser:
    """A paraphraser whose paragraphs hold only sentences that pass the checks of a filter, and keep their markup.

    ``copies`` says whether a sentence without a paraphrase may be copied, ``mode`` which texts are split.
    """
    made = by_sentences(paraphraser, lang, mode)
    if made is paraphraser and not paraphraser.keeps_markup:
        made = SentenceBySentence(paraphraser, lang, "whole")
    if isinstance(made, SentenceBySentence):

        def passing(nbest: NBest) -> list[Hypothesis]:
            offers = filters.start([nbest.text] if copies else [])
            return [one for one in nbest.hypotheses if offers.offer(nbest.text, one.text) is None]

        made.keep, made.copies = passing, copies
        if paraphraser.reload is not None:
            made.reload = partial(_filtered_again, paraphraser.reload, filters, lang, mode, copies)
    return made


def _filtered_again(reload: Callable[[], Paraphraser], filters: FilterChain, lang: str, mode: str, copies: bool) -> Any:
    """What a worker does for :func:`filtered_sentences`."""
    return filtered_sentences(reload(), filters, lang, mode, copies=copies)


#: What a header says of a run only where it applies; polyref 0.1.0 wrote ``share`` and ``candidates``.
_OPTIONAL: Final = ("lists", "share", "merge", "candidates", "select", "seed", "source_lang")


@dataclass(frozen=True)
class Shard:
    """Some segments with their paraphrases.

    Attributes:
        segments: In the order they were given.
        tally: What happened to the candidates.
        dropped: Those that the filter refused, in the order of the segments, then best first.
    """

    segments: tuple[Segment, ...]
    tally: Tally
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True)
class Augmentation:
    """How references are augmented: everything but the references.

    Attributes:
        source: Where the candidates come from.
        k: Paraphrases a segment, at least 1. A segment with several human references gets k in all.
        filters: What may be kept.
        lang: Language of the references, for the record.
        seed: For the record.
        select: Which k of what may be kept.
        arithmetic: What moves sums in their last digits and is not for the record, such as the memory of a batch: a
            run that was interrupted goes on with the same.
        source_lang: Where segments have no human reference: the code of the language of their sources, of which
            translations are made. They come as :func:`polyref.augment.inputs.translatable` gives them.
    """

    source: Source
    k: int
    filters: FilterChain
    lang: str = "en"
    seed: int | None = None
    select: Select = Rank()  # noqa: RUF009 (frozen)
    arithmetic: Mapping[str, Any] = field(default_factory=dict)
    source_lang: str | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"`k` is {self.k}, expected 1 or more paraphrases a segment")

    @property
    def signature(self) -> str:
        """All settings in one string: equal strings give equal results for equal references."""
        said = {
            "k": self.k,
            "from": self.source_lang,
            "merge": self.source.facts.get("merge"),
            "filters": self.filters.name,
            "select": None if self.select == Rank() else self.select.name,
            "lang": self.lang,
            "seed": self.seed,
            "polyref": __version__,
        }
        parts = (f"{name}:{value}" for name, value in said.items() if value is not None)
        return "|".join([self.source.signature, self.source.decoding, *parts])

    def meta(self, before: Mapping[str, Any], inputs: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The header of the result. Holds nothing that depends on time or place.

        Args:
            before: The header of the input. Where it already names a generator, each of these keys becomes a list
                with one item a run, the new one last.
            inputs: ``{"name", "sha256"}`` of every input file.
        """
        now: dict[str, Any] = {
            "generator": self.source.signature,
            "decoding": self.source.decoding,
            "k": self.k,
            "filters": self.filters.name,
            "lang": self.lang,
            "inputs": [dict(item) for item in inputs],
            "polyref": __version__,
            **self.source.facts,
        }
        select = None if self.select == Rank() else self.select.name
        optional = {"source_lang": self.source_lang, "select": select, "seed": self.seed}
        now |= {name: value for name, value in optional.items() if value is not None}
        if "generator" not in before:
            return {**before, **now}
        runs = len(before["generator"]) if isinstance(before["generator"], list) else 1
        keys = list(dict.fromkeys([*now, *(key for key in _OPTIONAL if key in before)]))
        old = {key: before.get(key, [None] * runs if runs > 1 else None) for key in keys}
        return {**before, **{key: [*(old[key] if runs > 1 else [old[key]]), now.get(key)] for key in keys}}

    def shards(
        self,
        segments: Iterable[Segment],
        *,
        total: int = 0,
        done: int = 0,
        progress: bool = False,
        engine: Engine | None = None,
    ) -> Iterator[Shard]:
        """Augment segments, as many at a time as the source has in a shard.

        Args:
            segments: Those that are not done yet.
            total: Number of segments in all, for the bar.
            done: How many of them were done before.
            progress: Show a bar on stderr.
            engine: Where whole shards are augmented, filters and all; None: here, by what the source has.

        Raises:
            UsageError: The source is of this process alone, but an engine is given.
        """
        rest = iter(segments)
        batches = iter(lambda: tuple(islice(rest, self.source.shard)), ())
        with piece_of_work("augmenting", "segments", total, done, progress=progress) as advance:
            if engine is not None:
                settings = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "source"}
                with closing(engine.workers(partial(_begin, self.source.reload(), settings))) as workers:
                    for shard in workers.map(batches):
                        yield shard
                        advance(len(shard.segments))
                return
            begun: deque[tuple[Part, tuple[Segment, ...], Proposing]] = deque()
            while True:
                while len(begun) <= self.source.ahead and (batch := next(batches, ())):
                    part = Part(advance, len(batch), self.source.works)
                    with listening(part):
                        begun.append((part, batch, self.source.begin(batch, done, progress=progress)))
                    done += len(batch)
                if not begun:
                    return
                part, asked, proposing = begun.popleft()
                with listening(part):
                    shard = self._finish(asked, proposing)
                yield shard
                part.end()

    def shard(self, segments: Sequence[Segment], start: int = 0, *, progress: bool = False) -> Shard:
        """Augment segments that follow each other, in one call of the source; ``start`` is the place of the first."""
        return self._finish(segments, self.source.begin(segments, start, progress=progress))

    def _finish(self, segments: Sequence[Segment], proposing: Proposing) -> Shard:
        tally = Tally(segments=len(segments))
        proposed = proposing()
        found: list[_Checked] = []
        # Where candidates are measured as well, that is what takes its time.
        with piece_of_work("filtering", "segments", 0 if self.filters.measures else len(segments)) as advance:
            for segment, one in zip(segments, proposed, strict=True):
                found.append(self._checked(segment, one, tally))
                advance(1)
        if self.filters.measures:
            dropped = [one.dropped for one in found]
            passed = [one.passed for one in found]
            left = self.filters.measure([one.segment for one in found], passed, tally.dropped, dropped)
            found = [replace(one, passed=kept) for one, kept in zip(found, left, strict=True)]
            for refused in dropped:
                refused.sort(key=lambda one: (one.rank, one.of))
        done = tuple(self._selected(one, tally) for one in found)
        return Shard(done, tally, tuple(one for checked in found for one in checked.dropped))

    def _checked(self, segment: Segment, proposed: Proposed, tally: Tally) -> _Checked:
        """What passes the checks of single candidates, best first; all of it, or k where no more are needed."""
        translated = self.source_lang is not None
        tally.empty += sum(not ref.text.strip() for ref in segment.originals)
        tally.references += len(paraphrased(segment))
        tally.truncated += proposed.truncated
        tally.failed.update(reason for _, reason in proposed.failed)
        # A translation may be what its source is: whether it may, a check says.
        originals = () if translated else segment.originals
        offers = self.filters.start((ref.text for ref in originals), (ref.text for ref in segment.extras))
        first = self.select == Rank() and not self.filters.measures and not self.source.several
        passed: list[Candidate] = []
        dropped: list[Dropped] = []
        for one in proposed.candidates:
            if first and len(passed) == self.k:
                break
            tally.candidates += 1
            reason: str | None = "beginning"
            if not (one.truncated and translated):
                text = segment.refs[one.of].text
                reason = offers.offer(text, one.text, beginning=one.truncated, composed=one.composed, need=one.need)
            if reason is None:
                passed.append(one)
            else:
                tally.dropped[reason] += 1
                dropped.append(Dropped.of_segment(segment, one, reason))
        return _Checked(_marked(segment, proposed), in_turn(passed) if self.source.several else passed, dropped)

    def _selected(self, checked: _Checked, tally: Tally) -> Segment:
        translated, segment = self.source_lang is not None, checked.segment
        if translated:
            # The source was the first reference, and what failed was said of it.
            source, *refs = segment.refs
            rest = {name: value for name, value in segment.extra.items() if name != "failed"}
            segment = replace(segment, refs=tuple(refs), extra={**rest, **source.extra})
        chosen = self.select.order(checked.passed, [ref.text for ref in segment.refs], self.k)
        tally.kept += len(chosen)
        tally.surplus += len(checked.passed) - len(chosen)
        tally.short += bool(paraphrased(checked.segment)) and len(chosen) < self.k
        tally.none += bool(paraphrased(checked.segment)) and not chosen
        if translated and checked.dropped and not chosen and not segment.refs:
            tally.failed["nothing passed the filter"] += 1
        return replace(segment, refs=(*segment.refs, *(_reference(one, translated=translated) for one in chosen)))


@dataclass(frozen=True)
class _Checked:
    """A segment, and what the filter says of its candidates."""

    segment: Segment
    passed: Sequence[Candidate]
    dropped: list[Dropped]


def _begin(reload: Callable[[], Source], settings: Mapping[str, Any]) -> Callable[[Sequence[Segment]], Shard]:
    """What a worker does."""
    return Augmentation(reload(), **settings).shard


def _marked(segment: Segment, proposed: Proposed) -> Segment:
    """The segment, in which references without a candidate say why the generator failed."""
    found = {one.of for one in proposed.candidates}
    failed = {index: {"failed": reason} for index, reason in proposed.failed if index not in found}
    stale = {index for index in found if "failed" in segment.refs[index].extra}
    if not failed and not stale:
        return segment
    refs = list(segment.refs)
    for index in failed.keys() | stale:
        rest = {name: value for name, value in refs[index].extra.items() if name != "failed"}
        refs[index] = replace(refs[index], extra=rest | failed.get(index, {}))
    return replace(segment, refs=tuple(refs))


def _reference(candidate: Candidate, *, translated: bool) -> Reference:
    made = candidate.kind == "paraphrase"
    return Reference(
        candidate.text,
        kind="translation" if made and translated else candidate.kind,
        of=candidate.of if made and not translated else None,
        rank=candidate.rank if made else None,
        weight=candidate.weight,
        logprob=candidate.score,
        generator=candidate.generator,
        extra={"truncated": True} if candidate.truncated else {},
    )
