"""How much the references of a segment differ, measured on a random part of a large set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyref.eval.inspection.sampling import sampled
from polyref.metrics.ngram.diversity import (
    bleu_to_references,
    distinct_ngrams,
    new_ngrams,
    self_bleu,
    tokenizer_for,
)
from polyref.metrics.statistics import Floats
from polyref.references import ReferenceSet


@dataclass(frozen=True)
class Diversity:
    """How much the references of one group differ. Everything is NaN where there is nothing to compare.

    Attributes:
        group: ``human`` or ``added``.
        references: How many there are in the part that was measured.
        self_bleu: BLEU of a reference against the others of its group and segment, 0 to 100.
        bleu_to_human: BLEU of an added reference against the human ones, 0 to 100; NaN for the human ones.
        distinct: Different 1-grams and 2-grams of a segment over all of them, 0 to 1.
        new: Share of those of the added references that no human one of the segment has, 0 to 1; NaN for the human
            ones.
    """

    group: str
    references: int
    self_bleu: float
    bleu_to_human: float
    distinct: tuple[float, float]
    new: tuple[float, float]


def diversity(references: ReferenceSet, sample: int, seed: int) -> tuple[list[Diversity], str]:
    """Diversity of the human and of the added references, those that there are, and the tokeniser it is for."""
    part = sampled(references.segments, sample, seed)
    human = [[ref.text for ref in segment.originals] for segment in part]
    added = [[ref.text for ref in segment.extras] for segment in part]
    tokenize = tokenizer_for([text for texts in (*human, *added) for text in texts])
    nothing = float("nan")
    found = []
    for group, texts in (("human", human), ("added", added)):
        count = sum(map(len, texts))
        if not count:
            continue
        one, two = distinct_ngrams(texts, 2, tokenize)
        closeness, new = nothing, (nothing, nothing)
        if group == "added" and any(map(len, human)):
            pairs = [(more, refs) for more, refs in zip(texts, human, strict=True) if refs]
            closeness = _mean(bleu_to_references(*_unzipped(pairs), tokenize))
            new_one, new_two = new_ngrams(*_unzipped(pairs), 2, tokenize)
            new = (new_one, new_two)
        found.append(Diversity(group, count, _mean(self_bleu(texts, tokenize)), closeness, (one, two), new))
    return found, tokenize


def _unzipped(pairs: Sequence[tuple[list[str], list[str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
