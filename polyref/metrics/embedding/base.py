"""What metrics on the vectors of a text encoder have in common: which encoder, which of its layers, and where."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from polyref.metrics.pairs import Networked, PairMetric
from polyref.models.embeddings import Encoding
from polyref.models.encoders import Encoder, load_encoder
from polyref.options import option


@dataclass(frozen=True, kw_only=True)
class EncoderMetric(Networked, PairMetric):
    """A metric on the token vectors of one layer of an encoder."""

    model: str = option("shipped", help="The encoder: shipped, minilm, a folder or a hub name.", metavar="MODEL")
    layer: int | None = option(None, help="Which of its layers.", otherwise="the best that is known, or the last")

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder."""
        return load_encoder(self.model, self.device)

    @cached_property
    def longest(self) -> int:
        """Most tokens that the encoder reads; its tokeniser need not be opened for that."""
        found = self._remembered(self.encoder.digest, lambda: {"longest": self.encoder.longest})
        return int(found["longest"])

    def _encoding(self, dtype: str = "float32") -> Encoding:
        return Encoding(self.model, self.encoder.digest, self.depth, self.device, dtype, self.cache)

    @property
    def languages(self) -> tuple[str, ...]:
        return self.encoder.languages

    @cached_property
    def depth(self) -> int:
        """The layer in use."""
        layer = self._own_layer() if self.layer is None else self.layer
        self.encoder.check_layer(layer)
        return layer

    @abstractmethod
    def _own_layer(self) -> int:
        """The layer to use where none is named."""

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics: the model by its content, not by its place."""
        return {
            **self.combination.options("combine", "weights", "gamma"),
            "model": self.encoder.name,
            "digest": self.encoder.digest,
            "layer": self.depth,
        }

    def _described_encoder(self) -> list[str]:
        encoder = self.encoder
        return [f"model:{encoder.name}", f"sha256:{encoder.digest[:12]}", f"layer:{self.depth}"]
