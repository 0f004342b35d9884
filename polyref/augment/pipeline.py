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
from polyref.augment.filters import FilterChain
from polyref.augment.selection import Candidate, Dropped, Rank, Select
from polyref.augment.sources import Proposed, Proposing, Source, in_turn, paraphrased
from polyref.engine import Engine
from polyref.errors import UsageError
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.sentences import SentenceBySentence, by_sentences
from polyref.progress import Part, listening
from polyref.progress import work as piece_of_work
from polyref.references import Reference, Segment
from polyref.tables import text_table


@dataclass
class Tally:
    """What happened to the candidates.

    Attributes:
        segments: Segments seen.
        references: References paraphrased.
        empty: References that are empty or white space: kept, not paraphrased.
        truncated: References longer than the paraphraser reads: kept whole, paraphrased from their beginning.
        short: Segments with something to paraphrase that got fewer than k.
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
        for name in ("segments", "references", "empty", "truncated", "short", "candidates", "kept", "surplus"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.dropped.update(other.dropped)
        self.failed.update(other.failed)

    def as_row(self, reasons: Iterable[str]) -> dict[str, Any]:
        """All counts as plain values; ``reasons`` are those that the filter can give, in their order."""
        return {
            "segments": self.segments,
            "references": self.references,
            "candidates": self.candidates,
            "kept": self.kept,
            "surplus": self.surplus,
            "dropped": {reason: self.dropped[reason] for reason in self._reasons(reasons)},
            "short": self.short,
            "empty": self.empty,
            "truncated": self.truncated,
            **({"failed": dict(sorted(self.failed.items()))} if self.failed else {}),
        }

    def outcomes(self, reasons: Iterable[str]) -> list[tuple[str, int]]:
        """What became of the candidates, for people: a few words and a count; reasons that were none are left out."""
        surplus = [("not selected", self.surplus)] if self.surplus else []
        return [
            ("kept", self.kept),
            *surplus,
            *((f"dropped: {one}", self.dropped[one]) for one in self._reasons(reasons) if self.dropped[one]),
        ]

    def _reasons(self, known: Iterable[str]) -> Iterable[str]:
        """The reasons that are given, then those that came up besides."""
        return dict.fromkeys((*known, *sorted(reason for reason, count in self.dropped.items() if count)))

    def summary(self, reasons: Iterable[str], k: int) -> str:
        """The outcomes as a table, and how many segments got fewer than ``k``."""
        total = max(self.candidates, 1)
        lines = [[name, str(count), f"{100 * count / total:.1f}"] for name, count in self.outcomes(reasons)]
        table = text_table(["candidates", "count", "%"], lines)
        short = f"polyref: {self.short} of {self.segments} segments got fewer than {k} new references"
        return f"{table}\n{short}" if self.short else table

    def warnings(self, *, translated: bool = False) -> list[str]:
        """What a user should know about references, or sources, that are empty, too long, or failed."""
        found = []
        if translated:
            return self._of_sources()
        if self.empty:
            some = "reference is" if self.empty == 1 else "references are"
            found.append(f"{self.empty} {some} empty: kept, without paraphrases")
        if self.truncated:
            some = "reference is" if self.truncated == 1 else "references are"
            found.append(
                f"{self.truncated} {some} longer than the model reads: kept whole, the paraphrases are of the beginning"
            )
        if self.failed:
            some = "reference" if self.failed.total() == 1 else "references"
            why = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.failed.items()))
            found.append(f"{self.failed.total()} {some} failed and got no paraphrases: {why}")
        return found

    def _of_sources(self) -> list[str]:
        why = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.failed.items()))
        counts = {
            "empty": self.empty,
            "longer than the model reads: what was made of the beginning is left out": self.truncated,
            f"without a translation: {why}": self.failed.total(),
        }
        return [f"{count} source{'' if count == 1 else 's'} {what}" for what, count in counts.items() if count]


#: The shape of a record (see :func:`polyref.json_files.misfit`).
RECORD: Final[dict[str, Any]] = {
    one.name: {str: int} if one.name in ("dropped", "failed") else int for one in fields(Tally)
}


def filtered_sentences(
    paraphraser: Paraphraser, filters: FilterChain, lang: str, mode: str, *, copies: bool = True
) -> Paraphraser:
    """A paraphraser whose paragraphs hold only sentences that pass the checks of a filter, and keep their markup.

    Args:
        paraphraser: Writes the sentences.
        filters: Its checks; measures with a model are for whole texts.
        lang: Language of the texts.
        mode: See :func:`polyref.paraphrase.sentences.by_sentences`.
        copies: Whether a sentence without a paraphrase may be copied.
    """
    made = by_sentences(paraphraser, lang, mode)
    if made is paraphraser and not paraphraser.keeps_markup:
        made = SentenceBySentence(paraphraser, lang, "whole")
    if isinstance(made, SentenceBySentence):
        made.keep, made.copies = lambda nbest: _passing(nbest, filters, copies), copies
        if paraphraser.reload is not None:
            made.reload = partial(_reloaded, paraphraser.reload, filters, lang, mode, copies)
    return made


def _reloaded(
    reload: Callable[[], Paraphraser], filters: FilterChain, lang: str, mode: str, copies: bool
) -> Paraphraser:
    return filtered_sentences(reload(), filters, lang, mode, copies=copies)


def _passing(nbest: NBest, filters: FilterChain, copies: bool) -> list[Hypothesis]:
    offers = filters.start([nbest.text] if copies else [])
    return [one for one in nbest.hypotheses if offers.offer(nbest.text, one.text) is None]


#: Candidates asked for per wanted paraphrase: filters drop about half of a small model's n-best list.
OVERGENERATE: Final = 2
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
        source_lang: Where segments have no human reference: the code of the language of their sources, of which
            translations are made. They come as :func:`polyref.augment.inputs.translatable` gives them.
        arithmetic: What moves sums in their last digits and is not for the record, such as the memory of a batch: a
            run that was interrupted goes on with the same.
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
        seed = [] if self.seed is None else [f"seed:{self.seed}"]
        select = [] if self.select == Rank() else [f"select:{self.select.name}"]
        facts = self.source.facts
        merge = [f"merge:{facts['merge']}"] if "merge" in facts else []
        translated = [] if self.source_lang is None else [f"from:{self.source_lang}"]
        parts = [
            f"k:{self.k}",
            *translated,
            *merge,
            f"filters:{self.filters.name}",
            *select,
            f"lang:{self.lang}",
            *seed,
        ]
        return "|".join([self.source.signature, self.source.decoding, *parts, f"polyref:{__version__}"])

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
        if self.source_lang is not None:
            now["source_lang"] = self.source_lang
        if self.select != Rank():
            now["select"] = self.select.name
        if self.seed is not None:
            now["seed"] = self.seed
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
        if engine is not None:
            yield from self._by_workers(engine, segments, total, done, progress)
            return
        rest = iter(segments)
        with piece_of_work("augmenting", "segments", total, done, progress=progress) as advance:
            begun: deque[tuple[Part, tuple[Segment, ...], Proposing]] = deque()
            more = True
            while begun or more:
                while more and len(begun) <= self.source.ahead:
                    if more := bool(batch := tuple(islice(rest, self.source.shard))):
                        part = Part(advance, len(batch), self.source.works)
                        with listening(part):
                            begun.append((part, batch, self.source.begin(batch, done, progress=progress)))
                        done += len(batch)
                if begun:
                    part, batch, proposing = begun.popleft()
                    with listening(part):
                        shard = self._finish(batch, proposing)
                    yield shard
                    part.end()

    def _by_workers(
        self, engine: Engine, segments: Iterable[Segment], total: int, done: int, progress: bool
    ) -> Iterator[Shard]:
        settings = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "source"}
        workers = engine.workers(partial(_begin, self.source.reload(), settings))
        rest = iter(segments)
        batches = iter(lambda: tuple(islice(rest, self.source.shard)), ())
        with closing(workers), piece_of_work("augmenting", "segments", total, done, progress=progress) as advance:
            for shard in workers.map(batches):
                yield shard
                advance(len(shard.segments))

    def shard(self, segments: Sequence[Segment], start: int = 0, *, progress: bool = False) -> Shard:
        """Augment some segments in one call of the source, with its own bar if asked.

        Args:
            segments: They follow each other.
            start: Which of the run's segments the first one is, from 0.
            progress: Show a bar on stderr.
        """
        return self._finish(segments, self.source.begin(segments, start, progress=progress))

    def _finish(self, segments: Sequence[Segment], proposing: Proposing) -> Shard:
        tally = Tally(segments=len(segments))
        proposed = proposing()
        works = []
        # Where candidates are measured as well, that is what takes its time.
        with piece_of_work("filtering", "segments", 0 if self.filters.measures else len(segments)) as advance:
            for segment, found in zip(segments, proposed, strict=True):
                works.append(self._checked(segment, found, tally))
                advance(1)
        if self.filters.measures:
            measured = [work.dropped for work in works]
            before = [work.segment for work in works]
            left = self.filters.measure(before, [work.passed for work in works], tally.dropped, measured)
            for work, passed in zip(works, left, strict=True):
                work.passed = passed
                work.dropped.sort(key=lambda one: (one.rank, one.of))
        done = tuple(self._selected(work, tally) for work in works)
        return Shard(done, tally, tuple(one for work in works for one in work.dropped))

    def _checked(self, segment: Segment, proposed: Proposed, tally: Tally) -> _Work:
        """What passes the checks of single candidates, best first; all of it, or k where no more are needed."""
        sources = len(paraphrased(segment))
        tally.empty += sum(not ref.text.strip() for ref in segment.originals)
        tally.references += sources
        tally.truncated += proposed.truncated
        tally.failed.update(reason for _, reason in proposed.failed)
        # A translation may be what its source is: whether it may, a check says.
        originals = segment.originals if self.source_lang is None else ()
        offers = self.filters.start((ref.text for ref in originals), (ref.text for ref in segment.extras))
        first = self.select == Rank() and not self.filters.measures and not self.source.several
        work = _Work(_marked(segment, proposed))
        for one in proposed.candidates:
            if first and len(work.passed) == self.k:
                break
            tally.candidates += 1
            text = segment.refs[one.of].text
            if one.truncated and self.source_lang is not None:
                reason: str | None = "beginning"
            else:
                reason = offers.offer(text, one.text, beginning=one.truncated, composed=one.composed, need=one.need)
            if reason is None:
                work.passed.append(one)
            else:
                tally.dropped[reason] += 1
                work.dropped.append(Dropped(segment.id, one.of, one.rank, one.text, reason))
        if self.source.several:
            work.passed = in_turn(work.passed)
        return work

    def _selected(self, work: _Work, tally: Tally) -> Segment:
        segment = work.segment
        if self.source_lang is not None:
            segment = _without_source(segment)
        chosen = self.select.order(work.passed, [ref.text for ref in segment.refs], self.k)
        tally.kept += len(chosen)
        tally.surplus += len(work.passed) - len(chosen)
        tally.short += bool(paraphrased(work.segment)) and len(chosen) < self.k
        if self.source_lang is not None and work.dropped and not chosen and not segment.refs:
            tally.failed["nothing passed the filter"] += 1
        made = (_reference(one, translated=self.source_lang is not None) for one in chosen)
        return replace(segment, refs=(*segment.refs, *made))


def _marked(segment: Segment, proposed: Proposed) -> Segment:
    """The segment, in which references without a candidate say why the generator failed."""
    found = {one.of for one in proposed.candidates}
    failed = {index: reason for index, reason in proposed.failed if index not in found}
    stale = {index for index in found if "failed" in segment.refs[index].extra}
    if not failed and not stale:
        return segment
    refs = list(segment.refs)
    for index in failed.keys() | stale:
        rest = {name: value for name, value in refs[index].extra.items() if name != "failed"}
        refs[index] = replace(refs[index], extra={**rest, "failed": failed[index]} if index in failed else rest)
    return replace(segment, refs=tuple(refs))


def _begin(reload: Callable[[], Source], settings: Mapping[str, Any]) -> Callable[[Sequence[Segment]], Shard]:
    """What a worker does."""
    return Augmentation(reload(), **settings).shard


@dataclass
class _Work:
    """A segment on its way, and what has become of its candidates so far."""

    segment: Segment
    passed: list[Candidate] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def _without_source(segment: Segment) -> Segment:
    """A segment of which translations were made, with its references alone; what failed is said of the segment."""
    source, *refs = segment.refs
    rest = {name: value for name, value in segment.extra.items() if name != "failed"}
    return replace(segment, refs=tuple(refs), extra={**rest, **source.extra})


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
