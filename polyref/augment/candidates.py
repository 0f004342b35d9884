"""Candidates: what they are, where they come from (generators, and several sources merged), and which k are added."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from polyref.comparison import dice, ngrams
from polyref.errors import ModelError, UsageError
from polyref.paraphrase.decoding import in_full
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.references import Segment

if TYPE_CHECKING:
    from polyref.paraphrase.decoding import Decoding
    from polyref.paraphrase.paraphraser import NBest, Paraphraser


@dataclass(frozen=True)
class Candidate:
    """A text that may become a reference.

    Attributes:
        of: Index of the reference it was made from, or is compared with.
        rank: Place in the n-best list of that reference, from 0.
        score: Length-normalised log-probability, in nats; None of generators without probabilities.
        weight: Adequacy, 0 to 1; None where the filter measures none.
        generator: Name of what made it; None where nothing is known of it.
        kind: What it becomes: ``paraphrase`` or ``pseudo``.
        source: Which of several sources it comes from, from 0.
        place: Its place among the candidates of several sources; 0 for all candidates of a single one.
        truncated: Whether the generator read only the beginning of the reference.
        composed: Whether it was put together from sentences that were offered to the filter one by one.
        need: Which filter its generator needs.
    """

    text: str
    of: int = 0
    rank: int = 0
    score: float | None = 0.0
    weight: float | None = None
    generator: str | None = None
    kind: str = "paraphrase"
    source: int = 0
    place: int = 0
    truncated: bool = False
    composed: bool = False
    need: str = "small-model"


@dataclass(frozen=True)
class Dropped:
    """A candidate that did not pass the filter.

    Attributes:
        id: Of its segment.
        of: Index of the reference it was made from.
        rank: Place in the n-best list of that reference, from 0.
        text: The text.
        reason: One of ``FilterChain.reasons``.
    """

    id: str
    of: int
    rank: int
    text: str
    reason: str

    @classmethod
    def of_segment(cls, segment: Segment, candidate: Candidate, reason: str) -> Dropped:
        """A candidate of a segment."""
        return cls(segment.id, candidate.of, candidate.rank, candidate.text, reason)


class Select(Protocol):
    """A way to choose. Its name, with parameters, is written into signatures."""

    @property
    def name(self) -> str:
        """For signatures, parameters included."""

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""


def by_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first; with several references, one of each in turn; with several sources, as they were merged."""
    return sorted(candidates, key=lambda one: (one.place, one.rank, one.of))


@dataclass(frozen=True)
class Rank:
    """The order of the n-best lists."""

    name: str = "rank"

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""
        return by_rank(candidates)[:k]


