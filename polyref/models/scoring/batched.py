"""The networks behind :mod:`polyref.models.scoring.base`: the lean one, the shipped kind's, and Transformers' own.

Encoder states of a stretch of jobs are kept, targets are batched by length, matrix products go through
:mod:`polyref.models.networks.matmul`, and the projection onto the vocabulary is done a slice at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyref.models.scoring.base import ForcedScorer, Tokens
from polyref.progress import tell

#: Most target positions of a batch, padding included.
_BATCH: Final = 1024
#: Most logits held at once (float32: 64 MB).
_LOGITS: Final = 1 << 24

Row = npt.NDArray[np.float32]


def _picked(hidden: Tensor, project: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Log-probabilities of ``tokens`` ``[M]`` after states ``[M, d]``, in float32."""
    size = project(hidden[:1]).shape[-1]
    flat = []
    for first in range(0, len(hidden), step := max(_LOGITS // size, 1)):
        logits = project(hidden[first : first + step]).float()
        chosen = logits.gather(1, tokens[first : first + step, None])[:, 0]
        flat.append(chosen - logits.logsumexp(dim=1))
    return torch.cat(flat)


class _BatchedScorer(ForcedScorer):
    """Batches by length, and encoder states once a distinct source, for networks with a forward of their own."""

    #: Most target positions of a batch, padding included.
    _positions = _BATCH

    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[Row]:
        with torch.inference_mode():
            states = self._states(sorted(set(sources), key=lambda tokens: (-len(tokens), tokens)))
            order = sorted(range(len(targets)), key=lambda i: (-len(targets[i]), -len(sources[i]), sources[i]))
            results: dict[int, Row] = {}
            place = 0
            while place < len(order):
                batch = order[place : place + max(self._positions // len(targets[order[place]]), 1)]
                place += len(batch)
                scored = self._batch([sources[i] for i in batch], states, [targets[i] for i in batch], start)
                results.update(zip(batch, scored, strict=True))
                tell(len(batch))
        return [results[i] for i in range(len(targets))]

    def _states(self, sources: list[Tokens]) -> dict[Tokens, Tensor]:
        """Encoder states ``[L, d]`` of distinct sources, longest first."""
        states: dict[Tokens, Tensor] = {}
        start = 0
        while start < len(sources):
            batch = sources[start : start + max(_BATCH // len(sources[start]), 1)]
            start += len(batch)
            encoded = self._encode(_padded(batch, self._pad), torch.tensor([len(tokens) for tokens in batch]))
            states.update((tokens, row[: len(tokens)].clone()) for tokens, row in zip(batch, encoded))
        return states

    def _batch(
        self, sources: list[Tokens], states: dict[Tokens, Tensor], targets: list[Tokens], start: int | None
    ) -> Sequence[Row]:
        memory = torch.nn.utils.rnn.pad_sequence([states[tokens] for tokens in sources], batch_first=True)
        lengths = torch.tensor([len(tokens) for tokens in sources])
        wanted = _padded(targets, self._pad)
        sizes = torch.tensor([len(tokens) for tokens in targets])
        real = torch.arange(wanted.shape[1]) < sizes[:, None]
        flat = self._decode(_padded(sources, self._pad), lengths, memory, wanted, real, start)
        return np.split(flat.cpu().numpy(), np.cumsum(sizes.numpy())[:-1])

    @property
    @abstractmethod
    def _pad(self) -> int:
        """The padding token."""

    @abstractmethod
    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        """Encoder states ``[N, L, d]`` of padded sources."""

    @abstractmethod
    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        """Log-probabilities of the real tokens of ``wanted`` ``[N, T]``, row by row: ``[M]``."""


def _padded(rows: Sequence[Tokens], pad: int) -> Tensor:
    padded = torch.full((len(rows), max(map(len, rows))), pad, dtype=torch.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row)
    return padded
