"""Paraphrases by polyref's own search: texts in windows and batches, lists kept between runs, rules of a model."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypedDict, runtime_checkable

from polyref import __version__
from polyref.cache import Cache
from polyref.errors import UsageError
from polyref.languages import resolve
from polyref.models.device import arithmetic, spare_memory
from polyref.paraphrase.decoding import STRENGTH, WINDOW, Decoding, DiverseBeam, check_k, in_full
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.search import Candidate, SearchOptions, StepHook, StepModel
from polyref.progress import Part, tell, work

if TYPE_CHECKING:
    from polyref.paraphrase.search.huggingface import SavedGeneration

#: Most decoder rows (sentences x beams) of one batch: more gain little.
ROWS = 640
#: Memory that a batch may take beside the model, in bytes, where the model can tell.
MEMORY = 1 << 30
#: A paraphrase has at most this share of the source's tokens, and so many more.
ROOM = (1.5, 10)
#: Scores are rounded: sums of float32 differ in the last digits with the shape of the batch.
DIGITS = 5


class Limits(TypedDict):
    """Of a batch, as :class:`SearchParaphraser` takes them."""

    rows: int
    memory: int


def batch_limits(memory: int | None, device: str) -> Limits:
    """What a batch may take: ``memory`` MB, else 1024, or half of what is free on a GPU, where nothing else counts."""
    spare = spare_memory(device)
    rows, most = (ROWS, MEMORY) if spare is None else (sys.maxsize, spare)
    return {"rows": rows, "memory": most if memory is None else memory << 20}


def written(lang: str | None, languages: Sequence[str], prefix: Sequence[object]) -> str:
    """What is written, for signatures: the language of a model of several, or the first tokens, or nothing."""
    if languages and lang is not None:
        return f"|lang:{resolve(lang, languages)}"
    return f"|prefix:{','.join(map(str, prefix))}" if prefix else ""


def read_as(lang: str | None, languages: Sequence[str], prefix: str | None) -> str:
    """What sources are marked as, for signatures, where a prefix says what is written."""
    return f"|source:{resolve(lang, languages)}" if languages and lang is not None and prefix is not None else ""


class Codec(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a source text, with its end of sentence if the model wants one."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of target tokens, special tokens left out."""


@runtime_checkable
class _CuttingCodec(Protocol):
    """A codec that knows how a text is cut: what stands after it in the source must stay."""

    def beginning(self, text: str, longest: int) -> list[int]:
        """The first source token ids of a text that has more than ``longest``."""


