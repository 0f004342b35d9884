"""Sentence embeddings and a language model: the contrastive baseline of the Prism paper (Thompson & Post 2020, "LASER +
LM"), with any encoder and any language model.

Adequacy is the cosine of the output's and the reference's (or source's) mean-pooled token vectors; fluency is the
output's mean log-probability per token; the score is ``weight`` x cosine + (1 - weight) x log-probability. A metric
that claims to do more than these two parts should beat them, so ``weight`` is worth tuning, by
``scripts/laser_lm_weight.py``.

The default language model, ``shipped``, is the shipped paraphraser with an empty source: a conditional model without
its condition, and weak. Name a causal language model for a fair comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.cache import default_cache
from polyref.engine import Engine
from polyref.errors import PolyrefWarning
from polyref.metrics.base import Texts
from polyref.metrics.combination import Combination, Maximum
from polyref.metrics.embedding.base import EncoderMetric
from polyref.metrics.signature import described_sources, exact
from polyref.metrics.statistics import Floats, Scores, Statistics
from polyref.models.elsewhere import Encoding, Helpers
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import Tokens, load_encoder
from polyref.models.language_model import LanguageModel, load_language_model
from polyref.models.language_recognition import language_name, other_language
from polyref.options import option
from polyref.progress import Advance, Part, listening, work

#: Texts that are pooled in one go.
_POOLED: Final = 2048


class Pooled:
    """Mean-pooled token vectors of texts: special tokens are left out, length is 1, and a text without a token is 0."""

    def __init__(self, embeddings: Embeddings, helpers: Helpers | None = None) -> None:
        self.embeddings, self.helpers = embeddings, helpers
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def vectors(self, texts: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """By text, shape (width,). Each distinct text is encoded once."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = dict(zip(missing, self.embeddings.tokens(missing), strict=True))
        parts = [missing[start : start + _POOLED] for start in range(0, len(missing), _POOLED)]
        tasks = [Pool([(text, tokens[text]) for text in part]) for part in parts]
        several = self.helpers is not None and self.helpers.piece(sum(map(len, tokens.values()))) is not None
        with work("encoding", "texts", len(missing)) as advance:
            pooled = self.helpers.map(tasks) if self.helpers and several else (self._pooled(t, advance) for t in tasks)
            for part, vectors in zip(parts, pooled, strict=True):
                self._known.update(zip(part, vectors, strict=True))
                if several:
                    advance(len(part))
        return {text: self._known[text] for text in texts}

    def _pooled(self, task: Pool, advance: Advance) -> list[npt.NDArray[np.float32]]:
        progress = Part(advance, len(task.texts))
        with listening(progress):
            found = task(self.embeddings)
        progress.end()
        return found


@dataclass(frozen=True)
class Pool:
    """A piece of work: the pooled vectors of texts.

    Attributes:
        texts: Texts and their tokens.
    """

    texts: Sequence[tuple[str, Tokens]]

    def __call__(self, embeddings: Embeddings) -> list[npt.NDArray[np.float32]]:
        """One vector a text, shape (width,)."""
        texts, tokens = zip(*self.texts, strict=True)
        found = []
        for entry, array in zip(tokens, embeddings.encode(texts, tokens, keep=()), strict=True):
            own = array[0][~entry.special]
            mean = own.mean(axis=0) if len(own) else np.zeros(array.shape[2], dtype=np.float32)
            norm = float(np.linalg.norm(mean))
            found.append(mean / norm if norm else mean)
        return found


@lru_cache(maxsize=2)
def _pooled(encoding: Encoding, engine: Engine) -> Pooled:
    kept, encoder = default_cache() if encoding.cache else None, load_encoder(encoding.model, encoding.device)
    return Pooled(Embeddings(encoder, (encoding.layer,), cache=kept, memory=0), Helpers(encoding, engine))


