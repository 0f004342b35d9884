"""Random parts that are the same in every run with one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def sampled(items: Sequence[Item], size: int, seed: int) -> list[Item]:
    """``size`` of the items, or all where there are fewer, in their order."""
    if size >= len(items):
        return list(items)
    return [items[place] for place in sorted(random.Random(seed).sample(range(len(items)), size))]
