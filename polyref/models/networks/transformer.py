"""Shape and conventions of the lean encoder-decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from polyref.errors import ModelError, UsageError
from polyref.models.networks.attention import (
    AncestryCache,
    CrossAttention,
    DecoderState,
    FoldedCrossAttention,
    Groups,
    Layer,
    Sentences,
    attend,
    join_heads,
    norm,
    padded,
    pays,
    sinusoids,
    split_heads,
)
from polyref.models.networks.matmul import Product
from polyref.models.opening import check_numbers
from polyref.models.step import Parts

Positions = Literal["fairseq", "marian", "learned", "none"]
ACTIVATIONS: Final = ("relu", "gelu", "gelu_tanh", "swish", "tanh", "linear")


@dataclass(frozen=True)
class TransformerConfig:
    """Shape and conventions of a network.

    Attributes:
        encoder_pre_norm: Normalise before (True) or after every sub-layer.
        activation: One of ``ACTIVATIONS``.
        scale: Factor of the token embeddings (sqrt(d) or 1).
        encoder_positions: ``fairseq`` (sinusoids, first token at ``pad + 1``), ``marian`` (sinusoids, first token at
            0), ``learned`` (weights ``encoder.positions``, row i for position i) or ``none``.
        max_source: Most source tokens, the end of sentence included.
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


#: Most logits of one product; beyond 32 MB the C library maps fresh pages for every tensor.
_LOGITS: Final = (1 << 23) - 1


