"""Decoding with the shipped kind of network: its weights packed for fast products, its state, one step.

:mod:`polyref.models.networks.pointer` holds the weights and trains; this computes the same function
one token at a time. Log-probabilities of the vocabulary, or of a shortlist of its most frequent tokens, are computed in
place, and only those of source tokens are mixed with what the pointer copies.

A sentence's numbers do not depend on its batch, to the last bit where those of a product's rows do not depend on each
other (see :mod:`polyref.models.networks.matmul`): tokens of all sentences lie one after the other without padding, what
works on a token works on all of them, and each sentence is attended to by itself, in its own length and number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyref.models.networks.layers import Groups, RowState, norm
from polyref.models.networks.matmul import Precision, Product
from polyref.models.networks.self_attention import AncestryCache

PAD: Final = 0
#: Outputs of the pointer's query product beyond the query: the sentinel, rounded up.
_SENTINEL: Final = 16

#: Most logits of one product: they stay in cache until they are normalised.
_LOGITS: Final = 1 << 22


#: Columns of what is computed of source positions come in so many. A longer neighbour adds whole vectors of zeros to a
#: row's sum; and what is left after the last pair of vectors PyTorch exponentiates one by one, by another function with
#: another last bit.
_COLUMNS: Final = 32


@dataclass(frozen=True)
class _Sentence:
    """What the decoder reads of one sentence of L tokens.

    Attributes:
        cross: Per layer the cross-attention keys ``[H, d/H, L]`` and values ``[H, L, d/H]``.
        pointer_keys: ``[d, L]``.
    """

    cross: list[tuple[Tensor, Tensor]]
    pointer_keys: Tensor


@dataclass(kw_only=True)
class PointerState(RowState):
    """What decoding keeps; S sentences, L tokens of the longest.

    Attributes:
        decoder: What encoded the sentences, and decodes them.
        sentences: The sentences.
        distinct: ``[S, L']`` the distinct tokens of each source, ascending, filled up with padding.
        places: ``[S, L]`` which of them each position holds.
    """

    decoder: PointerDecoder
    sentences: list[_Sentence]
    distinct: Tensor
    places: Tensor

    def select(self, sentences: Tensor, rows: Tensor, owners: Tensor) -> None:
        """See :class:`polyref.paraphrase.search.RowModel`."""
        if len(sentences) < self.groups.count:
            self.sentences = [self.sentences[i] for i in sentences.tolist()]
            self.distinct, self.places = self.distinct[sentences], self.places[sentences]
        super().select(sentences, rows, owners)


class _Block:
    """One layer with packed weights (``cross`` parts in the decoder only)."""

    def __init__(self, layer: Any, precision: Precision) -> None:
        attention = layer.attend_self
        heads = attention.heads
        inner = inner_type(precision, layer.norm_self.weight.dtype)
        self.norm = _norm(layer.norm_self, inner)
        self.qkv = _scaled(attention.qkv, heads, precision)
        self.out = _product(attention.out, precision)
        self.ffn_norm = _norm(layer.norm_ffn, inner)
        self.fc1 = Product(layer.fc1.weight, layer.fc1.bias, "relu", precision)
        self.fc2 = _product(layer.fc2, precision)
        if hasattr(layer, "attend_cross"):
            cross = layer.attend_cross
            self.cross_norm = _norm(layer.norm_cross, inner)
            self.cross_q = _scaled(cross.q, heads, precision)
            self.cross_kv = _product(cross.kv, precision)
            self.cross_out = _product(cross.out, precision)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(_normed(x, self.ffn_norm)), x)


class PointerWeights(Protocol):
    """What decoding reads of :class:`polyref.models.networks.pointer.PointerTransformer`.

    Attributes:
        config: Its shape (``heads``, ``d_model``).
        shortlist: Decoding draws from so many first tokens of the vocabulary; None: from all.
        never_written: Tokens that are no text.
    """

    config: Any
    vocab_size: int
    shortlist: int | None
    never_written: tuple[int, ...]
    device: torch.device
    embedding: nn.Embedding
    encoder: nn.ModuleList
    decoder: nn.ModuleList
    encoder_norm: nn.LayerNorm
    decoder_norm: nn.LayerNorm
    pointer_query: nn.Linear
    pointer_key: nn.Linear
    sentinel: nn.Linear

    def embed(self, tokens: Tensor, offset: int = 0) -> Tensor:
        """Embeddings and positions of tokens."""

    def previous(self, source: Tensor) -> Tensor:
        """The token before each source token."""


class PointerDecoder:
    """The network with packed weights.

    Args:
        network: Weights are read once; make a new decoder when they change.
        precision: What products are computed in.
    """

    def __init__(self, network: PointerWeights, precision: Precision = "float32") -> None:
        self._network = network
        self._heads = network.config.heads
        self._dim = network.config.d_model
        self._encoder = [_Block(layer, precision) for layer in network.encoder]
        self._decoder = [_Block(layer, precision) for layer in network.decoder]
        self._inner = inner_type(precision, network.embedding.weight.dtype)
        self._encoder_norm, self._decoder_norm = (
            _norm(layer, self._inner) for layer in (network.encoder_norm, network.decoder_norm)
        )
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
        network, dim = self._network, self._dim
        lengths = [len(source) for source in sources]
        padded = torch.full((len(sources), max(lengths)), PAD, dtype=torch.long)
        for row, source in enumerate(sources):
            padded[row, : len(source)] = torch.tensor(source)
        padded = padded.to(network.device)
        real = padded != PAD
        x = network.embed(padded)[real]  # [T, d], as all that follows
        for block in self._encoder:
            mixed = []
            for qkv in torch.split(block.qkv(_normed(x, block.norm)).to(self._inner), lengths):
                q, k, v = self._heads_first(qkv).chunk(3)
                mixed.append(_attend(q, k.transpose(1, 2), v).to(x.dtype))
            x = block.feed_forward(block.out(_joined(mixed), x))
        memory = _normed(x, self._encoder_norm)
        previous = network.embedding(network.previous(padded)[real])
        keys = torch.split(self._key(torch.cat([memory, previous], -1)), lengths)
        cross = [
            [self._keys_values(kv) for kv in torch.split(block.cross_kv(memory).to(self._inner), lengths)]
            for block in self._decoder
        ]
        distinct, places = _distinct(padded)
        return PointerState(
            cache=AncestryCache(
                *(len(cross), self._heads, dim, len(sources)),
                device=network.device,
                dtype=memory.dtype,
                inner=self._inner,
            ),
            groups=Groups(torch.arange(len(sources), device=network.device), len(sources)),
            decoder=self,
            sentences=[_Sentence(list(layers), key.t().contiguous()) for *layers, key in zip(*cross, keys)],
            distinct=F.pad(distinct, (0, _rounded(distinct.shape[1]) - distinct.shape[1]), value=PAD),
            places=places,
        )

    def step_rows(self, state: PointerState, tokens: Tensor) -> Tensor:
        """See :class:`~polyref.paraphrase.search.RowModel`; returns log-probabilities."""
        x = self._network.embed(tokens[:, None], state.length)[:, 0]
        state.cache.extend()
        for index, block in enumerate(self._decoder):
            x = block.out(state.cache.attend(index, block.qkv(_normed(x, block.norm))), x)
            queries = self._heads_first(block.cross_q(_normed(x, block.cross_norm)).to(self._inner))
            split = zip(torch.split(queries, state.groups.sizes, 1), state.sentences)
            mixed = _joined([_attend(q, *sentence.cross[index]) for q, sentence in split])
            x = block.feed_forward(block.cross_out(mixed.to(x.dtype), x))
        x = _normed(x, self._decoder_norm)
        return self._mixture(state, x, self._shares(state, x))

    def _shares(self, state: PointerState, x: Tensor) -> Tensor:
        """Log-shares of the vocabulary (column 0) and of the source positions, -inf beyond them."""
        query, sentinel = self._query(x).tensor_split((self._dim,), dim=1)
        shares = x.new_full((len(x), _rounded(1 + state.places.shape[1])), -math.inf)
        shares[:, 0] = sentinel[:, 0]
        sizes = state.groups.sizes
        for one, out, sentence in zip(torch.split(query, sizes), torch.split(shares[:, 1:], sizes), state.sentences):
            keys = sentence.pointer_keys
            out[:, : keys.shape[1]] = torch.mm(one, keys)
        return torch.log_softmax(shares, -1)

    def _heads_first(self, x: Tensor) -> Tensor:
        """``[N, parts * d]`` to ``[parts * H, N, d/H]``."""
        return x.view(len(x), -1, self._dim // self._heads).transpose(0, 1)

    def _keys_values(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        k, v = self._heads_first(kv).chunk(2)
        return k.transpose(1, 2).contiguous(), v.contiguous()

    def _mixture(self, state: PointerState, x: Tensor, shares: Tensor) -> Tensor:
        """Log-probabilities ``[R, V]``, given :meth:`_shares`."""
        generate = shares[:, :1]
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
        copied = shares.new_zeros(distinct.shape).scatter_add_(1, state.places[owners], shares.exp()[:, 1:])
        scores.scatter_(1, distinct, torch.logaddexp(scores.gather(1, distinct), copied.log_()))
        return scores.index_fill_(1, self._never, -math.inf)


def inner_type(precision: Precision, outer: torch.dtype) -> torch.dtype:
    """What normalisation and attention are computed in, before they are rounded to ``outer``, the weights' type.

    In int8, a difference in the last bit of a product's input can move it by a whole step. Sums in float64 differ
    between processors too, but hardly ever so much that they are rounded to another float32.
    """
    return torch.float64 if precision == "int8" else outer


def _norm(layer: nn.LayerNorm, inner: torch.dtype) -> tuple[Tensor, Tensor]:
    return layer.weight.to(inner), layer.bias.to(inner)


def _normed(x: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    return norm(x.to(weights[0].dtype), weights).to(x.dtype)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One sentence's attention ``[H, Q, e]``: queries ``[H, Q, e]``, keys ``[H, e, L]``, values ``[H, L, e]``."""
    return torch.bmm(torch.bmm(q, k).softmax(dim=-1), v)


def _rounded(columns: int) -> int:
    return -(-columns // _COLUMNS) * _COLUMNS


def _joined(mixed: list[Tensor]) -> Tensor:
    """``[H, Q, e]`` of every sentence to ``[N, d]`` of all of them."""
    return torch.cat(mixed, 1).transpose(0, 1).flatten(1)


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
