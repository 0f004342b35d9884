"""Counting common n-grams of many texts at once, in NumPy or in C.

A *feature* of a text is (segment, n-gram, occurrence number): the second "the the" of a text is a different feature
from the first. Clipped n-gram matching of two texts is then the size of a set intersection, and

* what is matched by the first j references is known from the first reference that holds each feature (BLEU);
* matches with every single reference are one matrix product of text x feature incidence (chrF).

All numbers are exact: n-grams are packed into integers, never hashed. If the C library is available
(:mod:`polyref.metrics.ngram.native`), it reads texts and counts matches instead, with the same results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.metrics.base import Texts
from polyref.metrics.ngram import native
from polyref.metrics.statistics import Integers
from polyref.progress import work

#: Symbols (words or characters) that are worked on at a time: keeps the arrays in cache and memory small.
_BLOCK_SYMBOLS: Final = 300_000
_BLOCK_SEGMENTS: Final = 64
_KEY_BITS: Final = 63


@dataclass(frozen=True)
class Block:
    """The texts of some segments as one array of symbols; every segment has texts of rank 0 .. T-1, or fewer.

    Attributes:
        symbols: Shape (L,): small numbers that stand for words or characters, text after text.
        alphabet: All symbols are below it.
        segments: Number of segments, B.
        ranks: Number of ranks, T.
        lengths: Shape (B, T): symbols per text; 0 for an absent text.
    """

    symbols: Integers
    alphabet: int
    segments: int
    ranks: int
    lengths: Integers

    def grams(self, order: int) -> Integers:
        """Shape (B, T): the number of n-grams of every text."""
        return np.maximum(self.lengths - order + 1, 0)


@dataclass(frozen=True)
class Features:
    """The features of the texts of a block for one n-gram order.

    Attributes:
        segment: Shape (E,): the segment of an entry, ascending. An entry says that a text holds a feature.
        rank: Shape (E,): the rank of its text.
        feature: Shape (E,): the number of its feature, below F.
        home: Shape (F,): the segment of a feature.
        first: Shape (F,): the smallest rank of a text that holds it.
        last: Shape (F,): the largest.
    """

    segment: Integers
    rank: Integers
    feature: Integers
    home: Integers
    first: Integers
    last: Integers


def blocks(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Indices of segments to work on together, given their numbers of characters: like sizes share a block."""
    chosen: list[int] = []
    total = 0
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        if chosen and (len(chosen) == _BLOCK_SEGMENTS or total + sizes[index] > _BLOCK_SYMBOLS):
            yield chosen
            chosen, total = [], 0
        chosen.append(index)
        total += sizes[index]
    if chosen:
        yield chosen


