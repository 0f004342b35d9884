"""Shape and conventions of the lean encoder-decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from polyref.errors import ModelError

Positions = Literal["fairseq", "marian", "learned", "none"]
ACTIVATIONS: Final = ("relu", "gelu", "gelu_tanh", "swish", "tanh", "linear")


@dataclass(frozen=True)
class TransformerConfig:
    """Shape and conventions of a network.

    Attributes:
        dim: d, width of the embeddings and layers.
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
        encoder_heads: Attention heads of an encoder layer.
        decoder_heads: Attention heads of a decoder layer.
        encoder_pre_norm: Normalise before (True) or after every sub-layer.
        decoder_pre_norm: The same for the decoder.
        activation: One of ``ACTIVATIONS``.
        scale: Factor of the token embeddings (sqrt(d) or 1).
        encoder_positions: ``fairseq`` (sinusoids, first token at ``pad + 1``), ``marian`` (sinusoids, first token at
            0), ``learned`` (weights ``encoder.positions``, row i for position i) or ``none``.
        decoder_positions: The same for the decoder.
        pad: Padding token.
        eos: End of sentence.
        unk: Unknown token.
        start: First decoder input.
        max_source: Most source tokens, the end of sentence included.
        max_target: Most decoder positions.
    """

    dim: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_pre_norm: bool
    decoder_pre_norm: bool
    activation: str
    scale: float
    encoder_positions: Positions
    decoder_positions: Positions
    pad: int
    eos: int
    unk: int
    start: int
    max_source: int
    max_target: int

    def __post_init__(self) -> None:
        for side, heads in (("encoder", self.encoder_heads), ("decoder", self.decoder_heads)):
            if heads < 1 or self.dim % heads:
                raise ModelError(f"{heads} {side} heads do not divide the width of the model, {self.dim}")
        for name in ("max_source", "max_target"):
            if getattr(self, name) < 1:
                raise ModelError(
                    f"the longest {name.removeprefix('max_')} is {getattr(self, name)}, expected 1 or more"
                )
