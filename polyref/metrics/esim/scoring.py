"""Scores of pairs with a trained network: each text is read once, each pair compared once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from polyref.metrics.esim.network import EsimNetwork
from polyref.metrics.esim.texts import padded
from polyref.metrics.statistics import Floats
from polyref.progress import work

#: Most pairs, and most tokens of their longer sides with padding, in one batch.
PAIRS: Final = 64
TOKENS: Final = 4096


def read_texts(network: EsimNetwork, states: Sequence[Tensor], tokens: int = TOKENS) -> list[Tensor]:
    """The first LSTM's outputs for texts of shape (L, T, d): shape (T, 2h) each, in their order.

    On the CPU each is read alone, for the last digits of a product depend on how many rows it has: so they do not
    depend on the other texts, nor on what a cache holds. Elsewhere they do, below 1e-6.
    """
    found: list[Tensor] = [torch.empty(0)] * len(states)
    order = sorted(range(len(states)), key=lambda place: states[place].shape[1])
    device = network.gamma.device
    with torch.inference_mode():
        size = 1 if device.type == "cpu" else len(order)
        for chosen in _batches(order, [states[place].shape[1] for place in order], size, tokens):
            batch, lengths = padded([states[place] for place in chosen])
            read = network.read(batch.to(device), lengths)
            for row, place in enumerate(chosen):
                found[place] = read[row, : lengths[row]].clone()
    return found


def compare_texts(
    network: EsimNetwork,
    read: Mapping[str, Tensor],
    pairs: Sequence[tuple[str, str]],
    size: int = PAIRS,
    tokens: int = TOKENS,
) -> Floats:
    """Scores of (reference, output) pairs.

    Args:
        network: The network, without dropout.
        read: Text -> what :func:`read_texts` gives for it.
        pairs: P pairs.
        size: Most pairs in a batch.
        tokens: Most tokens in a batch, padding included.

    Returns:
        Shape (P,).
    """
    sizes = [(len(read[ref]), len(read[output])) for ref, output in pairs]
    order = sorted(range(len(pairs)), key=lambda place: sizes[place])
    scores = np.empty(len(pairs))
    with torch.inference_mode(), work("comparing", "texts", len(pairs)) as advance:
        for chosen in _batches(order, [max(sizes[place]) for place in order], size, tokens):
            sides = [[read[pairs[place][side]] for place in chosen] for side in (0, 1)]
            m, n = (torch.tensor([len(text) for text in side]) for side in sides)
            a, b = (pad_sequence(side, batch_first=True) for side in sides)
            scores[chosen] = network.compare(a, b, m, n).double().cpu().numpy()
            advance(len(chosen))
    return scores


def _batches(order: Sequence[int], lengths: Sequence[int], size: int, tokens: int) -> Iterator[list[int]]:
    """``order`` in pieces of at most ``size`` entries, and ``tokens`` with padding, but of at least one entry."""
    batch: list[int] = []
    longest = 0
    for place, length in zip(order, lengths, strict=True):
        if batch and (len(batch) == size or max(longest, length) * (len(batch) + 1) > tokens):
            yield batch
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, length)
    if batch:
        yield batch
