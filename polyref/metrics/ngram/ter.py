"""TER and parTER: sacreBLEU's translation edit rate for any number of references (Snover et al. 2006).

sacreBLEU (after Tercom) moves blocks of words greedily, as long as this lowers the edit distance, and takes edit
distances in a band around the diagonal. Where the band cuts off no optimal path, plain distances are the same, and
Myers' bit vectors (Hyyrö 2003) give these fast; elsewhere the band is computed for all moves at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import ter as sacrebleu

from polyref.metrics.combination import Blend, Combination, Compared, Maximum, Mean, at_cuts, first_best
from polyref.metrics.ngram import native
from polyref.metrics.ngram.counts import Block, BlockReader
from polyref.metrics.ngram.metric import NGramMetric
from polyref.metrics.statistics import Floats, Integers
from polyref.options import option

#: sacreBLEU's limits, Tercom's but for the band.
_BAND: Final = 25
_LONGEST_SHIFT: Final = 10
_FARTHEST_SHIFT: Final = 50
_MOST_CANDIDATES: Final = 1000
_INFINITY: Final = 10**16

# A path with distance d leaves the band's diagonal by at most (d + difference in length) / 2.
_INSIDE: Final = 2 * (_BAND - 1) - 4

# After some words: vertical steps up, vertical steps down (a bit per reference word), distance to the whole reference.
_State = tuple[int, int, int]
# A move of words: the words after it, how many at the start stay, and what ranks it among moves of equal gain.
_Move = tuple[list[Hashable], int, tuple[int, int, int]]


def edit_matrix(block: Block, references: int) -> Integers:
    """Edits between every output and every reference, the first R of T ranks of words: shape (B, T - R, R)."""
    if native.available():
        return native.edits(block.symbols, block.lengths, references)
    result = np.empty((block.segments, block.ranks - references, references), dtype=np.int64)
    texts = iter(np.split(block.symbols, np.cumsum(block.lengths)[:-1]))
    for n in range(block.segments):
        words = [tuple(next(texts).tolist()) for _ in range(block.ranks)]
        # Systems often agree, and paraphrases repeat: every pair is compared once.
        known: dict[tuple[Hashable, Hashable], int] = {}
        for s, output in enumerate(words[references:]):
            for r, reference in enumerate(words[:references]):
                pair = (output, reference)
                if pair not in known:
                    known[pair] = edits(output, reference)
                result[n, s, r] = known[pair]
    return result


def edits(output: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Edits and block shifts that turn ``output`` into ``reference``: sacreBLEU's ``translation_edit_rate``."""
    if not reference:
        return len(output)
    words = list(output)
    table: _Distances = _Plain(reference)
    distance = table.read(words)
    if distance + abs(len(words) - len(reference)) > _INSIDE:
        table = _Banded(reference)
        distance = table.read(words)
    places: dict[Hashable, list[int]] = {}
    for place, word in enumerate(reference):
        places.setdefault(word, []).append(place)
    shifts = checked = 0
    # Without an error there is nothing to move; otherwise the best move is made while it helps.
    while distance:
        moves = list(_moves(words, reference, places, table, checked))
        checked += len(moves)
        if checked >= _MOST_CANDIDATES or not moves:
            break
        gains = [distance - after for after in table.after(moves)]
        best = max(range(len(moves)), key=lambda move: (gains[move], moves[move][2]))
        if gains[best] <= 0:
            break
        shifts += 1
        words = moves[best][0]
        distance = table.read(words)
    return shifts + distance


class _Plain:
    """Edit distances of texts of one length to a reference, by Myers' algorithm.

    A row of the table is two bit vectors of the steps between neighbours. :meth:`read` computes the table of a text and
    gives its distance, :meth:`at` that of its first i words to the first j of the reference, and :meth:`after` those of
    the text after each of some moves.
    """

    def __init__(self, reference: Sequence[Hashable]) -> None:
        self.size = len(reference)
        self.bits: dict[Hashable, int] = {}
        for place, word in enumerate(reference):
            self.bits[word] = self.bits.get(word, 0) | 1 << place
        self.states: list[_State] = []

    def read(self, words: Sequence[Hashable]) -> int:
        state = ((1 << self.size) - 1, 0, self.size)
        self.states = [state]
        for word in words:
            state = self._run(state, (word,))
            self.states.append(state)
        return state[2]

    def at(self, i: int, j: int) -> int:
        up, down, _ = self.states[i]
        before = (1 << j) - 1
        return i + (up & before).bit_count() - (down & before).bit_count()

    def after(self, moves: Sequence[_Move]) -> list[int]:
        return [self._run(self.states[same], words[same:])[2] for words, same, _ in moves]

    def _run(self, state: _State, words: Sequence[Hashable]) -> _State:
        # In the form for the distance between whole texts: the first row of the table counts up.
        up, down, distance = state
        full, end, bits = (1 << self.size) - 1, 1 << (self.size - 1), self.bits
        for word in words:
            equal = bits.get(word, 0)
            diagonal = (((equal & up) + up) ^ up) | equal | down
            right_up = down | (full & ~(diagonal | up))
            right_down = up & diagonal
            if right_up & end:
                distance += 1
            elif right_down & end:
                distance -= 1
            right_up = (right_up << 1) | 1
            up = ((right_down << 1) | ~(diagonal | right_up)) & full
            down = right_up & diagonal & full
        return up, down, distance