def text_blocks(texts: Texts) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Segments to work on together, each with its references (padded by empty texts to as many), then its outputs."""
    used = texts.cuts[-1].tolist()
    shown = max(used)
    sizes = np.array([sum(map(len, refs[:cut])) for refs, cut in zip(texts.references, used, strict=True)])
    for system in texts.systems:
        sizes += np.fromiter(map(len, system), dtype=np.int64, count=len(system))
    with work("counting n-grams", "segments", len(used)) as advance:
        for chosen in blocks(sizes.tolist()):
            outputs = [[system[n] for system in texts.systems] for n in chosen]
            rows = [
                [*texts.references[n][: used[n]], *[""] * (shown - used[n]), *own]
                for n, own in zip(chosen, outputs, strict=True)
            ]
            yield chosen, rows
            advance(len(chosen))


class BlockReader:
    """The texts of some segments, as many of each: ``rows[segment][rank]``, to be taken apart in one or more ways."""

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        self._shape = len(rows), len(rows[0])
        self._texts = list(chain.from_iterable(rows))
        self._native = native.available()

    def words(self, rule: str) -> Block:
        """The texts as words, by one of ``native.RULES``: cut at white space, as sacreBLEU's 13a, or as chrF++ does."""
        if self._native:
            codes = native.encode(clean_13a([text.rstrip() for text in self._texts])) if rule == "13a" else self._codes
            return self._block(*native.words(*codes, self._shape[1], rule))
        if rule == "13a":
            return self._block(*number_words(tokenize_13a([text.rstrip() for text in self._texts])))
        return self._block(*(number_chrf_words if rule == "chrf" else number_words)(self._split))

    def characters(self, *, whitespace: bool) -> Block:
        """The texts as characters, with white space or without."""
        if self._native:
            codes, sizes = self._codes
            if whitespace:
                return self._block(codes.astype(np.int64), sizes, int(codes.max(initial=0)) + 1)
            return self._block(*native.characters(codes, sizes))
        texts = self._texts if whitespace else ["".join(words) for words in self._split]
        codes, sizes = native.encode(texts)
        present = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
        present[codes] = True
        number = np.cumsum(present) - 1
        return self._block(number[codes], sizes, max(int(number[-1]) + 1, 1))

    def _block(self, symbols: Integers, lengths: Integers, alphabet: int) -> Block:
        return Block(symbols, alphabet, *self._shape, lengths.reshape(self._shape))

    @cached_property
    def _split(self) -> list[list[str]]:
        return [text.split() for text in self._texts]

    @cached_property
    def _codes(self) -> tuple[native.Codes, Integers]:
        return native.encode(self._texts)


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
    cleaned = list(texts)
    for place, text in enumerate(cleaned):
        if "\n" in text or "&" in text or "<skipped>" in text:
            text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
            for entity, character in _ENTITIES:
                text = text.replace(entity, character)
            cleaned[place] = text
    return cleaned


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """The words of every text after sacreBLEU's ``13a`` tokenisation."""
    if not texts:
        return []
    # Line ends set the texts apart: to the expressions they are what the spaces at both ends are.
    joined = "\n".join(clean_13a(texts)).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, dtype="<u4")
    kinds = np.zeros(len(codes) + 2, dtype=np.uint8)
    kinds[1:-1] = _KINDS.take(codes, mode="clip")
    apart = kinds == _APART
    apart[_marks_apart(kinds)] = True
    dashes = np.flatnonzero(kinds == _DASH)
    apart[dashes[kinds[dashes - 1] == _DIGIT]] = True
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


def joint_matches(block: Block, references: int, orders: int) -> Iterator[npt.NDArray[Any]]:
    """For n-grams of 1 .. ``orders`` symbols, what :func:`first_matches` says: shape (B, T - R, R) each."""
    if native.available():
        return iter(native.matches(block.symbols, block.lengths, references, orders, joint=True))
    return (first_matches(found, block, references) for found in features(block, orders))


def single_matches(block: Block, references: int, orders: int) -> Iterator[npt.NDArray[Any]]:
    """For n-grams of 1 .. ``orders`` symbols, what :func:`pair_matches` says: shape (B, T - R, R) each."""
    if native.available():
        return iter(native.matches(block.symbols, block.lengths, references, orders, joint=False))
    if references == 1:
        return iter(lookup_matches(block.symbols, block.lengths, block.alphabet, orders))
    return (pair_matches(found, block, references) for found in features(block, orders))


def features(block: Block, orders: int) -> Iterator[Features]:
    """The features of the texts of a block, for n-grams of 1 .. ``orders`` symbols."""
    flat = block.lengths.ravel()
    text = np.repeat(np.arange(flat.size), flat)
    remaining = np.repeat(np.cumsum(flat), flat) - np.arange(len(text))
    segment, rank = np.divmod(text, block.ranks)
    rank_bits, segment_bits, symbol_bits = (_bits(n) for n in (block.ranks, block.segments, block.alphabet))
    symbols = block.symbols
    if orders * symbol_bits + segment_bits + rank_bits > _KEY_BITS:
        symbols, alphabet = _renumbered(symbols, segment, block)
        symbol_bits = _bits(alphabet)
    grams, gram_bits = symbols, symbol_bits
    for order in range(1, orders + 1):
        if order > 1:
            if gram_bits + symbol_bits + segment_bits + rank_bits > _KEY_BITS:
                known, grams = np.unique(grams, return_inverse=True)
                gram_bits = _bits(len(known))
            grams = (grams[:-1] << symbol_bits) | symbols[order - 1 :]
            gram_bits += symbol_bits
        whole = remaining[: len(grams)] >= order
        place = (segment << gram_bits)[: len(grams)][whole] | grams[whole]
        keys = (place << rank_bits) | rank[: len(grams)][whole]
        keys.sort()
        yield _group(keys, rank_bits, gram_bits)


