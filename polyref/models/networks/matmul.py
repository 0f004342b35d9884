"""Which library multiplies matrices on the CPU: oneDNN with packed weights, or PyTorch's default (its BLAS).

PyTorch's float32 ``linear`` goes to MKL, which on AMD processors takes a path at less than half their speed, and on
Intel ones is 10 - 20 % behind oneDNN at a beam's shapes (a hundred rows). So the rule is oneDNN on x86-64 and the
default elsewhere. ``POLYREF_PRODUCTS`` names a library instead.

The last digit of a score depends on the library. The rule looks at nothing but the platform, so the choice is the same
from run to run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from polyref.errors import UsageError

Library = Literal["onednn", "default"]
LIBRARIES: Final = ("onednn", "default")
#: Environment variable that names a library, or says ``auto``.
PRODUCTS: Final = "POLYREF_PRODUCTS"


@dataclass(frozen=True)
class LibraryChoice:
    """The library and the reason for it, in words."""

    library: Library
    reason: str


def library_choice() -> LibraryChoice:
    """What the products of this process's networks are computed with, on the CPU in float32."""
    named = os.environ.get(PRODUCTS) or "auto"
    if named not in ("auto", *LIBRARIES):
        raise UsageError(f"{PRODUCTS} is {named!r}, expected one of auto, {', '.join(LIBRARIES)}")
    if not has_onednn():
        return LibraryChoice("default", "this PyTorch cannot pack weights for oneDNN")
    if named != "auto":
        return LibraryChoice(cast(Library, named), f"{PRODUCTS} says so")
    machine = platform.machine()
    return LibraryChoice("onednn" if machine in ("x86_64", "AMD64") else "default", f"the rule for {machine}")


def has_onednn() -> bool:
    """Whether this PyTorch multiplies with weights packed for oneDNN."""
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )


#: What the products of a network are computed in; anything but float32 is approximate.
Precision = Literal["float32", "bfloat16", "int8"]
_COMPUTING: ContextVar[Precision] = ContextVar("precision", default="float32")
#: Rows the packed layout is made for; it works for any number.
_ROWS = 128
#: Rows of a float32 product on the CPU: fewer are added up in another order by PyTorch's default library, one also by
#: oneDNN.
_FEWEST: Final = 4
#: oneDNN's names of activations that it computes inside of the product, and its variants of them.
_FUSED: Final = {
    "linear": ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
}


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Networks built inside the block compute their products in this precision."""
    before = _COMPUTING.set(precision)
    try:
        yield
    finally:
        _COMPUTING.reset(before)


def packs(tensor: Tensor) -> bool:
    """Whether weights like this one are packed for oneDNN."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32 and library_choice().library == "onednn"


class Product:
    """``activation(x @ weight.T + bias)``, or the product added to something; the weight is ``[outputs, inputs]``.

    ``precision`` is what it is computed in (None: :func:`computing_in`'s); other than float32 for float32 weights on
    the CPU only. ``keep``: the weights are kept as they are given for :meth:`plain`, where they are rounded.
    """

    #: Whether :meth:`plain` gives the weights back: those of float32 on the CPU.
    reversible = False

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        activation: str = "linear",
        precision: Precision | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self._outputs = weight.shape[0]
        self._bias = bias
        self._activation = activation
        plain = weight.device.type != "cpu" or weight.dtype != torch.float32
        self.precision: Precision = "float32" if plain else precision or _COMPUTING.get()
        exact = self.precision == "float32"
        self._kept = (weight, bias) if keep and not exact else None
        self.reversible = not plain and (exact or keep)
        # oneDNN packs bfloat16 only where the processor can (AVX-512 and newer); PyTorch's own products work anywhere.
        self._packed = packs(weight) and (
            self.precision != "bfloat16" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
        self._weight = weight
        if self.precision == "int8":
            self._quantise(weight)
        elif self.precision == "bfloat16":
            self._weight, self._bias = weight.bfloat16(), None if bias is None else bias.bfloat16()
        if self._packed and self.precision != "int8":
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight.contiguous(), _ROWS)

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """The product of ``x`` ``[..., inputs]``, plus ``add`` ``[..., outputs]``."""
        flat = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        if len(flat) < _FEWEST and self.reversible and self.precision == "float32":
            missing = (0, 0, 0, _FEWEST - len(flat))
            more = None if add is None else F.pad(add.reshape(-1, self._outputs), missing)
            return self(F.pad(flat, missing), more)[: len(flat)].view(*x.shape[:-1], self._outputs)
        if self.precision == "int8":
            out = activate(self._integers(flat), self._activation)
            if add is not None:
                return out.add_(add.reshape(out.shape)).view(*x.shape[:-1], self._outputs)
        elif not self._packed:
            flat = flat.bfloat16() if self.precision == "bfloat16" else flat
            out = activate(F.linear(flat, self._weight, self._bias), self._activation)
        elif self.precision == "bfloat16":
            out = activate(self._onednn(flat.bfloat16(), "none", "").float(), self._activation)
        elif add is not None and self._activation == "linear":
            other = add.reshape(-1, self._outputs)
            out = torch.ops.mkldnn._linear_pointwise.binary(flat, other, self._weight, self._bias, "add")
            add = None
        elif self._activation in _FUSED:
            out = self._onednn(flat, *_FUSED[self._activation])
        else:
            out = activate(self._onednn(flat, "none", ""), self._activation)
        if self.precision == "bfloat16":
            out = out.float()
        if x.dim() != 2:
            out = out.view(*x.shape[:-1], self._outputs)
        return out if add is None else add + out

    def plain(self) -> tuple[Tensor, Tensor | None]:
        """Weight ``[outputs, inputs]`` and bias of a reversible product, as they were given."""
        if self._kept is not None:
            return self._kept
        return (self._weight.to_dense() if self._packed else self._weight), self._bias

    def _onednn(self, x: Tensor, activation: str, variant: str) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, activation, [], variant)
        return out

    def _quantise(self, weight: Tensor) -> None:
        self._packed = self._packed and hasattr(torch.ops.onednn, "qlinear_pointwise") and _has_vnni()
        self._scales = weight.abs().amax(1).clamp_min(1e-12) / 127
        rounded = (weight / self._scales[:, None]).round_().clamp_(-127, 127)
        self._zeros = torch.zeros(self._outputs, dtype=torch.int32)
        if self._packed:
            self._weight = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        else:
            self._weight = rounded

    def _integers(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(1, keepdim=True).clamp_min_(1e-12).div_(127)
        rounded = (x / scale).round_()
        if self._packed:
            # Inputs are stored as 1 .. 255 with their zero at 128: the processors' instructions want them unsigned.
            # PyTorch converts to signed bytes much faster; 128 more or less is their highest bit.
            shifted = rounded.to(torch.int8).view(torch.uint8).bitwise_xor_(128)
            out: Tensor = torch.ops.onednn.qlinear_pointwise(
                shifted, 1.0, 128, self._weight, self._scales, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
            )
        else:
            # The same integers, held in floats.
            out = F.linear(rounded, self._weight).mul_(self._scales)
        return out.mul_(scale) if self._bias is None else torch.addcmul(self._bias, out, scale, out=out)


def _has_vnni() -> bool:
    """Whether the processor multiplies bytes without overflow (oneDNN's kernels for older ones saturate)."""
    known = getattr(torch.cpu, "_is_vnni_supported", None) or getattr(torch.cpu, "_is_avx512_vnni_supported", None)
    return known is not None and bool(known())


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
