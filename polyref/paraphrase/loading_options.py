"""Options of loading a generator, checked before any model loads (imports no torch)."""

from __future__ import annotations

from typing import Final

from polyref.errors import UsageError
from polyref.paraphrase.search.options import LARGEST, check_real

BACKENDS: Final = ("polyref", "fairseq", "ctranslate2")
#: What networks compute in on the CPU, and elsewhere; all but float32 are approximate.
DTYPES_CPU: Final = ("float32", "bfloat16", "int8")
DTYPES_ELSEWHERE: Final = ("float32", "bfloat16", "float16")
#: What models of the shipped kind compute in on the CPU unless told otherwise: their lists do not depend on the
#: processor's instructions then, and take about half of float32's memory and at most about its time.
DTYPE_SHIPPED: Final = "int8"
#: The growth of the lexical copy penalty that Thompson & Post (2020b) use (their beta).
PRISM_B: Final = 4.0
#: Greatest size of it: 4 ** 20 times the largest a, added up over a sentence, is still a finite float32.
LARGEST_B: Final = 20.0


def check_penalty(a: float, b: float) -> None:
    """Refuse settings of the lexical copy penalty that are out of range."""
    check_real("prism_a", a, 0.0, LARGEST)
    check_real("prism_b", b, -LARGEST_B, LARGEST_B)


def check_dtype(dtype: str, device: str) -> None:
    """Refuse a number type that polyref does not compute in on that device."""
    known = DTYPES_CPU if device == "cpu" else DTYPES_ELSEWHERE
    if dtype not in known:
        raise UsageError(f"`dtype` is {dtype!r}, expected one of {', '.join(known)} on {device}")
