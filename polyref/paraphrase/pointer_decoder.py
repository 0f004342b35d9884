"""Decoding with the shipped kind of network: its weights packed for fast products, its state, one step.

:class:`polyref.paraphrase.pointer.PointerTransformer` holds the weights and trains; this computes the same function
one token at a time. Log-probabilities of the vocabulary, or of a shortlist of its most frequent tokens, are computed in
place, and only those of source tokens are mixed with what the pointer copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyref.paraphrase.ancestry import AncestryCache
from polyref.paraphrase.blocks import DecoderState, Groups, attend, join_heads, norm, split_heads
from polyref.paraphrase.products import Precision, Product

if TYPE_CHECKING:
    from polyref.paraphrase.pointer import PointerTransformer

PAD: Final = 0
#: Outputs of the pointer's query product beyond the query: the sentinel, rounded up.
_SENTINEL: Final = 16

#: Most logits of one product: they stay in cache until they are normalised.
_LOGITS: Final = 1 << 22


@dataclass
class PointerState(DecoderState):
    """What decoding keeps beyond attention; S sentences, L source positions.

    Attributes:
        pointer_keys: ``[S, d, L]``.
        distinct: ``[S, L]`` the distinct tokens of each source, ascending, filled up with padding.
        places: ``[S, L]`` which of them each position holds.
        decoder: What encoded the sentences, and decodes them.
    """

    decoder: PointerDecoder = None  # type: ignore[assignment]
    pointer_keys: Tensor = None  # type: ignore[assignment]
    distinct: Tensor = None  # type: ignore[assignment]
    places: Tensor = None  # type: ignore[assignment]

    def select(self, sentences: Tensor, rows: Tensor, owners: Tensor) -> None:
        """See :class:`polyref.paraphrase.search.RowModel`."""
        if len(sentences) < self.groups.count:
            self.pointer_keys = self.pointer_keys[sentences]
            self.distinct, self.places = self.distinct[sentences], self.places[sentences]
        super().select(sentences, rows, owners)


class _Block:
    """One layer with packed weights (``cross`` parts in the decoder only)."""

    def __init__(self, layer: Any, precision: Precision) -> None:
        attention = layer.attend_self
        heads = attention.heads
        self.norm = _norm(layer.norm_self)
        self.qkv = _scaled(attention.qkv, heads, precision)
        self.out = _product(attention.out, precision)
        self.ffn_norm = _norm(layer.norm_ffn)
        self.fc1 = Product(layer.fc1.weight, layer.fc1.bias, "relu", precision)
        self.fc2 = _product(layer.fc2, precision)
        if hasattr(layer, "attend_cross"):
            cross = layer.attend_cross
            self.cross_norm = _norm(layer.norm_cross)
            self.cross_q = _scaled(cross.q, heads, precision)
            self.cross_kv = _product(cross.kv, precision)
            self.cross_out = _product(cross.out, precision)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(norm(x, self.ffn_norm)), x)


class PointerDecoder:
    """The network with packed weights.

    Args:
        network: Weights are read once; make a new decoder when they change.
        precision: What products are computed in.
    """

    def __init__(self, network: PointerTransformer, precision: Precision = "float32") -> None:
        self._network = network
        self._heads = network.config.heads
        self._dim = network.config.d_model
        self._encoder = [_Block(layer, precision) for layer in network.encoder]
        self._decoder = [_Block(layer, precision) for layer in network.decoder]
        self._encoder_norm, self._decoder_norm = _norm(network.encoder_norm), _norm(network.decoder_norm)
        scale = self._dim**-0.5
        query = network.pointer_query
        # The sentinel is one more output; rows of zeros round their number up.
        extra = [
            F.pad(values, (0,) * (2 * values.dim() - 1) + (_SENTINEL - 1,))
            for values in (network.sentinel.weight, network.sentinel.bias)
        ]
        self._query = Product(
            torch.cat([query.weight * scale, extra[0]]), torch.cat([query.bias * scale, extra[1]]), precision=precision
        )
        self._key = _product(network.pointer_key, precision)
        self._listed = network.vocab_size if network.shortlist is None else network.shortlist
        self._vocabulary = Product(network.embedding.weight[: self._listed], None, precision=precision)
        self._never = torch.tensor(network.never_written, device=network.device)

    def encode(self, sources: Sequence[Sequence[int]]) -> PointerState:
        """See :class:`~polyref.paraphrase.search.StepModel`."""
        network = self._network
        longest = max(len(source) for source in sources)
        padded = [[*source, *[network.pad] * (longest - len(source))] for source in sources]
        source = torch.tensor(padded, dtype=torch.long, device=network.device)
        even = all(len(one) == longest for one in sources)
        mask = None if even else network.padding_mask(source)
        x = network.embed(source)
        for block in self._encoder:
            q, k, v = (split_heads(part, self._heads) for part in block.qkv(norm(x, block.norm)).chunk(3, -1))
            x = block.out(join_heads(attend(q, k.transpose(2, 3), v, mask)), x)
            x = block.feed_forward(x)
        memory = norm(x, self._encoder_norm)
        cross = []
        for block in self._decoder:
            k, v = (split_heads(part, self._heads) for part in block.cross_kv(memory).chunk(2, -1))
            cross.append((k.transpose(2, 3).contiguous(), v.contiguous()))
        previous = network.embedding(network.previous(source))
        distinct, places = _distinct(source)
        rows = torch.arange(len(sources), device=network.device)
        return PointerState(
            cross=cross,
            bias=mask,
            cache=AncestryCache(
                len(cross), self._heads, self._dim, len(sources), device=network.device, dtype=memory.dtype
            ),
            groups=Groups(rows, len(sources)),
            decoder=self,
            pointer_keys=self._key(torch.cat([memory, previous], -1)).transpose(1, 2).contiguous(),
            distinct=distinct,
            places=places,
        )

    def step_rows(self, state: PointerState, tokens: Tensor) -> Tensor:
        """See :class:`~polyref.paraphrase.search.RowModel`; returns log-probabilities."""
        network, groups = self._network, state.groups
        x = network.embed(tokens[:, None], state.length)[:, 0]
        state.cache.extend()
        for index, block in enumerate(self._decoder):
            x = block.out(state.cache.attend(index, block.qkv(norm(x, block.norm))), x)
            q = split_heads(groups.spread(block.cross_q(norm(x, block.cross_norm))), self._heads)
            mixed = attend(q, *state.cross[index], state.bias)
            x = block.cross_out(groups.back(join_heads(mixed)), x)
            x = block.feed_forward(x)
        x = norm(x, self._decoder_norm)
        query, sentinel = self._query(x).tensor_split((self._dim,), dim=1)
        pointed = torch.matmul(groups.spread(query), state.pointer_keys)
        if state.bias is not None:
            pointed += state.bias[:, 0]
        shares = torch.log_softmax(torch.cat([sentinel[:, :1], groups.back(pointed)], -1), -1)
        return self._mixture(state, x, shares[:, :1], shares[:, 1:])

    def _mixture(self, state: PointerState, x: Tensor, generate: Tensor, copy: Tensor) -> Tensor:
        """Log-probabilities ``[R, V]``; ``generate`` ``[R, 1]`` and ``copy`` ``[R, L]`` are log-shares."""
        rows, vocab = len(x), self._network.vocab_size
        scores = state.buffer(rows, vocab, x.device)
        parts = -(-rows * vocab // _LOGITS)
        for states, share, out in zip(x.tensor_split(parts), generate.tensor_split(parts), scores.tensor_split(parts)):
            logits = self._vocabulary(states).float()
            torch._log_softmax(logits, 1, False, out=logits)
            torch.add(logits, share, out=out[:, : self._listed])
        scores[:, self._listed :] = -math.inf  # but for what the source holds, below
        owners = state.groups.owners
        distinct = state.distinct[owners]
        copied = torch.zeros_like(copy).scatter_add_(1, state.places[owners], copy.exp())
        scores.scatter_(1, distinct, torch.logaddexp(scores.gather(1, distinct), copied.log_()))
        return scores.index_fill_(1, self._never, -math.inf)


def _norm(layer: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias


def _product(linear: nn.Linear, precision: Precision) -> Product:
    return Product(linear.weight, linear.bias, precision=precision)


def _scaled(linear: nn.Linear, heads: int, precision: Precision) -> Product:
    """A projection whose first d outputs, the queries, are scaled beforehand."""
    dim = linear.in_features
    scale = torch.ones(linear.out_features, device=linear.weight.device)
    scale[:dim] = (dim // heads) ** -0.5
    return Product(linear.weight * scale[:, None], linear.bias * scale, precision=precision)


def _distinct(source: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct tokens ``[S, L]`` of every row, filled up with padding, and each position's place among them."""
    ordered, order = source.sort(dim=1, stable=True)
    fresh = torch.zeros_like(ordered)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    number = fresh.cumsum(dim=1)
    places = torch.empty_like(number).scatter_(1, order, number)
    return torch.full_like(ordered, PAD).scatter_(1, number, ordered), places
