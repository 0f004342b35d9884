"""Measures with a model: does a candidate still say what its reference says, and is it said well?

* embedding: cosine of mean-pooled encoder states. It sees a changed topic, hardly a lost negation or number: keep the
  rules for those.
* forced score: mean log-probability of a token of one text given the other, under any encoder-decoder (Thompson and
  Post 2020a). Forward, p(candidate | reference), is low where the candidate adds or garbles; backward,
  p(reference | candidate), where it leaves something out. Equivalence takes both, relative to each text given itself.
* fluency: log-probability of the candidate under a causal language model, less that of the reference. A word that does
  not go with its neighbours, or a broken sentence, costs many nats; a rarer word costs some as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np

from polyref.models.embeddings import Embeddings
from polyref.models.encoders import load_encoder
from polyref.models.language_model import load_language_model
from polyref.models.scorers import load_scorer
from polyref.options import Option
from polyref.paraphrase.shipped import equivalences

#: Texts whose states are in memory at a time.
_POOLED: Final = 1024


class Cosine:
    """Cosine of two texts' vectors, -1 to 1. As a weight, what is below 0 is 0.

    A text's vector is the mean of the last states of all its tokens; that of a text without a word is 0.
    """

    least, most = -1.0, 1.0

    def __init__(self, model: str = "shipped") -> None:
        self._encoder = load_encoder(model)
        self._embeddings = Embeddings(self._encoder, (self._encoder.layers,), memory=0)
        self.signature = f"{self._encoder.name}|sha256:{self._encoder.digest[:12]}"
        self.score([("a", "a")])  # a broken network shows now

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosines."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = {}
        for start in range(0, len(texts), _POOLED):
            part = texts[start : start + _POOLED]
            for text, states in zip(part, self._embeddings.encode(part, self._encoder.tokens(part)), strict=True):
                mean = states[0].mean(axis=0, dtype=np.float64)
                vectors[text] = mean / np.linalg.norm(mean) if text.strip() else np.zeros_like(mean)
        return [float(vectors[reference] @ vectors[candidate]) for reference, candidate in pairs]

    def weight(self, value: float) -> float:
        """The cosine, without what is below 0."""
        return min(max(value, 0.0), 1.0)


class Forced:
    """Mean log-probability (nats) of a token of the candidate given the reference, under an encoder-decoder.

    As a weight, the geometric mean of the token probabilities.
    """

    most: float | None = 0.0
    backward = False

    def __init__(self, model: str = "shipped", *, lang: str) -> None:
        self._scorer = load_scorer(model)
        self._lang = lang if self._scorer.languages else None
        self._written = self._scorer.written(self._lang)
        self._read = self._scorer.read(self._lang) if self._scorer.marks_sources else None
        self.signature = f"{self._scorer.name}|sha:{self._scorer.digest}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The means; 0 of a text without tokens."""
        jobs = []
        for reference, candidate in pairs:
            given, wanted = (candidate, reference) if self.backward else (reference, candidate)
            jobs.append((self._scorer.source(given, self._read), self._scorer.target(wanted, self._written)))
        self._scorer.known.clear()
        return [float(row.mean()) if len(row) else 0.0 for row in self._scorer.score(jobs, self._written)]

    def weight(self, value: float) -> float:
        """The mean as a probability."""
        return math.exp(min(value, 0.0))


class Backward(Forced):
    """The same of the reference, given the candidate."""

    backward = True


class Equivalence(Forced):
    """How far two texts follow from each other: :func:`polyref.paraphrase.shipped.equivalences`.

    As a weight, a probability.
    """

    most = None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The sums."""
        return equivalences(self._scorer, pairs, self._read, self._written)


class Fluency:
    """Log-probability (nats) of the candidate under a causal language model, less that of the reference.

    As a weight, the ratio of the probabilities, 1 at most.
    """

    def __init__(self, model: Annotated[str, Option(help="language model")], dtype: str = "float32") -> None:
        self._model = load_language_model(model, dtype=dtype)
        self.signature = f"{self._model.name}|sha:{self._model.digest}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The differences."""
        values = self._model.totals([text for pair in pairs for text in pair]).reshape(-1, 2)
        return [float(value) for value in values[:, 1] - values[:, 0]]

    def weight(self, value: float) -> float:
        """The ratio."""
        return math.exp(min(value, 0.0))
