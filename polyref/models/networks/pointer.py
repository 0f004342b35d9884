"""The shipped paraphraser's network: a pre-norm encoder-decoder with a pointer (copy) head.

The next-token distribution mixes a softmax over the vocabulary with a copy distribution over the source tokens, in
the manner of a pointer sentinel (Merity et al. 2016, arXiv:1609.07843, eq. 5-8): one softmax runs over the source
positions and a sentinel; the sentinel's share goes to the vocabulary. The pointer's keys see the encoder state *and*
the embedding of the previous source token, so that "which word followed the one I just copied" is one dot product.

Decoding starts from a control token that says how close to its source the paraphrase should stay (``closeness`` 0,
free, to 3, near copies); training pairs carry the bucket of their word F1.

The same module trains (``forward`` gives the log-probabilities of given targets) and decodes (it is a ``RowModel`` of
:mod:`polyref.paraphrase.search`, by :class:`PointerDecoder`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyref.models.networks.attention import AncestryCache, Groups, RowState, norm, padded
from polyref.models.networks.matmul import Precision, Product

#: Multiplies activations by a dropout mask; given by the trainer, absent at inference.
Dropout = Callable[[Tensor], Tensor]

PAD, UNK, BOS, EOS = 0, 1, 2, 3
#: First control token; ``CLOSENESS + c`` starts a paraphrase of closeness ``c`` (0 free .. 3 near copy).
CLOSENESS = 4
CLOSENESS_LEVELS = 4
#: Stands for hidden words in denoising pretraining.
MASK = CLOSENESS + CLOSENESS_LEVELS


@dataclass(frozen=True)
class PointerConfig:
    """Sizes of a :class:`PointerTransformer`."""

    vocab_size: int
    d_model: int = 384
    heads: int = 6
    ffn: int = 1536
    encoder_layers: int = 5
    decoder_layers: int = 2
    max_source: int = 256
    max_target: int = 320

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for the model's ``config.json``."""
        return asdict(self)


class _Attention(nn.Module):
    """Multi-head attention written out: the fused CPU kernels' backward pass is several times slower."""

    def __init__(self, d: int, heads: int, *, cross: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.cross = cross
        if cross:
            self.q = nn.Linear(d, d)
            self.kv = nn.Linear(d, 2 * d)
        else:
            self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def split(self, x: Tensor) -> Tensor:
        """``[N, T, d] -> [N, heads, T, d / heads]``."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; ``mask`` is added to the scores (0 or -inf-like), broadcast to ``[N, heads, T, S]``."""
        scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(2, 3)
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, -1)
        mixed = (weights @ v).transpose(1, 2)
        return cast(Tensor, self.out(mixed.reshape(mixed.shape[0], mixed.shape[1], -1)))


class _Layer(nn.Module):
    """One encoder layer, or a decoder layer when ``cross``."""

    def __init__(self, d: int, heads: int, ffn: int, *, cross: bool) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(d)
        self.attend_self = _Attention(d, heads)
        if cross:
            self.norm_cross = nn.LayerNorm(d)
            self.attend_cross = _Attention(d, heads, cross=True)
        self.norm_ffn = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, ffn)
        self.fc2 = nn.Linear(ffn, d)

    def feed_forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.fc2(F.relu(self.fc1(self.norm_ffn(x)))))


