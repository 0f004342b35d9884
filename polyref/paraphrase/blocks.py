"""Parts of the lean network: layers, attention, positions, and the state of a batch between two steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from polyref.paraphrase.products import Product


@dataclass
class DecoderState:
    """A batch between two steps: S sentences, W rows each, t tokens fed.

    Attributes:
        cross: Per layer the cross-attention keys ``[S, H, d/H, L]`` and values ``[S, H, L, d/H]``.
        bias: ``[S, 1, 1, L]``, 0 or -inf on padding; None without padding.
        cache: ``[capacity, 2 * layers, S * W, d]`` self-attention keys (even) and values (odd); the first ``length``
            positions are valid. Position-major, so that what is valid is one block.
        spare: Memory of the cache before, to reorder into.
        length: t.
    """

    cross: list[tuple[Tensor, Tensor]]
    bias: Tensor | None
    cache: Tensor
    spare: Tensor | None = None
    length: int = 0

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` positions."""
        new = self.cache.new_empty((capacity, *self.cache.shape[1:]))
        new[: self.length] = self.cache[: self.length]
        self.cache, self.spare = new, None

    def select(self, rows: Tensor) -> None:
        """Row i becomes old row ``rows[i]``.

        Two buffers take turns: fresh memory of this size would be mapped page by page on every step.
        """
        capacity, parts, _, dim = self.cache.shape
        shape = (capacity, parts, len(rows), dim)
        size = math.prod(shape)
        if self.spare is None or self.spare.numel() < size:
            self.spare = self.cache.new_empty(size)
        new = self.spare.flatten()[:size].view(shape)
        torch.index_select(self.cache[: self.length], 2, rows, out=new[: self.length])
        self.spare, self.cache = self.cache if self.cache.numel() >= size else None, new


@dataclass(frozen=True)
class Cross:
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
    cross: Cross | None

    @property
    def count(self) -> int:
        """Number of weights."""
        products = [self.attention, self.attention_out, self.fc1, self.fc2]
        norms = [*self.attention_norm, *self.final_norm]
        if self.cross is not None:
            products += [self.cross.q, self.cross.kv, self.cross.out]
            norms += self.cross.norm
        return sum(product.count for product in products) + sum(norm.numel() for norm in norms)


def norm(x: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    """Layer normalisation over the last dimension."""
    return F.layer_norm(x, x.shape[-1:], *weights)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """``[N, L, d]`` to ``[N, H, L, d/H]``."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """``[N, H, L, d/H]`` to ``[N, L, d]``."""
    return x.transpose(1, 2).flatten(2)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of ``q`` ``[N, H, Q, e]`` over transposed keys ``[N, H, e, L]`` and values ``[N, H, L, e]``."""
    weights = torch.matmul(q * q.shape[-1] ** -0.5, k)
    if bias is not None:
        weights = weights + bias
    return torch.matmul(weights.softmax(dim=-1), v)


def activate(x: Tensor, name: str) -> Tensor:
    """The activation function ``name``; may write into ``x``."""
    if name == "relu":
        return x.relu_()
    if name == "gelu":
        return F.gelu(x)
    if name == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    if name == "swish":
        return F.silu(x)
    return x.tanh_() if name == "tanh" else x


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