class Transformer:
    """The network, a ``RowModel``. All ``weights`` must be used; ``dtype`` is theirs, and logits are always float32."""

    normalized = False

    def __init__(
        self,
        config: TransformerConfig,
        weights: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.pad, self.eos, self.unk, self.start = config.pad, config.eos, config.unk, config.start
        self.max_source, self.max_target = config.max_source, config.max_target
        if config.activation not in ACTIVATIONS:
            raise ModelError(f"activation is {config.activation!r}, expected one of {', '.join(ACTIVATIONS)}")
        #: Number of distinct weights (shared embeddings count once), but for positions and what is added to logits.
        self.parameters = 0
        left = dict(weights)
        self._left = left
        self._moved: dict[int, Tensor] = {}
        self.source_embedding = self._take("encoder.embed_tokens.weight", -1, config.dim)
        self.target_embedding = self._take("decoder.embed_tokens.weight", -1, config.dim)
        self.output = self._take("output.weight", -1, config.dim)
        self.output_bias = self._take("output.bias", len(self.output)) if "output.bias" in left else None
        self.vocab_size = len(self.output)
        self._projection = Product(self.output, self.output_bias)
        self.encoder_layers = [self._layer(f"encoder.layers.{i}.", cross=False) for i in range(config.encoder_layers)]
        self.decoder_layers = [self._layer(f"decoder.layers.{i}.", cross=True) for i in range(config.decoder_layers)]
        self.norms = {
            name: self._norm(name)
            for side in ("encoder", "decoder")
            for name in (f"{side}.layernorm_embedding", f"{side}.layer_norm")
            if f"{name}.weight" in left
        }
        self._tables = {
            "encoder": self._positions("encoder", config.encoder_positions, config.max_source),
            "decoder": self._positions("decoder", config.decoder_positions, config.max_target),
        }
        if left:
            raise ModelError(f"{len(left)} weights of the model are not understood, among them {min(left)!r}")
        del self._left, self._moved

    def _take(self, name: str, *shape: int) -> Tensor:
        if name not in self._left:
            raise ModelError(f"the model has no weight {name!r}")
        value = self._left.pop(name)
        if len(shape) != value.dim() or any(s not in (-1, v) for s, v in zip(shape, value.shape)):
            expected = " x ".join("any" if s == -1 else str(s) for s in shape)
            raise ModelError(f"weight {name!r} has shape {tuple(value.shape)}, expected {expected}")
        # Shared embeddings stay shared.
        key = value.data_ptr()
        if key not in self._moved:
            self._moved[key] = value.to(device=self.device, dtype=self.dtype)
            check_numbers([(name, self._moved[key])])
            if not name.endswith((".positions", "output.bias")):
                self.parameters += value.numel()
        return self._moved[key]

    def _linear(self, name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        return self._take(f"{name}.weight", outputs, inputs), self._take(f"{name}.bias", outputs)

    def _layer(self, prefix: str, *, cross: bool) -> Layer:
        dim = self.config.dim

        heads = self.config.decoder_heads if cross else self.config.encoder_heads

        def fused(block: str, parts: str) -> Product:
            # One product for the projections that read the same input; queries are scaled beforehand.
            loaded = [
                tuple(value * (dim // heads) ** -0.5 if part == "q" else value for value in pair)
                for part in parts
                for pair in [self._linear(f"{prefix}{block}.{part}_proj", dim, dim)]
            ]
            weight, bias = (torch.cat(values) for values in zip(*loaded))
            return Product(weight, bias, keep=parts == "q")

        inner = self._left[f"{prefix}fc1.weight"].shape[0] if f"{prefix}fc1.weight" in self._left else 0
        return Layer(
            attention=fused("self_attn", "qkv"),
            attention_out=Product(*self._linear(f"{prefix}self_attn.out_proj", dim, dim)),
            attention_norm=self._norm(f"{prefix}self_attn_layer_norm"),
            fc1=Product(*self._linear(f"{prefix}fc1", inner, dim), self.config.activation),
            fc2=Product(*self._linear(f"{prefix}fc2", dim, inner)),
            final_norm=self._norm(f"{prefix}final_layer_norm"),
            cross=CrossAttention(
                q=fused("encoder_attn", "q"),
                kv=fused("encoder_attn", "kv"),
                out=Product(*self._linear(f"{prefix}encoder_attn.out_proj", dim, dim), keep=True),
                norm=self._norm(f"{prefix}encoder_attn_layer_norm"),
            )
            if cross
            else None,
        )

    def _norm(self, name: str) -> tuple[Tensor, Tensor]:
        return self._take(f"{name}.weight", self.config.dim), self._take(f"{name}.bias", self.config.dim)

    def _positions(self, side: str, kind: Positions, most: int) -> Tensor | None:
        if kind == "none":
            return None
        if kind == "learned":
            return self._take(f"{side}.positions", -1, self.config.dim)
        table = sinusoids(most, self.config.dim, self.config.pad + 1 if kind == "fairseq" else None)
        return table.to(device=self.device, dtype=self.dtype)

    def row_bytes(self, steps: int) -> int:
        """Memory of a decoder row after so many steps: its scores, its self-attention keys and values."""
        cache = 2 * len(self.decoder_layers) * self.config.dim * torch.empty((), dtype=self.dtype).element_size()
        return 4 * self.vocab_size + steps * cache

    # --- encoder ---

    def encode_states(self, sources: Sequence[Sequence[int]], width: int = 0) -> tuple[Tensor, Tensor | None]:
        """Encoder states ``[S, L, d]``, L at least ``width``, and the bias ``[S, 1, 1, L]`` (None without padding)."""
        tokens = padded(sources, self.pad, width)
        if (length := tokens.shape[1]) > self.max_source:
            raise UsageError(f"a source has {length} tokens, expected at most {self.max_source}")
        bias = torch.zeros(len(sources), 1, 1, length)
        for row, source in enumerate(sources):
            bias[row, ..., len(source) :] = float("-inf")
        if int(tokens.min()) < 0 or int(tokens.max()) >= len(self.source_embedding):
            raise UsageError(f"a source token is not in the vocabulary of {len(self.source_embedding)}")
        mask = bias.to(device=self.device, dtype=self.dtype) if bool(bias.any()) else None
        x = self._embed("encoder", self.source_embedding, tokens.to(self.device), slice(length))
        heads, pre = self.config.encoder_heads, self.config.encoder_pre_norm
        for layer in self.encoder_layers:
            y = norm(x, layer.attention_norm) if pre else x
            q, k, v = (split_heads(part, heads) for part in layer.attention(y).chunk(3, dim=-1))
            x = layer.attention_out(join_heads(attend(q, k.transpose(2, 3), v, mask)), x)
            if not pre:
                x = norm(x, layer.attention_norm)
            x = self._feed_forward(x, layer, pre)
        return self._final("encoder", x), mask

    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        states, bias = self.encode_states(sources)
        return self.begin(states, bias)

    def begin(self, states: Tensor, bias: Tensor | None) -> DecoderState:
        """The decoder's state before its first step, from encoder states."""
        heads = self.config.decoder_heads
        cross = []
        for layer in self.decoder_layers:
            assert layer.cross is not None
            k, v = layer.cross.kv(states).chunk(2, dim=-1)
            cross.append((split_heads(k, heads).transpose(2, 3).contiguous(), split_heads(v, heads).contiguous()))
        rows = torch.arange(len(states), device=self.device)
        cache = AncestryCache(len(cross), heads, self.config.dim, len(states), device=self.device, dtype=states.dtype)
        state = DecoderState(cross=cross, bias=bias, cache=cache, groups=Groups(rows, len(states), [1] * len(states)))
        blocks = [layer.cross for layer in self.decoder_layers if layer.cross]
        if all(block.q.reversible and block.out.reversible for block in blocks):
            state.sentences = Sentences.begin(len(states), states.shape[1], bias)
        return state

    # --- decoder ---

    def step(self, state: DecoderState, tokens: Tensor) -> Tensor:
        """Logits ``[S, W, V]``."""
        return self.project(self._advance(state, tokens.flatten())).view(*tokens.shape, -1)

    def step_rows(self, state: DecoderState, tokens: Tensor) -> Tensor | Parts:
        """Logits ``[R, V]``."""
        hidden = self._advance(state, tokens)
        most = max(_LOGITS // self.vocab_size, 1)
        if len(hidden) <= most:
            return self.project(hidden)
        parts = hidden.tensor_split(-(-len(hidden) // most))
        return Parts(map(self.project, parts), state.buffer(len(hidden), self.vocab_size, self.device))

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (float32) of decoder states ``[..., d]``."""
        return self._projection(hidden).float()

    def _advance(self, state: DecoderState, tokens: Tensor) -> Tensor:
        pre, t = self.config.decoder_pre_norm, state.length
        x = self._embed("decoder", self.target_embedding, tokens, slice(t, t + 1))
        state.cache.extend()
        folded = self._fold(state)
        for index, layer in enumerate(self.decoder_layers):
            y = norm(x, layer.attention_norm) if pre else x
            x = layer.attention_out(state.cache.attend(index, layer.attention(y)), x)
            if not pre:
                x = norm(x, layer.attention_norm)
            cross = layer.cross
            assert cross is not None
            y = norm(x, cross.norm) if pre else x
            if folded:
                x = self._by_sentence(state, index, y, x)
            else:
                q = split_heads(state.groups.spread(cross.q(y)), self.config.decoder_heads)
                x = cross.out(state.groups.back(join_heads(attend(q, *state.cross[index], state.bias))), x)
            if not pre:
                x = norm(x, cross.norm)
            x = self._feed_forward(x, layer, pre)
        return self._final("decoder", x)

    def _fold(self, state: DecoderState) -> bool:
        """Fold the cross-attention of the sentences that now have many rows; whether any is folded."""
        sentences, heads = state.sentences, self.config.decoder_heads
        if sentences is None:
            return False
        for number, (rows, length) in enumerate(zip(state.groups.sizes, sentences.lengths)):
            if sentences.layers[number] is None and pays(rows, heads, length, self.config.dim):
                sentences.layers[number] = [
                    FoldedCrossAttention.fold(
                        layer.cross.q, layer.cross.out, keys[number, ..., :length], values[number, :, :length]
                    )
                    for layer, (keys, values) in zip(self.decoder_layers, state.cross)
                    if layer.cross is not None
                ]
        return any(layers is not None for layers in sentences.layers)

    def _by_sentence(self, state: DecoderState, index: int, y: Tensor, x: Tensor) -> Tensor:
        """``x`` ``[R, d]`` plus the cross-attention of ``y``, one sentence after the other."""
        sentences, cross = state.sentences, self.decoder_layers[index].cross
        assert sentences is not None and cross is not None
        keys, values = state.cross[index]
        parts = []
        sizes = state.groups.sizes
        for number, (queries, rows) in enumerate(zip(torch.split(y, sizes), torch.split(x, sizes))):
            layers = sentences.layers[number]
            if layers is not None:
                parts.append(layers[index](queries, rows))
                continue
            one = slice(number, number + 1)
            q = split_heads(cross.q(queries)[None], self.config.decoder_heads)
            mixed = attend(q, keys[one], values[one], None if state.bias is None else state.bias[one])
            parts.append(cross.out(join_heads(mixed)[0], rows))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def decode(self, states: Tensor, bias: Tensor | None, inputs: Tensor, rows: Tensor | None = None) -> Tensor:
        """Decoder states ``[N, T, d]`` of whole targets ``inputs`` ``[N, T]`` (shifted right).

        Row i reads ``states[rows[i]]`` (by default ``states[i]``): targets of one source share its projections.
        """
        heads, pre, length = self.config.decoder_heads, self.config.decoder_pre_norm, inputs.shape[1]
        causal = torch.full((length, length), float("-inf"), device=self.device, dtype=self.dtype).triu_(1)
        x = self._embed("decoder", self.target_embedding, inputs, slice(length))
        if rows is not None and bias is not None:
            bias = bias[rows]
        for layer in self.decoder_layers:
            y = norm(x, layer.attention_norm) if pre else x
            q, k, v = (split_heads(part, heads) for part in layer.attention(y).chunk(3, dim=-1))
            x = layer.attention_out(join_heads(attend(q, k.transpose(2, 3), v, causal)), x)
            if not pre:
                x = norm(x, layer.attention_norm)
            assert layer.cross is not None
            k, v = layer.cross.kv(states).chunk(2, dim=-1)
            kv = split_heads(k, heads).transpose(2, 3), split_heads(v, heads)
            if rows is not None:
                kv = kv[0][rows], kv[1][rows]
            x = self._cross(x, layer.cross, kv, bias, pre)
            x = self._feed_forward(x, layer, pre)
        return self._final("decoder", x)

    def reorder(self, state: DecoderState, sentences: Tensor, parents: Tensor) -> None:
        state.reorder(sentences, parents)

    def select_rows(self, state: DecoderState, sentences: Tensor, rows: Tensor, owners: Tensor) -> None:
        state.select(sentences, rows, owners)

    # --- shared parts ---

    def _embed(self, side: str, table: Tensor, tokens: Tensor, places: slice) -> Tensor:
        x = F.embedding(tokens, table)
        if self.config.scale != 1.0:
            x = x * self.config.scale
        positions = self._tables[side]
        if positions is not None:
            x = x + positions[places]
        if f"{side}.layernorm_embedding" in self.norms:
            x = norm(x, self.norms[f"{side}.layernorm_embedding"])
        return x

    def _cross(
        self, x: Tensor, cross: CrossAttention, kv: tuple[Tensor, Tensor], bias: Tensor | None, pre: bool
    ) -> Tensor:
        q = split_heads(cross.q(norm(x, cross.norm) if pre else x), self.config.decoder_heads)
        x = cross.out(join_heads(attend(q, *kv, bias)), x)
        return x if pre else norm(x, cross.norm)

    def _feed_forward(self, x: Tensor, layer: Layer, pre: bool) -> Tensor:
        y = norm(x, layer.final_norm) if pre else x
        x = layer.fc2(layer.fc1(y), x)
        return x if pre else norm(x, layer.final_norm)

    def _final(self, side: str, x: Tensor) -> Tensor:
        name = f"{side}.layer_norm"
        return norm(x, self.norms[name]) if name in self.norms else x
