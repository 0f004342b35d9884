"""Parts of the lean network: layers, attention, positions, and the state of a batch between two steps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from polyref.models.networks.matmul import Precision, Product


@dataclass(kw_only=True)
class RowState:
    """A batch between two steps: S sentences, R rows, t tokens fed. ``scores`` is memory that a step uses again."""

    cache: AncestryCache
    groups: Groups
    scores: Tensor | None = None

    @property
    def length(self) -> int:
        """Tokens fed."""
        return self.cache.length

    def select(self, sentences: Tensor, rows: Tensor, owners: Tensor, sizes: list[int] | None = None) -> None:
        """Which rows come next; ``sizes`` of each sentence, where they are known."""
        self.cache.select(rows)
        self.groups = Groups(owners, len(sentences), sizes)

    def reorder(self, sentences: Tensor, parents: Tensor) -> None:
        """The same, where every sentence has as many rows."""
        before, (count, width) = len(self.cache) // self.groups.count, parents.shape
        owners = torch.arange(count * width, device=parents.device) // width
        self.select(sentences, (sentences[:, None] * before + parents).flatten(), owners, [width] * count)

    def buffer(self, rows: int, vocab: int, device: torch.device) -> Tensor:
        """``[rows, vocab]`` float32: fresh memory of this size would be mapped page by page on every step."""
        if self.scores is None or self.scores.numel() < rows * vocab:
            self.scores = torch.empty(rows * vocab, device=device)
        return self.scores[: rows * vocab].view(rows, vocab)


@dataclass(kw_only=True)
class DecoderState(RowState):
    """The lean network's.

    Attributes:
        cross: Per layer the cross-attention keys ``[S, H, d/H, L]`` and values ``[S, H, L, d/H]``: once a sentence,
            whatever the beam.
        bias: ``[S, 1, 1, L]``, 0 or -inf on padding; None without padding.
        sentences: The sentences one by one, for cross-attention folded into products.
    """

    cross: list[tuple[Tensor, Tensor]]
    bias: Tensor | None
    sentences: Sentences | None = None

    def select(self, sentences: Tensor, rows: Tensor, owners: Tensor, sizes: list[int] | None = None) -> None:
        if len(sentences) < self.groups.count:
            self.cross = [(k[sentences], v[sentences]) for k, v in self.cross]
            self.bias = None if self.bias is None else self.bias[sentences]
            if self.sentences is not None:
                self.sentences = self.sentences.select(sentences.tolist())
        super().select(sentences, rows, owners, sizes)


class Groups:
    """Rows of each sentence as a rectangle, for the products with its cross-attention keys and values.

    ``owners`` ``[R]``: the sentence of every row, ascending; ``sizes``: rows of each sentence (None: they are counted).
    """

    def __init__(self, owners: Tensor, count: int, sizes: list[int] | None = None) -> None:
        self.owners = owners
        self.count = count
        self.sizes: list[int] = sizes or torch.bincount(owners, minlength=count).tolist()
        self._width = max(self.sizes)
        self._even = len(owners) == count * self._width
        if not self._even:
            each = torch.tensor(self.sizes, device=owners.device)
            first = each.cumsum(0) - each
            places = torch.arange(self._width, device=owners.device)
            # Short sentences repeat their last row.
            self._spread = (first[:, None] + torch.minimum(places, each[:, None] - 1)).flatten()
            self._back = owners * self._width + torch.arange(len(owners), device=owners.device) - first[owners]

    def spread(self, x: Tensor) -> Tensor:
        """``[R, d]`` to ``[S, W, d]``."""
        return (x if self._even else x.index_select(0, self._spread)).view(self.count, self._width, -1)

    def back(self, x: Tensor) -> Tensor:
        """``[S, W, d]`` to ``[R, d]``."""
        flat = x.flatten(0, 1)
        return flat if self._even else flat.index_select(0, self._back)


@dataclass(frozen=True)
class CrossAttention:
    """Cross-attention of a decoder layer."""

    q: Product
    kv: Product
    out: Product
    norm: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Layer:
    """One encoder or decoder layer (``cross`` is None in the encoder)."""

    attention: Product
    attention_out: Product
    attention_norm: tuple[Tensor, Tensor]
    fc1: Product
    fc2: Product
    final_norm: tuple[Tensor, Tensor]
    cross: CrossAttention | None


def padded(rows: Sequence[Sequence[int]], pad: int, width: int = 0) -> Tensor:
    """Token ids of rows of several lengths: ``[N, T]``, filled up at the end, to the longest and at least ``width``."""
    found = torch.full((len(rows), max(width, *map(len, rows))), pad, dtype=torch.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = torch.as_tensor(row, dtype=torch.int64)
    return found


def norm(x: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    """Layer normalisation over the last dimension."""
    # PyTorch's functional form of it asks about overrides first, several hundred times a sentence.
    return torch.layer_norm(x, x.shape[-1:], *weights)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """``[N, L, d]`` to ``[N, H, L, d/H]``."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """``[N, H, L, d/H]`` to ``[N, L, d]``."""
    return x.transpose(1, 2).flatten(2)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Attention ``[N, H, Q, e]`` of scaled queries ``[N, H, Q, e]``, transposed keys ``[N, H, e, L]`` and values
    ``[N, H, L, e]``; ``bias`` is added to the scores.
    """
    weights = torch.matmul(q, k)
    if bias is not None:
        weights += bias
    return torch.matmul(weights.softmax(dim=-1), v)


