"""One interface to all who can do work: a function, built once by every worker, and results in the order of the work.

>>> engine = Engine("local", jobs=2)
>>> workers = engine.workers(build)                # doctest: +SKIP
>>> results = list(workers.map(pieces))            # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeVar

from polyref.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

#: Processes of this machine; the workers of a Ray cluster.
ENGINES: Final = ("local", "ray")

#: The heading of what metrics with a model share.
MODELS: Final = "Metrics with a model"
# Options that say where networks compute, with one flag for all who have one.
DEVICE: Final[Mapping[str, Any]] = {
    "help": "Where to compute; cuda:0,1 is several devices, with a process each.",
    "flag": "--device",
    "heading": MODELS,
    "metavar": "NAME",
}
JOBS: Final[Mapping[str, Any]] = {
    "help": "Processes; they change no score.",
    "flag": "--jobs",
    "heading": MODELS,
    "least": 1,
    "otherwise": "one a core, where there is enough to do",
}
ENGINE: Final[Mapping[str, Any]] = {
    "help": "Who computes forced scores and vectors: processes of this machine, or the workers of a Ray cluster, "
    "--jobs of them or as many as it has room for; the same scores.",
    "flag": "--engine",
    "heading": MODELS,
    "choices": ENGINES,
}
ADDRESS: Final[Mapping[str, Any]] = {
    "help": "Of the Ray cluster: auto, HOST:6379.",
    "flag": "--address",
    "heading": MODELS,
    "metavar": "ADDRESS",
    "otherwise": "$RAY_ADDRESS, or one on this machine",
}
GPUS: Final[Mapping[str, Any]] = {
    "help": "GPUs of a Ray worker.",
    "flag": "--gpus",
    "heading": MODELS,
    "least": 0,
    "otherwise": "1 with --device cuda",
}
CACHE: Final[Mapping[str, Any]] = {
    "help": "Keep what networks compute, and what evaluate counts, in ~/.cache/polyref, or $POLYREF_CACHE.",
    "flag": "--cache",
    "heading": MODELS,
}


class Workers(Protocol[T_contra, R_co]):
    """Those that do one kind of work. Each has built its function once, whatever the number of pieces."""

    def map(self, work: Iterable[T_contra]) -> Iterator[R_co]:
        """The results of all pieces of work, in order."""

    def close(self) -> None:
        """Give back what they hold."""


@dataclass(frozen=True)
class Engine:
    """Where work is done. It changes no result.

    Attributes:
        name: ``local`` or ``ray``.
        jobs: Workers. None: one in this machine's processes, and as many as fit into a Ray cluster.
        address: Of the Ray cluster, such as ``auto`` or ``HOST:6379``. None: where $RAY_ADDRESS says, else the
            cluster that runs on this machine, else one that is started here for this program.
        gpus: What every worker takes of the cluster's GPUs, 0 or more; .5 puts two workers on one.
    """

    name: str = "local"
    jobs: int | None = None
    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UsageError(f"`engine` is {self.name!r}, expected one of {', '.join(ENGINES)}")
        if self.name == "ray" and find_spec("ray") is None:
            raise UsageError("`engine` is ray, which is not installed", remedy="pip install 'ray[data]'")
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"`jobs` is {self.jobs}, expected 1 or more")
        if not 0 <= self.gpus < math.inf or (self.gpus > 1 and self.gpus != int(self.gpus)):
            raise UsageError(f"`gpus` is {self.gpus:g}, expected a part of 1, or a whole number")
        for name, given in (("address", self.address), ("gpus", self.gpus)):
            if given and self.name != "ray":
                raise UsageError(f"`{name}` is given, but `engine` is {self.name}", remedy="`engine` ray")

    @classmethod
    def on(
        cls,
        device: str,
        name: str = "local",
        jobs: int | None = None,
        address: str | None = None,
        gpus: float | None = None,
    ) -> Engine:
        """An engine for networks that compute on a torch device.

        Args:
            device: The device; several, such as ``cuda:0,1``, each of which gets at least one process.
            name: As the attribute.
            jobs: As the attribute; of ``local`` without a number: one process a core on the CPU, else one a device.
            address: As the attribute.
            gpus: As the attribute; of Ray without a number: 1 where the device is ``cuda``, else none.
        """
        several = device.count(",") + 1
        if name == "ray" and several > 1:
            raise UsageError(
                f"`device` is {device!r}, but Ray gives every worker its own", remedy="`device` cuda, and `gpus`"
            )
        if gpus is None:
            gpus = float(name == "ray" and device.startswith("cuda"))
        if name == "local":
            from polyref.processes import available

            if jobs is None:
                jobs = available() if device == "cpu" else 1
            jobs = jobs if jobs < 1 else max(several, jobs)  # what is too small is refused
        return cls(name, jobs, address, gpus)

    @property
    def elsewhere(self) -> bool:
        """Whether the work is done by other machines, which start when they are asked to."""
        return self.name != "local"

    def workers(self, build: Callable[[], Callable[[T], R]]) -> Workers[T, R]:
        """Workers of one kind; they start with the first piece of work.

        Args:
            build: Called once by every worker; gives the function. It can be pickled, as can the work and the results.
        """
        if self.name == "local":
            from polyref.processes import Processes

            return Processes(build, self.jobs or 1)
        from polyref.cluster import RayWorkers

        return RayWorkers(build, jobs=self.jobs, address=self.address, gpus=self.gpus)
