"""Copies: texts with the words of another text, and nearly so; and what is told of systems whose outputs they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final

from polyref.comparison import UNSPACED
from polyref.metrics.ngram.bleu import BLEU
from polyref.metrics.ngram.diversity import tokenizer_for
from polyref.references import ReferenceSet, Segment

#: Words of the shortest output that counts; characters in scripts without spaces.
LEAST_WORDS: Final = 6
#: Word F1 from which on two texts are near copies: the Dice coefficient of their words, which may stand in any order.
NEAR: Final = 0.9
#: Level of binomial tests of numbers of copies.
LEVEL: Final = 0.001
#: Segments that BLEU is computed on: a random part of a larger set.
SAMPLE: Final = 1000
#: Systems that a message names.
NAMED: Final = 3
_ASCII_MARKS: Final = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_TO_SPACE: Final = bytes.maketrans(_ASCII_MARKS, b" " * len(_ASCII_MARKS))
_OTHER_MARKS: Final = re.compile("[\u00ab\u00bb\u2010-\u201f\u2026\u2039\u203a\u3000-\u3011\uff01-\uff0f\uff1a-\uff20]")


class Sample:
    """A random part of segments that come one by one, with the outputs of all systems (reservoir sampling).

    Args:
        size: Most segments that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._chosen = Random(1)
        self._read = 0
        self._kept: list[tuple[Segment, dict[str, str]]] = []

    def add(self, segment: Segment, outputs: Mapping[str, str]) -> None:
        """One more segment."""
        self._read += 1
        if len(self._kept) < self._size:
            self._kept.append((segment, dict(outputs)))
        elif (place := self._chosen.randrange(self._read)) < self._size:
            self._kept[place] = segment, dict(outputs)

    def bleu(self, texts: Callable[[Segment], list[str]], names: Iterable[str]) -> dict[str, float]:
        """BLEU of these systems, 0 to 100, against the texts of every segment that has some."""
        kept = [(found, outputs) for segment, outputs in self._kept if (found := texts(segment))]
        systems = {name: [outputs[name] for _, outputs in kept] for name in names}
        metric = BLEU(tokenize=tokenizer_for([text for found, _ in kept for text in found]))
        references = ReferenceSet.from_texts([found for found, _ in kept])
        scores = metric.aggregate(metric.statistics(systems, references, ks=(0,)), k=0)
        return dict(zip(systems, map(float, scores.system), strict=True))


def mean_of_others(name: str, bleu: Mapping[str, float]) -> float | None:
    """The mean of the other systems, None without any."""
    others = [value for other, value in bleu.items() if other != name]
    return sum(others) / len(others) if others else None


def is_copy(words: list[bytes], output: list[bytes]) -> bool:
    """Whether a text is an exact copy of an output, or a near one of an output of six words or more."""
    long = len(output) >= LEAST_WORDS
    return key_of(words) == key_of(output) or (long and first_near(output, [(0, words)]) is not None)


def words_of(text: str) -> list[bytes]:
    """The words, their case folded, without punctuation; characters where words run on."""
    if text.isascii():
        return text.lower().encode().translate(_TO_SPACE).split()
    bare = _OTHER_MARKS.sub(" ", text.casefold())
    if UNSPACED.search(bare):
        return [
            char.encode("utf-8", "surrogatepass")
            for char in bare
            if not char.isspace() and (ord(char) > 127 or char.isalnum())
        ]
    # What is no Unicode, of file names that were read as text, has to be cut as well.
    return bare.encode("utf-8", "surrogatepass").translate(_TO_SPACE).split()


def key_of(words: Iterable[bytes]) -> bytes:
    """Texts with one key are exact copies of each other, wherever a word is split by a hyphen."""
    return b"".join(words)


def first_near(words: list[bytes], texts: Iterable[tuple[int, list[bytes]]]) -> int | None:
    """The smallest rank of a text that is a near copy."""
    own = frozenset(words)
    for rank, others in texts:
        needed = NEAR * (len(words) + len(others)) / 2
        if min(len(words), len(others)) < needed or len(others) < LEAST_WORDS:
            continue
        # Every different word that is missing is one occurrence at least.
        if len(own.difference(others)) > len(words) - needed:
            continue
        if (Counter(words) & Counter(others)).total() >= needed:
            return rank
    return None


def listed(items: Sequence[object], between: str) -> str:
    """The first of them, and how many there are besides."""
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return between.join(map(str, items[:NAMED])) + more


def at_least(count: int, total: int, share: float) -> float:
    """Probability of so many or more of ``total``."""
    from scipy.special import betainc

    return float(betainc(count, total - count + 1, share)) if count else 1.0


def shown_p(value: float) -> str:
    """A p-value for a message."""
    return "p < 1e-16" if value < 1e-16 else f"p = {value:.1g}"
