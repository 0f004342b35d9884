"""How much texts that say the same differ: self-BLEU, BLEU to the references, distinct and new n-grams.

A *group* holds texts that say the same, such as the paraphrases of one segment. Groups need not be of one size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, Literal

import numpy as np

from polyref.metrics.ngram.bleu import BLEU
from polyref.metrics.ngram.counts import BlockReader, blocks, features, tokenize_13a
from polyref.metrics.statistics import Floats, Integers
from polyref.references import ReferenceSet

#: sacreBLEU's tokeniser, or ``char``: every character that is not white space, for scripts without spaces.
Tokenizer = Literal["13a", "char"]
#: Chinese, Japanese, Thai, Lao, Burmese, Khmer: scripts without spaces, as a part of a class of a regular expression.
UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_ORDERS: Final = 4


def tokenizer_for(texts: Sequence[str]) -> Tokenizer:
    """``char`` where most texts are in a script without spaces, otherwise ``13a``."""
    return "char" if 2 * sum(bool(_UNSPACED.search(text)) for text in texts) > len(texts) else "13a"


def self_bleu(groups: Sequence[Sequence[str]], tokenize: Tokenizer = "13a") -> Floats:
    """Self-BLEU (Zhu et al. 2018): how much of every text the other texts of its group hold.

    This is sentence BLEU (sacreBLEU's, with ``effective_order``) of a text against all others of its group together.
    The lower, the more diverse.

    Args:
        groups: Texts that say the same. A group of one text has nothing to compare.
        tokenize: How texts are cut into words.

    Returns:
        One value for every text of every group of two or more, in order, 0 to 100. Their mean is the self-BLEU
        of the groups.
    """
    several = [texts for texts in groups if len(texts) > 1]
    rows = dict(_leave_one_out(several, tokenize))
    if not rows:
        return np.empty(0)
    return BLEU(effective_order=True).score_sums(np.concatenate([rows[place] for place in range(len(several))]))


def bleu_to_references(
    groups: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: Tokenizer = "13a"
) -> Floats:
    """Sentence BLEU (sacreBLEU's, with ``effective_order``) of every text against the references of its group.

    Args:
        groups: Texts, such as the paraphrases of every segment.
        references: The references of every group. A group without any has nothing to compare.
        tokenize: How texts are cut into words.

    Returns:
        One value for every text of every group that has references, in order, 0 to 100.
    """
    pairs = [(texts, refs) for texts, refs in zip(groups, references, strict=True) if texts and refs]
    if not pairs:
        return np.empty(0)
    sizes = np.array([len(texts) for texts, _ in pairs])
    # One "system" for every rank: the references of a group are then read once.
    ranks = {str(rank): [texts[rank] if rank < len(texts) else "" for texts, _ in pairs] for rank in range(sizes.max())}
    metric = BLEU(tokenize=tokenize)
    statistics = metric.statistics(ranks, ReferenceSet.from_texts([refs for _, refs in pairs]), ks=(0,))
    scores = metric.aggregate(statistics, k=0).segment.T
    return scores[np.arange(len(ranks)) < sizes[:, None]]


def distinct_ngrams(groups: Sequence[Sequence[str]], longest: int = 2, tokenize: Tokenizer = "13a") -> list[float]:
    """Different n-grams of a group over all its n-grams (Li et al. 2016), summed over the groups.

    Args:
        groups: Texts that say the same.
        longest: Longest n-grams, 1 or more.
        tokenize: How texts are cut into words.

    Returns:
        For n-grams of 1 to ``longest`` words: up to 1, where no n-gram occurs twice; k equal texts have 1 / k or less.
        NaN where there is no n-gram.
    """
    words = list(_words(groups, tokenize))
    found = []
    for order in range(1, longest + 1):
        different = sum(len(_ngrams(texts, order)) for texts in words)
        total = sum(max(len(text) - order + 1, 0) for texts in words for text in texts)
        found.append(different / total if total else float("nan"))
    return found


def new_ngrams(
    groups: Sequence[Sequence[str]], references: Sequence[Sequence[str]], longest: int = 2, tokenize: Tokenizer = "13a"
) -> list[float]:
    """Share of the different n-grams of a group that none of its references holds, summed over the groups.

    Args:
        groups: Texts, such as the paraphrases of every segment.
        references: The references of every group.
        longest: Longest n-grams, 1 or more.
        tokenize: How texts are cut into words.

    Returns:
        For n-grams of 1 to ``longest`` words: 0, where the references hold every n-gram, to 1. NaN where there is no
        n-gram.
    """
    pairs = list(zip(_words(groups, tokenize), _words(references, tokenize), strict=True))
    found = []
    for order in range(1, longest + 1):
        new = total = 0
        for texts, known in pairs:
            there = _ngrams(texts, order)
            new += len(there - _ngrams(known, order))
            total += len(there)
        found.append(new / total if total else float("nan"))
    return found


def _leave_one_out(groups: Sequence[Sequence[str]], tokenize: Tokenizer) -> Iterator[tuple[int, Integers]]:
    """Of every group its place, and BLEU's statistics of its texts, each with the others as references.

    The statistics have the shape (texts, columns); like groups come one after another.
    """
    for chosen in blocks([sum(map(len, texts)) for texts in groups]):
        rows = [groups[index] for index in chosen]
        sizes = np.array([len(row) for row in rows])
        ranks = int(sizes.max())
        reader = BlockReader([[*(_spaced(text, tokenize) for text in row), *[""] * (ranks - len(row))] for row in rows])
        block = reader.words("13a" if tokenize == "13a" else "space")
        found = np.zeros((len(rows), ranks, 2 + 2 * _ORDERS), dtype=np.int64)
        found[..., 0] = block.lengths
        # The closest length counts, the shorter of two that are equally close.
        wide = int(block.lengths.max()) + 1
        distance = np.abs(block.lengths[:, :, None] - block.lengths[:, None]) * wide + block.lengths[:, None]
        others = (np.arange(ranks) < sizes[:, None])[:, None] & ~np.eye(ranks, dtype=bool)
        found[..., 1] = np.where(others, distance, np.iinfo(np.int64).max).min(axis=2) % wide
        for n, held in enumerate(features(block, _ORDERS)):
            # A feature is one occurrence of an n-gram: BLEU's clipped match is one that another text holds as well.
            shared = (np.bincount(held.feature) > 1)[held.feature]
            cells = held.segment[shared] * ranks + held.rank[shared]
            found[..., 2 + n] = np.bincount(cells, minlength=len(rows) * ranks).reshape(len(rows), ranks)
            found[..., 2 + _ORDERS + n] = block.grams(n + 1)
        yield from ((index, found[row, :size]) for row, (index, size) in enumerate(zip(chosen, sizes, strict=True)))


def _characters(text: str) -> list[str]:
    return list("".join(text.split()))


def _spaced(text: str, tokenize: Tokenizer) -> str:
    """A text that is cut at its spaces, or as 13a does."""
    return " ".join(_characters(text)) if tokenize == "char" else text


def _words(groups: Sequence[Sequence[str]], tokenize: Tokenizer) -> Iterator[list[list[str]]]:
    """The words of the texts of every group."""
    texts = list(chain.from_iterable(groups))
    words = iter(tokenize_13a(texts) if tokenize == "13a" else map(_characters, texts))
    return ([next(words) for _ in group] for group in groups)


def _ngrams(texts: Sequence[Sequence[str]], order: int) -> set[tuple[str, ...]]:
    return {ngram for words in texts for ngram in zip(*(words[start:] for start in range(order)), strict=False)}