@dataclass(frozen=True, kw_only=True)
class LaserLM(EncoderMetric):
    """Cosine with the reference, and fluency. The last layer is pooled where none is named.

    Attributes:
        lm: The language model: ``shipped``, or a folder or hub name of a causal or sequence-to-sequence model.
        weight: Of the cosine, 0 to 1; the language model has the rest.
    """

    family: ClassVar[str] = "laser-lm"

    lm: str = option("shipped", help="The language model: shipped, a folder or a hub name.", metavar="MODEL")
    weight: float = option(0.9, help="Weight of the cosine; the language model has the rest.", least=0, most=1)

    @property
    def name(self) -> str:
        """See :class:`Metric`."""
        return "laser-lm"

    @property
    def label(self) -> str:
        """See :class:`Metric`."""
        return "LASER+LM"

    @property
    def measures(self) -> tuple[str, ...]:
        """Adequacy, fluency (nats per token), and the score."""
        return ("cosine", "fluency", "score")

    @property
    def options(self) -> dict[str, Any]:
        """See :class:`EncoderMetric`."""
        return {
            **super().options,
            "lm": self.language_model.name,
            "lm_digest": self.language_model.digest,
            "weight": self.weight,
        }

    def _own_layer(self) -> int:
        return self.encoder.layers

    @property
    def languages(self) -> tuple[str, ...]:
        """See :class:`Metric`: those of the language model where the encoder states none."""
        return self.encoder.languages or self.language_model.languages

    @cached_property
    def language_model(self) -> LanguageModel:
        """The language model."""
        return load_language_model(self.lm, self.device)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return [
            *self.combination.described(),
            f"weight:{exact(self.weight)}",
            *self._described_encoder(),
            f"longest:{self.encoder.longest}",
            f"lm:{self.language_model.name}",
            f"lm.digest:{self.language_model.digest[:12]}",
            f"torch:{version('torch')}",
            f"transformers:{version('transformers')}",
        ]

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        encoding = Encoding(self.model, self.encoder.digest, self.depth, self.device, cache=self.cache)
        vectors = _pooled(encoding, self.workers).vectors([text for pair in pairs for text in pair])
        fluency = self.language_model.fluency([output for _, output in pairs])
        cosine = np.array([float(vectors[anchor] @ vectors[output]) for anchor, output in pairs], dtype=np.float64)
        return np.stack([cosine, fluency, self.weight * cosine + (1 - self.weight) * fluency], axis=1)


@dataclass(frozen=True, kw_only=True)
class LaserLMSource(LaserLM):
    """Cosine with the source instead: no reference is read. The encoder must know both languages."""

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum,)
    needs_references: ClassVar[bool] = False
    needs_sources: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See :class:`Metric`."""
        return "laser-lm-src"

    @property
    def label(self) -> str:
        """See :class:`Metric`."""
        return "LASER+LM-src"

    def display_name(self, stats: Statistics, k: int) -> str:
        """The label: references take no part."""
        return self.label

    def aggregate(self, stats: Statistics, *, k: int, over: npt.ArrayLike | None = None) -> Scores:
        """See :meth:`Metric.aggregate`; the signature leaves references out."""
        scores = super().aggregate(stats, k=k, over=over)
        parts = [self.label, *self._describe(None, sentence=False)[1:], *described_sources(stats.meta)]
        signature = "|".join([*parts, f"polyref:{__version__}"])
        return replace(scores, signature=signature, segment_signature=signature)

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        read = (source for source in texts.sources if source is not None)
        if (found := other_language(read, self.encoder.languages)) is not None:
            names = ", ".join(map(language_name, self.encoder.languages))
            warnings.warn(
                f"the sources are {found.name}, but the encoder of {self.label} is for {names}: the cosine says little",
                PolyrefWarning,
                stacklevel=2,
            )
        cuts = np.ones((1, len(texts.sources)), dtype=np.int64)
        sources = [(source,) if source is not None else () for source in texts.sources]
        values = super()._count(replace(texts, references=sources, cuts=cuts, chosen=None))
        return np.repeat(values, len(texts.cuts), axis=0)
