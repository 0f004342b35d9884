"""A listener of progress that remembers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyref.progress import Advance


class Heard:
    """A listener that writes down what it hears: what, unit, total, what was done before, and every advance."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str, int, int, list[int]]] = []

    @contextmanager
    def __call__(self, what: str, unit: str, total: int, done: int) -> Iterator[Advance]:
        steps: list[int] = []
        self.pieces.append((what, unit, total, done, steps))
        yield steps.append

    @property
    def named(self) -> list[tuple[str, str, int]]:
        return [piece[:3] for piece in self.pieces]

    def all_done(self) -> bool:
        return all(done + sum(steps) == total > 0 for _, _, total, done, steps in self.pieces)