def _renumbered(symbols: Integers, segment: Integers, block: Block) -> tuple[Integers, int]:
    """Symbols by numbers of their own in every segment, which are small; all are below the second result."""
    # First those of the block, of which there are far fewer than code points.
    present = np.zeros(block.alphabet, dtype=bool)
    present[symbols] = True
    distinct = int(np.count_nonzero(present))
    cells = segment * distinct + (np.cumsum(present) - 1)[symbols]
    present = np.zeros(block.segments * distinct, dtype=bool)
    present[cells] = True
    number = np.cumsum(present.reshape(block.segments, distinct), axis=1)
    return number.ravel()[cells] - 1, int(number[:, -1].max())


def _bits(size: int) -> int:
    """Bits that hold numbers below ``size``."""
    return max(size - 1, 0).bit_length()


def _group(keys: Integers, rank_bits: int, gram_bits: int) -> Features:
    """Features from sorted (segment, n-gram, rank) keys."""
    place = keys >> rank_bits
    rank = keys & ((1 << rank_bits) - 1)
    starts = np.ones(len(keys), dtype=bool)
    np.not_equal(place[1:], place[:-1], out=starts[1:])
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], len(keys))[: len(begin)] - 1
    feature = np.cumsum(starts) - 1
    segment = place >> gram_bits
    home, first, last = segment[begin], rank[begin], rank[end]
    # A key that equals the one before it is a further occurrence in one text, and so a feature of its own.
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    if len(again):
        position = np.arange(len(again))
        fresh = np.ones(len(again), dtype=bool)
        fresh[1:] = np.diff(again) != 1
        occurrence = position - np.maximum.accumulate(np.where(fresh, position, 0)) + 1
        pair = feature[again] * (int(occurrence.max()) + 1) + occurrence
        _, lead, inverse = np.unique(pair, return_index=True, return_inverse=True)
        feature[again] = len(begin) + inverse
        final = np.zeros(len(lead), dtype=np.int64)
        # Entries of one feature are in the order of their ranks: the last one written is the largest.
        final[inverse] = rank[again]
        home = np.concatenate([home, segment[again][lead]])
        first = np.concatenate([first, rank[again][lead]])
        last = np.concatenate([last, final])
    return Features(segment, rank, feature, home, first, last)


def first_matches(found: Features, block: Block, references: int) -> Integers:
    """N-grams of every output that the first R references hold, clipped: shape (B, T - R, R).

    Entry j counts those that references 0 .. j, the first ranks of the block, hold together.
    """
    outputs = block.ranks - references
    use = (found.rank >= references) & (found.first[found.feature] < references)
    row = found.segment[use] * outputs + found.rank[use] - references
    cell = row * references + found.first[found.feature[use]]
    counts = np.bincount(cell, minlength=block.segments * outputs * references)
    return np.cumsum(counts.reshape(block.segments, outputs, references), axis=2)


def pair_matches(found: Features, block: Block, references: int) -> npt.NDArray[np.float32]:
    """N-grams of every output that each single reference holds: shape (B, T - R, R), whole numbers."""
    dense = incidence(found, block, references)
    product: npt.NDArray[np.float32] = dense[:, references:] @ dense[:, :references].transpose(0, 2, 1)
    return product


