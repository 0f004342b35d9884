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

from polyref.metrics.base import LOWERCASE, Metric, Texts
from polyref.metrics.combination import (
    MAXIMUM,
    Blend,
    Combination,
    ExpectedCredit,
    Maximum,
    Mean,
    at_cuts,
    both_parts,
    credit,
    first_best,
    weighted_mean,
)
from polyref.metrics.ngram.counts import Block, Reader, features, incidence, single_matches, text_blocks
from polyref.metrics.statistics import Floats, Integers
from polyref.options import option

_EPSILON: Final = 1e-16


@dataclass(frozen=True)
class CHRF(Metric):
    """chrF; with word n-grams, chrF++.

    Attributes:
        combination: How references combine.
        char_order: The longest character n-grams, 1 to 100.
        word_order: The longest word n-grams, 0 to 100; 2 is chrF++.
        beta: Weight of recall against precision, 1 or more.
        lowercase: Ignore case.
        whitespace: Keep white space in character n-grams.
        eps_smoothing: Average the F of all orders, as chrF++.py, NLTK and Moses do, instead of precision and recall
            over the orders that both texts have.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, ExpectedCredit, Blend)
    digits: ClassVar[int] = 1
    by_segment: ClassVar[bool] = True
    family: ClassVar[str] = "chrf"

    combination: Combination = MAXIMUM
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
    def columns(self) -> tuple[str, ...]:
        """N-grams of the output, of the reference and of both, by order, as in sacreBLEU."""
        orders = [f"char{n + 1}" for n in range(self.char_order)] + [f"word{n + 1}" for n in range(self.word_order)]
        names = [f"{kind}_{order}" for order in orders for kind in ("output", "reference", "match")]
        if isinstance(self.combination, Blend):
            names += [f"added_{name}" for name in names]
        return (*names, "sentence") if self.combination.one_by_one else tuple(names)

    @cached_property
    def _sacrebleu(self) -> sacrebleu.CHRF:
        return sacrebleu.CHRF(
            char_order=self.char_order,
            word_order=self.word_order,
            beta=self.beta,
            lowercase=self.lowercase,
            whitespace=self.whitespace,
            eps_smoothing=self.eps_smoothing,
        )

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        shown = int(texts.cuts[-1].max())
        shape = (len(texts.cuts), len(texts.systems), len(texts.references), len(self.columns))
        how = self.combination
        values = np.zeros(shape, dtype=np.int32 if isinstance(how, Maximum) else np.float64)
        if not shown:
            return values
        for chosen, rows in text_blocks(texts):
            cuts, originals, weights = texts.cuts[:, chosen], texts.originals[chosen], texts.weights[chosen]
            parts = self._parts(rows)
            pairs = self._pairs(parts, shown)
            if isinstance(how, Maximum):
                best = at_cuts(first_best(self._f(pairs)), cuts)
                values[:, :, chosen] = _chosen(pairs, best, cuts)
                if texts.chosen is not None:
                    texts.chosen[:, :, chosen] = best
            elif isinstance(how, Mean):
                single = np.stack([*pairs, self._f(pairs)], axis=3)
                values[:, :, chosen] = weighted_mean(single, weights, cuts)
            elif isinstance(how, Blend):
                scores, alone = self._f(pairs), np.minimum(cuts, originals)
                human = _chosen(pairs, at_cuts(first_best(scores), alone), alone)
                human = np.concatenate([human, self._f(np.moveaxis(human, -1, 0))[..., None]], axis=-1)
                single = np.stack([*pairs, scores], axis=3)
                values[:, :, chosen] = how.joined(*both_parts(human, single, weights, originals, cuts))
            elif isinstance(how, ExpectedCredit):
                values[:, :, chosen] = self._expected(how, parts, pairs, cuts, originals, weights)
        return values

    def _parts(self, rows: Sequence[Sequence[str]]) -> list[tuple[Block, int]]:
        """Characters and words of the texts, each with the longest n-grams to count."""
        if self.lowercase:
            rows = [[text.lower() for text in row] for row in rows]
        reader = Reader(rows)
        parts = [(reader.characters(whitespace=self.whitespace), self.char_order)]
        return [*parts, (reader.words("chrf"), self.word_order)] if self.word_order else parts

    def _pairs(self, parts: Sequence[tuple[Block, int]], shown: int) -> npt.NDArray[np.int32]:
        """Statistics of every output with every single reference: shape (3 x orders, B, S, R).

        Args:
            parts: What :meth:`_parts` gives.
            shown: Number of references, R.
        """
        orders = self.char_order + self.word_order
        segments, outputs = parts[0][0].segments, parts[0][0].ranks - shown
        pairs = np.empty((3 * orders, segments, outputs, shown), dtype=np.int32)
        column = 0
        for block, longest in parts:
            for n, matched in enumerate(single_matches(block, shown, longest)):
                grams = block.grams(n + 1)
                reference = grams[:, None, :shown]
                # An output's n-grams do not count where the reference is too short to have any.
                pairs[column] = np.where(reference > 0, grams[:, shown:, None], 0)
                pairs[column + 1] = reference
                pairs[column + 2] = matched
                column += 3
        return pairs

    def _expected(
        self,
        how: ExpectedCredit,
        parts: Sequence[tuple[Block, int]],
        pairs: npt.NDArray[np.int32],
        cuts: Integers,
        originals: Integers,
        weights: Floats,
    ) -> Floats:
        """Expected credit: shape (K, S, B, C). Of the human references, the one with the best F counts.

        Extra references earn for n-grams that no human reference holds, not for those of another human reference: what
        a second one adds is the choice of the better one, and a copy of it must not be worth more.
        """
        shown = pairs.shape[3]
        human_ranks = np.arange(shown) < originals[:, None]
        extra = np.where(human_ranks, 0.0, weights)
        humans = int(originals.max())
        # By statistic, then by number of references.
        tried = np.repeat(pairs[:, None, :, :, :humans].astype(np.float64), len(cuts), axis=1)
        column = 2
        for block, longest in parts:
            for found in features(block, longest):
                dense = incidence(found, block, shown)
                known = (dense[:, :shown] * human_ranks[:, :, None]).max(axis=1, initial=0)
                new = dense[:, shown:] * (1 - known[:, None])
                if how.power == 1:
                    earned = weighted_mean(new @ dense[:, :shown].transpose(0, 2, 1), extra, cuts)
                else:
                    earned = credit(dense[:, :shown], new, extra, cuts, how.power)
                for human in range(humans):
                    # Orders that the human reference is too short for stay out.
                    counts = pairs[column - 1, :, :, human] > 0
                    matched = tried[column, ..., human].transpose(0, 2, 1) + how.alpha * earned
                    tried[column, ..., human] = np.where(counts, matched.transpose(0, 2, 1), 0)
                column += 3
        result = np.zeros((len(cuts), tried.shape[3], tried.shape[2], len(self.columns)))
        for row in range(len(cuts)):
            each, counted = tried[:, row], np.minimum(cuts[[row]], originals)
            result[row] = _chosen(each, at_cuts(first_best(self._f(each)), counted), counted)[0]
        return result

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        if sentence and self.combination.one_by_one:
            return np.array(values[..., -1])
        if isinstance(self.combination, Blend):
            parts = self.combination.parts(values)
            return self.combination.between(*(self._f(np.moveaxis(part, -1, 0)) for part in parts))
        return self._f(np.moveaxis(values, -1, 0))

    def _f(self, values: npt.NDArray[Any]) -> Floats:
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

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        peer = self._sacrebleu
        peer.num_refs = -1 if references is None else references
        # sacreBLEU names beta in the metric's name, which this one does not repeat.
        return [f"beta:{self.beta}", *peer.get_signature().format().split("|"), *self.combination.described()]


def _chosen(pairs: npt.NDArray[Any], best: Integers, cuts: Integers) -> npt.NDArray[Any]:
    """Statistics with the chosen reference: shape (K, S, B, C); zeros where no reference counts.

    Args:
        pairs: Shape (C, B, S, R).
        best: Shape (K, S, B): the reference chosen.
        cuts: Shape (K, B): how many references count.
    """
    _, segments, outputs, _ = pairs.shape
    picked = pairs[:, np.arange(segments), np.arange(outputs)[:, None], best]
    picked.swapaxes(2, 3)[:, cuts == 0] = 0
    return np.moveaxis(picked, 0, -1)
