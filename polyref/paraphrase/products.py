"""Matrix products of the networks: oneDNN with packed weights on x86 CPUs, PyTorch's own elsewhere.

PyTorch's float32 ``linear`` goes to MKL, which on AMD processors takes a path at less than half their speed, and on
Intel ones is 10 - 20 % behind oneDNN at a beam's shapes (a hundred rows). The choice is by platform, not by timing at
start: a timed choice could fall differently from run to run, and with it the last digit of a score.
``POLYREF_PRODUCTS=default`` takes PyTorch's own.
"""

from __future__ import annotations

import os
import platform
from typing import Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

#: What the products of a network are computed in; anything but float32 is approximate.
Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: Final = ("float32", "bfloat16", "int8")
#: Rows the packed layout is made for; it works for any number.
_ROWS = 128
#: oneDNN's names of activations that it computes inside of the product, and its variants of them.
_FUSED: Final = {
    "linear": ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
}


def packs(tensor: Tensor) -> bool:
    """Whether weights like this one are packed for oneDNN."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and platform.machine() in ("x86_64", "AMD64")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and os.environ.get("POLYREF_PRODUCTS", "onednn") == "onednn"
    )


class Product:
    """``activation(x @ weight.T + bias)``, or the product added to something.

    Args:
        weight: ``[outputs, inputs]``.
        bias: ``[outputs]`` or None.
        activation: Applied to the result; one of :func:`activate`.
        precision: What it is computed in.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, activation: str = "linear", precision: Precision = "float32"
    ) -> None:
        self.count = weight.numel() + (0 if bias is None else bias.numel())
        self._outputs = weight.shape[0]
        self._bias = bias
        self._activation = activation
        self._packed = packs(weight)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS) if self._packed else weight

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """The product of ``x`` ``[..., inputs]``, plus ``add`` ``[..., outputs]``."""
        if not self._packed:
            out = activate(F.linear(x, self._weight, self._bias), self._activation)
            return out if add is None else add + out
        flat = x.reshape(-1, x.shape[-1])
        name, variant = _FUSED.get(self._activation, ("none", ""))
        if add is not None and self._activation == "linear":
            other = add.reshape(-1, self._outputs)
            out = torch.ops.mkldnn._linear_pointwise.binary(flat, other, self._weight, self._bias, "add")
            return out.view(*x.shape[:-1], self._outputs)
        out = torch.ops.mkldnn._linear_pointwise(flat, self._weight, self._bias, name, [], variant)
        if self._activation not in _FUSED:
            out = activate(out, self._activation)
        out = out.view(*x.shape[:-1], self._outputs)
        return out if add is None else add + out


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
