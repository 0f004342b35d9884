"""chrF, chrF++ and their multi-reference forms: sacreBLEU's numbers for any number of references.

Popović (2015, 2017). With several references, a segment takes the statistics of the one with the best sentence F.
The chrF++ of the ParBLEU paper is ``CHRF(word_order=1, beta=3)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import chrf as sacrebleu

from polyref.errors import UsageError
from polyref.metrics.base import Metric
from polyref.metrics.ngram import at_cuts, blocks, char_block, features, pair_matches, word_block
from polyref.metrics.statistics import Floats, Integers
from polyref.metrics.tokens import ChrfWords

_EPSILON: Final = 1e-16


@dataclass(frozen=True)
class CHRF(Metric):
    """chrF; with word n-grams, chrF++.

    Attributes:
        char_order: The longest character n-grams, 1 or more.
        word_order: The longest word n-grams, 0 or more; 2 is chrF++.
        beta: Weight of recall against precision, 1 or more.
        lowercase: Ignore case.
        whitespace: Keep white space in character n-grams.
        eps_smoothing: Average the F of all orders, as chrF++.py, NLTK and Moses do, instead of precision and recall
            over the orders that both texts have.

    Raises:
        UsageError: An option is out of range.
    """

    char_order: int = 6
    word_order: int = 0
    beta: int = 2
    lowercase: bool = False
    whitespace: bool = False
    eps_smoothing: bool = False

    def __post_init__(self) -> None:
        for option, least in (("char_order", 1), ("word_order", 0), ("beta", 1)):
            if getattr(self, option) < least:
                raise UsageError(f"chrF {option} is {getattr(self, option)}, expected {least} or more")

    @property
    def name(self) -> str:
        """The registry name."""
        return "chrf++" if self.word_order else "chrf"

    @property
    def label(self) -> str:
        """What people call it."""
        return "chrF++" if self.word_order else "chrF"

    @property
    def options(self) -> dict[str, Any]:
        """The options, as plain JSON values."""
        return asdict(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """N-grams of the output, of the reference and of both, by order, as in sacreBLEU."""
        orders = [f"char{n + 1}" for n in range(self.char_order)] + [f"word{n + 1}" for n in range(self.word_order)]
        return tuple(f"{kind}_{order}" for order in orders for kind in ("output", "reference", "match"))

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

    def _count(
        self, systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]], cuts: Integers
    ) -> npt.NDArray[Any]:
        shown = int(cuts[-1].max(initial=0))
        values = np.zeros((len(cuts), len(systems), len(references), len(self.columns)), dtype=np.int32)
        if not shown:
            return values
        sizes = [sum(len(text) for text in texts[:cut]) for texts, cut in zip(references, cuts[-1], strict=True)]
        for chosen in blocks(sizes):
            texts = [
                [*references[n][: cuts[-1, n]], *[""] * (shown - cuts[-1, n]), *(system[n] for system in systems)]
                for n in chosen
            ]
            pairs = self._pairs(texts, shown)
            best = np.zeros(pairs.shape[:3], dtype=np.int64)
            scores = self._score(pairs, sentence=True)
            # The first of the best: a later reference must be strictly better.
            better = scores[:, :, 1:] > np.maximum.accumulate(scores, axis=2)[:, :, :-1]
            best[:, :, 1:] = np.maximum.accumulate(np.where(better, np.arange(1, shown), 0), axis=2)
            picked = np.take_along_axis(pairs, best[..., None], axis=2)
            values[:, :, chosen] = at_cuts(picked, cuts[:, chosen])
        return values

    def _pairs(self, texts: Sequence[Sequence[str]], shown: int) -> npt.NDArray[np.int32]:
        """Statistics of every output with every single reference: shape (segments, outputs, references, C).

        Args:
            texts: ``texts[segment]`` are ``shown`` references, then the outputs.
            shown: Number of references.
        """
        if self.lowercase:
            texts = [[text.lower() for text in segment] for segment in texts]
        ranks = len(texts[0])
        chars = texts if self.whitespace else [["".join(text.split()) for text in segment] for segment in texts]
        parts = [(char_block(chars, ranks), self.char_order)]
        if self.word_order:
            split = ChrfWords().split
            parts.append((word_block([[split(text) for text in segment] for segment in texts], ranks), self.word_order))
        pairs = np.empty((len(texts), ranks - shown, shown, len(self.columns)), dtype=np.int32)
        column = 0
        for block, orders in parts:
            for n, found in enumerate(features(block, orders)):
                grams = block.grams(n + 1)
                reference = grams[:, None, :shown]
                # An output's n-grams do not count where the reference is too short to have any.
                pairs[..., column] = np.where(reference > 0, grams[:, shown:, None], 0)
                pairs[..., column + 1] = reference
                pairs[..., column + 2] = pair_matches(found, block, shown)
                column += 3
        return pairs

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        # The order of operations is sacreBLEU's: the results are equal to the last bit.
        factor = self.beta**2
        orders = self.char_order + self.word_order
        shape = values.shape[:-1]
        f_sum, precision_sum, recall_sum, effective = (np.zeros(shape) for _ in range(4))
        with np.errstate(divide="ignore", invalid="ignore"):
            for n in range(orders):
                output, reference, match = (values[..., 3 * n + i].astype(np.float64) for i in range(3))
                precision = np.where(output > 0, match / output, _EPSILON)
                recall = np.where(reference > 0, match / reference, _EPSILON)
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
        return [f"beta:{self.beta}", *peer.get_signature().format().split("|")]
