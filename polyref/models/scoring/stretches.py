"""Forced scores stretch by stretch: in several processes, and kept in the cache.

A stretch is computed, or read, as a whole. So neither the number of processes nor what is in the cache moves a digit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from polyref import __version__
from polyref.cache import Cache
from polyref.models.scoring.base import ForcedScorer, Rows, Stretch
from polyref.models.scoring.load import load_scorer
from polyref.processes import Processes, available
from polyref.progress import tell

#: Target tokens that make another process worth its start: it loads torch and the model before it begins.
WORTH: Final = 100_000


class Stretches:
    """Computes the stretches of a scorer; give it to :attr:`ForcedScorer.through`.

    Args:
        scorer: The scorer.
        load: Loads one like it in another process. It can be pickled.
        jobs: Most processes, 1 or more; each starts only if there is enough to do.
        cache: Where results are kept; None keeps none.
    """

    def __init__(
        self, scorer: ForcedScorer, load: Callable[[], Callable[[Stretch], Rows]], jobs: int, cache: Cache | None
    ) -> None:
        self._scorer, self._load, self._jobs, self._cache = scorer, load, jobs, cache
        self._processes: Processes[Stretch, Rows] | None = None

    def __call__(self, stretches: Sequence[Stretch]) -> Iterator[Rows]:
        """The log-probabilities of every stretch, in order."""
        keys = [self._key(stretch) for stretch in stretches]
        known = self._cache.get(keys) if self._cache else {}
        missing = [stretch for key, stretch in zip(keys, stretches, strict=True) if key not in known]
        computed = self._computed(missing)
        for key, stretch in zip(keys, stretches, strict=True):
            if key in known:
                tell(len(stretch[1]))
                yield _unpacked(known[key], stretch)
                continue
            rows = next(computed)
            if self._cache:
                self._cache.put({key: _packed(rows)})
            yield rows

    def _computed(self, stretches: Sequence[Stretch]) -> Iterator[Rows]:
        tokens = sum(len(target) for _, targets in stretches for target in targets)
        if min(self._jobs, tokens // WORTH) < 2:
            return map(self._scorer.compute, stretches)
        if self._processes is None:
            self._processes = Processes(self._load, self._jobs)
        return self._processes.map(stretches)

    def _key(self, stretch: Stretch) -> bytes:
        scorer = self._scorer
        model = (scorer.digest, scorer.dtype, scorer.note, scorer.max_source, scorer.max_target, __version__)
        return hashlib.sha256(repr(("forced scores", model, stretch)).encode()).digest()


def _packed(rows: Rows) -> bytes:
    return np.concatenate(rows).astype("<f4").tobytes()


def _unpacked(value: bytes, stretch: Stretch) -> Rows:
    flat = np.frombuffer(value, "<f4").astype(np.float32, copy=False)
    return np.split(flat, np.cumsum([len(target) for target in stretch[1]])[:-1])


def load_stretched(
    name: str, *, device: str = "cpu", dtype: str = "float32", jobs: int | None = None, cache: Cache | None = None
) -> ForcedScorer:
    """Load a model for forced scoring that uses the machine.

    Args:
        name: As for :func:`polyref.models.scoring.load.load_scorer`.
        device: A torch device.
        dtype: As for ``load_scorer``.
        jobs: Processes; None: one a core on the CPU, one on other devices.
        cache: Where results are kept; None keeps none.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used, or ``jobs`` is below 1.
    """
    if jobs is None:
        jobs = available() if device == "cpu" else 1
    scorer = load_scorer(name, device=device, dtype=dtype)
    scorer.through = Stretches(scorer, partial(_begin, name, device, dtype), jobs, cache)
    return scorer


def _begin(name: str, device: str, dtype: str) -> Callable[[Stretch], Rows]:
    import torch

    torch.set_num_threads(1)
    return load_scorer(name, device=device, dtype=dtype).compute
