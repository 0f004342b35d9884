"""Work of networks that others do: processes of this machine, or the workers of a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from polyref import __version__
from polyref.cache import Cache, default_cache
from polyref.engine import Engine, Workers
from polyref.errors import ModelError
from polyref.models.device import arithmetic
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import load_encoder
from polyref.models.forced import ForcedScorer, Rows, Stretch
from polyref.progress import tell

#: Target tokens that make another process worth its start: it loads torch and the model before it begins.
WORTH_SCORING: Final = 100_000


class Stretches:
    """Computes the stretches of a scorer; give it to :attr:`ForcedScorer.through`.

    Args:
        scorer: The scorer.
        load: Loads one like it in another process. It can be pickled.
        engine: Whose workers compute. Processes of this machine start only if there is enough to do for each.
        cache: Where results are kept; None keeps none.
        device: Where the scorer computes.
    """

    def __init__(
        self,
        scorer: ForcedScorer,
        load: Callable[[], Callable[[Stretch], Rows]],
        engine: Engine,
        cache: Cache | None,
        device: str = "cpu",
    ) -> None:
        self._scorer, self._load, self._engine, self._cache, self._device = scorer, load, engine, cache, device
        self._workers: Workers[Stretch, Rows] | None = None

    def __call__(self, stretches: Sequence[Stretch]) -> Iterator[Rows]:
        """The log-probabilities of every stretch, in order."""
        several = self._several(stretches)
        keys = self._keys(stretches, several) if self._cache else [b""] * len(stretches)
        known = self._cache.get(keys) if self._cache else {}
        missing = [stretch for key, stretch in zip(keys, stretches, strict=True) if key not in known]
        computed = self._computed(missing, several)
        for key, stretch in zip(keys, stretches, strict=True):
            if key in known:
                tell(len(stretch[1]))
                yield _unpacked(known[key], stretch)
                continue
            rows = next(computed)
            if self._engine.elsewhere:  # processes of this machine tell of it themselves
                tell(len(stretch[1]))
            if self._cache:
                self._cache.put({key: _packed(rows)})
            yield rows

    def _several(self, stretches: Sequence[Stretch]) -> bool:
        """Whether there is work for several processes, all of which compute with one thread."""
        tokens = sum(len(target) for _, targets, _ in stretches for target in targets)
        return self._engine.elsewhere or min(self._engine.jobs or 1, tokens // WORTH_SCORING) >= 2

    def _computed(self, stretches: Sequence[Stretch], several: bool) -> Iterator[Rows]:
        if not several or not stretches:
            return map(self._scorer.compute, stretches)
        if self._workers is None:
            self._workers = self._engine.workers(self._load)
        return self._workers.map(stretches)

    def _keys(self, stretches: Sequence[Stretch], several: bool) -> list[bytes]:
        scorer = self._scorer
        model = (scorer.digest, scorer.dtype, scorer.note, scorer.max_source, scorer.max_target, __version__)
        computed = arithmetic(self._device, 1 if several else None)
        named = (repr(("forced scores 2", model, computed, stretch)) for stretch in stretches)
        return [hashlib.sha256(name.encode()).digest() for name in named]


def _packed(rows: Rows) -> bytes:
    return np.concatenate(rows).astype("<f4").tobytes()


def _unpacked(value: bytes, stretch: Stretch) -> Rows:
    flat = np.frombuffer(value, "<f4").astype(np.float32, copy=False)
    return np.split(flat, np.cumsum([len(target) for target in stretch[1]])[:-1])


def load_stretched(
    name: str,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    engine: Engine | None = None,
    cache: Cache | None = None,
) -> ForcedScorer:
    """Load a model for forced scoring that uses the machine, or a cluster.

    Args:
        name: As for :func:`polyref.models.scorers.load_scorer`.
        device: A torch device.
        dtype: As for ``load_scorer``.
        engine: Whose workers compute; None: :meth:`Engine.on` the device.
        cache: Where results are kept; None keeps none.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used.
    """
    from polyref.models.scorers import load_scorer

    engine = engine or Engine.on(device)
    scorer = load_scorer(name, device=device, dtype=dtype)
    scorer.through = Stretches(scorer, partial(_begin, name, device, dtype, scorer.digest), engine, cache, device)
    return scorer


def _begin(name: str, device: str, dtype: str, digest: str) -> Callable[[Stretch], Rows]:
    import torch

    from polyref.models.scorers import load_scorer

    torch.set_num_threads(1)
    scorer = load_scorer(name, device=device, dtype=dtype)
    if scorer.digest != digest:
        raise ModelError(
            f"{name} has sha {scorer.digest} with a worker, expected {digest}", remedy="the same model on every node"
        )
    return scorer.compute


R_co = TypeVar("R_co", covariant=True)

#: Tokens that make another process worth its start: it loads torch and the model before it begins. With fewer, the
#: threads of one process are faster.
WORTH_ENCODING: Final = 200_000
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
        if not self._engine.elsewhere and min(jobs, tokens // WORTH_ENCODING) < 2:
            return None
        return min(_PIECE, max(1, tokens // (jobs * _PIECES)))

    def map(self, tasks: Iterable[Task[R_co]]) -> Iterator[R_co]:
        """The results of tasks, in order."""
        if self._workers is None:
            if self._encoding.cache:
                default_cache().try_out()
            self._workers = self._engine.workers(self._encoding)
        return self._workers.map(tasks)
