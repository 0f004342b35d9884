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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.engine import Engine
from polyref.errors import PolyrefWarning
from polyref.metrics.base import Texts
from polyref.metrics.combination import Combination, Maximum
from polyref.metrics.embedding.base import EncoderMetric
from polyref.metrics.signature import exact
from polyref.metrics.statistics import Floats, Statistics
from polyref.models.embeddings import Embeddings, Encoding, VectorWork
from polyref.models.encoders import Tokens
from polyref.models.language_model import LanguageModel, load_language_model
from polyref.models.language_recognition import language_name, other_language
from polyref.models.opening import find
from polyref.options import option
from polyref.references import ReferenceSet

#: Texts that are pooled in one go.
_POOLED: Final = 2048


class Pooled:
    """Mean-pooled token vectors of texts: special tokens are left out, length is 1, and a text without a token is 0.

    Attributes:
        cut: Texts so far that are longer than the encoder reads.
    """

    def __init__(self, work: VectorWork) -> None:
        self.cut: set[str] = set()
        self._work = work
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def vectors(self, texts: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """By text, shape (width,). Each distinct text is encoded once."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = list(zip(missing, self._work.embeddings.encoder.tokens(missing), strict=True))
        self.cut.update(text for text, entry in tokens if entry.cut)
        parts = [tokens[start : start + _POOLED] for start in range(0, len(tokens), _POOLED)]
        several = self._work.piece(sum(len(entry) for _, entry in tokens)) is not None
        tasks = [(Pool(part), len(part)) for part in parts]
        for part, vectors in zip(parts, self._work.do(tasks, "encoding", "texts", by_others=several), strict=True):
            self._known.update((text, vector) for (text, _), vector in zip(part, vectors, strict=True))
        return {text: self._known[text] for text in texts}


@dataclass(frozen=True)
class Pool:
    """A piece of work: the pooled vectors of texts."""

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
    return Pooled(VectorWork(encoding, engine, memory=0))


@dataclass(frozen=True, kw_only=True)
class LaserLM(EncoderMetric):
    """Cosine with the reference, and fluency. The last layer is pooled where none is named."""

    family: ClassVar[str] = "laser-lm"

    lm: str = option("shipped", help="The language model: shipped, a folder or a hub name.", metavar="MODEL")
    weight: float = option(0.9, help="Weight of the cosine; the language model has the rest.", least=0, most=1)

    name = "laser-lm"
    label = "LASER+LM"
    #: Adequacy, fluency (nats per token), and the score.
    measures = ("cosine", "fluency", "score")

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics."""
        return {
            **super().options,
            "lm": self._lm["name"],
            "lm_digest": self._lm["digest"],
            "weight": self.weight,
        }

    def _own_layer(self) -> int:
        return self.encoder.layers

    @property
    def languages(self) -> tuple[str, ...]:
        """Those of the encoder, or of the language model where the encoder states none."""
        return self.encoder.languages or tuple(self._lm["languages"])

    @cached_property
    def language_model(self) -> LanguageModel:
        """The language model."""
        return load_language_model(self.lm, self.device)

    @cached_property
    def _lm(self) -> dict[str, Any]:
        """What it says of itself."""

        def ask() -> dict[str, Any]:
            model = self.language_model
            return {"name": model.name, "digest": model.digest, "languages": model.languages}

        found = find(self.lm, "language model")
        return self._remembered((found.name, found.kind, found.digest), ask)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return [
            *(self.combination.described() if self.needs_references else ()),
            f"weight:{exact(self.weight)}",
            *self._described_encoder(),
            f"longest:{self.longest}",
            f"lm:{self._lm['name']}",
            f"lm.digest:{self._lm['digest'][:12]}",
            f"torch:{version('torch')}",
            f"transformers:{version('transformers')}",
        ]

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        pooled, model = _pooled(self._encoding(), self.workers), self.language_model
        vectors = pooled.vectors([text for pair in pairs for text in pair])
        self._note_cut(self.encoder.name, self.longest, pooled.cut.intersection(vectors))
        fluency = model.fluency(outputs := [output for _, output in pairs])
        self._note_cut(model.name, model.longest, model.cut.intersection(outputs))
        cosine = np.array([float(vectors[anchor] @ vectors[output]) for anchor, output in pairs], dtype=np.float64)
        return np.stack([cosine, fluency, self.weight * cosine + (1 - self.weight) * fluency], axis=1)


@dataclass(frozen=True, kw_only=True)
class LaserLMSource(LaserLM):
    """Cosine with the source instead: no reference is read. The encoder must know both languages."""

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum,)
    needs_references: ClassVar[bool] = False
    needs_sources: ClassVar[bool] = True

    name = "laser-lm-src"
    label = "LASER+LM-src"

    def statistics(self, systems: Mapping[str, Sequence[str]], references: ReferenceSet, **options: Any) -> Statistics:
        """As :meth:`Metric.statistics`; a warning names the language of sources that the encoder does not know."""
        read = (segment.source for segment in references if segment.source is not None)
        if (found := other_language(read, self.encoder.languages)) is not None:
            names = ", ".join(map(language_name, self.encoder.languages))
            warnings.warn(
                f"the sources are {found.name}, but the encoder of {self.label} is for {names}: the cosine says little",
                PolyrefWarning,
                stacklevel=2,
            )
        return super().statistics(systems, references, **options)

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        cuts = np.ones((1, len(texts.sources)), dtype=np.int64)
        sources = [(source,) if source is not None else () for source in texts.sources]
        values = super()._count(replace(texts, references=sources, cuts=cuts, chosen=None))
        return np.repeat(values, len(texts.cuts), axis=0)
