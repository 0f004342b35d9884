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
from dataclasses import dataclass
from typing import Final, Literal, cast

import torch

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