def incidence(
    found: Features, block: Block, references: int, keep: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.float32]:
    """Which text holds which feature: shape (B, T, features of a segment that outputs and references share)."""
    shared = (found.first < references) & (found.last >= references)
    if keep is not None:
        shared &= keep
    homes = found.home[shared]
    sizes = np.bincount(homes, minlength=block.segments)
    # Features are numbered within their segment, in any order.
    order = np.argsort(homes, kind="stable")
    local = np.empty(len(homes), dtype=np.int64)
    local[order] = np.arange(len(homes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    column = np.zeros(len(shared), dtype=np.int64)
    column[shared] = local
    width = int(sizes.max(initial=0))
    dense = np.zeros((block.segments, block.ranks, width), dtype=np.float32)
    use = shared[found.feature]
    cell = (found.segment[use] * block.ranks + found.rank[use]) * width + column[found.feature[use]]
    dense.reshape(-1)[cell] = 1
    return dense


# N-grams that outputs share with one reference, without sorting: the most common case. Those of every reference are
# numbered. One of an output has a number only if its first n - 1 symbols have one and its last symbol occurs in the
# reference, so that every order asks about fewer places than the one before, and a look into a table tells the number.

#: Symbols that are worked on at a time: arrays of so many stay in the cache.
_SYMBOLS: Final = 25_000
#: Entries of a table: 128 MB. Above it, numbers are found by bisection.
_MOST_CELLS: Final = 1 << 24


def lookup_matches(symbols: Integers, lengths: Integers, alphabet: int, orders: int) -> Integers:
    """N-grams of every output that the reference, rank 0 of a block, holds, clipped: shape (orders, B, T - 1, 1)."""
    segments, ranks = lengths.shape
    result = np.empty((orders, segments, ranks - 1, 1), dtype=np.int64)
    ends = np.cumsum(lengths.sum(axis=1)).tolist()
    start = before = 0
    for stop in range(1, segments + 1):
        if stop == segments or ends[stop] - before > _SYMBOLS:
            part = symbols[before : ends[stop - 1]], lengths[start:stop]
            for n, matches in enumerate(_order_matches(*part, alphabet, orders)):
                result[n, start:stop, :, 0] = matches
            start, before = stop, ends[stop - 1]
    return result


def _order_matches(symbols: Integers, lengths: Integers, alphabet: int, orders: int) -> Iterator[Integers]:
    """The same for each order, of shape (B, T - 1)."""
    segments, ranks = lengths.shape
    outputs = ranks - 1
    flat = lengths.ravel()
    text = np.repeat(np.arange(flat.size), flat)
    # A place after every text sets it apart.
    places = np.arange(len(text)) + text
    total = len(text) + flat.size
    segment = text // ranks
    rank = text - segment * ranks
    of_reference, of_output = np.flatnonzero(rank == 0), np.flatnonzero(rank)
    cell = segment * alphabet + symbols
    grams = np.empty(len(text), dtype=np.int64)
    grams[of_reference], grams[of_output], cells = _numbered(
        cell.take(of_reference), cell.take(of_output), segments * alphabet
    )
    home = cells // max(alphabet, 1)
    # The symbols of a reference by numbers of their own, from 1: small tables; 0 is any other symbol, or the end.
    first = np.searchsorted(home, np.arange(segments))
    local = np.zeros(total + orders, dtype=np.int64)
    local[places] = np.maximum(grams - first.take(segment) + 1, 0)
    width = int(local.max(initial=0)) + 1
    column = np.empty(total, dtype=np.int64)
    column[places] = rank - 1
    place, known = places.take(of_reference), grams.take(of_reference)
    asked, found = places.take(of_output), grams.take(of_output)
    for order in range(1, orders + 1):
        if order > 1:
            last = local.take(place + (order - 1))
            whole = np.flatnonzero(last)
            place, cell = place.take(whole), (known * width + last).take(whole)
            found *= width
            found += local.take(asked + (order - 1))
            known, found, cells = _numbered(cell, found, len(home) * width)
            home = home.take(cells // width)
        matched = np.flatnonzero(found >= 0)
        asked, found = asked.take(matched), found.take(matched)
        counts = np.bincount(found * outputs + column.take(asked), minlength=len(home) * outputs).reshape(-1, outputs)
        clipped = np.minimum(counts, np.bincount(known, minlength=len(home))[:, None])
        sums = np.zeros((len(home) + 1, outputs), dtype=np.int64)
        np.cumsum(clipped, axis=0, out=sums[1:])
        yield np.diff(sums[np.searchsorted(home, np.arange(segments + 1))], axis=0)


def _numbered(known: Integers, asked: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Numbers of the known cells; those of the asked ones, -1 where not known; the known cells by number, ascending."""
    if size <= _MOST_CELLS:
        table = np.full(size, -1)
        table[known] = 0
        cells = np.flatnonzero(table == 0)
        table[cells] = np.arange(len(cells))
        return table.take(known), table.take(asked), cells
    cells, numbers = np.unique(known, return_inverse=True)
    if not len(cells):
        return numbers, np.full(len(asked), -1), cells
    near = np.minimum(np.searchsorted(cells, asked), len(cells) - 1)
    return numbers, np.where(cells[near] == asked, near, -1), cells
