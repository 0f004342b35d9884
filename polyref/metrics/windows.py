"""Long texts in windows of whole sentences, where a model reads only so many pieces of a text.

An output, its reference and its source, of those that a metric reads, are cut together: window by window they hold the
same share of their texts, and the model reads all of a window. Windows follow one another, and every sentence is in one
of them. A text that the model reads whole is one window; of a sentence that is longer, the model cuts the end. All this
is for texts that say the same things in one order, as translations do and summaries do not.

Where to cut is found by the dynamic programme of Gale & Church (1993, Computational Linguistics 19(1), "A Program for
Aligning Sentences in Bilingual Corpora"), whose beads are windows here. It asks for lengths in characters alone: no
model, any language. Cuts at equal shares of a text were the other choice, but the sentence end next to one half of the
output is often one sentence away from that next to one half of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, count, pairwise, zip_longest
from typing import Final

import numpy as np
import sentencex

from polyref.languages import base
from polyref.metrics.statistics import Floats

#: Texts side by side, such as an output and its reference; None is one that is not read.
Sides = tuple[str | None, ...]
#: How many pieces a model reads of texts of one side, special ones included, and whether it cuts them.
Reads = Callable[[int, Sequence[str]], Sequence[tuple[int, bool]]]
#: How many sentences of every side stand before a cut.
Point = tuple[int, ...]
#: Gale & Church's variance of the number of characters that stand for one character.
_VARIANCE: Final = 6.8
#: What a window costs, in squared standard deviations of its lengths.
_WINDOW: Final = 2.0
#: Pieces by which windows are planned shorter where sentences have more of them together than one by one.
_STEP: Final = 4


class Windows:
    """The windows of items, each of which is texts side by side.

    Attributes:
        several: The texts that were divided.
    """

    def __init__(
        self,
        read: Reads,
        languages: Sequence[str | None],
        room: int | None = None,
        whole: Callable[[Sequence[Sides]], Sequence[bool]] | None = None,
    ) -> None:
        """Nothing is divided yet.

        Args:
            read: What the model reads of the texts of a side.
            languages: Of every side, for its sentences; None: by English rules, with the full stops of all scripts.
            room: Where the model reads an item as one text, how many pieces of all sides it reads, special ones left
                out; None: it reads each side by itself.
            whole: Says of which items the model reads all, where that does not follow from ``read`` and ``room``.
        """
        self.several: set[str] = set()
        self._read, self._languages, self._room = read, languages, room
        self._whole = whole or self._fit
        sides = range(len(languages))
        self._special = [read(side, [""])[0][0] for side in sides]
        self._known: list[dict[str, tuple[int, bool]]] = [{} for _ in sides]
        # A text that is cut shows how many pieces there is room for.
        self._most: list[float] = [np.inf for _ in sides]

    def of(self, items: Iterable[Sides]) -> list[list[Sides]]:
        """The windows of every item, in order; the item itself where there is one."""
        items = list(items)
        self._learn(items)
        found = [
            [item] if whole else self._divided(item) for item, whole in zip(items, self._whole(items), strict=True)
        ]
        divided = [item for item, windows in zip(items, found, strict=True) if len(windows) > 1]
        self.several |= {text for item in divided for text in item if text}
        return found

    def mean(self, items: Sequence[Sides], score: Callable[[Sequence[Sides]], Floats]) -> Floats:
        """Scores of items, shape (P, M): means over their windows, which weigh as much as all sides have pieces.

        Args:
            items: P of them, each once.
            score: Gives the scores of windows, likewise.
        """
        windows = self.of(items)
        distinct = list(dict.fromkeys(one for each in windows for one in each))
        scores = dict(zip(distinct, score(distinct), strict=True))
        weights = [[self._together(one) for one in each] if len(each) > 1 else [1] for each in windows]
        rows = [[scores[one] for one in each] for each in windows]
        return np.array([np.average(row, axis=0, weights=own) for row, own in zip(rows, weights, strict=True)])

    def _divided(self, item: Sides) -> list[Sides]:
        if not any(sides := [*map(_sentences, item, self._languages)]):
            return [item]
        self._learn(zip_longest(*sides))
        for short in count(0, _STEP):
            ends = [*pairwise(self._plan(sides, short))]
            windows = [
                tuple(
                    None if text is None else "".join(sentences[first:last]).strip()
                    for text, sentences, first, last in zip(item, sides, *two, strict=True)
                )
                for two in ends
            ]
            self._learn(windows)
            long = [not whole and not _is_least(*two) for whole, two in zip(self._whole(windows), ends, strict=True)]
            if not any(long):
                break
        return windows if len(windows) > 1 else [item]

    def _plan(self, sides: Sequence[Sequence[str]], short: int) -> list[Point]:
        """The ends of windows which leave ``short`` pieces of the room free."""
        sizes = [[0, *accumulate(self.pieces(side, one) for one in ones)] for side, ones in enumerate(sides)]

        def fits(start: Point, end: Point) -> bool:
            parts = [size[last] - size[first] for size, first, last in zip(sizes, start, end, strict=True)]
            if self._room is not None:
                return sum(parts) <= self._room - short
            steps = zip(parts, self._most, start, end, strict=True)
            return all(last - first < 2 or part <= most - short for part, most, first, last in steps)

        return cuts([[len(one) for one in ones] for ones in sides], fits)

    def _fit(self, items: Sequence[Sides]) -> list[bool]:
        return [
            not any(text is not None and self._known[side][text][1] for side, text in enumerate(item))
            and (self._room is None or self._together(item) <= self._room)
            for item in items
        ]

    def pieces(self, side: int, text: str) -> int:
        """How many pieces of a text that was met here the model reads, special ones left out."""
        return self._known[side][text][0] - self._special[side]

    def _together(self, item: Sides) -> int:
        return sum(self.pieces(side, text) for side, text in enumerate(item) if text is not None)

    def _learn(self, items: Iterable[Sides]) -> None:
        """Have the pieces of texts counted, of each once."""
        for side, texts in enumerate(zip(*items, strict=True)):
            known = self._known[side]
            new = [text for text in dict.fromkeys(texts) if text is not None and text not in known]
            if new:
                known.update(zip(new, self._read(side, new), strict=True))
            for text in new:
                if known[text][1]:
                    self._most[side] = self.pieces(side, text)


def _sentences(text: str | None, language: str | None) -> list[str]:
    """The sentences of a text, with the space behind them; none where there is nothing else."""
    if not text or not text.strip():
        return []
    found = [""]
    for piece in sentencex.segment(base(language or "en"), text):
        if piece.strip() and found[-1].strip():
            found.append(piece)
        else:
            found[-1] += piece
    return found if "".join(found) == text else [text]


def _is_least(start: Point, end: Point) -> bool:
    """Whether a window can be no shorter: it has one sentence of a text or none."""
    return all(last - first < 2 for first, last in zip(start, end, strict=True))


def cuts(lengths: Sequence[Sequence[int]], fits: Callable[[Point, Point], bool]) -> list[Point]:
    """Where to cut texts into windows: the number of sentences of each before every cut, beginning and end included.

    What windows cost is the sum of three things: Gale & Church's squared standard deviations of the lengths in each
    window, a constant for each, and the squares of their shares of the texts, by which windows of one size are cheaper
    than others where the rest is equal.

    Args:
        lengths: Of the sentences of every text, in characters.
        fits: Whether a window may hold what is between two points. Where no window does, it has one sentence of a text
            or none.
    """
    ends = [np.array([0, *accumulate(one)]) / max(sum(one), 1) for one in lengths]
    # At every sentence's end in one text, the nearest ends in the others.
    every = np.unique(np.concatenate(ends))
    nearest = zip(*(abs(end - every[:, None]).argmin(axis=1).tolist() for end in ends), strict=True)
    points = list(dict.fromkeys(nearest))
    shares = [[end[at] for end, at in zip(ends, point, strict=True) if len(end) > 1] for point in points]
    scale = 2 * sum(map(sum, lengths)) / len(shares[0]) / _VARIANCE
    best, before = [0.0], [0]
    for last in range(1, len(points)):
        found = []
        for first in range(last - 1, -1, -1):
            if first < last - 1 and not fits(points[first], points[last]):
                break
            parts = [b - a for a, b in zip(shares[first], shares[last], strict=True)]
            mean = sum(parts) / len(parts)
            amiss = sum((part - mean) ** 2 for part in parts)
            found.append((best[first] + scale * amiss / mean + _WINDOW + mean**2, first))
        cost, first = min(found)
        best.append(cost)
        before.append(first)
    way = [len(points) - 1]
    while way[-1]:
        way.append(before[way[-1]])
    return [points[at] for at in reversed(way)]
