"""Filters that need a model: does a candidate still say what its reference says, and is it said well?

* embedding: cosine of mean-pooled encoder states. It sees a changed topic, hardly a lost negation or number: keep the
  rules for those.
* forced score: mean log-probability of a token of one text given the other, under any encoder-decoder (Thompson and
  Post 2020a). Forward, p(candidate | reference), is low where the candidate adds or garbles; backward,
  p(reference | candidate), where it leaves something out.
* fluency: log-probability of the candidate under a causal language model, less that of the reference. A word that does
  not go with its neighbours, or a broken sentence, costs many nats; a rarer word costs some as well.

A candidate is dropped by a threshold, or by a quantile of the candidates of its segment.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from polyref.augment.selection import Candidate
from polyref.errors import ModelError
from polyref.references import Segment

if TYPE_CHECKING:
    from torch import Tensor

    from polyref.models.checkpoints.pointer import PointerModel


#: Digits kept of values: most differences of float arithmetic between batches and machines are below.
DIGITS = 4


class Scorer(Protocol):
    """Measures pairs of texts.

    Attributes:
        signature: Kind and content hash of the model.
    """

    signature: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One number a (reference, candidate); larger is better."""

    def weight(self, value: float) -> float:
        """A value as a weight, 0 to 1."""


@dataclass(frozen=True)
class Measure:
    """One model-based filter.

    Attributes:
        name: With its parameters; becomes the reason.
        scorer: What it measures with.
        minimum: Candidates below are dropped.
        quantile: This share of every segment's candidates, rounded down, is dropped: those with the lowest values;
            of equal ones the worse ranks first. 0 to 1.
        power: The value, as a weight to this power, goes into ``Reference.weight``; None leaves the weight alone.
    """

    name: str
    scorer: Scorer
    minimum: float | None = None
    quantile: float | None = None
    power: float | None = None

    def apply(
        self, segments: Sequence[Segment], candidates: Sequence[Sequence[Candidate]], dropped: Counter[str]
    ) -> list[list[Candidate]]:
        """What is left of the candidates of some segments, in their order, with weights.

        Args:
            segments: Shape (N,).
            candidates: One list a segment.
            dropped: Refused candidates are counted here.

        Raises:
            ModelError: A value is NaN or infinite.
        """
        pairs = [
            (segment.refs[one.of].text, one.text)
            for segment, found in zip(segments, candidates, strict=True)
            for one in found
        ]
        scored = self.scorer.score(pairs) if pairs else []
        for (_, text), value in zip(pairs, scored, strict=True):
            if not math.isfinite(value):
                raise ModelError(
                    f"{self.name} measures {value} for {text[:80]!r}, expected a finite number",
                    remedy="is its model damaged? With half precision, try float32",
                )
        values = iter(scored)
        result = []
        for found in candidates:
            measured = [(round(next(values), DIGITS), one) for one in found]
            kept = self._kept(measured)
            dropped[self.name] += len(found) - len(kept)
            result.append([self._weighed(value, one) for value, one in kept])
        return result

    def _kept(self, measured: Sequence[tuple[float, Candidate]]) -> list[tuple[float, Candidate]]:
        lowest: set[int] = set()
        if self.quantile is not None:
            worst_first = sorted(
                range(len(measured)), key=lambda n: (measured[n][0], -measured[n][1].rank, -measured[n][1].of)
            )
            lowest = set(worst_first[: int(self.quantile * len(measured))])
        least = float("-inf") if self.minimum is None else self.minimum
        return [item for n, item in enumerate(measured) if n not in lowest and item[0] >= least]

    def _weighed(self, value: float, candidate: Candidate) -> Candidate:
        if self.power is None:
            return candidate
        before = 1.0 if candidate.weight is None else candidate.weight
        return replace(candidate, weight=round(before * self.scorer.weight(value) ** self.power, DIGITS))


Floats = npt.NDArray[np.float64]
#: Most tokens of a batch, padding included.
_BATCH: Final = 4096
#: Longest text of encoders that name no limit.
_LONGEST: Final = 512


class Encoder(ABC):
    """Texts to unit vectors: the mean of the encoder's states of a text's tokens.

    Attributes:
        signature: Name and content hash.
    """

    signature: str

    @abstractmethod
    def _tokens(self, text: str) -> list[int]:
        """Token ids, as many as the encoder reads."""

    @abstractmethod
    def _states(self, tokens: Tensor, real: Tensor) -> Tensor:
        """States ``[N, L, d]`` of padded ids ``[N, L]``; ``real`` is 1 where there is a token."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Shape (N, d); rows of length 1, or 0 where a text has no token. Equal texts are encoded once."""
        import torch

        distinct = {text: self._tokens(text) for text in dict.fromkeys(texts)}
        order = sorted((text for text in distinct if distinct[text]), key=lambda text: (len(distinct[text]), text))
        found: dict[str, Floats] = {}
        for part in _batches(order, distinct):
            rows = [distinct[text] for text in part]
            longest = max(map(len, rows))
            tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
            real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
            with torch.inference_mode():
                states = self._states(tokens, real) * real[..., None]
            means = (states.sum(1) / real.sum(1, keepdim=True)).double().numpy()
            found.update(zip(part, means / np.linalg.norm(means, axis=1, keepdims=True), strict=True))
        width = len(next(iter(found.values()))) if found else 1
        empty = np.zeros(width)
        return np.stack([found.get(text, empty) for text in texts]) if texts else np.zeros((0, width))