class _Banded:
    """The same inside sacreBLEU's band, for many texts at once; infinite outside."""

    def __init__(self, reference: Sequence[Hashable]) -> None:
        self.number = {word: number for number, word in enumerate(dict.fromkeys(reference))}
        self.reference = np.array([self.number[word] for word in reference])
        self.rows: npt.NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)

    def read(self, words: Sequence[Hashable]) -> int:
        self.rows = np.stack([row[0] for row in self._table([words])])
        return int(self.rows[-1, -1])

    def at(self, i: int, j: int) -> int:
        return int(self.rows[i, j])

    def after(self, moves: Sequence[_Move]) -> list[int]:
        *_, last = self._table([words for words, _, _ in moves])
        result: list[int] = last[:, -1].tolist()
        return result

    def _table(self, texts: Sequence[Sequence[Hashable]]) -> Iterator[npt.NDArray[np.int64]]:
        """Row after row, each of shape (texts, reference words + 1)."""
        outputs = np.array([[self.number.get(word, -1) for word in text] for text in texts])
        length, size = len(texts[0]), len(self.reference)
        ratio = size / length if length else 1
        width = math.ceil(ratio / 2 + _BAND) if ratio / 2 > _BAND else _BAND
        steps = np.arange(size + 1)
        row = np.tile(steps, (len(texts), 1))
        yield row
        for i in range(1, length + 1):
            diagonal = math.floor(i * ratio)
            start = max(0, diagonal - width)
            end = size + 1 if i == length else min(size + 1, diagonal + width)
            best = row + 1
            np.minimum(best[:, 1:], row[:, :-1] + (outputs[:, i - 1, None] != self.reference), out=best[:, 1:])
            # Insertions run along the row: each adds 1, and so nothing once the position is taken off.
            inside = np.minimum.accumulate(best[:, start:end] - steps[start:end], axis=1) + steps[start:end]
            row = np.full_like(row, _INFINITY)
            np.minimum(inside, _INFINITY, out=row[:, start:end])
            yield row


_Distances = _Plain | _Banded


def _alignment(
    words: Sequence[Hashable], reference: Sequence[Hashable], table: _Distances
) -> tuple[list[int], list[bool], list[bool]]:
    """Walk an optimal path back, preferring as sacreBLEU does: keep or replace, then drop a word, then insert one.

    It gives the output word that every reference word is aligned to or follows, and which words of both are wrong.
    """
    align = [-1] * len(reference)
    output_errors, reference_errors = [True] * len(words), [True] * len(reference)
    i, j = len(words), len(reference)
    here = table.at(i, j)
    while i and j:
        corner = table.at(i - 1, j - 1)
        same = words[i - 1] == reference[j - 1]
        if corner + (not same) == here:
            i, j, here = i - 1, j - 1, corner
            align[j] = i
            output_errors[i] = reference_errors[j] = not same
        elif (above := table.at(i - 1, j)) + 1 == here:
            i, here = i - 1, above
        else:
            j, here = j - 1, here - 1
            align[j] = i - 1
    return align, output_errors, reference_errors


def _matches(
    words: Sequence[Hashable], reference: Sequence[Hashable], places: dict[Hashable, list[int]]
) -> Iterator[tuple[int, int, int]]:
    """Equal word sequences: start in the output, start in the reference, length; in sacreBLEU's order."""
    for start, word in enumerate(words):
        for place in places.get(word, ()):
            if abs(place - start) > _FARTHEST_SHIFT:
                continue
            most = min(_LONGEST_SHIFT, len(words) - start, len(reference) - place)
            for length in range(1, most + 1):
                if words[start + length - 1] != reference[place + length - 1]:
                    break
                yield start, place, length


