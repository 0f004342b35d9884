"""References to augmented reference sets: over-generate, filter, select k."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tqdm import tqdm

from polyref import __version__
from polyref.augment.filters.chain import FilterChain
from polyref.augment.select import Candidate, Dropped, Rank, Select
from polyref.augment.tally import Tally
from polyref.errors import UsageError
from polyref.references import Reference, Segment

if TYPE_CHECKING:
    from polyref.paraphrase.diverse_beam import Decoding
    from polyref.paraphrase.nbest import NBest
    from polyref.paraphrase.paraphraser import Paraphraser

#: Candidates asked for per wanted paraphrase: filters drop about half of a small model's n-best list.
OVERGENERATE: Final = 2
#: Segments paraphrased together. It is part of the result, not only of its speed: a shard is one call of the
#: paraphraser, so the same shard gives the same bytes whether or not the run was interrupted before it.
SHARD_SEGMENTS: Final = 64
#: Digits kept of log-probabilities: most differences of float arithmetic between batches and machines are below.
_LOGPROB_DIGITS: Final = 4


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
        paraphraser: Makes the candidates.
        k: Paraphrases a segment, at least 1. A segment with several human references gets k in all.
        filters: What may be kept.
        decoding: None takes the paraphraser's default.
        lang: Language of the references, for the record.
        seed: For the record.
        select: Which k of what may be kept.
        arithmetic: What moves sums in their last digits and is not for the record, such as the memory of a batch: a
            run that was interrupted goes on with the same.
    """

    paraphraser: Paraphraser
    k: int
    filters: FilterChain
    decoding: Decoding | None = None
    lang: str = "en"
    seed: int | None = None
    select: Select = Rank()  # noqa: RUF009 (frozen)
    arithmetic: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"`k` is {self.k}, expected 1 or more paraphrases a segment")

    @property
    def asked(self) -> int:
        """Candidates asked for per reference."""
        return OVERGENERATE * self.k

    @property
    def decoding_name(self) -> str:
        """How the candidates are made, in the generator's words, such as ``dbs(beam=20,groups=4,strength=0.5)``."""
        return self.paraphraser.describe_decoding(self.decoding, self.asked)

    @property
    def signature(self) -> str:
        """All settings in one string: equal strings give equal results for equal references."""
        seed = [] if self.seed is None else [f"seed:{self.seed}"]
        described = self.paraphraser.describe(self.decoding, self.asked)
        select = [] if self.select == Rank() else [f"select:{self.select.name}"]
        parts = [f"k:{self.k}", f"filters:{self.filters.name}", *select, f"lang:{self.lang}", *seed]
        return "|".join([described, *parts, f"polyref:{__version__}"])

    def meta(self, before: Mapping[str, Any], inputs: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The header of the result. Holds nothing that depends on time or place.

        Args:
            before: The header of the input. Where it already names a generator, each of these keys becomes a list
                with one item a run, the new one last.
            inputs: ``{"name", "sha256"}`` of every input file.
        """
        now: dict[str, Any] = {
            "generator": self.paraphraser.signature,
            "decoding": self.decoding_name,
            "k": self.k,
            "filters": self.filters.name,
            "lang": self.lang,
            "inputs": [dict(item) for item in inputs],
            "polyref": __version__,
        }
        if self.select != Rank():
            now["select"] = self.select.name
        if self.seed is not None:
            now["seed"] = self.seed
        if "generator" not in before:
            return {**before, **now}
        runs = len(before["generator"]) if isinstance(before["generator"], list) else 1
        keys = list(dict.fromkeys([*now, *(key for key in ("select", "seed") if key in before)]))
        old = {key: before.get(key, [None] * runs if runs > 1 else None) for key in keys}
        return {**before, **{key: [*(old[key] if runs > 1 else [old[key]]), now.get(key)] for key in keys}}

    def shards(
        self, segments: Iterable[Segment], *, total: int = 0, done: int = 0, progress: bool = False
    ) -> Iterator[Shard]:
        """Augment segments, ``SHARD_SEGMENTS`` at a time.

        Args:
            segments: Those that are not done yet.
            total: Number of segments in all, for the bar.
            done: How many of them were done before.
            progress: Show a bar on stderr.
        """
        # One shard has nothing to show before its end: the paraphraser's own bar is finer.
        single = total <= SHARD_SEGMENTS
        rest = iter(segments)
        with tqdm(total=total, initial=done, desc="augmenting", unit="seg", disable=not progress or single) as bar:
            begun: deque[tuple[tuple[Segment, ...], Iterator[NBest]]] = deque()
            more = True
            while begun or more:
                while more and len(begun) <= self.paraphraser.ahead:
                    if more := bool(batch := tuple(islice(rest, SHARD_SEGMENTS))):
                        begun.append((batch, self._begin(batch, progress=progress and single)))
                if begun:
                    shard = self._finish(*begun.popleft())
                    yield shard
                    bar.update(len(shard.segments))

    def shard(self, segments: Sequence[Segment], *, progress: bool = False) -> Shard:
        """Augment some segments in one call of the paraphraser, with its own bar if asked."""
        return self._finish(segments, self._begin(segments, progress=progress))

    def _begin(self, segments: Sequence[Segment], *, progress: bool) -> Iterator[NBest]:
        texts = [segment.refs[index].text for segment in segments for index in self._sources(segment)]
        if not texts:
            return iter(())
        return iter(self.paraphraser.paraphrase(texts, self.asked, decoding=self.decoding, progress=progress))

    def _finish(self, segments: Sequence[Segment], results: Iterator[NBest]) -> Shard:
        tally = Tally(segments=len(segments))
        sources = [self._sources(segment) for segment in segments]
        passed: list[list[Candidate]] = []
        refused: list[Dropped] = []
        for segment, of in zip(segments, sources, strict=True):
            tally.empty += len(segment.originals) - len(of)
            nbests = list(islice(results, len(of)))
            if len(nbests) != len(of):
                raise RuntimeError(f"{self.paraphraser.name} gave too few results for {sum(map(len, sources))} texts")
            passed.append(self._passing(segment, of, nbests, tally, refused))
        if self.filters.measures:
            passed = self.filters.measure(segments, passed, tally.dropped, refused)
            places = {segment.id: place for place, segment in enumerate(segments)}
            refused.sort(key=lambda one: (places[one.id], one.rank, one.of))
        done = [
            self._choose(segment, found, tally, short=bool(of))
            for segment, of, found in zip(segments, sources, passed, strict=True)
        ]
        return Shard(tuple(done), tally, tuple(refused))

    @staticmethod
    def _sources(segment: Segment) -> list[int]:
        return [index for index, ref in enumerate(segment.refs) if ref.original and ref.text.strip()]

    def _passing(
        self, segment: Segment, of: Sequence[int], nbests: Sequence[NBest], tally: Tally, refused: list[Dropped]
    ) -> list[Candidate]:
        """What passes the checks of single candidates, best first; all of it, or k where no more are needed."""
        offers = self.filters.start((ref.text for ref in segment.originals), (ref.text for ref in segment.extras))
        enough = self.k if self.select == Rank() and not self.filters.measures else None
        passing: list[Candidate] = []
        for rank in range(max((len(nbest.hypotheses) for nbest in nbests), default=0)):
            for index, nbest in zip(of, nbests, strict=True):
                if len(passing) == enough or rank >= len(nbest.hypotheses):
                    continue
                found = nbest.hypotheses[rank]
                tally.candidates += 1
                reason = offers.offer(
                    segment.refs[index].text, found.text, beginning=nbest.truncated, composed=nbest.composed
                )
                if reason is not None:
                    tally.dropped[reason] += 1
                    refused.append(Dropped(segment.id, index, rank, found.text, reason))
                    continue
                score = None if found.score is None else round(found.score, _LOGPROB_DIGITS)
                passing.append(Candidate(found.text, index, rank, score, found.group, truncated=nbest.truncated))
        tally.references += len(of)
        tally.truncated += sum(nbest.truncated for nbest in nbests)
        tally.failed.update(nbest.failure for nbest in nbests if nbest.failure is not None)
        return passing

    def _choose(self, segment: Segment, passed: Sequence[Candidate], tally: Tally, *, short: bool) -> Segment:
        chosen = self.select.order(passed, [ref.text for ref in segment.refs], self.k)
        added = [
            Reference(
                one.text,
                kind="paraphrase",
                of=one.of,
                rank=one.rank,
                weight=one.weight,
                logprob=one.score,
                generator=self.paraphraser.name,
                extra={"truncated": True} if one.truncated else {},
            )
            for one in chosen
        ]
        tally.kept += len(added)
        tally.surplus += len(passed) - len(added)
        tally.short += short and len(added) < self.k
        return replace(segment, refs=(*segment.refs, *added))
