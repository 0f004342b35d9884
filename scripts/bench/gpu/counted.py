"""What a piece of work asks of a card, and what the card can do: arithmetic and memory traffic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

#: Read as much of their first input as they give, wherever it lies in it.
_GATHER: Final = frozenset({"embedding", "index", "index_select", "gather"})
#: Write as much into their first input as they are given, wherever it lies in it.
_SCATTER: Final = frozenset({"index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_fill_"})


class Counted(TorchDispatchMode):
    """Inside, floating-point operations of products (``flops``), and bytes that operations read and write.

    As if each operation read its inputs from the card's memory and wrote its results there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(function.overloadpacket)
        if count is None and torch._C._dispatch_has_kernel_for_dispatch_key(
            function.name(), "CompositeImplicitAutograd"
        ):
            with self:  # what it is made of
                return function.decompose(*args, **kwargs)
        found = function(*args, **kwargs)
        if count is not None:
            self.flops += count(*args, **kwargs, out_val=found)
        if not function.is_view:
            name = function.overloadpacket.__name__
            read, written = _bytes(args[1:] if name in _GATHER | _SCATTER else (args, kwargs)), _bytes(found)
            self.bytes += 2 * read if name in _SCATTER else read + written * (1 + (name in _GATHER))
        return found


def _bytes(values: Any) -> int:
    return sum(one.numel() * one.element_size() for one in tree_leaves(values) if isinstance(one, torch.Tensor))


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device, repeat: int) -> float:
    """The shortest of several runs, by the clock on the wall."""
    times = []
    for _ in range(repeat):
        wait(device)
        begin = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - begin)
    return min(times)


def limits(device: torch.device, dtype: torch.dtype, rows: int, numbers: int) -> tuple[float, float]:
    """Floating-point operations a second, of one large product, and bytes a second, of one large copy."""
    one = torch.randn(rows, rows, device=device, dtype=dtype)
    moved = torch.randn(numbers, device=device)
    target = torch.empty_like(moved)

    def multiply() -> None:
        torch.mm(one, one)

    def copy() -> None:
        target.copy_(moved)

    multiply()
    return 2 * rows**3 / seconds(multiply, device, 5), 2 * moved.nbytes / seconds(copy, device, 5)
