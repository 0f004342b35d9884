"""What only training needs of ESIM's network: first weights and dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from polyref.metrics.esim.card import EsimConfig
from polyref.metrics.esim.network import EsimNetwork


class Masks:
    """Dropout masks of one training step: drawn from their own generator, so that a step can be repeated."""

    def __init__(self, rate: float, seed: int) -> None:
        """Prepare.

        Args:
            rate: The share of values set to zero, at least 0 and below 1.
            seed: Of the step.
        """
        self._rate = rate
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, x: Tensor, *, shared: bool = False) -> Tensor:
        """Drop values of ``x``; ``shared`` draws one mask a sequence, for all its time steps (``x``: [N, T, F])."""
        if self._rate == 0:
            return x
        shape = (x.shape[0], 1, x.shape[2]) if shared else x.shape
        keep = torch.rand(shape, generator=self._generator) >= self._rate
        return x * (keep.to(x.dtype) / (1 - self._rate)).to(x.device)


class DroppingNetwork(EsimNetwork):
    """ESIM with dropout where Mathur et al. 2019 have it: on what enters the LSTMs and the scoring head.

    Attributes:
        masks: Those of the step; None drops nothing.
    """

    def __init__(self, config: EsimConfig) -> None:
        super().__init__(config)
        self.masks: Masks | None = None
        for lstm in (self.encoding, self.composition):
            lstm.register_forward_pre_hook(self._drop_of_sequences)
        for linear in (self.hidden, self.output):
            linear.register_forward_pre_hook(self._drop)

    def _drop_of_sequences(self, _: nn.Module, given: tuple[PackedSequence]) -> Any:
        if self.masks is None:
            return None
        x, lengths = pad_packed_sequence(given[0], batch_first=True)
        return (pack_padded_sequence(self.masks(x, shared=True), lengths, batch_first=True, enforce_sorted=False),)

    def _drop(self, _: nn.Module, given: tuple[Tensor]) -> Any:
        return None if self.masks is None else (self.masks(given[0]),)


def initialise(network: EsimNetwork, seed: int) -> None:
    """Xavier uniform; recurrent weights orthogonal; biases 0, but 1 for the forget gates' recurrent part."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, weight in network.named_parameters():
            if name.endswith(("mixing", "gamma")):
                continue
            if "weight_hh" in name:
                nn.init.orthogonal_(weight)
            elif weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)
                if "bias_hh" in name:
                    h = network.config.hidden  # gates are in the order input, forget, cell, output
                    with torch.no_grad():
                        weight[h : 2 * h] = 1
