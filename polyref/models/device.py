"""Where networks compute: torch's devices and threads, checked before anything is loaded."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from polyref.errors import UsageError
from polyref.processes import place

if TYPE_CHECKING:
    import torch

    from polyref.cache import Cache

#: What the names of environment variables begin with that tell libraries how to compute.
_SETTINGS: Final = ("ATEN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "OMP_", "ONEDNN_", "OPENBLAS_", "POLYREF_PRODUCTS")


def devices(names: str) -> list[str]:
    """The devices of a list: ``cuda:0,1`` is ``cuda:0`` and ``cuda:1``."""
    found: list[str] = []
    for name in names.split(","):
        kind = found[-1].partition(":")[0] if found and name.isdigit() else ""
        found.append(f"{kind}:{name}" if kind else name)
    if any(not name or name.isdigit() for name in found):
        raise UsageError(f"device {names!r} cannot be used: expected names such as cpu, cuda or cuda:0,1")
    return found


def own_device(names: str) -> str:
    """The device of a list on which this process computes: they go round the processes."""
    found = devices(names)
    if len(found) == 1:
        return found[0]
    for name in found:
        torch_device(name)
    return found[place() % len(found)]


def torch_device(name: str) -> torch.device:
    """The device of this name."""
    import torch

    try:
        if torch.device(name).type == "meta":
            raise UsageError(f"device {name!r} computes nothing, expected one such as cpu or cuda")
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return torch.device(name)


def spare_memory(device: str, processes: int = 1) -> int | None:
    """Bytes that a batch may take on a GPU that so many processes share: half of what is free. None: no GPU."""
    import torch

    if torch.device(device).type != "cuda":
        return None
    return int(torch.cuda.mem_get_info(device)[0]) // 2 // processes


def use_threads(threads: int | None) -> None:
    """Let torch compute with so many threads (None: leave them as they are)."""
    import torch

    if threads is not None:
        if threads < 1:
            raise UsageError(f"`threads` is {threads}, expected 1 or more")
        torch.set_num_threads(threads)


def arithmetic(device: str = "cpu", threads: int | None = None) -> tuple[str, ...]:
    """What moves the last digits of a network's sums: what was computed with other ones is not read from a cache.

    Of several devices, those of a process; ``threads`` are the CPU's (None: as many as torch uses now).
    """
    import torch

    from polyref.models.networks.matmul import library_choice

    versions = (str(torch.__version__), version("transformers"))
    device = own_device(device)
    if torch.device(device).type != "cpu":
        return (*versions, torch.cuda.get_device_name(device) if device.startswith("cuda") else device)
    capability, library = torch.backends.cpu.get_cpu_capability(), library_choice().library
    return (*versions, capability, library, str(threads or torch.get_num_threads()))


def usual_arithmetic(device: str, cache: Cache) -> tuple[str, ...]:
    """:func:`arithmetic` with torch's own number of threads: what the cache knows of this machine's CPU needs no torch.

    Once torch is loaded it is asked, because a program may have changed the number.
    """
    if "torch" in sys.modules or devices(device) != ["cpu"]:
        torch_device(own_device(device))
        return arithmetic(device)
    try:
        cpu = [line for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines() if "MHz" not in line]
    except OSError:
        cpu = [platform.processor()]
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    settings = sorted(item for item in os.environ.items() if item[0].startswith(_SETTINGS))
    machine = (platform.platform(), cpu, allowed, settings, version("torch"), version("transformers"))
    key = hashlib.sha256(repr(("arithmetic 1", machine)).encode()).digest()
    if kept := cache.get([key]):
        return tuple(kept[key].decode().split("\n"))
    found = arithmetic(device)
    cache.put({key: "\n".join(found).encode()})
    return found
