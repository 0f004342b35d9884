"""Matrix products of encoders: each row by itself, so that a text's vectors are the same in any batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def use_products(network: nn.Module) -> None:
    """Let a network's linear layers compute by :class:`polyref.models.networks.matmul.Product`, on the CPU.

    The weights are packed, and what they were packed from is given up: the network cannot be trained or saved any more.
    """
    import torch
    from torch import nn

    from polyref.models.networks.matmul import Product, packs

    for module in network.modules():
        if type(module) is nn.Linear and packs(module.weight):
            layer: Any = module
            layer.forward = Product(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())
            layer.weight.data = torch.empty(0)
