"""Decoding with the shipped kind's network on an accelerator: all sentences at once, filled up to the longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from polyref.models.networks.attention import Groups, attend, join_heads, padded, split_heads
from polyref.models.networks.pointer import PAD, PointerDecoder, PointerState


@dataclass(kw_only=True)
class _BatchedState(PointerState):
    """Keys ``[S, H, d/H, L]`` and values ``[S, H, L, d/H]`` a layer; the pointer, ``[S, d, L]``; the bias."""

    cross: list[tuple[Tensor, Tensor]]
    pointer_keys: Tensor
    bias: Tensor

    def keep(self, sentences: Tensor) -> None:
        self.cross = [(k[sentences], v[sentences]) for k, v in self.cross]
        self.pointer_keys, self.bias = self.pointer_keys[sentences], self.bias[sentences]
        super().keep(sentences)


class BatchedDecoder(PointerDecoder):
    """On an accelerator: all sentences at once, filled up to the longest; a start for each would take longer."""

    def encode(self, sources: Sequence[Sequence[int]]) -> PointerState:
        network = self._network
        tokens = padded(sources, PAD).to(network.device)
        memory = network.encode_batch(tokens)
        cross = []
        for block in self._decoder:
            k, v = (split_heads(part, self._heads) for part in block.cross_kv(memory).chunk(2, -1))
            cross.append((k.transpose(2, 3).contiguous(), v.contiguous()))
        return _BatchedState(
            cross=cross,
            pointer_keys=network.pointer_keys(tokens, memory),
            bias=network.padding_mask(tokens),
            **self._begun(tokens, memory.dtype),
        )

    def _crossed(self, state: Any, index: int, queries: Tensor) -> Tensor:
        (k, v), groups = state.cross[index], cast(Groups, state.groups)
        q = split_heads(groups.spread(queries), self._heads)
        return groups.back(join_heads(attend(q, k, v, state.bias)))

    def _shares(self, state: Any, x: Tensor) -> Tensor:
        query, sentinel = self._query(x).tensor_split((self._dim,), dim=1)
        scores = torch.bmm(state.groups.spread(query), state.pointer_keys) + state.bias[:, 0]
        return torch.log_softmax(torch.cat([sentinel[:, :1], state.groups.back(scores)], 1), -1)
