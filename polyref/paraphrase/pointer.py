"""The shipped paraphraser's network: a pre-norm encoder-decoder with a pointer (copy) head.

The next-token distribution mixes a softmax over the vocabulary with a copy distribution over the source tokens, in
the manner of a pointer sentinel (Merity et al. 2016, arXiv:1609.07843, eq. 5-8): one softmax runs over the source
positions and a sentinel; the sentinel's share goes to the vocabulary. The pointer's keys see the encoder state *and*
the embedding of the previous source token, so that "which word followed the one I just copied" is one dot product.

Decoding starts from a control token that says how close to its source the paraphrase should stay (``closeness`` 0,
free, to 3, near copies); training pairs carry the bucket of their word F1.

The same module trains (``forward`` gives the log-probabilities of given targets) and decodes (it is a ``StepModel``
of :mod:`polyref.paraphrase.search`): encoder states, cross-attention and pointer keys are kept once a sentence and
shared by all of its beams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


@dataclass
class PointerState:
    """What decoding keeps; ``S`` sentences, ``W`` beams each, ``L`` source positions, ``T`` tokens so far."""

    source: Tensor  # [S, L] token ids
    mask: Tensor  # [S, 1, 1, L] 0 or -inf, added to attention scores
    pointer_keys: Tensor  # [S, d, L]
    cross: list[tuple[Tensor, Tensor]]  # per layer [S, heads, L, d/heads]
    cache: list[Tensor]  # per layer [T or more, 2, S * W * heads, d/heads]: keys and values, time first
    scratch: _Scratch
    width: int
    length: int
    turn: int = 0

    def room(self, layer: int, lanes: int, size: int) -> Tensor:
        """The cache of a layer with a free place at position ``length``."""
        cache = self.cache[layer]
        if cache.shape[0] == self.length:
            grown = cache.new_empty(self.length + 8, 2, lanes, size)
            grown[: self.length] = cache
            self.cache[layer] = cache = grown
        return cache

    def reorder_cache(self, lanes: Tensor) -> None:
        """Gather lanes of all positions, into the other one of two buffers."""
        self.turn = 1 - self.turn
        for layer, cache in enumerate(self.cache):
            shape = (self.length + 1, 2, len(lanes), cache.shape[3])
            gathered = self.scratch.take(f"cache{layer}.{self.turn}", shape, cache)
            torch.index_select(cache[: self.length], 2, lanes, out=gathered[: self.length])
            self.cache[layer] = gathered


class _Scratch:
    """Large buffers used again at every step: fresh pages for each would cost as much as the products in them."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised buffer; what the last one of this name held is lost."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            # Caches grow by one position a step: leave room.
            held = self._held[name] = like.new_empty(size + size // 2)
        return held[:size].view(shape)


class PointerTransformer(nn.Module):
    """See the module's docstring. Token ids 0-3 are pad, unk, bos, eos; 4-7 control tokens; 8 the mask."""

    pad: int = PAD
    unk: int = UNK
    eos: int = EOS
    normalized: bool = True

    def __init__(self, config: PointerConfig, closeness: int = 1) -> None:
        super().__init__()
        self.config = config
        self.closeness = closeness
        self.vocab_size = config.vocab_size
        self.start = CLOSENESS + closeness
        self.max_target = config.max_target
        self.device = torch.device("cpu")
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

    def _embed(self, tokens: Tensor, offset: int = 0) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        positions = cast(Tensor, self.positions)[offset : offset + tokens.shape[1]]
        return cast(Tensor, x + positions.to(x.dtype))

    def _padding_mask(self, source: Tensor) -> Tensor:
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
        mask = self._padding_mask(source)
        x = _maybe(drop, self._embed(source))
        yield x
        for layer in self.encoder:
            layer = cast(_Layer, layer)
            attend = layer.attend_self
            q, k, v = (attend.split(part) for part in attend.qkv(layer.norm_self(x)).chunk(3, -1))
            x = x + _maybe(drop, attend.mix(q, k, v, mask))
            x = x + _maybe(drop, layer.feed_forward(x))
            yield x

    def _pointer_keys(self, source: Tensor, memory: Tensor) -> Tensor:
        previous = torch.cat([torch.full_like(source[:, :1], BOS), source[:, :-1]], 1)
        return cast(Tensor, self.pointer_key(torch.cat([memory, self.embedding(previous)], -1))).transpose(1, 2)

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
        """Log-probabilities of the targets.

        Args:
            source: ``[N, L]`` token ids ending in eos, padded with 0.
            target_in: ``[N, T]`` decoder inputs: the control token, then the target.
            target_out: ``[N, T]`` the target, then eos; padding is skipped.
            vocabulary: Log-softmax at the targets: ``(states [M, d], embedding [V, d], targets [M]) -> [M]``.
            drop: Dropout to apply, or None.
            memory: ``[N, L, d]`` what :meth:`encode_batch` gave for the sources, where it is known already.

        Returns:
            ``[M]`` log-probabilities (nats, float32) of the M target tokens that are not padding, row by row.
        """
        if memory is None:
            memory = self.encode_batch(source, drop)
        mask = self._padding_mask(source)
        length = target_in.shape[1]
        causal = torch.full((length, length), -1e4, dtype=memory.dtype, device=memory.device).triu_(1)
        x = _maybe(drop, self._embed(target_in))
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
        generate, copy = self._pointer(x, self._pointer_keys(source, memory), mask[:, 0])
        same = target_out[:, :, None] == source[:, None, :]
        copied = torch.logsumexp(copy.masked_fill(~same, -1e4), -1)
        real = target_out != PAD
        generated = vocabulary(x[real], self.embedding.weight, target_out[real]) + generate[..., 0][real]
        return torch.logaddexp(generated, copied[real])

    # -- decoding (StepModel) ----------------------------------------------------------------------------------

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> PointerState:
        """Encode sources (token ids ending in eos) into a state of one row a sentence."""
        longest = max(len(source) for source in sources)
        padded = [[*source, *[PAD] * (longest - len(source))] for source in sources]
        source = torch.tensor(padded, dtype=torch.long, device=self.device)
        memory = self.encode_batch(source)
        cross = []
        for layer in self.decoder:
            attend = cast(_Layer, layer).attend_cross
            k, v = (attend.split(part).contiguous() for part in attend.kv(memory).chunk(2, -1))
            cross.append((k, v))
        empty = memory.new_zeros(0, 2, len(sources) * self.config.heads, self.config.d_model // self.config.heads)
        return PointerState(
            source=source,
            mask=self._padding_mask(source),
            pointer_keys=self._pointer_keys(source, memory).contiguous(),
            cross=cross,
            cache=[empty for _ in self.decoder],
            scratch=_Scratch(),
            width=1,
            length=0,
        )

    @torch.inference_mode()
    def step(self, state: PointerState, tokens: Tensor) -> Tensor:
        """Feed one token a row (``[S, W]``); returns log-probabilities ``[S, W, V]``, valid until the next step."""
        sentences, width = tokens.shape
        rows, heads = sentences * width, self.config.heads
        x = self._embed(tokens.reshape(rows, 1), state.length)
        for index, layer in enumerate(self.decoder):
            layer = cast(_Layer, layer)
            attend = layer.attend_self
            q, k, v = attend.qkv(layer.norm_self(x)).view(rows, 3, heads, -1).unbind(1)
            cache = state.room(index, rows * heads, q.shape[-1])
            cache[state.length, 0] = k.reshape(rows * heads, -1)
            cache[state.length, 1] = v.reshape(rows * heads, -1)
            cache = cache[: state.length + 1]
            scores = torch.bmm(q.reshape(rows * heads, 1, -1), cache[:, 0].permute(1, 2, 0))
            weights = torch.softmax(scores * (1.0 / math.sqrt(q.shape[-1])), -1)
            mixed = torch.bmm(weights, cache[:, 1].transpose(0, 1))
            x = x + attend.out(mixed.view(rows, 1, -1))
            cross = layer.attend_cross
            # The beams of a sentence are the "time steps" of its cross-attention: keys are stored once.
            queries = cross.split(cross.q(layer.norm_cross(x)).view(sentences, width, -1))
            x = x + cross.mix(queries, *state.cross[index], state.mask).reshape(rows, 1, -1)
            x = x + layer.feed_forward(x)
        x = self.decoder_norm(x).view(sentences, width, -1)
        state.length += 1
        state.width = width
        generate, copy = self._pointer(x, state.pointer_keys, state.mask[:, 0])
        probs = state.scratch.take("probs", (rows, self.vocab_size), x)
        torch.mm(x.view(rows, -1), self.embedding.weight.T, out=probs)
        probs.sub_(probs.amax(-1, keepdim=True)).exp_()
        probs.mul_(generate.view(rows, 1).exp() / probs.sum(-1, keepdim=True))
        places = state.source[:, None, :].expand(sentences, width, -1)
        probs = probs.view(sentences, width, -1).scatter_add_(2, places, copy.exp())
        # Never generate what is no text: padding, bos, control tokens and the mask.
        probs[..., [PAD, BOS, *range(CLOSENESS, MASK + 1)]] = 0
        return probs.log_()

    def reorder(self, state: PointerState, sentences: Tensor, parents: Tensor) -> None:
        """Keep ``sentences`` ([S']); row j of the new sentence i continues its old row ``parents[i, j]`` ([S', W'])."""
        heads = self.config.heads
        rows = (sentences[:, None] * state.width + parents).reshape(-1)
        lanes = (rows[:, None] * heads + torch.arange(heads, device=rows.device)).reshape(-1)
        state.reorder_cache(lanes)
        state.width = parents.shape[1]
        count = state.source.shape[0]
        if len(sentences) == count and bool((sentences == torch.arange(count, device=sentences.device)).all()):
            return
        state.source = state.source.index_select(0, sentences)
        state.mask = state.mask.index_select(0, sentences)
        state.pointer_keys = state.pointer_keys.index_select(0, sentences)
        state.cross = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in state.cross]


def _maybe(drop: Dropout | None, x: Tensor) -> Tensor:
    return x if drop is None else drop(x)


def _sinusoids(length: int, d: int) -> Tensor:
    """Sinusoidal positions ``[length, d]`` (Vaswani et al. 2017, section 3.5), sines first."""
    rates = torch.exp(torch.arange(d // 2, dtype=torch.float64) * (-math.log(10000.0) / (d // 2 - 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()
