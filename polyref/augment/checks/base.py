"""What a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One rule. ``accepts(reference, candidate)`` is False for a candidate to drop; ``name`` becomes the reason.

    ``name`` also states the parameters: it is part of a reference set's signature. ``within_sentences`` says that the
    rule looks for what goes wrong inside a sentence: a paragraph whose sentences all passed it has passed it. Without
    ``stated`` no signature names it: it is of texts with markup alone, and all others are signed as without it.
    """

    name: str
    accepts: Callable[[str, str], bool]
    within_sentences: bool = False
    stated: bool = True