@dataclass(frozen=True)
class MarginalRelevance:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): likely, and unlike what is there already.

    The next candidate c has the largest ``balance * p(c) - (1 - balance) * max sim(c, r)`` over the references r that
    the segment has and those chosen so far. p is the geometric mean of the token probabilities, sim the Dice
    coefficient of word n-grams up to 2, both 0 to 1.

    Attributes:
        balance: lambda, 0 (novelty alone) to 1 (probability alone).
    """

    balance: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= 1:
            raise UsageError(f"`select` mmr: lambda is {self.balance:g}, expected 0 to 1")

    @property
    def name(self) -> str:
        """For signatures, parameters included."""
        return f"mmr:{in_full(self.balance)}"

    def order(self, candidates: Sequence[Candidate], have: Sequence[str], k: int) -> list[Candidate]:
        """Up to ``k`` of the candidates, first choice first, for a segment that has some references already."""
        rest = [(one, ngrams(one.text, 2)) for one in by_rank(candidates)]
        held = [ngrams(text, 2) for text in have]
        nearest = [max((dice(grams, one) for one in held), default=0.0) for _, grams in rest]
        chosen: list[Candidate] = []
        while rest and len(chosen) < k:
            values = [
                self.balance * _probability(one) - (1 - self.balance) * near
                for (one, _), near in zip(rest, nearest, strict=True)
            ]
            best = values.index(max(values))
            one, grams = rest.pop(best)
            nearest.pop(best)
            nearest = [max(near, dice(other, grams)) for near, (_, other) in zip(nearest, rest, strict=True)]
            chosen.append(one)
        return chosen


def _probability(candidate: Candidate) -> float:
    # Without probabilities, all candidates are alike; other semantics than the paper's may score above 0.
    return 1.0 if candidate.score is None else math.exp(min(candidate.score, 0.0))


SELECTIONS: Final = ("rank", "mmr")
#: Names of ways that polyref 0.1.0 had.
_GONE: Final = ("group", "coverage")


def selection(text: str = "rank") -> Select:
    """The way to choose that ``NAME[:PARAMETER]`` names: ``rank``, ``mmr`` or ``mmr:0.5``."""
    name, colon, value = text.partition(":")
    if name in _GONE:
        raise UsageError(f"`select` {name} has gone", remedy="mmr prefers what is unlike the references there already")
    if name not in SELECTIONS:
        raise UsageError(f"`select` is {text!r}, expected one of {', '.join(SELECTIONS)}")
    if name == "rank":
        if colon:
            raise UsageError(f"`select` rank takes no parameter, but has {value!r}")
        return Rank()
    if not colon:
        return MarginalRelevance()
    try:
        return MarginalRelevance(float(value))
    except ValueError:
        raise UsageError(f"`select` mmr: the parameter is {value!r}, expected a number from 0 to 1") from None


#: Segments paraphrased together. It is part of the result, not only of its speed: a shard is one call of the
#: paraphraser, so the same shard gives the same bytes whether or not the run was interrupted before it.
SHARD_SEGMENTS: Final = 64
#: Segments filtered together where nothing is generated: every shard waits until the one before is on the disk.
GIVEN_SEGMENTS: Final = 1024
#: Digits kept of log-probabilities: most differences of float arithmetic between batches and machines are below.
_LOGPROB_DIGITS: Final = 4


@dataclass(frozen=True)
class Proposed:
    """The candidates of one segment.

    Attributes:
        candidates: In the order in which the filter looks at them.
        truncated: References of which the generator read only the beginning.
        failed: Index of each reference for which the generator failed, and why.
    """

    candidates: tuple[Candidate, ...]
    truncated: int = 0
    failed: tuple[tuple[int, str], ...] = ()


#: Waits for the candidates of some segments.
Proposing = Callable[[], list[Proposed]]


class Source(ABC):
    """Where the candidates of a run come from.

    Attributes:
        signature: Names and content hashes, for headers and signatures: what changes the candidates changes it.
        decoding: How they are made, for headers and signatures.
        facts: What else the header says of it.
        several: Whether it is several sources, which take turns.
        longest: Most candidates of a segment, if they were made elsewhere; None where some are made now.
        shard: Segments to ask for at a time.
        ahead: Shards that are worth asking for before the first one is there.
        paraphrasers: The generators.
        needs: Which filters its candidates need (:data:`polyref.augment.filters.NEEDS`), with what needs each:
            a generator by its name, or a kind of lists.
    """

    signature: str
    decoding: str
    facts: Mapping[str, Any] = {}
    longest: int | None = None
    shard: int = GIVEN_SEGMENTS
    ahead: int = 0
    several: bool = False
    paraphrasers: tuple[Paraphraser, ...] = ()
    needs: Mapping[str, str]

    @property
    def works(self) -> int:
        """Pieces of work whose progress is heard of a shard."""
        return len(self.paraphrasers) or 1

    def prepare(self, segments: Iterable[Segment]) -> None:  # noqa: B027 (most know themselves)
        """Make ``signature`` complete. Only the first of the run's ``segments`` are looked at."""

    @abstractmethod
    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """Begin with some segments that follow each other, the first of which has the place ``start`` in the run.

        What it gives waits for them and has one item a segment; those of several calls are called in order.
        """

    def reload(self) -> Callable[[], Source]:
        """Makes a source like it in another process, which may be on another machine. It can be pickled."""
        raise UsageError(
            "candidates that are read from files are read here, not by the workers of an engine",
            remedy="augment with the generators first, and merge the lists then: `candidates`",
        )


