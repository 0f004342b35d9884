"""Text encoders: a text becomes tokens, tokens become vectors of every layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError


@dataclass(frozen=True)
class Tokens:
    """A text as its encoder reads it.

    Attributes:
        ids: Shape (T,), int32: token ids, special tokens included.
        special: Shape (T,), bool: which of them the encoder adds or reserves (start, separator, end).
        cut: Whether the text is longer than the encoder reads, and its end is missing here.
    """

    ids: npt.NDArray[np.int32]
    special: npt.NDArray[np.bool_]
    cut: bool

    def __len__(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.ids)


class Encoder(ABC):
    """What turns texts into token vectors. Layer 0 is the embedding, layer l what comes out of the l-th block.

    Attributes:
        name: Name in signatures.
        layers: Number of blocks.
        width: Length of a vector.
        longest: Most tokens it reads, special ones included.
        languages: Codes of the languages it knows; empty: not stated.
        device: A torch device: where it computes.
    """

    name: str
    layers: int
    width: int
    longest: int
    device: str = "cpu"
    languages: tuple[str, ...] = ()

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 over the files that decide the vectors (configuration, vocabulary, weights), 64 hex digits."""

    @abstractmethod
    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """Tokens of texts, each cut after ``longest`` tokens at most (special ones included and kept).

        White space at the ends is no text. An empty text is its special tokens.
        """

    @abstractmethod
    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """Vectors of texts of one length, so that there is no padding to take care of.

        Args:
            ids: Shape (N, T).
            layers: Each 0 to ``self.layers``; L of them.

        Returns:
            Shape (N, L, T, width).
        """

    def check_layer(self, layer: int) -> None:
        """Refuse a layer the encoder does not have."""
        if not 0 <= layer <= self.layers:
            raise UsageError(f"layer {layer}, but {self.name} has layers 0 to {self.layers}")
