"""Metrics whose score comes out of a network that was trained on judgements: what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from polyref.metrics.base import Texts

T = TypeVar("T")


def without_references(texts: Texts) -> Texts:
    """As if every segment had one reference, which is not read, for all numbers of references."""
    segments = len(texts.sources)
    return replace(
        texts,
        references=[("",)] * segments,
        cuts=np.ones((1, segments), dtype=np.int64),
        originals=np.ones(segments, dtype=np.int64),
        weights=np.ones((segments, 1)),
        chosen=None,
    )


def in_pieces(work: Iterable[T], tokens: Callable[[T], int], most: int) -> list[list[T]]:
    """Work for workers, pieces of up to so many tokens, the longest first: what does not fit shows at once."""
    pieces: list[list[T]] = []
    room = 0
    for one in sorted(work, key=tokens, reverse=True):
        if tokens(one) > room:
            pieces.append([])
            room = most
        pieces[-1].append(one)
        room -= tokens(one)
    return pieces
