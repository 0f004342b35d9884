"""An accelerator that is not there: tensors with a device of their own, computed on the CPU, checked as CUDA would.

Inside :func:`emulated`, ``device="emulated"`` is a device of torch. Its tensors are held on the CPU. What CUDA refuses
raises here too: an operation on tensors of two devices. So does what CUDA does in silence, the move of an index. What
the host waits for is counted (``waited``, by line of the package), and so is what is started (``launches``).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "emulated"
aten = torch.ops.aten

#: Operations after which the host waits: it needs a number that the device has, or the size of what it gave.
_WAITS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.equal.default,
    aten.repeat_interleave.Tensor,
    aten.bincount.default,
}
#: Operations that start nothing: they look at the same memory in another shape.
_VIEWS = (
    *("alias", "as_strided", "chunk", "detach", "diagonal", "expand", "lift_fresh", "narrow", "permute", "select"),
    *("slice", "split", "squeeze", "t.", "tensor_split", "transpose", "unbind", "unfold", "unsqueeze", "view"),
)


@cache
def _is_view(function: Any) -> bool:
    return str(function).removeprefix("aten.").lstrip("_").startswith(_VIEWS)


@cache
def _is_composed(function: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd"))


@cache
def _is_index(function: Any) -> bool:
    return "index" in str(function)


class Emulated(torch.Tensor):
    """A tensor of the device; ``held`` is what it holds, on the CPU."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Emulated:
        with torch.inference_mode(False):  # a view of a tensor from outside that mode would not be one inside
            made: Emulated = torch.Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=torch.device(NAME, 0),
            )
        made.held = held
        return made

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        if function is torch.Tensor.data_ptr:
            return args[0].held.data_ptr()
        if function is torch.Tensor.numpy:
            raise TypeError("the tensor is on a device: use Tensor.cpu() first")
        return torch._C._disabled_torch_function_impl(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{function}: a tensor of the emulated device outside of `emulated()`")


class Device(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What was done on the device: operations that were started, and lines at which the host waited."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launches = 0
        self.waited: Counter[str] = Counter()

    @property
    def waits(self) -> int:
        """How often the host waited."""
        return self.waited.total()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = list(_leaves((args, kwargs)))
        held = {id(one.held): one for one in given if isinstance(one, Emulated)}
        made_here = any(isinstance(one, torch.device) and one.type == NAME for one in given)
        if not held and not made_here:
            return function(*args, **kwargs)
        if _is_composed(function):
            with self:  # what it is made of
                return function.decompose(*args, **kwargs)
        if function is aten._to_copy.default:
            return self._moved(args[0], made_here, kwargs)
        if function is aten.copy_.default:
            return self._copied(*args, **kwargs)
        # A number may stand on the host, CUDA takes it along. An index would be moved in silence.
        if any(
            isinstance(one, torch.Tensor) and not isinstance(one, Emulated) and (one.dim() or _is_index(function))
            for one in given
        ):
            raise RuntimeError(f"{function}: expected all tensors to be on the same device, found cpu and {NAME}:0")
        masked = function in (aten.index.Tensor, aten.index_put_.default) and any(
            one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]
        )
        if masked or function in _WAITS:
            self._wait(str(function))
        self.launches += not _is_view(function)
        found = function(*_mapped(args, _inner), **_mapped(kwargs, _inner))
        return _mapped(found, lambda one: _outer(one, held))

    def _moved(self, tensor: torch.Tensor, made_here: bool, kwargs: dict[str, Any]) -> torch.Tensor:
        """``tensor.to(...)``: the host waits, unless it gives something away that need not be there at once."""
        ours = isinstance(tensor, Emulated)
        here = made_here or ("device" not in kwargs and ours)
        waits = not kwargs.pop("non_blocking", False) or not here
        kwargs.pop("device", None)
        if here != ours and waits:
            self._wait("to the device" if here else "to the host")
        self.launches += 1
        found = aten._to_copy.default(_inner(tensor), **kwargs)
        return Emulated(found) if here else found

    def _copied(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if isinstance(target, Emulated) != isinstance(source, Emulated) and not non_blocking:
            self._wait("copy")
        self.launches += 1
        _inner(target).copy_(_inner(source))
        return target

    def _wait(self, why: str) -> None:
        frame = sys._getframe()
        while frame.f_back is not None and "/polyref/" not in frame.f_code.co_filename:
            frame = frame.f_back
        self.waited[f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {why}"] += 1


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([_mapped(one, change) for one in value])
    if isinstance(value, dict):
        return {key: _mapped(one, change) for key, one in value.items()}
    return change(value)


def _inner(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.held if isinstance(value, Emulated) else value


def _outer(value: Any, held: dict[int, Emulated]) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, Emulated):
        return value
    return held[id(value)] if id(value) in held else Emulated(value)


@cache
def _registered() -> None:
    _setup_privateuseone_for_python_backend(NAME)


@contextmanager
def emulated() -> Iterator[Device]:
    """The device, and what is done on it inside the block."""
    _registered()
    # Tensors made of lists begin on the CPU, and are moved where the mode sees it.
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with Device() as device:
            yield device
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
