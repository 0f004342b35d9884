"""BLEU and parBLEU: sacreBLEU's numbers for any number of references.

Papineni et al. (2002), with the smoothing methods of Chen and Cherry (2014) as sacreBLEU has them. Corpus scores follow
``sacrebleu.BLEU()``; sentence scores follow ``sacrebleu.BLEU(effective_order=True)``, its advice for sentences.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import bleu as sacrebleu

from polyref.errors import ModelError, PolyrefWarning
from polyref.metrics.combination import Blend, Combination, Compared, ExpectedCredit, Maximum, Mean, at_cuts
from polyref.metrics.ngram.counts import Block, BlockReader, features, incidence, joint_matches, single_matches
from polyref.metrics.ngram.metric import LOWERCASE, NGramMetric
from polyref.metrics.signature import exact
from polyref.metrics.statistics import Floats, Integers, Statistics
from polyref.options import option

SMOOTHING: Final = tuple(sacrebleu.BLEU.SMOOTH_DEFAULTS)
TOKENIZERS: Final = tuple(sacrebleu.BLEU.TOKENIZERS)
#: The environment variable that allows downloads of tokenisers.
DOWNLOAD: Final = "POLYREF_DOWNLOAD"
# sacreBLEU's logarithm of zero.
_LOG_ZERO: Final = -9999999999.0


@dataclass(frozen=True)
class BLEU(NGramMetric):
    """BLEU; with extra references, parBLEU (Bawden et al. 2020)."""

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, ExpectedCredit, Blend)

    name = "bleu"
    label = "BLEU"

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
    def own_columns(self) -> list[str]:
        """Lengths, then matches and totals by order."""
        orders = range(1, self.max_ngram_order + 1)
        return ["length", "reference", *(f"match{n}" for n in orders), *(f"total{n}" for n in orders)]

    @cached_property
    def _peers(self) -> tuple[sacrebleu.BLEU, sacrebleu.BLEU]:
        corpora, sentences = bool(self.effective_order), self.effective_order is not False
        return self._peer(effective_order=corpora), self._peer(effective_order=sentences)

    def _peer(self, *, effective_order: bool) -> sacrebleu.BLEU:
        _check_downloaded(self.tokenize)
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

    def _compared(self, rows: Sequence[Sequence[str]], references: int, originals: Integers) -> Compared:
        return _Words(self, self._words(rows), references, originals)

    def _words(self, rows: Sequence[Sequence[str]]) -> Block:
        if self.lowercase:
            rows = [[text.lower() for text in row] for row in rows]
        if self.tokenize == "13a":
            return BlockReader(rows).words("13a")
        if self.tokenize != "none":
            rows = [[self._tokenized(text) for text in row] for row in rows]
        return BlockReader(rows).words("space")

    def _tokenized(self, text: str) -> str:
        words: str = self._peers[0].tokenizer(text.rstrip())
        return words

    def _plain(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        """BLEU from statistics; sentences leave out orders they are too short for, unless told otherwise."""
        effective = self.effective_order is not False if sentence else bool(self.effective_order)
        return self._parts(values, effective=effective)[0].reshape(values.shape[:-1])

    def details(self, stats: Statistics, *, k: int) -> list[dict[str, Any]]:
        """What sacreBLEU prints beside the corpus score, by system.

        Returns:
            ``precisions`` (percent, by order), ``bp`` (brevity penalty), ``sys_len`` and ``ref_len`` (words) and
            ``ratio``, the one over the other. Nothing where no segment has a reference, and nothing of a blend, whose
            score is made of two BLEUs.
        """
        values = self._checked(stats, k)
        if not stats.counts(k).any() or len(self.combination.parts(values)) > 1:
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

    def _unsaid(self) -> list[str]:
        parts = [] if self.max_ngram_order == 4 else [f"order:{self.max_ngram_order}"]
        value = self.smooth_value
        # sacreBLEU writes two decimal places.
        if value is not None and float(f"{value:.2f}") != value and self.smooth_method in ("floor", "add-k"):
            parts.append(f"smooth-value:{exact(value)}")
        return parts


class _Words(Compared):
    """The words of some segments."""

    def __init__(self, metric: BLEU, block: Block, references: int, originals: Integers) -> None:
        super().__init__(originals, BLEU.combination)
        self._metric, self._block, self._references = metric, block, references
        self._order = metric.max_ngram_order

    @cached_property
    def single(self) -> Floats:
        block, shown, order = self._block, self._references, self._order
        pairs = np.zeros((block.segments, block.ranks - shown, shown, 2 + 2 * order))
        pairs[..., 0] = block.lengths[:, shown:, None]
        pairs[..., 1] = block.lengths[:, None, :shown]
        for n, matched in enumerate(single_matches(block, shown, order)):
            pairs[..., 2 + n] = matched
            pairs[..., 2 + order + n] = block.grams(n + 1)[:, shown:, None]
        return pairs

    def score(self, values: npt.NDArray[Any]) -> Floats:
        return self._metric._plain(values, sentence=True)

    def best(self, cuts: Integers) -> tuple[Floats, None]:
        """Clipped against all references together; no single one is chosen."""
        block, shown, order = self._block, self._references, self._order
        outputs = block.lengths[:, shown:, None]
        found = np.zeros((len(cuts), outputs.shape[1], block.segments, 2 + 2 * order))
        # The closest length counts, the shorter of two that are equally close.
        wide = int(block.lengths.max()) + 1
        distance = np.abs(outputs - block.lengths[:, None, :shown]) * wide + block.lengths[:, None, :shown]
        found[..., 0] = outputs[:, :, 0].T
        found[..., 1] = at_cuts(np.minimum.accumulate(distance, axis=2), cuts) % wide
        for n, matched in enumerate(joint_matches(block, shown, order)):
            found[..., 2 + n] = at_cuts(matched, cuts)
            found[..., 2 + order + n] = block.grams(n + 1)[:, shown:].T
        found.swapaxes(1, 2)[cuts == 0] = 0
        return found, None

    def credited(self, how: ExpectedCredit, cuts: Integers, weights: Floats) -> Floats:
        # Human references come first, so they are a cut as well.
        found, _ = self.best(np.minimum(cuts, self.originals))
        for n, kept in enumerate(features(self._block, self._order)):
            new = kept.first >= self.originals[kept.home]  # what no human reference holds
            dense = incidence(kept, self._block, self._references, new)
            held, own = dense[:, : self._references], dense[:, self._references :]
            found[..., 2 + n] += how.earned(held, own, weights, cuts)
        return found


def _check_downloaded(tokenizer: str) -> None:
    """Refuse a tokeniser whose model sacreBLEU would download now, unless ``POLYREF_DOWNLOAD=1`` allows it.

    A file that sacreBLEU keeps (``~/.sacrebleu/models``, or ``$SACREBLEU/models``) is used. Before a download, a
    warning says what is downloaded and where to.
    """
    # Heavy, and known to be there where a tokeniser is made.
    from sacrebleu.tokenizers import tokenizer_spm

    if tokenizer not in tokenizer_spm.SPM_MODELS:
        return
    url = tokenizer_spm.SPM_MODELS[tokenizer]["url"]
    path = Path(vars(tokenizer_spm)["SACREBLEU_DIR"], "models", url.rpartition("/")[2])
    if path.exists():
        return
    if os.environ.get(DOWNLOAD, "") in ("", "0"):
        raise ModelError(
            f"the tokeniser {tokenizer} needs a model that is not on this machine, and nothing is downloaded unasked",
            file=path,
            remedy=f"set the environment variable {DOWNLOAD}=1 to download {url} once, or put that file there",
        )
    warnings.warn(f"downloading the tokeniser {tokenizer} from {url} to {path}", PolyrefWarning, stacklevel=2)


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