class Generated(Source):
    """Candidates that a paraphraser makes: ``asked`` of them for a reference, at least 1."""

    shard = SHARD_SEGMENTS

    def __init__(self, paraphraser: Paraphraser, asked: int, decoding: Decoding | None = None) -> None:
        self.paraphraser, self.paraphrasers = paraphraser, (paraphraser,)
        self.asked = asked
        self.ahead = paraphraser.ahead
        self.signature = paraphraser.signature
        self.decoding = paraphraser.describe_decoding(decoding, asked)
        self.needs = {paraphraser.need: re.sub(r"[^\w.:/@+,-]", "_", paraphraser.name)}
        self._options = decoding

    def prepare(self, segments: Iterable[Segment]) -> None:
        """The signature of some generators is known when they have seen a text."""
        texts = (segment.refs[index].text for segment in segments for index in paraphrased(segment))
        self.paraphraser.prepare(texts, self.asked)
        self.signature = self.paraphraser.signature

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """One call of the paraphraser."""
        sources = [paraphrased(segment) for segment in segments]
        texts = [segment.refs[index].text for segment, of in zip(segments, sources, strict=True) for index in of]
        made = (
            self.paraphraser.paraphrase(texts, self.asked, decoding=self._options, progress=progress) if texts else ()
        )
        return partial(self._finish, sources, iter(made))

    def reload(self) -> Callable[[], Source]:
        """With the same paraphraser, loaded again."""
        if self.paraphraser.reload is None:
            raise UsageError(f"{self.paraphraser.name} is asked by one process, not by the workers of an engine")
        return partial(_generated, self.paraphraser.reload, self.asked, self._options, self.signature)

    def _finish(self, sources: Sequence[Sequence[int]], results: Iterator[NBest]) -> list[Proposed]:
        found = []
        for of in sources:
            nbests = list(islice(results, len(of)))
            if len(nbests) != len(of):
                raise RuntimeError(f"{self.paraphraser.name} gave too few results for {sum(map(len, sources))} texts")
            found.append(self._proposed(of, nbests))
        return found

    def _proposed(self, of: Sequence[int], nbests: Sequence[NBest]) -> Proposed:
        """Best first; with several references, one of each in turn."""
        candidates = [
            Candidate(
                found.text,
                index,
                rank,
                rounded(found.score),
                generator=self.paraphraser.name,
                truncated=nbest.truncated,
                composed=nbest.composed,
                need=self.paraphraser.need,
            )
            for rank in range(max((len(nbest.hypotheses) for nbest in nbests), default=0))
            for index, nbest in zip(of, nbests, strict=True)
            for found in nbest.hypotheses[rank : rank + 1]
        ]
        failed = tuple((index, nbest.failure) for index, nbest in zip(of, nbests, strict=True) if nbest.failure)
        return Proposed(tuple(candidates), sum(nbest.truncated for nbest in nbests), failed)


def _generated(reload: Callable[[], Paraphraser], asked: int, decoding: Decoding | None, signature: str) -> Generated:
    made = Generated(reload(), asked, decoding)
    if made.signature != signature:
        raise ModelError(f"a worker has {made.signature}, expected {signature}", remedy="the same model on every node")
    return made


class Several(Source):
    """The candidates of two sources or more, which take turns."""

    several = True

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self.shard = min(source.shard for source in sources)
        self.ahead = max(source.ahead for source in sources)
        self.paraphrasers = tuple(one for source in sources for one in source.paraphrasers)
        longest = [source.longest for source in sources]
        self.longest = None if None in longest else sum(one or 0 for one in longest)
        self.prepare(())
        self.decoding = " + ".join(source.decoding for source in sources)
        asked = [item for source in sources for item in source.needs.items()]
        self.needs = {need: ", ".join(dict.fromkeys(why for one, why in asked if one == need)) for need, _ in asked}
        facts = [source.facts for source in sources]
        lists = {name: [item for one in facts for item in one.get(name, [])] for known in facts for name in known}
        self.facts = {**lists, "merge": "rank"}

    def prepare(self, segments: Iterable[Segment]) -> None:
        """Each with the first segment that has something to paraphrase."""
        first = [*islice((one for one in segments if paraphrased(one)), 1)]
        for source in self._sources:
            source.prepare(first)
        self.signature = " + ".join(source.signature for source in self._sources)

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """All begin at the same time."""
        return partial(self._finish, [source.begin(segments, start, progress=progress) for source in self._sources])

    def reload(self) -> Callable[[], Source]:
        """Of sources that are made again."""
        return partial(_several, tuple(source.reload() for source in self._sources))

    def _finish(self, begun: Sequence[Proposing]) -> list[Proposed]:
        found = []
        for every in zip(*(proposing() for proposing in begun), strict=True):
            several = [replace(one, source=number) for number, each in enumerate(every) for one in each.candidates]
            # Of two equal texts, the filter takes the first.
            several.sort(key=lambda one: (one.rank, one.source, one.of))
            failed = tuple(one for each in every for one in each.failed)
            found.append(Proposed(tuple(several), max(each.truncated for each in every), failed))
        return found


def _several(reloads: Sequence[Callable[[], Source]]) -> Several:
    return Several([reload() for reload in reloads])


def paraphrased(segment: Segment) -> list[int]:
    """Indices of the references that are paraphrased: those of people that are not blank."""
    return [index for index, ref in enumerate(segment.refs) if ref.original and ref.text.strip()]


def rounded(score: float | None) -> float | None:
    """A log-probability as it is kept."""
    return None if score is None else round(score, _LOGPROB_DIGITS)


def in_turn(passed: Sequence[Candidate]) -> list[Candidate]:
    """What passed the filter, in the order of their new :attr:`~polyref.augment.candidates.Candidate.place`.

    The sources take turns: the best of each, then the second best of each.
    """
    taken: Counter[int] = Counter()
    keys = []
    for one in passed:
        keys.append((taken[one.source], one.source))
        taken[one.source] += 1
    order = sorted(range(len(passed)), key=lambda n: keys[n])
    return [replace(passed[n], place=place) for place, n in enumerate(order)]
