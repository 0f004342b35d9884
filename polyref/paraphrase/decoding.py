"""Options of generation beside the search, checked before any model loads (imports no torch)."""

from __future__ import annotations

from typing import Final

from polyref.paraphrase.search.options import LARGEST, check_real

#: The growth of the lexical copy penalty that Thompson & Post (2020b) use (their beta).
PRISM_B: Final = 4.0
#: Greatest size of it: 4 ** 20 times the largest a, added up over a sentence, is still a finite float32.
LARGEST_B: Final = 20.0


def check_penalty(a: float, b: float) -> None:
    """Refuse settings of the lexical copy penalty that are out of range.

    Raises:
        UsageError: ``a`` is negative (a search needs scores that only fall), or a value is not finite or out of range.
    """
    check_real("--prism-a", a, 0.0, LARGEST)
    check_real("--prism-b", b, -LARGEST_B, LARGEST_B)
