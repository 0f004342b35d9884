"""Forced scores stretch by stretch: in several processes or on a cluster, and kept in the cache.

A stretch is computed, or read, as a whole. So neither the engine, nor the number of its workers, nor what is in the
cache moves a digit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from polyref import __version__
from polyref.cache import Cache
from polyref.engines.engine import Engine, Workers
from polyref.errors import ModelError
from polyref.models.device import arithmetic
from polyref.models.scoring.base import ForcedScorer, Rows, Stretch
from polyref.models.scoring.load import load_scorer
from polyref.progress import tell

#: Target tokens that make another process worth its start: it loads torch and the model before it begins.
WORTH: Final = 100_000


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
        return self._engine.elsewhere or min(self._engine.jobs or 1, tokens // WORTH) >= 2

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
        name: As for :func:`polyref.models.scoring.load.load_scorer`.
        device: A torch device.
        dtype: As for ``load_scorer``.
        engine: Whose workers compute; None: :meth:`Engine.on` the device.
        cache: Where results are kept; None keeps none.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used.
    """
    engine = engine or Engine.on(device)
    scorer = load_scorer(name, device=device, dtype=dtype)
    scorer.through = Stretches(scorer, partial(_begin, name, device, dtype, scorer.digest), engine, cache, device)
    return scorer


def _begin(name: str, device: str, dtype: str, digest: str) -> Callable[[Stretch], Rows]:
    import torch

    torch.set_num_threads(1)
    scorer = load_scorer(name, device=device, dtype=dtype)
    if scorer.digest != digest:
        raise ModelError(
            f"{name} has sha {scorer.digest} with a worker, expected {digest}", remedy="the same model on every node"
        )
    return scorer.compute
