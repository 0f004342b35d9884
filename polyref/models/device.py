"""Where networks compute: torch's devices and threads, checked before anything is loaded."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from polyref.errors import UsageError

if TYPE_CHECKING:
    import torch


def torch_device(name: str) -> torch.device:
    """The device of this name.

    Raises:
        UsageError: It is unknown or absent.
    """
    import torch

    try:
        if torch.device(name).type == "meta":
            raise UsageError(f"device {name!r} computes nothing, expected one such as cpu or cuda")
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return torch.device(name)


def use_threads(threads: int | None) -> None:
    """Let torch compute with so many threads (None: leave them as they are).

    Raises:
        UsageError: ``threads`` is below 1.
    """
    import torch

    if threads is not None:
        if threads < 1:
            raise UsageError(f"`threads` is {threads}, expected 1 or more")
        torch.set_num_threads(threads)


def arithmetic(device: str = "cpu", threads: int | None = None) -> tuple[str, ...]:
    """What moves the last digits of a network's sums: what was computed with other ones is not read from a cache.

    Args:
        device: Where it computes.
        threads: CPU threads (None: as many as torch uses now).
    """
    import torch

    from polyref.models.networks.matmul_library import library_choice

    versions = (str(torch.__version__), version("transformers"))
    if torch.device(device).type != "cpu":
        return (*versions, torch.cuda.get_device_name(device) if device.startswith("cuda") else device)
    capability, library = torch.backends.cpu.get_cpu_capability(), library_choice().library
    return (*versions, capability, library, str(threads or torch.get_num_threads()))
