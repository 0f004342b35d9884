"""Splitting texts into words exactly as sacreBLEU does, many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, count
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.metrics.statistics import Integers

# sacreBLEU's 13a (mteval-v13a.pl) applies these expressions, one after the other, to a text with a space at each end:
#   ([\{-\~\[-\` -\&\(-\+\:-\@\/])  ->  " \1 "
#   ([^0-9])([\.,])  ->  "\1 \2 "
#   ([\.,])([^0-9])  ->  " \1 \2"
#   ([0-9])(-)  ->  "\1 \2 "
# They add nothing but spaces, so that it is enough to know which characters are set apart.
_DIGIT, _MARK, _DASH, _APART = 1, 2, 3, 4
_KINDS: Final = np.zeros(128, dtype=np.uint8)
for _characters, _kind in (
    ("0123456789", _DIGIT),
    (".,", _MARK),
    ("-", _DASH),
    ('!"#$%&()*+/:;<=>?@[\\]^_`{|}~', _APART),
):
    _KINDS[[ord(character) for character in _characters]] = _kind
_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))

_CHRF_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def clean_13a(texts: Sequence[str]) -> list[str]:
    """Texts after the part of ``13a`` that replaces more than single characters, which few texts have."""
    return [_cleaned(text) if "\n" in text or "&" in text or "<skipped>" in text else text for text in texts]


def _cleaned(text: str) -> str:
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """The words of every text after sacreBLEU's ``13a`` tokenisation."""
    if not texts:
        return []
    # Line ends set the texts apart: to the expressions they are what the spaces at both ends are.
    joined = "\n".join(clean_13a(texts)).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, dtype="<u4")
    kinds = np.zeros(len(codes) + 2, dtype=np.uint8)
    kinds[1:-1] = _KINDS.take(codes, mode="clip")
    apart = np.zeros(len(kinds), dtype=bool)
    for marked in (kinds == _APART, _marks_apart(kinds), _dashes_apart(kinds)):
        apart[marked] = True
    apart = apart[1:-1]
    spaced = np.repeat(codes, np.where(apart, 3, 1))
    # Every character before it that is set apart takes two places more.
    places = np.flatnonzero(apart) + 2 * np.arange(np.count_nonzero(apart))
    spaced[places] = spaced[places + 2] = ord(" ")
    return [line.split() for line in spaced.tobytes().decode("utf-32-le", "surrogatepass").split("\n")]


def _marks_apart(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Full stops and commas that are set apart: those not after a digit, or not before one."""
    marks = np.flatnonzero(kinds == _MARK)
    # A match takes the character before the mark, so that of a run of marks every other one matches.
    index = np.arange(len(marks))
    position = index - np.maximum.accumulate(np.where(np.diff(marks, prepend=-1) != 1, index, 0))
    after_digit = kinds[marks - position - 1] == _DIGIT
    apart: npt.NDArray[np.int64] = marks[((position + after_digit) % 2 == 0) | (kinds[marks + 1] != _DIGIT)]
    return apart


def _dashes_apart(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Dashes after a digit."""
    dashes = np.flatnonzero(kinds == _DASH)
    apart: npt.NDArray[np.int64] = dashes[kinds[dashes - 1] == _DIGIT]
    return apart


@lru_cache(maxsize=2**16)
def _chrf_parts(word: str) -> tuple[str, ...]:
    """The words of chrF++ in a piece: one punctuation mark at its end, or else its start, is cut off.

    sacreBLEU's ``CHRF._remove_punctuation``, after m-popovic/chrF; "(hi)" gives "(hi" and ")".
    """
    if len(word) > 1 and word[-1] in _CHRF_PUNCTUATION:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in _CHRF_PUNCTUATION:
        return word[0], word[1:]
    return (word,)


def number_words(texts: Sequence[Sequence[str]]) -> tuple[Integers, Integers, int]:
    """The words of many texts as numbers: equal words have equal numbers.

    Returns:
        Numbers of all words, text after text; the number of words of every text; a number that all are below.
    """
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    words, vocabulary = _numbers(texts, int(lengths.sum()))
    return words, lengths, len(vocabulary)


def number_chrf_words(texts: Sequence[Sequence[str]]) -> tuple[Integers, Integers, int]:
    """The same of the words of chrF++, of texts that are cut at white space: each different piece is cut once more."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    pieces, vocabulary = _numbers(texts, int(lengths.sum()))
    parts = list(map(_chrf_parts, vocabulary))
    words, sizes, below = number_words(parts)
    # Every piece gives way to its words.
    spread = sizes[pieces]
    ends = np.concatenate([[0], np.cumsum(spread)])
    shift = (np.cumsum(sizes) - sizes)[pieces] - ends[:-1]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return words[np.arange(ends[-1]) + np.repeat(shift, spread)], np.diff(ends[bounds]), below


def _numbers(texts: Sequence[Sequence[str]], total: int) -> tuple[Integers, list[str]]:
    number: defaultdict[str, int] = defaultdict(count().__next__)
    return np.fromiter(map(number.__getitem__, chain.from_iterable(texts)), dtype=np.int64, count=total), list(number)
