"""BLEU and parBLEU: sacreBLEU's numbers for any number of references.

Papineni et al. (2002), with the smoothing methods of Chen and Cherry (2014) as sacreBLEU has them. Corpus scores follow
``sacrebleu.BLEU()``; sentence scores follow ``sacrebleu.BLEU(effective_order=True)``, its advice for sentences.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import bleu as sacrebleu

from polyref.errors import ModelError
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
    weighted_mean,
)
from polyref.metrics.ngram.counts import (
    Block,
    Reader,
    features,
    incidence,
    joint_matches,
    pair_matches,
    single_matches,
    text_blocks,
)
from polyref.metrics.ngram.tokenizers import check_present
from polyref.metrics.signature import exact
from polyref.metrics.statistics import Floats, Integers, Statistics
from polyref.options import option

SMOOTHING: Final = tuple(sacrebleu.BLEU.SMOOTH_DEFAULTS)
TOKENIZERS: Final = tuple(sacrebleu.BLEU.TOKENIZERS)
# sacreBLEU's logarithm of zero.
_LOG_ZERO: Final = -9999999999.0


@dataclass(frozen=True)
class BLEU(Metric):
    """BLEU; with extra references, parBLEU (Bawden et al. 2020).

    Attributes:
        combination: How references combine.
        lowercase: Ignore case.
        tokenize: One of sacreBLEU's tokenisers.
        smooth_method: ``exp``, ``floor``, ``add-k`` or ``none``.
        smooth_value: The value of ``floor`` (0.1) or ``add-k`` (1); None is that default.
        max_ngram_order: The longest n-grams, 1 to 100.
        effective_order: Leave out orders a text is too short for; None does so for sentences and not for corpora.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, ExpectedCredit, Blend)
    digits: ClassVar[int] = 1
    by_segment: ClassVar[bool] = True

    combination: Combination = MAXIMUM
    lowercase: bool = option(False, **LOWERCASE)
    tokenize: str = option(
        "13a",
        help="sacreBLEU's tokeniser for BLEU.",
        choices=TOKENIZERS,
        flag="--tokenize",
        short="-tok",
        metavar="NAME",
        common=True,
    )
    smooth_method: str = option(
        "exp", help="How zero matches are smoothed.", choices=SMOOTHING, flag="--smooth-method", short="-s"
    )
    smooth_value: float | None = option(
        None,
        help="Value of that.",
        least=0,
        flag="--smooth-value",
        short="-sv",
        otherwise="0.1 of floor, 1 of add-k",
        needs=("smooth_method=floor", "smooth_method=add-k"),
    )
    max_ngram_order: int = option(4, help="Longest n-grams.", least=1, most=100)
    effective_order: bool | None = option(
        None,
        help="Leave out orders a text is too short for.",
        flag="--effective-order",
        otherwise="sentences yes, corpora no",
    )

    @property
    def name(self) -> str:
        """The registry name."""
        return "bleu"

    @property
    def label(self) -> str:
        """What people call it."""
        return "BLEU"

    @property
    def columns(self) -> tuple[str, ...]:
        """Lengths, then matches and totals by order, as in sacreBLEU."""
        orders = range(1, self.max_ngram_order + 1)
        names = ["length", "reference", *(f"match{n}" for n in orders), *(f"total{n}" for n in orders)]
        if isinstance(self.combination, Blend):
            names += [f"added_{name}" for name in names]
        return (*names, "sentence") if self.combination.one_by_one else tuple(names)

    @cached_property
    def _sacrebleu(self) -> sacrebleu.BLEU:
        return self._peer(effective_order=bool(self.effective_order))

    @cached_property
    def _sentence_sacrebleu(self) -> sacrebleu.BLEU:
        return self._peer(effective_order=self.effective_order is not False)

    def _peer(self, *, effective_order: bool) -> sacrebleu.BLEU:
        check_present(self.tokenize)
        try:
            return sacrebleu.BLEU(
                lowercase=self.lowercase,
                force=True,
                tokenize=self.tokenize,
                smooth_method=self.smooth_method,
                smooth_value=self.smooth_value,
                max_ngram_order=self.max_ngram_order,
                effective_order=effective_order,
            )
        except (ImportError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise ModelError(f"the tokeniser {self.tokenize} cannot be loaded: {reason}") from None

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        shown = int(texts.cuts[-1].max())
        shape = (len(texts.cuts), len(texts.systems), len(texts.references), len(self.columns))
        values = np.zeros(shape, dtype=np.int32 if isinstance(self.combination, Maximum) else np.float64)
        if not shown:
            return values
        for chosen, rows in text_blocks(texts):
            block = self._words(rows)
            cuts, originals, weights = texts.cuts[:, chosen], texts.originals[chosen], texts.weights[chosen]
            if isinstance(self.combination, Mean):
                found: npt.NDArray[Any] = weighted_mean(self._single(block, shown), weights, cuts)
            elif isinstance(self.combination, Blend):
                human = self._joint(block, shown, np.minimum(cuts, originals), originals, weights)
                human = np.concatenate([human, self._sentence_bleu(human)[..., None]], axis=-1)
                found = self.combination.joined(
                    *both_parts(human, self._single(block, shown), weights, originals, cuts)
                )
            else:
                found = self._joint(block, shown, cuts, originals, weights)
            found.swapaxes(1, 2)[cuts == 0] = 0
            values[:, :, chosen] = found
        return values

    def _joint(self, block: Block, shown: int, cuts: Integers, originals: Integers, weights: Floats) -> Floats:
        """Statistics with all references that count together: shape (K, S, B, C)."""
        order, outputs = self.max_ngram_order, block.lengths[:, shown:, None]
        # Human references come first, so they are a cut as well.
        plain = np.minimum(cuts, originals) if self.combination.credits else cuts
        found = np.zeros((len(cuts), outputs.shape[1], block.segments, 2 + 2 * order))
        # The closest length counts, the shorter of two that are equally close.
        wide = int(block.lengths.max()) + 1
        distance = np.abs(outputs - block.lengths[:, None, :shown]) * wide + block.lengths[:, None, :shown]
        found[..., 0] = outputs[:, :, 0].T
        found[..., 1] = at_cuts(np.minimum.accumulate(distance, axis=2), plain) % wide
        extra = np.where(np.arange(shown) < originals[:, None], 0.0, weights)
        for n, matched in enumerate(joint_matches(block, shown, order)):
            found[..., 2 + n] = at_cuts(matched, plain)
            found[..., 2 + order + n] = block.grams(n + 1)[:, shown:].T
        credit_of = self.combination
        if not isinstance(credit_of, ExpectedCredit):
            return found
        for n, kept in enumerate(features(block, order)):
            # What no human reference holds.
            new = kept.first >= originals[kept.home]
            if credit_of.power == 1:
                earned = weighted_mean(pair_matches(kept, block, shown, new), extra, cuts)
            else:
                dense = incidence(kept, block, shown, new)
                earned = credit(dense[:, :shown], dense[:, shown:], extra, cuts, credit_of.power)
            found[..., 2 + n] += credit_of.alpha * earned
        return found

    def _single(self, block: Block, shown: int) -> Floats:
        """Statistics and sentence scores with single references: shape (B, S, R, C)."""
        order = self.max_ngram_order
        pairs = np.zeros((block.segments, block.ranks - shown, shown, 3 + 2 * order))
        pairs[..., 0] = block.lengths[:, shown:, None]
        pairs[..., 1] = block.lengths[:, None, :shown]
        for n, matched in enumerate(single_matches(block, shown, order)):
            pairs[..., 2 + n] = matched
            pairs[..., 2 + order + n] = block.grams(n + 1)[:, shown:, None]
        pairs[..., -1] = self._sentence_bleu(pairs)
        return pairs

    def _words(self, rows: Sequence[Sequence[str]]) -> Block:
        if self.lowercase:
            rows = [[text.lower() for text in row] for row in rows]
        if self.tokenize == "13a":
            return Reader(rows).words("13a")
        if self.tokenize != "none":
            rows = [[self._tokenized(text) for text in row] for row in rows]
        return Reader(rows).words("space")

    def _tokenized(self, text: str) -> str:
        words: str = self._sacrebleu.tokenizer(text.rstrip())
        return words

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        if sentence:
            return np.array(values[..., -1]) if self.combination.one_by_one else self._sentence_bleu(values)
        if isinstance(self.combination, Blend):
            return self.combination.between(*(self._corpus_bleu(part) for part in self.combination.parts(values)))
        return self._corpus_bleu(values)

    def _corpus_bleu(self, values: npt.NDArray[Any]) -> Floats:
        return self._bleu(values, effective=bool(self.effective_order))

    def _sentence_bleu(self, values: npt.NDArray[Any]) -> Floats:
        return self._bleu(values, effective=self.effective_order is not False)

    def details(self, stats: Statistics, *, k: int) -> list[dict[str, Any]]:
        """What sacreBLEU prints beside the corpus score, by system.

        Returns:
            ``precisions`` (percent, by order), ``bp`` (brevity penalty), ``sys_len`` and ``ref_len`` (words) and
            ``ratio``, the one over the other. Nothing where no segment has a reference, and nothing of a blend, whose
            score is made of two BLEUs.
        """
        values = self._checked(stats, k)
        if not stats.counts(k).any() or isinstance(self.combination, Blend):
            return super().details(stats, k=k)
        sums = values.sum(axis=1, dtype=np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64)
        _, precisions, penalties = self._parts(sums, effective=bool(self.effective_order))
        found = zip(precisions.tolist(), penalties.tolist(), sums[:, :2].tolist(), strict=True)
        return [
            {
                "precisions": shares,
                "bp": penalty,
                "ratio": length / reference if reference else 0.0,
                "sys_len": length,
                "ref_len": reference,
            }
            for shares, penalty, (length, reference) in found
        ]

    def _bleu(self, values: npt.NDArray[Any], *, effective: bool) -> Floats:
        scores, _, _ = self._parts(values, effective=effective)
        return scores.reshape(values.shape[:-1])

    def _parts(self, values: npt.NDArray[Any], *, effective: bool) -> tuple[Floats, Floats, Floats]:
        """Scores (shape (N,)), precisions (N, orders) and brevity penalties (N,) of N rows of statistics."""
        order = self.max_ngram_order
        numbers = values.reshape(-1, values.shape[-1]).astype(np.float64)
        length, reference = numbers[:, 0], numbers[:, 1]
        correct, total = numbers[:, 2 : 2 + order], numbers[:, 2 + order : 2 + 2 * order]
        matched = correct.any(axis=1)
        default = sacrebleu.BLEU.SMOOTH_DEFAULTS[self.smooth_method]
        smoothing = float(default or 0) if self.smooth_value is None else self.smooth_value
        with np.errstate(divide="ignore", invalid="ignore"):
            penalty = np.where(length < reference, _each(math.exp, 1 - reference / np.maximum(length, 1)), 1.0)
            penalty[(length < reference) & (length == 0)] = 0.0
            logs = np.full(correct.shape, _LOG_ZERO)
            precisions = np.zeros(correct.shape)
            orders = np.full(len(numbers), order)
            halvings = np.ones(len(numbers))
            going = np.ones(len(numbers), dtype=bool)
            for n in range(order):
                hits, ngrams = correct[:, n], total[:, n]
                if self.smooth_method == "add-k" and n:
                    hits, ngrams = hits + smoothing, ngrams + smoothing
                going &= ngrams != 0
                if effective:
                    orders[going] = n + 1
                precision = 100.0 * hits / ngrams
                # Whole numbers below the smoothed value are zero; credit may be a fraction.
                none = going & ((hits * 2 * halvings < 1) if self.smooth_method == "exp" else (hits == 0))
                if self.smooth_method == "exp":
                    halvings[none] *= 2
                    precision[none] = 100.0 / (halvings[none] * ngrams[none])
                elif self.smooth_method == "floor":
                    precision[none] = 100.0 * smoothing / ngrams[none]
                precisions[going & matched, n] = precision[going & matched]
                some = going & matched & (precision > 0)
                logs[some, n] = _each(math.log, precision[some])
        if effective:
            logs[np.arange(order) >= orders[:, None]] = 0.0
        scores = np.zeros(len(numbers))
        mean = _python_sum(logs[matched]) / orders[matched]
        scores[matched] = penalty[matched] * _each(math.exp, mean)
        return scores, precisions, penalty

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        peer = self._sentence_sacrebleu if sentence else self._sacrebleu
        peer.num_refs = -1 if references is None else references
        # sacreBLEU's signature leaves the n-gram order out.
        own = [] if self.max_ngram_order == 4 else [f"order:{self.max_ngram_order}"]
        if self.smooth_value is not None and float(f"{self.smooth_value:.2f}") != self.smooth_value:
            # Nor does it write more than two decimal places.
            own += [f"smooth-value:{exact(self.smooth_value)}"] if self.smooth_method in ("floor", "add-k") else []
        return [*own, *peer.get_signature().format().split("|"), *self.combination.described()]


def _each(function: Any, values: Floats) -> Floats:
    """Apply a function of ``math``: NumPy's own differ from it in the last bit, and by processor."""
    return np.fromiter(map(function, values.ravel().tolist()), dtype=np.float64, count=values.size).reshape(
        values.shape
    )


def _python_sum(rows: Floats) -> Floats:
    """Sum along the last axis with the rounding of Python's ``sum``, which compensates from 3.12 on (Neumaier)."""
    total = np.zeros(len(rows))
    lost = np.zeros(len(rows))
    for column in rows.T:
        new = total + column
        if sys.version_info >= (3, 12):
            larger = np.abs(total) >= np.abs(column)
            lost += np.where(larger, (total - new) + column, (column - new) + total)
        total = new
    return total + lost
