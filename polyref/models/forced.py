"""Forced scoring by a model's name: log-probabilities of target texts given source texts, whatever the model.

>>> from polyref.models.forced import load_scorer
>>> scorer = load_scorer("shipped")
>>> jobs = [(scorer.source("Nobody was hurt."), scorer.target("No one was hurt."))]
>>> [len(row) == len(target) for row, (_, target) in zip(scorer.score(jobs), jobs)]
[True]

What Prism, BARTScore and peer evaluation are made of. The networks are in :mod:`polyref.models.scorers`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.errors import UsageError
from polyref.languages import resolve
from polyref.models.device import arithmetic
from polyref.progress import tell, telling, work

if TYPE_CHECKING:
    from polyref.cache import Cache
    from polyref.models.checkpoints.text import Segmenter
    from polyref.models.elsewhere import Elsewhere


#: Token ids of a text.
Tokens = tuple[int, ...]
#: A source and a target: what a log-probability belongs to.
Job = tuple[Tokens, Tokens]
#: Sources and targets that are computed together, language tags among them, and the decoder's first input (None: the
#: model's own).
Stretch = tuple[list[Tokens], list[Tokens], int | None]
#: Log-probabilities of targets, one array each.
Rows = list[npt.NDArray[np.float32]]

DTYPES: Final = ("float32", "bfloat16", "float16")
#: Target tokens that make another process worth its start.
WORTH: Final = 100_000
#: Most source tokens of a stretch, and most memory for its encoder states.
_STRETCH: Final = 1 << 14
_STATES: Final = 1 << 28


@dataclass(eq=False)
class ScorerFacts:
    """What there is to say of a model for forced scoring.

    Attributes:
        digest: First 12 hexadecimal digits of a hash of the model's content.
        languages: Codes of the languages it knows; empty when it has no codes.
        monolingual: Whether it reads the language it writes and no other (the shipped paraphraser).
        marks_sources: Whether sources carry their language too (M2M100, NLLB, mBART; not Prism).
        max_source: Most source tokens, special ones included.
        max_target: Most target tokens, the end of sentence and the language tag included.
        note: More of what decides the numbers, for signatures (the shipped model's closeness).
    """

    name: str
    digest: str
    dtype: str
    languages: Sequence[str]
    monolingual: bool
    marks_sources: bool
    max_source: int
    max_target: int
    note: str

    def written(self, lang: str | None) -> str | None:
        """The language of targets: ``lang``, or English where none is named; None for models without codes."""
        if not self.languages:
            if lang is not None:
                raise UsageError(f"language {lang!r} was named, but {self.name} has no language codes")
            return None
        if lang is None and len(self.languages) == 1:
            return self.languages[0]
        return resolve("en" if lang is None else lang, self.languages)

    def read(self, lang: str | None) -> str | None:
        """The language of sources: ``lang`` where the model's sources carry one, else None."""
        if not self.marks_sources:
            return None
        if lang is None:
            raise UsageError(f"no source language is named, expected one of {', '.join(self.languages)}")
        return resolve(lang, self.languages)


class ForcedScorer(ScorerFacts, ABC):
    """A model that says how likely a target is given a source.

    Attributes:
        others: Who computes where there is much to do; None: this process.
        cache: Where forced scores are kept; None keeps none.
    """

    device: str = "cpu"
    others: Elsewhere[Stretch, Rows] | None = None
    cache: Cache | None = None

    def __init__(
        self,
        codec: Any,
        segmenter: Segmenter | None,
        *,
        name: str,
        digest: str,
        dtype: str,
        limits: tuple[int, int],
        width: int,
        monolingual: bool = False,
        marks_sources: bool = False,
        note: str = "",
    ) -> None:
        languages = tuple(codec.languages)
        marks_sources = marks_sources and bool(languages)
        super().__init__(name, digest[:12], dtype, languages, monolingual, marks_sources, *limits, note)
        self._codec = codec
        # The first mBART has the tag in place of its start, where others have it as their first output.
        self._tag_starts: bool = getattr(codec, "tag_starts", False)
        self._segmenter = segmenter
        self._stretch = min(_STRETCH, max(_STATES // (4 * width), 1))
        self.known: dict[tuple[str, str, str | None], tuple[Tokens, bool]] = {}  # to be emptied where texts have no end

    # --- texts ---

    def source(self, text: str, lang: str | None = None) -> Tokens:
        """Token ids of a source text, its end cut where it is longer than the model reads."""
        return self._tokens("source", text, lang)[0]

    def target(self, text: str, lang: str | None = None) -> Tokens:
        """Token ids of a target text with its end of sentence, without a language tag, cut in the same way."""
        return self._tokens("target", text, lang)[0]

    def is_cut(self, side: str, text: str, lang: str | None = None) -> bool:
        """Whether a text is longer than the model takes as ``source`` or ``target``."""
        return self._tokens(side, text, lang)[1]

    def _tokens(self, side: str, text: str, lang: str | None) -> tuple[Tokens, bool]:
        key = (side, text, lang)
        if key not in self.known:
            self.known[key] = self._cut(side, self._whole(side, text, lang))
        return self.known[key]

    def _whole(self, side: str, text: str, lang: str | None) -> list[int]:
        encode = self._codec.encode if side == "source" else self._codec.encode_target
        tokens: list[int] = encode(text, lang)
        return tokens

    def _cut(self, side: str, tokens: Sequence[int]) -> tuple[Tokens, bool]:
        tagged = bool(self.languages) and not self._tag_starts
        most = self.max_source if side == "source" else self.max_target - tagged
        if len(tokens) <= most:
            return tuple(tokens), False
        return (*tokens[: most - 1], tokens[-1]), True

    def segmentations(
        self, side: str, text: str, lang: str | None, *, count: int, alpha: float, nbest: int, seed: int
    ) -> list[Tokens]:
        """``count`` random segmentations (subword regularisation, Kudo 2018), from the text and the seed alone."""
        if self._segmenter is None:
            raise UsageError(
                f"{self.name}: its tokeniser cannot sample segmentations",
                remedy="use a fairseq, M2M100 or shipped model, or do not sample them",
            )
        whole = self._whole(side, text, lang)
        rng = np.random.default_rng(seed_of(seed, side, text))
        drawn = self._segmenter.sample(side, text, whole, count=count, alpha=alpha, nbest=nbest, rng=rng)
        return [self._cut(side, tokens)[0] for tokens in drawn]

    # --- numbers ---

    def score(self, jobs: Sequence[Job], lang: str | None = None) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities (nats) of every target token, the end of sentence included, the language tag left out.

        Equal jobs are computed once, and kept by what they are. On the CPU, neither the other jobs, nor who computes,
        nor what is in the cache moves a digit of a job; on a GPU they move it by rounding (1e-5).
        """
        tag, start = self._begin(lang)
        distinct = list(dict.fromkeys(jobs))
        tokens = sum(len(tag) + len(target) for _, target in distinct)
        others = self.others if self.others and distinct and self.others.pays(tokens) else None
        keys = self._keys(distinct, tag, start, 1 if others else None) if self.cache else {}
        known = self.cache.get(list(keys.values())) if self.cache else {}
        found = {job: np.frombuffer(known[key], "<f4").astype(np.float32) for job, key in keys.items() if key in known}
        parts = list(self._stretches([job for job in distinct if job not in found]))
        stretches = [([source for source, _ in part], [(*tag, *target) for _, target in part], start) for part in parts]
        with work("scoring", "texts", len(distinct)) as advance, telling(advance):
            tell(len(found))
            computed = others.map(stretches) if others else map(self.compute, stretches)
            for part, scored in zip(parts, computed, strict=True):
                rows = dict(zip(part, (row[len(tag) :] for row in scored), strict=True))
                found.update(rows)
                if self.cache:
                    self.cache.put({keys[job]: row.astype("<f4").tobytes() for job, row in rows.items()})
                if others and others.engine.elsewhere:  # processes of this machine tell of it themselves
                    tell(len(part))
        return [found[job] for job in jobs]

    def _keys(self, jobs: Sequence[Job], tag: Tokens, start: int | None, threads: int | None) -> dict[Job, bytes]:
        """Keys of the cache, for numbers that are computed with so many threads."""
        model = (self.digest, self.dtype, self.note, self.max_source, self.max_target, __version__)
        about = repr(("forced scores 3", model, arithmetic(self.device, threads), tag, start))
        return {job: hashlib.sha256(f"{about}{job}".encode()).digest() for job in jobs}

    def compute(self, stretch: Stretch) -> Rows:
        """Log-probabilities of all target tokens of a stretch, language tags among them."""
        return self._score(*stretch)

    def dropout_scores(
        self, job: Job, lang: str | None = None, *, samples: int, rate: float, seed: int
    ) -> npt.NDArray[np.float32]:
        """Token log-probabilities ``[S, T]`` with dropout left on (Monte Carlo dropout, Gal & Ghahramani 2016).

        The samples of a job make up one batch, and the seed comes from ``seed`` and the job's tokens: neither other
        jobs nor their order change anything.
        """
        tag, start = self._begin(lang)
        source, target = job
        drawn = seed_of(seed, source, target)
        return self._noisy(source, (*tag, *target), start, samples, rate, drawn)[:, len(tag) :]

    def _begin(self, lang: str | None) -> tuple[Tokens, int | None]:
        """The tag before every target, and the decoder's first input (None: the model's own)."""
        tag = tuple(self._codec.prefix(lang)) if self.languages else ()
        return ((), tag[0]) if tag and self._tag_starts else (tag, None)

    def _stretches(self, jobs: list[Job]) -> Iterator[list[Job]]:
        """Jobs in parts whose sources' encoder states fit into memory: neighbours share sources."""
        part: list[Job] = []
        seen: set[Tokens] = set()
        tokens = 0
        for job in jobs:
            fresh = 0 if job[0] in seen else len(job[0])
            if part and tokens + fresh > self._stretch:
                yield part
                part, seen, tokens, fresh = [], set(), 0, len(job[0])
            part.append(job)
            seen.add(job[0])
            tokens += fresh
        if part:
            yield part

    @abstractmethod
    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[npt.NDArray[np.float32]]:
        """As :meth:`compute`, after ``start``. It tells :func:`polyref.progress.tell` of every target that is done."""

    @abstractmethod
    def _noisy(
        self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int
    ) -> npt.NDArray[np.float32]:
        """The same of one job with dropout: shape (S, T)."""


def seed_of(*parts: object) -> int:
    """A seed of 63 bits from what it is for, the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1