def _moves(
    words: list[Hashable],
    reference: Sequence[Hashable],
    places: dict[Hashable, list[int]],
    table: _Plain | _Banded,
    checked: int,
) -> Iterator[_Move]:
    """The moves to try, until together with those ``checked`` before they are too many."""
    align, output_errors, reference_errors = _alignment(words, reference, table)
    for start, place, length in _matches(words, reference, places):
        end = start + length
        # Only wrong words move, to where words are wrong, and not within themselves.
        if not any(output_errors[start:end]) or not any(reference_errors[place : place + length]):
            continue
        if start <= align[place] < end:
            continue
        last = -1
        for offset in range(-1, length):
            if place + offset >= len(reference):
                break
            target = 0 if place + offset == -1 else align[place + offset] + 1
            if target == last:
                continue
            last = target
            checked += 1
            yield _moved(words, start, length, target), min(start, target), (length, -start, -target)
        if checked >= _MOST_CANDIDATES:
            return


def _moved(words: list[Hashable], start: int, length: int, target: int) -> list[Hashable]:
    block = words[start : start + length]
    if target < start:
        return [*words[:target], *block, *words[target:start], *words[start + length :]]
    if target > start + length:
        return [*words[:start], *words[start + length : target], *block, *words[target:]]
    return [*words[:start], *words[start + length : length + target], *block, *words[length + target :]]


@dataclass(frozen=True)
class TER(NGramMetric):
    """TER: edits to the nearest reference, per word of the average reference. Lower is better.

    References combine by ``max``, sacreBLEU's rule (the best reference is the one with the fewest edits, so that
    signatures say ``min``), by ``mean`` or by ``blend``; expected credit of n-grams has no meaning here.
    """

    higher_is_better: ClassVar[bool] = False
    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, Blend)
    stored: ClassVar[tuple[str, ...]] = ("combine", "weights", "gamma", "temperature")
    whole: ClassVar[bool] = False
    own_columns = ("edits", "reference")

    name = "ter"
    label = "TER"

    normalized: bool = option(False, help="Tokenise and normalise.")
    no_punct: bool = option(False, help="Remove punctuation.")
    asian_support: bool = option(False, help="East Asian characters are words, with one of the two before.")
    case_sensitive: bool = option(False, help="Do not ignore case.")

    @cached_property
    def _peers(self) -> tuple[sacrebleu.TER, sacrebleu.TER]:
        peer = sacrebleu.TER(
            normalized=self.normalized,
            no_punct=self.no_punct,
            asian_support=self.asian_support,
            case_sensitive=self.case_sensitive,
        )
        return peer, peer

    def _words(self, texts: Sequence[str]) -> list[str]:
        """Texts whose words are set apart by spaces."""
        tokenizer = self._peers[0].tokenizer
        return [tokenizer(text.rstrip()) for text in texts]

    def _compared(self, rows: Sequence[Sequence[str]], references: int, originals: Integers) -> Compared:
        # sacreBLEU prepares references twice, which a second time can cut further ("..2") or decode ("&amp;lt;").
        prepared = [[*self._words(self._words(row[:references])), *self._words(row[references:])] for row in rows]
        return _Edits(BlockReader(prepared).words("space"), references, originals)

    def _plain(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return _rate(values)


class _Edits(Compared):
    """The edits between the words of some segments."""

    def __init__(self, block: Block, references: int, originals: Integers) -> None:
        super().__init__(originals, TER.combination)
        edited = edit_matrix(block, references)
        lengths = np.broadcast_to(block.lengths[:, None, :references], edited.shape)
        self._single = np.stack([edited, lengths], axis=-1).astype(np.float64)

    @property
    def single(self) -> Floats:
        return self._single

    def score(self, values: npt.NDArray[Any]) -> Floats:
        return _rate(values)

    def best(self, cuts: Integers) -> tuple[Floats, Integers]:
        """The fewest edits, and the mean length of the references."""
        edited, lengths = self._single[..., 0], self._single[..., 1]
        mean = np.cumsum(lengths, axis=2) / np.arange(1, lengths.shape[2] + 1)
        nearest = np.stack([np.minimum.accumulate(edited, axis=2), mean], axis=-1)
        return at_cuts(nearest, cuts), at_cuts(first_best(-edited), cuts)


def _rate(values: npt.NDArray[Any]) -> Floats:
    edited, length = values[..., 0], values[..., 1]
    rate = np.divide(edited, length, out=(edited > 0).astype(np.float64), where=length > 0)
    return np.asarray(100 * rate)
