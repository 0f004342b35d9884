"""Training batches of the shipped paraphraser: token ids cut into batches of one source each.

``prepare`` and ``teach`` write the ids into the run's folder; ``Mixture`` gives the next batch as a function of seed,
step and how far each source has been read: nothing else is state.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from torch import Tensor

from training.package import CLOSENESS, EOS, MASK, PAD

MAX_PIECES = 128
#: Control token of denoising: the target is close to its source.
NEAR_COPY = 3

#: Sources, targets and closeness levels of a batch.
Rows = tuple[list[list[int]], list[list[int]], list[int]]


def save_ragged(path: Path, rows: Iterable[Sequence[int]]) -> None:
    """Write rows of token ids as one flat array of 16 bits a token."""
    lengths: list[int] = []

    def counted() -> Iterator[Sequence[int]]:
        for row in rows:
            lengths.append(len(row))
            yield row

    flat = np.fromiter(chain.from_iterable(counted()), np.uint16)
    np.savez(path, flat=flat, offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def save_pairs(
    folder: Path,
    sources: Iterable[Sequence[int]],
    targets: Iterable[Sequence[int]],
    closeness: Sequence[int],
    clusters: Sequence[Hashable],
) -> list[int]:
    """Write pairs as a source of a run; returns how many there are of each closeness."""
    save_ragged(folder / "source.npz", sources)
    save_ragged(folder / "target.npz", targets)
    np.save(folder / "closeness.npy", np.array(closeness, np.uint8))
    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    np.save(folder / "cluster.npy", np.array([numbers[cluster] for cluster in clusters], np.int32))
    return [closeness.count(level) for level in range(NEAR_COPY + 1)]


class Ragged:
    """Rows of token ids in one flat array, and their lengths."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as packed:
            self.flat, self.offsets = packed["flat"], packed["offsets"]
        self.lengths: np.ndarray = np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> list[int]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]].tolist()


def bucket(lengths: np.ndarray, order: np.ndarray, tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Cut ``order`` into batches of similar length and about ``tokens`` padded tokens, in random order."""
    batches: list[np.ndarray] = []
    for start in range(0, len(order), 40_000):
        chunk = order[start : start + 40_000]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        current, longest = 0, 0
        for index, row in enumerate(chunk):
            longest = max(longest, int(lengths[row]))
            if longest * (index + 1 - current) > tokens and index > current:
                batches.append(chunk[current:index])
                current, longest = index, int(lengths[row])
        batches.append(chunk[current:])
    return [batches[i] for i in rng.permutation(len(batches))]


def noisy(row: list[int], rng: random.Random) -> list[int]:
    """A corrupted copy: pieces dropped, hidden in spans, and shuffled within a window of three."""
    out: list[int] = []
    hide = 0
    for token in row:
        if hide:
            hide -= 1
        elif (draw := rng.random()) < 0.08:
            continue
        elif draw < 0.12:
            hide = rng.randrange(3)
            out.append(MASK)
        else:
            out.append(token)
    keys = sorted(range(len(out)), key=lambda i: i + rng.random() * 2.5)
    return [out[i] for i in keys] if rng.random() < 0.6 else out


class SourceBatches:
    """The batches of one source, epoch by epoch."""

    def __init__(self, folder: Path, tokens: int, seed: int, per_cluster: int) -> None:
        self.name, self.tokens, self.seed, self.per_cluster = folder.name, tokens, seed, per_cluster
        self.target = Ragged(folder / "target.npz")
        self.source: Ragged | None = None
        lengths = self.target.lengths
        if (folder / "source.npz").exists():
            self.source = Ragged(folder / "source.npz")
            self.closeness, self.cluster = np.load(folder / "closeness.npy"), np.load(folder / "cluster.npy")
            lengths = np.maximum(lengths, self.source.lengths)
        self.lengths = lengths
        self._number = -1
        self._batches: list[np.ndarray] = []

    def epoch(self, number: int) -> list[np.ndarray]:
        """The batches of one epoch: rows of each. The last one asked for is kept."""
        if number != self._number:
            rng = np.random.default_rng([self.seed, *self.name.encode(), number])
            order = rng.permutation(np.flatnonzero((self.lengths > 0) & (self.lengths <= MAX_PIECES)))
            if self.source is not None:
                # The first `per_cluster` pairs of each cluster in this epoch's random order.
                by_cluster = order[np.argsort(self.cluster[order], kind="stable")]
                _, first, counts = np.unique(self.cluster[by_cluster], return_index=True, return_counts=True)
                rank = np.arange(len(by_cluster)) - np.repeat(first, counts)
                order = rng.permutation(by_cluster[rank < self.per_cluster])
            self._number, self._batches = number, bucket(self.lengths, order, self.tokens, rng)
        return self._batches

    def batch(self, rows: np.ndarray, rng: random.Random) -> Rows:
        """The batch of these rows; ``rng`` makes the noise of denoising."""
        targets = [self.target[row] for row in rows]
        if self.source is None:
            return [noisy(row, rng) for row in targets], targets, [NEAR_COPY] * len(rows)
        return [self.source[row] for row in rows], targets, self.closeness[rows].tolist()


class Mixture:
    """Batches from several sources; ``cursors`` (source: epoch, next batch) is all that moves."""

    def __init__(self, run: Path, per_cluster: Mapping[str, int], tokens: int, seed: int) -> None:
        self.run, self.per_cluster, self.tokens, self.seed = run, per_cluster, tokens, seed
        self.cursors: dict[str, list[int]] = {}
        self._sources: dict[str, SourceBatches] = {}

    def source(self, name: str) -> SourceBatches:
        if name not in self._sources:
            folder = self.run / "sources" / name
            self._sources[name] = SourceBatches(folder, self.tokens, self.seed, self.per_cluster[name])
        return self._sources[name]

    def next(self, step: int, mix: Mapping[str, float]) -> tuple[str, int, Callable[[], Rows]]:
        """Of the batch of a step: its source, its target tokens with end marks, and what makes it.

        The source's cursor moves on. To make a batch takes far longer than to know which it is.
        """
        rng = random.Random(f"{self.seed}/{step}")
        (name,) = rng.choices(list(mix), list(mix.values()))
        source = self.source(name)
        epoch, index = self.cursors.get(name, [0, 0])
        rows = source.epoch(epoch)[index]
        self.cursors[name] = [epoch, index + 1] if index + 1 < len(source.epoch(epoch)) else [epoch + 1, 0]
        return name, int(source.target.lengths[rows].sum()) + len(rows), partial(source.batch, rows, rng)


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Padded source, decoder input (control token first) and decoder output."""
    sources, targets, levels = rows
    return (
        _pad([[*row, EOS] for row in sources]),
        _pad([[CLOSENESS + level, *row] for row, level in zip(targets, levels, strict=True)]),
        _pad([[*row, EOS] for row in targets]),
    )


def _pad(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def validation_rows(run: Path, spm: sentencepiece.SentencePieceProcessor) -> Iterator[Rows]:
    """The held-out pairs, 64 a batch."""
    held = json.loads((run / "valid.json").read_text("utf-8"))
    for at in range(0, len(held), 64):
        part = held[at : at + 64]
        sources, targets = spm.encode([p[0] for p in part]), spm.encode([p[1] for p in part])
        yield [row[:MAX_PIECES] for row in sources], [row[:MAX_PIECES] for row in targets], [p[2] for p in part]