def _batches(order: Sequence[str], tokens: dict[str, list[int]]) -> Iterator[list[str]]:
    part: list[str] = []
    for text in order:  # ascending length: the last is the longest
        if part and (len(part) + 1) * len(tokens[text]) > _BATCH:
            yield part
            part = []
        part.append(text)
    if part:
        yield part


class PointerEncoder(Encoder):
    """The encoder of a model of the shipped kind."""

    def __init__(self, model: PointerModel) -> None:
        self._model = model
        self.signature = f"{model.name}|sha:{model.digest}"

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._model.spm.encode(" ".join(text.split()))
        most = self._model.network.config.max_source
        return [*ids, self._model.network.eos][:most] if ids else []

    def _states(self, tokens: Tensor, real: Tensor) -> Tensor:
        # 0 is this kind's padding: the network masks it itself.
        return self._model.network.encode_batch(tokens)


class TransformersEncoder(Encoder):
    """Any encoder of a Hugging Face folder; of an encoder-decoder its encoder."""

    def __init__(self, folder: Path, name: str) -> None:
        from polyref.models.checkpoints.text import load_tokenizer
        from polyref.models.opening import hash_model, load_network, most_positions, read_config

        self._tokenizer = load_tokenizer(folder)
        model: Any = load_network("AutoModel", folder, "encoder")
        self._model = (model.get_encoder() if model.config.is_encoder_decoder else model).eval()
        limit = most_positions(folder, read_config(folder)) or _LONGEST
        self._most = min(limit, self._tokenizer.model_max_length, _LONGEST)
        self.signature = f"{name}|sha:{hash_model(folder)[:12]}"

    def _tokens(self, text: str) -> list[int]:
        if not text.strip():
            return []
        return [int(token) for token in self._tokenizer(text, truncation=True, max_length=self._most)["input_ids"]]

    def _states(self, tokens: Tensor, real: Tensor) -> Tensor:
        states: Tensor = self._model(input_ids=tokens, attention_mask=real).last_hidden_state
        return states


def load_encoder(name: str = "shipped") -> Encoder:
    """An encoder by name: ``shipped``, a folder of that kind, a Hugging Face folder, or a name on the hub."""
    from polyref.models.checkpoints.pointer import load_pointer
    from polyref.models.opening import SHIPPED, is_pointer_folder, locate

    folder = SHIPPED / (name.partition("/")[2] or "en") if name.partition("/")[0] == "shipped" else Path(name)
    if is_pointer_folder(folder):
        return PointerEncoder(load_pointer(folder))
    folder = locate(name)
    return TransformersEncoder(folder, folder.resolve().name if Path(name).is_dir() else name)


class Cosine:
    """Cosine of two texts' vectors, -1 to 1. As a weight, what is below 0 is 0."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.signature = encoder.signature

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See :class:`polyref.augment.measures.Scorer`."""
        references, candidates = (self._encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
        return [float(value) for value in np.einsum("nd,nd->n", references, candidates)]

    def weight(self, value: float) -> float:
        """See :class:`polyref.augment.measures.Scorer`."""
        return min(max(value, 0.0), 1.0)


class Forced:
    """Mean log-probability (nats) of a token of the candidate given the reference, or the other way round.

    As a weight, the geometric mean of the token probabilities.

    Args:
        name: As for :func:`polyref.models.scorers.load_scorer`.
        lang: Language of the texts.
        backward: p(reference | candidate) instead of p(candidate | reference).
    """

    def __init__(self, name: str, lang: str, *, backward: bool) -> None:
        from polyref.models.scorers import load_scorer

        self._scorer = load_scorer(name)
        self._lang = lang if self._scorer.languages else None
        self._backward = backward
        self._written = self._scorer.written(self._lang)
        self._read = self._scorer.read(self._lang) if self._scorer.marks_sources else None
        self.signature = f"{self._scorer.name}|sha:{self._scorer.digest}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See :class:`polyref.augment.measures.Scorer`."""
        jobs = []
        for reference, candidate in pairs:
            given, wanted = (candidate, reference) if self._backward else (reference, candidate)
            jobs.append((self._scorer.source(given, self._read), self._scorer.target(wanted, self._written)))
        return [float(row.mean()) if len(row) else 0.0 for row in self._scorer.score(jobs, self._written)]

    def weight(self, value: float) -> float:
        """See :class:`polyref.augment.measures.Scorer`."""
        return math.exp(min(value, 0.0))


class Fluency:
    """Log-probability (nats) of the candidate under a language model, less that of the reference.

    As a weight, the ratio of the probabilities, 1 at most.

    Args:
        name: As for :func:`polyref.models.language_model.load_language_model`.
        dtype: As there.
    """

    def __init__(self, name: str, dtype: str = "float32") -> None:
        from polyref.models.language_model import load_language_model

        self._model = load_language_model(name, dtype=dtype)
        self.signature = f"{self._model.name}|sha:{self._model.digest}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """See :class:`polyref.augment.measures.Scorer`."""
        values = self._model.totals([text for pair in pairs for text in pair]).reshape(-1, 2)
        return [float(value) for value in values[:, 1] - values[:, 0]]

    def weight(self, value: float) -> float:
        """See :class:`polyref.augment.measures.Scorer`."""
        return math.exp(min(value, 0.0))


def digest(*parts: str) -> str:
    """First 12 hexadecimal digits of a hash of some strings."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
