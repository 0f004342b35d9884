"""Work of networks that others do, where there is enough of it: processes of this machine, or a cluster's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from polyref.engine import Engine, Workers
from polyref.errors import ModelError

T = TypeVar("T")
R = TypeVar("R")


class _Model(Protocol):
    @property
    def digest(self) -> str:
        """Its hash, in hexadecimal."""


M = TypeVar("M", bound=_Model)


class Elsewhere(Generic[T, R]):
    """A function that the workers of an engine compute. They start with the first piece of work.

    Args:
        build: Makes the function in a worker; it can be pickled, as can the work and the results.
        engine: Whose workers they are.
        worth: Tokens that make another process worth its start: it loads torch and the model before it begins.
    """

    def __init__(self, build: Callable[[], Callable[[T], R]], engine: Engine, worth: int) -> None:
        self.engine = engine
        self._build, self._worth = build, worth
        self._workers: Workers[T, R] | None = None

    def pays(self, tokens: int) -> bool:
        """Whether so many tokens are enough for two processes, or other machines were asked for."""
        return self.engine.elsewhere or min(self.engine.jobs or 1, tokens // self._worth) >= 2

    def map(self, work: Iterable[T]) -> Iterator[R]:
        """The results of all pieces of work, in order."""
        if self._workers is None:
            self._workers = self.engine.workers(self._build)
        return self._workers.map(work)

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None


def worker_model(load: Callable[[], M], name: str, digest: str) -> M:
    """The model of a worker, which computes with one thread; it must be the program's, which has this hash."""
    import torch

    torch.set_num_threads(1)
    model = load()
    if model.digest != digest:
        raise ModelError(
            f"{name} has sha {model.digest[:12]} with a worker, expected {digest[:12]}",
            remedy="the same model on every node",
        )
    return model
