"""Matrix products of the lean network: oneDNN with packed weights on x86 CPUs, PyTorch's own elsewhere.

PyTorch's float32 ``linear`` goes to MKL, which on AMD processors takes a path at less than half their speed, and on
Intel ones is 10 - 20 % behind oneDNN at a beam's shapes (a hundred rows). The choice is by platform, not by timing at
start: a timed choice could fall differently from run to run, and with it the last digit of a score.
``POLYREF_PRODUCTS=default`` takes PyTorch's own.
"""

from __future__ import annotations

import os
import platform

import torch
import torch.nn.functional as F
from torch import Tensor

#: Rows the packed layout is made for; it works for any number.
_ROWS = 128


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
    """``x @ weight.T + bias``.

    Args:
        weight: ``[outputs, inputs]``.
        bias: ``[outputs]`` or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.count = weight.numel() + (0 if bias is None else bias.numel())
        self._outputs = weight.shape[0]
        self._bias = bias
        self._packed = packs(weight)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """The product of ``x`` ``[..., inputs]``."""
        if not self._packed:
            return F.linear(x, self._weight, self._bias)
        flat = x.reshape(-1, x.shape[-1])
        out: Tensor = torch.ops.mkldnn._linear_pointwise(flat, self._weight, self._bias, "none", [], "")
        return out.view(*x.shape[:-1], self._outputs)
