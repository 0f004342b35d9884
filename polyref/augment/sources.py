"""Where candidates come from: a generator, or lists that were made before; and several of them merged."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from polyref.augment.selection import Candidate
from polyref.errors import ModelError, UsageError
from polyref.references import Segment

if TYPE_CHECKING:
    from polyref.paraphrase.decoding import Decoding
    from polyref.paraphrase.paraphraser import NBest, Paraphraser

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
        shard: Segments to ask for at a time.
        ahead: Shards that are worth asking for before the first one is there.
        works: Pieces of work whose progress is heard of a shard.
        needs: Which filters its candidates need (:data:`polyref.augment.filters.NEEDS`), with what needs each:
            a generator by its name, or a kind of lists.
    """

    signature: str
    decoding: str
    facts: Mapping[str, Any] = {}
    shard: int = GIVEN_SEGMENTS
    ahead: int = 0
    works: int = 1
    several: bool = False
    needs: Mapping[str, str]

    def prepare(self, segments: Iterable[Segment]) -> None:  # noqa: B027 (most know themselves)
        """Make ``signature`` complete.

        Args:
            segments: Those of the run; only the first ones are looked at.
        """

    @abstractmethod
    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """Begin with the candidates of some segments.

        Args:
            segments: Segments of the run that follow each other.
            start: Which of the run's segments the first one is, from 0.
            progress: Show a bar on stderr, where the work takes long enough for one.

        Returns:
            A function that waits for them and gives one item a segment. Those of several calls are called in order.
        """

    def reload(self) -> Callable[[], Source]:
        """Makes a source like it in another process, which may be on another machine. It can be pickled."""
        raise UsageError(
            "candidates that are read from files are read here, not by the workers of an engine",
            remedy="augment with the generators first, and merge the lists then: `candidates`",
        )


class Generated(Source):
    """Candidates that a paraphraser makes.

    Args:
        paraphraser: It.
        asked: Candidates a reference, at least 1.
        decoding: How it searches; None is its default.
    """

    shard = SHARD_SEGMENTS

    def __init__(self, paraphraser: Paraphraser, asked: int, decoding: Decoding | None = None) -> None:
        self.paraphraser = paraphraser
        self.asked = asked
        self.ahead = paraphraser.ahead
        self.signature = paraphraser.signature
        self.decoding = paraphraser.describe_decoding(decoding, asked)
        self.needs = {paraphraser.need: re.sub(r"[^\w.:/@+,-]", "_", paraphraser.name)}
        self._options = decoding

    def prepare(self, segments: Iterable[Segment]) -> None:
        """See :class:`Source`."""
        texts = (segment.refs[index].text for segment in segments for index in paraphrased(segment))
        self.paraphraser.prepare(texts, self.asked)
        self.signature = self.paraphraser.signature

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """See :class:`Source`. One call of the paraphraser."""
        sources = [paraphrased(segment) for segment in segments]
        texts = [segment.refs[index].text for segment, of in zip(segments, sources, strict=True) for index in of]
        if not texts:
            return partial(self._finish, sources, iter(()))
        made = self.paraphraser.paraphrase(texts, self.asked, decoding=self._options, progress=progress)
        return partial(self._finish, sources, iter(made))

    def reload(self) -> Callable[[], Source]:
        """See :class:`Source`."""
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


def paraphrased(segment: Segment) -> list[int]:
    """Indices of the references that are paraphrased: those of people that are not blank."""
    return [index for index, ref in enumerate(segment.refs) if ref.original and ref.text.strip()]


def rounded(score: float | None) -> float | None:
    """A log-probability as it is kept."""
    return None if score is None else round(score, _LOGPROB_DIGITS)


def in_turn(passed: Sequence[Candidate]) -> list[Candidate]:
    """What passed the filter, in the order of their new :attr:`~polyref.augment.selection.Candidate.place`.

    The sources take turns: the best of each, then the second best of each.
    """
    taken: Counter[int] = Counter()
    keys = []
    for one in passed:
        keys.append((taken[one.source], one.source))
        taken[one.source] += 1
    order = sorted(range(len(passed)), key=lambda n: keys[n])
    return [replace(passed[n], place=place) for place, n in enumerate(order)]


class Several(Source):
    """The candidates of several sources, which take turns.

    Args:
        sources: At least two.
    """

    several = True

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self.shard = min(source.shard for source in sources)
        self.ahead = max(source.ahead for source in sources)
        self.works = sum(isinstance(source, Generated) for source in sources) or 1
        self.prepare(())
        self.decoding = " + ".join(source.decoding for source in sources)
        asked = [item for source in sources for item in source.needs.items()]
        self.needs = {need: ", ".join(dict.fromkeys(why for one, why in asked if one == need)) for need, _ in asked}
        self.facts = {**_joined([source.facts for source in sources]), "merge": "rank"}

    def prepare(self, segments: Iterable[Segment]) -> None:
        """See :class:`Source`."""
        first = [*islice((one for one in segments if paraphrased(one)), 1)]
        for source in self._sources:
            source.prepare(first)
        self.signature = " + ".join(source.signature for source in self._sources)

    def begin(self, segments: Sequence[Segment], start: int, *, progress: bool = False) -> Proposing:
        """See :class:`Source`."""
        return partial(self._finish, [source.begin(segments, start, progress=progress) for source in self._sources])

    def reload(self) -> Callable[[], Source]:
        """See :class:`Source`."""
        return partial(_several, tuple(source.reload() for source in self._sources))

    def _finish(self, begun: Sequence[Proposing]) -> list[Proposed]:
        found = []
        for every in zip(*(proposing() for proposing in begun), strict=True):
            several = [
                replace(one, source=number) for number, proposed in enumerate(every) for one in proposed.candidates
            ]
            truncated = max(proposed.truncated for proposed in every)
            failed = tuple(one for proposed in every for one in proposed.failed)
            # Of two equal texts, the filter takes the first.
            several.sort(key=lambda one: (one.rank, one.source, one.of))
            found.append(Proposed(tuple(several), truncated, failed))
        return found


def _several(reloads: Sequence[Callable[[], Source]]) -> Several:
    return Several([reload() for reload in reloads])


def _joined(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Lists of the same name one after another."""
    names = dict.fromkeys(name for one in facts for name in one)
    return {name: [item for one in facts for item in one.get(name, [])] for name in names}
