"""Work on the vectors of texts, done by others: processes of this machine, or the workers of a cluster.

Vectors stay where they are computed: they are larger than what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from polyref.cache import default_cache
from polyref.engines.engine import Engine, Workers
from polyref.errors import ModelError
from polyref.metrics.embedding.embeddings import Embeddings
from polyref.metrics.embedding.encoders.load import load_encoder

R_co = TypeVar("R_co", covariant=True)

#: Tokens that make another process worth its start: it loads torch and the model before it begins. With fewer, the
#: threads of one process are faster.
WORTH: Final = 200_000
#: Most tokens of a piece of work, and how many pieces a worker is given at least where there is enough to do.
_PIECE: Final = 32_768
_PIECES: Final = 8


class Task(Protocol[R_co]):
    """A piece of work. It can be pickled, and so can its result."""

    def __call__(self, embeddings: Embeddings) -> R_co:
        """Do it with these vectors. They are the same for any piece that a text is in."""


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors, with every worker alike.

    Attributes:
        model: Name of the encoder, as for :func:`load_encoder`.
        digest: Of the encoder that is meant.
        layer: The layer.
        device: A torch device.
        dtype: See :class:`Embeddings`.
        cache: Whether vectors are kept on the disk.
    """

    model: str
    digest: str
    layer: int
    device: str = "cpu"
    dtype: str = "float32"
    cache: bool = True

    def __call__(self) -> Callable[[Task[Any]], Any]:
        """What a worker does."""
        import torch

        torch.set_num_threads(1)
        encoder = load_encoder(self.model, self.device)
        if encoder.digest != self.digest:
            raise ModelError(
                f"{self.model} has sha {encoder.digest[:12]} with a worker, expected {self.digest[:12]}",
                remedy="the same model on every node",
            )
        encoder.states(np.zeros((1, 1), dtype=np.int32), (self.layer,))  # processes share a network that is loaded
        cache = default_cache() if self.cache else None
        return partial(_do, Embeddings(encoder, (self.layer,), dtype=self.dtype, cache=cache, memory=0))


def _do(embeddings: Embeddings, task: Task[Any]) -> Any:
    return task(embeddings)


class Helpers:
    """The workers of an engine that have an encoder. Processes of this machine start with the first task.

    Args:
        encoding: Of all of them.
        engine: Whose workers they are.
    """

    def __init__(self, encoding: Encoding, engine: Engine) -> None:
        self._encoding, self._engine = encoding, engine
        self._workers: Workers[Task[Any], Any] | None = None

    def piece(self, tokens: int) -> int | None:
        """How many of so many tokens make a piece of work; None: it is not worth it, or not asked for."""
        jobs = self._engine.jobs or 1
        if not self._engine.elsewhere and min(jobs, tokens // WORTH) < 2:
            return None
        return min(_PIECE, max(1, tokens // (jobs * _PIECES)))

    def map(self, tasks: Iterable[Task[R_co]]) -> Iterator[R_co]:
        """The results of tasks, in order."""
        if self._workers is None:
            if self._encoding.cache:
                default_cache().try_out()
            self._workers = self._engine.workers(self._encoding)
        return self._workers.map(tasks)