class PointerTransformer(nn.Module):
    """The module's network. Token ids 0-3 are pad, unk, bos, eos; 4-7 control tokens; 8 the mask."""

    pad: int = PAD
    unk: int = UNK
    eos: int = EOS
    normalized: bool = True
    #: What is no text: padding, bos, control tokens and the mask.
    never_written: tuple[int, ...] = (PAD, BOS, *range(CLOSENESS, MASK + 1))
    #: What decodes with its weights.
    decodes: type[PointerDecoder]

    def __init__(self, config: PointerConfig, closeness: int = 1, shortlist: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.closeness = closeness
        #: Decoding draws from so many first tokens of the vocabulary, the most frequent ones, and copies all others
        #: (a shortlist, as in Jean et al. 2015, section 3.2); None: from all. Training and forced scoring know all.
        self.shortlist = shortlist
        self.vocab_size = config.vocab_size
        self.start = CLOSENESS + closeness
        self.max_target = config.max_target
        self.device = torch.device("cpu")
        self.precision: Precision = "float32"
        self._packed: tuple[Any, PointerDecoder] | None = None
        d = config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.encoder = nn.ModuleList(
            _Layer(d, config.heads, config.ffn, cross=False) for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            _Layer(d, config.heads, config.ffn, cross=True) for _ in range(config.decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(d)
        self.decoder_norm = nn.LayerNorm(d)
        self.pointer_query = nn.Linear(d, d)
        self.pointer_key = nn.Linear(2 * d, d)
        self.sentinel = nn.Linear(d, 1)
        self.register_buffer("positions", _sinusoids(max(config.max_source, config.max_target) + 2, d), False)

    def place(self, device: str | torch.device) -> PointerTransformer:
        """Move the weights to a device."""
        self.to(device)
        self.device = torch.device(device)
        return self

    @contextmanager
    def at_closeness(self, closeness: int) -> Iterator[None]:
        """Decode at another closeness (0 free .. 3 near copy) inside the block."""
        before, self.start = self.start, CLOSENESS + closeness
        try:
            yield
        finally:
            self.start = before

    # -- shared by training and decoding -----------------------------------------------------------------------

    def embed(self, tokens: Tensor, offset: int = 0) -> Tensor:
        """Embeddings and positions ``[N, T, d]`` of tokens ``[N, T]``, the first of them at position ``offset``."""
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        positions = cast(Tensor, self.positions)[offset : offset + tokens.shape[1]]
        return cast(Tensor, x + positions.to(x.dtype))

    def padding_mask(self, source: Tensor) -> Tensor:
        """Added to attention scores: ``[N, 1, 1, L]``, 0 or, on padding, -1e4."""
        dtype = self.embedding.weight.dtype
        return torch.zeros(source.shape, dtype=dtype, device=source.device).masked_fill_(source == PAD, -1e4)[
            :, None, None, :
        ]

    def encode_batch(self, source: Tensor, drop: Dropout | None = None) -> Tensor:
        """Encoder states ``[N, L, d]`` of padded sources ``[N, L]``."""
        *_, x = self.encoder_states(source, drop)
        return cast(Tensor, self.encoder_norm(x))

    def encoder_states(self, source: Tensor, drop: Dropout | None = None) -> Iterator[Tensor]:
        """States ``[N, L, d]`` before the final normalisation: the embedding, then after each encoder layer."""
        mask = self.padding_mask(source)
        x = _maybe(drop, self.embed(source))
        yield x
        for layer in self.encoder:
            layer = cast(_Layer, layer)
            attend = layer.attend_self
            q, k, v = (attend.split(part) for part in attend.qkv(layer.norm_self(x)).chunk(3, -1))
            x = x + _maybe(drop, attend.mix(q, k, v, mask))
            x = x + _maybe(drop, layer.feed_forward(x))
            yield x

    def pointer_keys(self, source: Tensor, memory: Tensor) -> Tensor:
        previous = self.embedding(self.previous(source))
        return cast(Tensor, self.pointer_key(torch.cat([memory, previous], -1))).transpose(1, 2)

    @staticmethod
    def previous(source: Tensor) -> Tensor:
        """The token before each source token ``[N, L]``."""
        return torch.cat([torch.full_like(source[:, :1], BOS), source[:, :-1]], 1)

    def _pointer(self, x: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Log-share of the vocabulary ``[N, T, 1]`` and of each source position ``[N, T, L]``, in float32."""
        scores = (self.pointer_query(x) * (1.0 / math.sqrt(x.shape[-1]))) @ keys + mask
        shares = torch.log_softmax(torch.cat([self.sentinel(x), scores], -1).float(), -1)
        return shares[..., :1], shares[..., 1:]

    # -- training ----------------------------------------------------------------------------------------------

    def forward(
        self,
        source: Tensor,
        target_in: Tensor,
        target_out: Tensor,
        vocabulary: Callable[[Tensor, Tensor, Tensor], Tensor],
        drop: Dropout | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Log-probabilities ``[M]`` (nats, float32) of the M target tokens that are not padding, row by row.

        Sources ``[N, L]`` end in eos and are padded with 0; ``target_in`` ``[N, T]`` is the control token, then the
        target, and ``target_out`` the target, then eos. ``vocabulary`` is the log-softmax at the targets, of states
        ``[M, d]``, embedding ``[V, d]`` and targets ``[M]``; ``memory`` is what :meth:`encode_batch` gave.
        """
        if memory is None:
            memory = self.encode_batch(source, drop)
        mask = self.padding_mask(source)
        length = target_in.shape[1]
        causal = torch.full((length, length), -1e4, dtype=memory.dtype, device=memory.device).triu_(1)
        x = _maybe(drop, self.embed(target_in))
        for layer in self.decoder:
            layer = cast(_Layer, layer)
            attend = layer.attend_self
            q, k, v = (attend.split(part) for part in attend.qkv(layer.norm_self(x)).chunk(3, -1))
            x = x + _maybe(drop, attend.mix(q, k, v, causal))
            cross = layer.attend_cross
            k, v = (cross.split(part) for part in cross.kv(memory).chunk(2, -1))
            x = x + _maybe(drop, cross.mix(cross.split(cross.q(layer.norm_cross(x))), k, v, mask))
            x = x + _maybe(drop, layer.feed_forward(x))
        x = self.decoder_norm(x)
        generate, copy = self._pointer(x, self.pointer_keys(source, memory), mask[:, 0])
        same = target_out[:, :, None] == source[:, None, :]
        real = target_out != PAD
        generated = vocabulary(x[real], self.embedding.weight, target_out[real]) + generate[..., 0][real]
        # What is left after the last whole vector would be computed by another function, with another last bit.
        more = _rounded(len(generated)) - len(generated)
        copied = torch.logsumexp(F.pad(copy.masked_fill(~same, -1e4)[real], (0, 0, 0, more)), -1)
        return torch.logaddexp(F.pad(generated, (0, more)), copied)[: len(generated)]

    # -- decoding (RowModel) -----------------------------------------------------------------------------------

    def decoder_for(self, precision: Precision) -> PointerDecoder:
        """The weights packed for decoding; made again when they have changed."""
        # Weights that were loaded in inference mode count no changes.
        changes = ((part.data_ptr(), 0 if part.is_inference() else part._version) for part in self.parameters())
        key = (precision, self.shortlist, *changes)
        if self._packed is None or self._packed[0] != key:
            self._packed = key, self.decodes(self, precision)
        return self._packed[1]

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> PointerState:
        """Encode sources (token ids ending in eos) into a state of one row a sentence."""
        return self.decoder_for(self.precision).encode(sources)

    @torch.inference_mode()
    def step_rows(self, state: PointerState, tokens: Tensor) -> Tensor:
        """Feed one token a row (``[R]``); returns log-probabilities ``[R, V]``, valid until the next step."""
        return state.decoder.step_rows(state, tokens)

    def row_bytes(self, steps: int) -> int:
        """Memory of a decoder row after so many steps: its scores, its self-attention keys and values."""
        past = steps * self.config.decoder_layers * self.config.d_model
        return 4 * (self.vocab_size + past) + inner_type(self.precision, torch.float32).itemsize * past

    def select_rows(self, state: PointerState, sentences: Tensor, rows: Tensor, owners: Tensor) -> None:
        state.select(sentences, rows, owners)

    def step(self, state: PointerState, tokens: Tensor) -> Tensor:
        """Feed one token a row (``[S, W]``); returns log-probabilities ``[S, W, V]``, valid until the next step."""
        return self.step_rows(state, tokens.flatten()).view(*tokens.shape, -1)

    def reorder(self, state: PointerState, sentences: Tensor, parents: Tensor) -> None:
        """Keep ``sentences`` ([S']); row j of the new sentence i continues its old row ``parents[i, j]`` ([S', W'])."""
        state.reorder(sentences, parents)


def _maybe(drop: Dropout | None, x: Tensor) -> Tensor:
    return x if drop is None else drop(x)


def _sinusoids(length: int, d: int) -> Tensor:
    """Sinusoidal positions ``[length, d]`` (Vaswani et al. 2017, section 3.5), sines first."""
    rates = torch.exp(torch.arange(d // 2, dtype=torch.float64) * (-math.log(10000.0) / (d // 2 - 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()


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
    """Keys ``[H, d/H, L]`` and values ``[H, L, d/H]`` a layer, and ``[d, L]``, of one sentence."""

    cross: list[tuple[Tensor, Tensor]]
    pointer_keys: Tensor


@dataclass(kw_only=True)
class PointerState(RowState):
    """What decoding keeps; S sentences, L tokens of the longest.

    Attributes:
        decoder: What encoded the sentences, and decodes them.
        distinct: ``[S, L']`` the distinct tokens of each source, ascending, filled up with padding.
        places: ``[S, L]`` which of them each position holds.
    """

    decoder: PointerDecoder
    distinct: Tensor
    places: Tensor

    def select(self, sentences: Tensor, rows: Tensor, owners: Tensor, sizes: list[int] | None = None) -> None:
        if len(sentences) < self.groups.count:
            self.keep(sentences)
        super().select(sentences, rows, owners, sizes)

    def keep(self, sentences: Tensor) -> None:
        """Leave only these sentences in."""
        self.distinct, self.places = self.distinct[sentences], self.places[sentences]


@dataclass(kw_only=True)
class _ListedState(PointerState):
    """Sentences one by one, each with its own length."""

    sentences: list[_Sentence]

    def keep(self, sentences: Tensor) -> None:
        self.sentences = [self.sentences[i] for i in sentences.tolist()]
        super().keep(sentences)


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


class PointerDecoder:
    """The network with packed weights, which are read once: make a new decoder when they change."""

    def __init__(self, network: PointerTransformer, precision: Precision = "float32") -> None:
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
        network = self._network
        lengths = [len(source) for source in sources]
        tokens = padded(sources, PAD).to(network.device)
        real = tokens != PAD
        x = network.embed(tokens)[real]  # [T, d], as all that follows
        for block in self._encoder:
            mixed = []
            for qkv in torch.split(block.qkv(_normed(x, block.norm)).to(self._inner), lengths):
                q, k, v = self._heads_first(qkv).chunk(3)
                mixed.append(_attend(q, k.transpose(1, 2), v).to(x.dtype))
            x = block.feed_forward(block.out(_joined(mixed), x))
        memory = _normed(x, self._encoder_norm)
        previous = network.embedding(network.previous(tokens)[real])
        keys = torch.split(self._key(torch.cat([memory, previous], -1)), lengths)
        cross = [
            [self._keys_values(kv) for kv in torch.split(block.cross_kv(memory).to(self._inner), lengths)]
            for block in self._decoder
        ]
        return _ListedState(
            sentences=[_Sentence(list(layers), key.t().contiguous()) for *layers, key in zip(*cross, keys)],
            **self._begun(tokens, memory.dtype),
        )

    def _begun(self, tokens: Tensor, dtype: torch.dtype) -> dict[str, Any]:
        """What every state begins with, of sources ``[S, L]``."""
        count, device = len(tokens), tokens.device
        distinct, places = _distinct(tokens)
        return {
            "cache": AncestryCache(
                *(len(self._decoder), self._heads, self._dim, count), device=device, dtype=dtype, inner=self._inner
            ),
            "groups": Groups(torch.arange(count, device=device), count, [1] * count),
            "decoder": self,
            "distinct": F.pad(distinct, (0, _rounded(distinct.shape[1]) - distinct.shape[1]), value=PAD),
            "places": places,
        }

    def step_rows(self, state: PointerState, tokens: Tensor) -> Tensor:
        """Log-probabilities ``[R, V]``."""
        x = self._network.embed(tokens[:, None], state.length)[:, 0]
        state.cache.extend()
        for index, block in enumerate(self._decoder):
            x = block.out(state.cache.attend(index, block.qkv(_normed(x, block.norm))), x)
            mixed = self._crossed(state, index, block.cross_q(_normed(x, block.cross_norm)).to(self._inner))
            x = block.feed_forward(block.cross_out(mixed.to(x.dtype), x))
        x = _normed(x, self._decoder_norm)
        return self._mixture(state, x, self._shares(state, x))

    def _crossed(self, state: Any, index: int, queries: Tensor) -> Tensor:
        """What queries ``[R, d]`` of a layer find in their sources: ``[R, d]``."""
        split = zip(torch.split(self._heads_first(queries), state.groups.sizes, 1), state.sentences)
        return _joined([_attend(q, *sentence.cross[index]) for q, sentence in split])

    def _shares(self, state: Any, x: Tensor) -> Tensor:
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


PointerTransformer.decodes = PointerDecoder


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
