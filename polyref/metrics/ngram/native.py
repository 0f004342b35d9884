"""The optional C library that counts n-grams and edits.

It is built with the package if there is a C compiler (``hatch_build.py``; sources in ``native/``). It is never needed:
both paths give the same whole numbers, so no signature names the path. The environment variable ``POLYREF_NATIVE``
chooses: ``0`` uses NumPy only, ``1`` requires C, anything else uses C if it is available. ctypes releases the
interpreter lock during a call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError
from polyref.metrics.statistics import Integers

ENVIRONMENT: Final = "POLYREF_NATIVE"
LIBRARY: Final = Path(__file__).with_name("_native.so")
#: Ways to split a text into words, by their number in C.
RULES: Final = ("space", "13a", "chrf")

# POLYREF_INTERFACE of native/polyref.h: a library that was built from other sources is left alone.
_INTERFACE: Final = 1
_CODEC: Final = f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}"
_ARGUMENTS: Final = {
    "polyref_interface": "",
    "polyref_words": "ppiiipp",
    "polyref_characters": "ppipp",
    "polyref_matches": "ppiiiiip",
    "polyref_edits": "ppiiip",
}

Codes = npt.NDArray[np.uint32]


def available() -> bool:
    """Whether the C library is used for counting now."""
    return _library() is not None


def encode(texts: Sequence[str]) -> tuple[Codes, Integers]:
    """The code points of all texts in one array, and how many belong to each."""
    codes = np.frombuffer("".join(texts).encode(_CODEC, "surrogatepass"), dtype=np.uint32)
    return codes, np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def words(codes: Codes, sizes: Integers, ranks: int, rule: str) -> tuple[Integers, Integers, int]:
    """Words of texts as numbers, by their first appearance in a segment, which has as many texts as ``ranks``.

    Args:
        codes: Code points, text after text.
        sizes: Shape (B x T,): how many belong to each.
        ranks: Texts of a segment, T.
        rule: One of :data:`RULES`.

    Returns:
        Numbers of all words; the number of words of every text; a number that all are below.
    """
    symbols, lengths = np.empty(len(codes), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    segments = len(sizes) // ranks
    alphabet = _call("words", codes, sizes, segments, ranks, RULES.index(rule), symbols, lengths)
    return symbols[: lengths.sum()], lengths, alphabet


def characters(codes: Codes, sizes: Integers) -> tuple[Integers, Integers, int]:
    """Code points without white space; how many every text has; a number that all are below."""
    symbols, lengths = np.empty(len(codes), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
    alphabet = _call("characters", codes, sizes, len(sizes), symbols, lengths)
    return symbols[: lengths.sum()], lengths, alphabet


def matches(
    symbols: Integers, lengths: Integers, references: int, orders: int, *, joint: bool
) -> npt.NDArray[np.int32]:
    """N-grams of every output that references, the first R of T texts, hold: shape (orders, B, T - R, R).

    Entry j counts what references 0 .. j hold together (``joint``), or what reference j holds.
    """
    if len(symbols) >= 2**31:
        raise ValueError(f"{len(symbols)} symbols in one block, expected fewer than 2**31")
    segments, ranks = lengths.shape
    result = np.empty((orders, segments, ranks - references, references), dtype=np.int32)
    _call("matches", symbols, lengths, segments, ranks, references, orders, int(joint), result)
    return result


def edits(symbols: Integers, lengths: Integers, references: int) -> Integers:
    """Edits and shifts (TER) between every output and every reference: shape (B, T - R, R)."""
    segments, ranks = lengths.shape
    result = np.empty((segments, ranks - references, references), dtype=np.int64)
    _call("edits", symbols, lengths, segments, ranks, references, result)
    return result


def _call(name: str, *arguments: Any) -> int:
    library = _library()
    if library is None:
        raise RuntimeError("the C library is not in use")
    result = int(getattr(library, f"polyref_{name}")(*arguments))
    if result < 0:
        raise MemoryError("not enough memory to count n-grams")
    return result


def _library() -> ctypes.CDLL | None:
    wanted = os.environ.get(ENVIRONMENT, "")
    if wanted == "0":
        return None
    library = _load()
    if library is None and wanted == "1":
        raise ModelError(
            f"{ENVIRONMENT} is 1, but the C library is not there or not of this version",
            file=LIBRARY,
            remedy="install polyref again where there is a C compiler",
        )
    return library


@cache
def _load() -> ctypes.CDLL | None:
    if not LIBRARY.is_file():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        kinds = {"p": _Array, "i": ctypes.c_int64}
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, name)
            function.restype = ctypes.c_int64
            function.argtypes = [kinds[argument] for argument in arguments]
    except (OSError, AttributeError):
        # Of another platform, or of another version: the NumPy path is always there.
        return None
    return library if library.polyref_interface() == _INTERFACE else None


class _Array:
    """An array as an argument: its address, after a check that C may read it as it lies."""

    @classmethod
    def from_param(cls, array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
        if not array.flags.c_contiguous:
            raise ValueError("an array is not contiguous")
        return ctypes.c_void_p(array.ctypes.data)
