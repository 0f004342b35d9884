"""chrF, chrF++ and their multi-reference forms: sacreBLEU's numbers for any number of references.

Popović (2015, 2017). With several references, a segment takes the statistics of the one with the best sentence F.
The chrF++ of the ParBLEU paper is ``CHRF(word_order=1, beta=3)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import chrf as sacrebleu

from polyref.metrics.combination import (
    Blend,
    Combination,
    Compared,
    ExpectedCredit,
    Maximum,
    Mean,
    at_cuts,
    first_best,
    picked,
)
from polyref.metrics.ngram.counts import Block, BlockReader, features, incidence, single_matches
from polyref.metrics.ngram.metric import LOWERCASE, NGramMetric
from polyref.metrics.statistics import Floats, Integers
from polyref.options import option

_EPSILON: Final = 1e-16


@dataclass(frozen=True)
class CHRF(NGramMetric):
    """chrF; with word n-grams, chrF++.

    With ``eps_smoothing`` the F of all orders are averaged, as chrF++.py, NLTK and Moses do, instead of precision and
    recall over the orders that both texts have.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, ExpectedCredit, Blend)
    family: ClassVar[str] = "chrf"

    char_order: int = option(6, help="Longest character n-grams.", least=1, most=100, short="-cc")
    word_order: int = option(0, help="Longest word n-grams; chrF with some is chrF++.", least=0, most=100, short="-cw")
    beta: int = option(2, help="Weight of recall.", least=1)
    lowercase: bool = option(False, **LOWERCASE)
    whitespace: bool = option(False, help="Keep white space in n-grams.")
    eps_smoothing: bool = option(False, help="Smooth as chrF++.py, NLTK and Moses do.")

    @property
    def name(self) -> str:
        """The registry name."""
        return "chrf++" if self.word_order else "chrf"

    @property
    def label(self) -> str:
        """What people call it."""
        return "chrF++" if self.word_order else "chrF"

    @property
    def own_columns(self) -> list[str]:
        """N-grams of the output, of the reference and of both, by order."""
        orders = [f"char{n + 1}" for n in range(self.char_order)] + [f"word{n + 1}" for n in range(self.word_order)]
        return [f"{kind}_{order}" for order in orders for kind in ("output", "reference", "match")]

    @cached_property
    def _peers(self) -> tuple[sacrebleu.CHRF, sacrebleu.CHRF]:
        peer = sacrebleu.CHRF(
            char_order=self.char_order,
            word_order=self.word_order,
            beta=self.beta,
            lowercase=self.lowercase,
            whitespace=self.whitespace,
            eps_smoothing=self.eps_smoothing,
        )
        return peer, peer

    def _compared(self, rows: Sequence[Sequence[str]], references: int, originals: Integers) -> Compared:
        if self.lowercase:
            rows = [[text.lower() for text in row] for row in rows]
        reader = BlockReader(rows)
        blocks = [(reader.characters(whitespace=self.whitespace), self.char_order)]
        blocks += [(reader.words("chrf"), self.word_order)] if self.word_order else []
        return _Characters(self, blocks, references, originals)

    def _plain(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return self.f(np.moveaxis(values, -1, 0))

    def f(self, values: npt.NDArray[Any]) -> Floats:
        """F from statistics of shape (C, ...): shape (...)."""
        # The order of operations is sacreBLEU's: the results are equal to the last bit.
        factor = self.beta**2
        orders = self.char_order + self.word_order
        shape = values.shape[1:]
        f_sum, precision_sum, recall_sum, effective = (np.zeros(shape) for _ in range(4))
        with np.errstate(divide="ignore", invalid="ignore"):
            for n in range(orders):
                output, reference, match = (values[3 * n + i].astype(np.float64) for i in range(3))
                precision = np.where(output > 0, match / output, _EPSILON)
                # Expected credit may match more than the human reference has.
                recall = np.where(reference > 0, np.minimum(match / reference, 1), _EPSILON)
                denominator = factor * precision + recall
                f_sum += np.where(denominator > 0, (1 + factor) * precision * recall / denominator, _EPSILON)
                both = (output > 0) & (reference > 0)
                precision_sum += np.where(both, precision, 0.0)
                recall_sum += np.where(both, recall, 0.0)
                effective += both
            if self.eps_smoothing:
                return np.asarray(100 * f_sum / orders)
            precision, recall = (np.where(effective > 0, x / effective, 0.0) for x in (precision_sum, recall_sum))
            f = (1 + factor) * precision * recall / (factor * precision + recall)
            return np.where(precision + recall > 0, 100 * f, 0.0)

    def _unsaid(self) -> list[str]:
        # sacreBLEU names beta in the metric's name, which this one does not repeat.
        return [f"beta:{self.beta}"]


class _Characters(Compared):
    """Characters and words of some segments, each with the longest n-grams to count."""

    def __init__(self, metric: CHRF, blocks: Sequence[tuple[Block, int]], references: int, originals: Integers) -> None:
        super().__init__(originals, CHRF.combination)
        self._metric, self._blocks, self._references = metric, blocks, references

    @cached_property
    def _by_column(self) -> npt.NDArray[np.int32]:
        """Statistics with every single reference: shape (C, B, S, R)."""
        shown, (block, _) = self._references, self._blocks[0]
        columns = 3 * sum(longest for _, longest in self._blocks)
        pairs = np.empty((columns, block.segments, block.ranks - shown, shown), dtype=np.int32)
        column = 0
        for block, longest in self._blocks:
            for n, matched in enumerate(single_matches(block, shown, longest)):
                grams = block.grams(n + 1)
                reference = grams[:, None, :shown]
                # An output's n-grams do not count where the reference is too short to have any.
                pairs[column] = np.where(reference > 0, grams[:, shown:, None], 0)
                pairs[column + 1] = reference
                pairs[column + 2] = matched
                column += 3
        return pairs

    @property
    def single(self) -> npt.NDArray[Any]:
        return np.moveaxis(self._by_column, 0, -1)

    def score(self, values: npt.NDArray[Any]) -> Floats:
        return self._metric.f(np.moveaxis(values, -1, 0))

    def credited(self, how: ExpectedCredit, cuts: Integers, weights: Floats) -> Floats:
        """Of the human references, the one with the best F counts.

        Extra references earn for n-grams that no human reference holds, not for those of another human reference: what
        a second one adds is the choice of the better one, and a copy of it must not be worth more.
        """
        shown, originals, pairs = self._references, self.originals, self._by_column
        human_ranks = np.arange(shown) < originals[:, None]
        humans = int(originals.max())
        # By statistic, then by number of references.
        tried = np.repeat(pairs[:, None, :, :, :humans].astype(np.float64), len(cuts), axis=1)
        column = 2
        for block, longest in self._blocks:
            for found in features(block, longest):
                dense = incidence(found, block, shown)
                known = (dense[:, :shown] * human_ranks[:, :, None]).max(axis=1, initial=0)
                earned = how.earned(dense[:, :shown], dense[:, shown:] * (1 - known[:, None]), weights, cuts)
                for human in range(humans):
                    # Orders that the human reference is too short for stay out.
                    counts = pairs[column - 1, :, :, human] > 0
                    matched = tried[column, ..., human].transpose(0, 2, 1) + earned
                    tried[column, ..., human] = np.where(counts, matched.transpose(0, 2, 1), 0)
                column += 3
        result = np.zeros((len(cuts), tried.shape[3], tried.shape[2], len(pairs)))
        for row in range(len(cuts)):
            counted = np.minimum(cuts[[row]], originals)
            best = at_cuts(first_best(self._metric.f(tried[:, row])), counted)
            result[row] = picked(np.moveaxis(tried[:, row], 0, -1), best, counted)[0]
        return result