def sinusoids(count: int, dim: int, first: int | None) -> Tensor:
    """Rows of a sinusoidal table: fairseq's from position ``first`` on, or (None) Marian's from 0 on."""
    if first is None:
        rates = torch.pow(10000.0, -torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = torch.arange(count, dtype=torch.float64)[:, None] * rates[None]
        return torch.cat((angles.sin(), angles.cos()), dim=1)[:, :dim].float()
    half = dim // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(first, first + count, dtype=torch.float32)[:, None] * rates[None]
    table = torch.cat((angles.sin(), angles.cos()), dim=1)
    return F.pad(table, (0, dim % 2))


#: Room for this many steps of the present number of rows when the cache grows.
_STEPS = 8


class AncestryCache:
    """Keys and values ``[..., dim]`` of all decoder layers; ``rows`` before the first step.

    Dot products and their softmax are computed in ``inner`` (None: ``dtype``). A weighted sum adds its terms up one
    after the other, the same way on every processor.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        dim: int,
        rows: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
    ) -> None:
        self._heads = heads
        self._dim = dim
        # Keys (even) and values (odd) of the layers, [capacity, d] each.
        self._tables = [torch.empty((0, dim), device=device, dtype=of) for of in (inner or dtype, dtype)] * layers
        self._used = 0
        self._rows = rows
        # [R, t]: places of the t ancestors of every row, itself the last.
        self._paths = torch.empty((rows, 0), dtype=torch.int64, device=device)
        self._index = self._offsets = self._paths
        self._pattern: Tensor | None = None
        self._fused = device.type == "cpu" and dtype == torch.float32

    @property
    def length(self) -> int:
        """Tokens fed so far."""
        return self._paths.shape[1]

    def __len__(self) -> int:
        """Rows."""
        return len(self._paths)

    @property
    def nbytes(self) -> int:
        """Memory of keys and values."""
        return sum(table.nbytes for table in self._tables)

    def select(self, rows: Tensor) -> None:
        """Row i of the next step continues row ``rows[i]`` of the last one."""
        self._paths = self._paths.index_select(0, rows)

    def extend(self) -> None:
        """Make room for the keys and values of one more token of every row."""
        rows, length = self._paths.shape
        if self._used + rows > len(self._tables[0]):
            self._collect(rows)
        places = torch.arange(self._used, self._used + rows, device=self._paths.device)
        self._paths = torch.cat((self._paths, places[:, None]), dim=1)
        self._used += rows
        self._rows = rows
        if self._fused:
            heads = torch.arange(self._heads)[:, None]
            self._index = (self._paths[:, None] * self._heads + heads).flatten()
            offsets = torch.arange(rows * self._heads + 1) * (length + 1)
            self._offsets = offsets[:-1]
            # Which dot products are wanted, of all queries with all keys; each layer writes them into it.
            size = (rows * self._heads, len(self._tables[0]) * self._heads)
            wanted = torch.zeros(len(self._index), dtype=self._tables[0].dtype)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")  # said once a process
                self._pattern = torch.sparse_csr_tensor(offsets, self._index, wanted, size, check_invariants=False)

    def _collect(self, rows: int) -> None:
        """Drop what no row descends from, and leave room for some steps."""
        if self._paths.device.type == "cpu":
            kept, inverse = torch.unique(self._paths, return_inverse=True)
        else:  # every row gets its own: the host would have to wait for which of them are the same
            kept = self._paths.flatten()
            inverse = torch.arange(len(kept), device=kept.device)
        self._paths = inverse.view(self._paths.shape)
        capacity = len(kept) + max(_STEPS * rows, len(kept) // 2)
        for number, table in enumerate(self._tables):
            new = table.new_empty((capacity, self._dim))
            torch.index_select(table, 0, kept, out=new[: len(kept)])
            self._tables[number] = new
        self._used = len(kept)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention ``[R, d]`` of one layer: ``qkv`` ``[R, 3d]`` of every row's last token, queries scaled."""
        q, k, v = qkv.chunk(3, dim=1)
        keys, values = self._tables[2 * layer], self._tables[2 * layer + 1]
        new = slice(self._used - self._rows, self._used)
        keys[new] = k
        values[new] = v
        if self._fused:
            return self._gathered(q, keys, values)
        # [R, t, H, e]
        shape = (*self._paths.shape, self._heads, -1)
        past_keys, past_values = (table[self._paths].view(shape) for table in (keys, values))
        queries = q.reshape(len(q), self._heads, -1).to(keys.dtype)
        weights = torch.einsum("rhe,rthe->rht", queries, past_keys).softmax(dim=-1).to(values.dtype)
        return torch.einsum("rht,rthe->rhe", weights, past_values).flatten(1)

    def _gathered(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # Dot products with some places are a sampled product of matrices, and a weighted sum of places is an embedding
        # bag: PyTorch's kernels of both read the places directly, nothing is copied.
        size = self._dim // self._heads
        queries = q.reshape(-1, size).to(keys.dtype)
        assert self._pattern is not None
        keys = keys.view(-1, size).t()
        scores = torch.sparse.sampled_addmm(self._pattern, queries, keys, beta=0.0, out=self._pattern).values()
        weights = scores.view(len(queries), -1).softmax(dim=-1).flatten().to(values.dtype)
        # Without the checks of torch.nn.functional; 0: their sum.
        mixed = torch.embedding_bag(values.view(-1, size), self._index, self._offsets, False, 0, False, weights)[0]
        return mixed.view(len(q), self._dim)


#: Rows of a sentence from which it pays to fold.
_ROWS = 48


def pays(rows: int, heads: int, length: int, dim: int) -> bool:
    """Whether to fold a sentence of ``length`` tokens with this many hypotheses, whatever other sentences there are."""
    return rows >= _ROWS and 4 * heads * length <= 3 * dim


@dataclass(frozen=True)
class FoldedCrossAttention:
    """One layer's on one sentence of L tokens: ``scores`` takes ``[W, d]`` to ``[W, H * L]``, ``out`` back."""

    scores: Product
    out: Product
    length: int

    @classmethod
    def fold(cls, q: Product, out: Product, keys: Tensor, values: Tensor) -> FoldedCrossAttention:
        """Multiply projections of queries and of the output by keys ``[H, e, L]`` and values ``[H, L, e]``."""
        # Weights of attention are small numbers beside some near to 1: eight bits a row would lose them.
        precision: Precision = "bfloat16" if out.precision == "int8" else out.precision
        heads, size, length = keys.shape
        dim = heads * size
        weight, bias = q.plain()
        into = torch.bmm(keys.transpose(1, 2), weight.view(heads, size, -1)).view(heads * length, -1)
        offset = None if bias is None else torch.bmm(bias.view(heads, 1, size), keys).flatten()
        back, bias = out.plain()
        mixed = torch.bmm(back.view(-1, heads, size).transpose(0, 1), values.transpose(1, 2))  # [H, d, L]
        return cls(
            Product(into, offset, precision=q.precision),
            Product(mixed.transpose(0, 1).reshape(dim, heads * length), bias, precision=precision),
            length,
        )

    def __call__(self, y: Tensor, x: Tensor) -> Tensor:
        """``x`` ``[W, d]`` plus the attention of ``y`` ``[W, d]``."""
        scores = self.scores(y)
        weights = scores.view(-1, self.length).softmax(dim=-1)
        return self.out(weights.view(scores.shape), x)


@dataclass(frozen=True)
class Sentences:
    """The sentences of a batch, one by one: their lengths and, where it was worth it, their folded layers."""

    lengths: list[int]
    layers: list[list[FoldedCrossAttention] | None]

    @classmethod
    def begin(cls, count: int, length: int, bias: Tensor | None) -> Sentences:
        """Nothing folded; ``bias`` ``[S, 1, 1, L]`` is 0 on tokens (None: everywhere)."""
        lengths = [length] * count if bias is None else (bias == 0).flatten(1).sum(1).tolist()
        return cls(lengths, [None] * count)

    def select(self, sentences: list[int]) -> Sentences:
        """Those of the old numbers ``sentences``."""
        return replace(self, lengths=[self.lengths[i] for i in sentences], layers=[self.layers[i] for i in sentences])