class Rules(Protocol):
    """What candidates must keep to while they are searched for; ``name`` is for the signature."""

    name: str

    def hooks(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> Sequence[StepHook]:
        """The rules for one batch of sources: their token ids, and the texts they were made of."""


class BothRules:
    """Two sets of rules at once."""

    def __init__(self, first: Rules, second: Rules) -> None:
        self.first, self.second = first, second
        self.name = f"{first.name},{second.name}"

    def hooks(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> Sequence[StepHook]:
        """The rules of both for one batch of sources."""
        return [*self.first.hooks(sources, texts), *self.second.hooks(sources, texts)]


#: Texts whose lists are kept together, and the lists of each.
Unit = tuple[str, ...]
Lists = list[tuple[Hypothesis, ...]]


class KeptLists:
    """The lists of one paraphraser with one decoding; the ``repr`` of ``facts`` says what else they depend on.

    A unit of texts is kept as a whole: a single text where its list depends on nothing else, or a batch. So what is
    read is what would be computed, to the last digit.
    """

    def __init__(self, cache: Cache, *facts: object) -> None:
        self._cache, self._facts = cache, facts

    def read(self, units: Sequence[Unit]) -> dict[Unit, Lists]:
        """The lists of those units that are kept."""
        keys = {unit: self._key(unit) for unit in units}
        values = self._cache.get(list(keys.values()))
        return {unit: _unpacked(values[key]) for unit, key in keys.items() if key in values}

    def write(self, found: Mapping[Unit, Lists]) -> None:
        """Keep the lists of some units."""
        self._cache.put({self._key(unit): _packed(lists) for unit, lists in found.items()})

    def _key(self, unit: Unit) -> bytes:
        return hashlib.sha256(repr(("n-best lists 2", self._facts, unit)).encode()).digest()


def _packed(lists: Lists) -> bytes:
    plain = [[(one.text, one.score, one.tokens, one.group) for one in found] for found in lists]
    return zlib.compress(json.dumps(plain).encode(), 1)


def _unpacked(value: bytes) -> Lists:
    plain = json.loads(zlib.decompress(value))
    return [tuple(Hypothesis(text, score, tuple(ids), group) for text, score, ids, group in found) for found in plain]


class SearchParaphraser(Paraphraser):
    """Paraphrases by polyref's own search over a :class:`StepModel`.

    Texts are read ahead by a bounded window, and searched in batches of about the same length.

    Args:
        model: The network.
        codec: Text to its token ids and back.
        name: Short name.
        digest: Hash of the model's content.
        max_source: Most source tokens, the end of sentence included.
        languages: Codes of the languages it writes.
        lang: The one it writes, where there are several.
        prefix: First target tokens of every sentence (a language tag).
        rules: What candidates must keep to.
        defaults: Strength and closeness where the user names none.
        min_score: Candidates below this length-normalised log-probability (nats) are not offered.
        window: Texts read ahead.
        rows: Most sentences x beams of a batch.
        memory: Most bytes of a batch's scores and caches, as the model estimates them; one sentence is always taken.
        saved: Generation settings that the model was saved with, for options with ``hf`` semantics.
        room: A paraphrase has at most ``room[0] * source + room[1]`` tokens, unless search options say otherwise.
    """

    single_sentences = True

    def __init__(
        self,
        model: StepModel,
        codec: Codec,
        *,
        name: str,
        digest: str,
        max_source: int,
        languages: Sequence[str] = (),
        lang: str | None = None,
        prefix: Sequence[int] = (),
        rules: Rules | None = None,
        defaults: DiverseBeam | None = None,
        min_score: float | None = None,
        window: int = WINDOW,
        rows: int = ROWS,
        memory: int = MEMORY,
        saved: SavedGeneration | None = None,
        room: tuple[float, int] = ROOM,
    ) -> None:
        self.model, self.codec, self.name = model, codec, name
        self.languages, self.lang, self.prefix = tuple(languages), lang, list(prefix)
        self.rules, self.min_score, self.saved = rules, min_score, saved
        self.defaults = defaults or DiverseBeam(strength=STRENGTH)
        self.max_source, self.room = max_source, room
        self.window, self.rows, self.memory = window, rows, memory
        self.signature = f"{name}|sha:{digest}{written(lang, languages, prefix)}"
        if rules is not None:
            self.signature += f"|rules:{rules.name}"
        if min_score is not None:
            self.signature += f"|score>={in_full(min_score)}"
        self._cache: tuple[Cache, str] | None = None

    def use_cache(self, cache: Cache, loaded_with: str = "") -> None:
        self._cache = cache, loaded_with

    def settle(self, decoding: Decoding | None, k: int) -> Decoding:
        """The settings used for ``k`` paraphrases, the model's defaults filled in.

        Raises:
            UsageError: A setting is out of range, closeness is asked of a model without control tokens, or the model
                was saved with settings that the search does not have.
            ModelError: The model was saved with settings that cannot be used.
        """
        if isinstance(decoding, SearchOptions):
            check_k(k)
            saved = self._saved(decoding)
            filled = decoding.validate() if saved is None else saved.fill(decoding.validate())
            return replace(filled, fixed=())
        asked = decoding or DiverseBeam()
        strength = self.defaults.strength if asked.strength is None else asked.strength
        closeness = self.defaults.closeness if asked.closeness is None else asked.closeness
        settled = replace(asked, strength=strength, closeness=closeness).resolve(k)
        if closeness is not None and self.defaults.closeness is None:
            raise UsageError(f"`closeness` is given, but {self.name} has no control tokens for it")
        return settled

    def describe_decoding(self, decoding: Decoding | None, k: int) -> str:
        """The settled search: ``dbs(beam=20,groups=4,strength=0.5)``."""
        settled = self.settle(decoding, k)
        saved = self._saved(settled)
        return settled.describe() + ("" if saved is None else saved.describe())

    def _saved(self, decoding: Decoding | None) -> SavedGeneration | None:
        """The model's own settings, where they hold: in beam search as Transformers does it."""
        asked = isinstance(decoding, SearchOptions) and decoding.semantics == "hf" and not decoding.sampling
        return self.saved if asked else None

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """Sources longer than ``max_source`` tokens are cut at the end."""
        return self._windows(texts, k, self.settle(decoding, k), progress)

    def _windows(self, texts: Iterable[str], k: int, decoding: Decoding, progress: bool) -> Iterator[NBest]:
        total = len(texts) if isinstance(texts, Sequence) else 0
        feed = iter(texts)
        kept = self._kept_lists(k, decoding)
        with work("paraphrasing", "sentences", total, progress=progress) as advance:
            while window := list(islice(feed, self.window)):
                encoded = {text: self._source(text) for text in dict.fromkeys(window)}
                part = Part(advance, len(window))
                lists = self._lists({text: ids for text, (ids, _) in encoded.items() if ids}, k, decoding, kept, part)
                part.end()
                yield from (NBest(text, lists.get(text, ()), encoded[text][1]) for text in window)

    def _lists(
        self, sources: Mapping[str, list[int]], k: int, decoding: Decoding, kept: KeptLists | None, part: Part
    ) -> dict[str, tuple[Hypothesis, ...]]:
        """The list of every text of a window, kept or made; ``kept`` holds them by texts, or else by batches."""
        waiting = sorted(sources, key=lambda text: (len(sources[text]), text))
        by_text = kept is not None and self._alone(decoding)
        done: dict[str, tuple[Hypothesis, ...]] = {}
        if kept is not None and by_text:
            done = {text: found for (text,), (found,) in kept.read([(text,) for text in waiting]).items()}
            waiting = [text for text in waiting if text not in done]
        # Texts of one length are searched together, the short ones first: tokens say how far that has come.
        lengths = [len(sources[text]) for text in waiting]
        with part.telling(sum(lengths)) as passed:
            for batch in self._batches(waiting, lengths, decoding):
                batch_part = Part(passed, sum(len(sources[text]) for text in batch))
                unit = tuple(batch)
                lists = None if kept is None or by_text else kept.read([unit]).get(unit)
                if lists is None:
                    lists = self._searched(batch, [sources[text] for text in batch], k, decoding, batch_part)
                    if kept is not None:
                        pairs = zip(batch, lists, strict=True)
                        kept.write({(text,): [found] for text, found in pairs} if by_text else {unit: lists})
                done |= zip(batch, lists, strict=True)
                batch_part.end()
        return done

    def _searched(
        self, texts: Sequence[str], sources: list[list[int]], k: int, decoding: Decoding, part: Part
    ) -> Lists:
        """The lists of a batch."""
        try:
            with part.telling(sum(map(len, sources))):
                found = self._search(sources, decoding, texts)
        except (RuntimeError, MemoryError) as error:
            # torch has a class of its own for that on accelerators only.
            told = ("out of memory", "can't allocate memory", "bad_alloc")
            if not isinstance(error, MemoryError) and not any(words in str(error) for words in told):
                raise
            size = f"{decoding.beam} hypotheses a text, texts at once: {len(texts)}"
            raise UsageError(
                f"the search ran out of memory with {size}",
                remedy="name a smaller `beam` or `k`, or smaller batches: `memory`",
            ) from error
        return [self._hypotheses(candidates, k, decoding) for candidates in found]

    def _kept_lists(self, k: int, decoding: Decoding) -> KeptLists | None:
        """Lists that were made before with all that these depend on."""
        if self._cache is None:
            return None
        cache, loaded_with = self._cache
        own = (self.signature, self.lang, self.prefix, self.max_source, self.min_score, self.room, loaded_with)
        settled = (decoding, self._saved(decoding), k)
        network = (self.model.start, self.model.max_target, arithmetic(str(self.model.device)))
        return KeptLists(cache, own, network, settled, __version__)

    def _alone(self, decoding: Decoding) -> bool:
        """Whether the list of a text is the same in any batch, to the last digit (see ``pointer_decoder``)."""
        from polyref.models.networks.pointer import PointerTransformer

        if not isinstance(self.model, PointerTransformer) or self.model.device.type != "cpu":
            return False
        return not (isinstance(decoding, SearchOptions) and decoding.padded_max_len)

    def _batches(self, texts: list[str], lengths: list[int], decoding: Decoding) -> Iterator[list[str]]:
        """Neighbours in length together, as many as rows and memory allow; ``lengths`` are ascending."""
        beam = decoding.beam or 1
        row_bytes = getattr(self.model, "row_bytes", None)
        first = 0
        for last, length in enumerate(lengths):
            rows = (last + 1 - first) * beam
            needed = 0 if row_bytes is None else rows * row_bytes(self._longest(decoding, length))
            if last > first and (rows > self.rows or needed > self.memory):
                yield texts[first:last]
                first = last
        if first < len(texts):
            yield texts[first:]

    def _longest(self, decoding: Decoding, length: int) -> int:
        """Most target tokens for a source of this many tokens."""
        options = self._options(decoding)
        return min(int(options.max_len_a * length + options.max_len_b) + 1, self.model.max_target)

    def _source(self, text: str) -> tuple[list[int], bool]:
        """Token ids (none for blank text) and whether they were cut."""
        if not text.strip():
            return [], False
        tokens = self.codec.encode(text)
        if len(tokens) <= self.max_source:
            return tokens, False
        if isinstance(self.codec, _CuttingCodec):
            return self.codec.beginning(text, self.max_source), True
        return [*tokens[: self.max_source - 1], self.model.eos], True

    def _search(self, sources: list[list[int]], decoding: Decoding, texts: Sequence[str]) -> list[list[Candidate]]:
        from polyref.models.networks.pointer import PointerTransformer
        from polyref.paraphrase.search.engine import search

        options = self._options(decoding)
        prefixes = [self.prefix] * len(sources) if self.prefix else None
        hooks = () if self.rules is None else self.rules.hooks(sources, texts)
        closeness = decoding.closeness if isinstance(decoding, DiverseBeam) else None
        if isinstance(self.model, PointerTransformer) and closeness is not None:
            with self.model.at_closeness(closeness):
                return search(self.model, sources, options, prefixes, hooks, passed=tell)
        return search(self.model, sources, options, prefixes, hooks, self.saved, tell)

    def _options(self, decoding: Decoding) -> SearchOptions:
        if isinstance(decoding, SearchOptions):
            return decoding
        # Room for a longer paraphrase; each search stops at what its model can write.
        return replace(decoding.options(), max_len_a=self.room[0], max_len_b=self.room[1])

    def _hypotheses(self, candidates: Sequence[Candidate], k: int, decoding: Decoding) -> tuple[Hypothesis, ...]:
        """The k best with distinct, non-empty texts; of a search with options of its own, its list as it is."""
        if isinstance(decoding, SearchOptions):
            return tuple(Hypothesis(self.codec.decode(c.tokens), c.score, c.tokens, c.group) for c in candidates[:k])
        found: dict[str, Hypothesis] = {}
        for candidate in candidates:
            score = round(candidate.score, DIGITS)
            if len(found) == k or (self.min_score is not None and score < self.min_score):
                break
            # Different pieces can spell the same text.
            text = self.codec.decode(candidate.tokens)
            if text and text not in found:
                found[text] = Hypothesis(text, score, candidate.tokens, candidate.group)
        return tuple(found.values())
