"""Options of generation beside the search, checked before any model loads (imports no torch)."""

from __future__ import annotations

import math
from typing import Final

from polyref.errors import UsageError

#: The growth of the lexical copy penalty that Thompson & Post (2020b) use (their beta).
PRISM_B: Final = 4.0


def check_penalty(a: float, b: float) -> None:
    """Refuse settings of the lexical copy penalty that are out of range.

    Raises:
        UsageError: ``a`` is negative (a search needs scores that only fall), or a value is not finite.
    """
    if not 0 <= a < math.inf:
        raise UsageError(f"--prism-a is {a:g}, expected 0 or more")
    if not math.isfinite(b):
        raise UsageError(f"--prism-b is {b:g}, expected a finite number")
