"""TER and parTER: sacreBLEU's translation edit rate for any number of references (Snover et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import ter as sacrebleu

from polyref.metrics.averages import at_cuts, both_parts, first_best, weighted_mean
from polyref.metrics.base import Metric, Texts
from polyref.metrics.combination import MAXIMUM, Blend, Combination, Maximum, Mean
from polyref.metrics.ngram.counts import Reader, text_blocks
from polyref.metrics.ngram.edit_rate import edit_matrix
from polyref.metrics.statistics import Floats
from polyref.options import option


@dataclass(frozen=True)
class TER(Metric):
    """TER: edits to the nearest reference, per word of the average reference. Lower is better.

    References combine by ``max``, sacreBLEU's rule (the best reference is the one with the fewest edits, so that
    signatures say ``min``), by ``mean`` or by ``blend``; expected credit of n-grams has no meaning here.

    Attributes:
        combination: How references combine.
        normalized: Tokenise and normalise as Tercom does.
        no_punct: Remove punctuation.
        asian_support: Treat East Asian characters as words, with ``normalized`` or ``no_punct``.
        case_sensitive: Do not ignore case.
    """

    higher_is_better: ClassVar[bool] = False
    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, Blend)
    _combination_options: ClassVar[tuple[str, ...]] = ("combine", "weights", "gamma", "temperature")
    digits: ClassVar[int] = 1
    by_segment: ClassVar[bool] = True

    combination: Combination = MAXIMUM
    normalized: bool = option(False, help="Tokenise and normalise.")
    no_punct: bool = option(False, help="Remove punctuation.")
    asian_support: bool = option(False, help="East Asian characters are words, with one of the two before.")
    case_sensitive: bool = option(False, help="Do not ignore case.")

    @property
    def name(self) -> str:
        """The registry name."""
        return "ter"

    @property
    def label(self) -> str:
        """What people call it."""
        return "TER"

    @property
    def columns(self) -> tuple[str, ...]:
        """Edits and the length of the reference: fewest and mean, or both weighted means with that of the scores."""
        names = ["edits", "reference"]
        if isinstance(self.combination, Blend):
            names += [f"added_{name}" for name in names]
        return (*names, "sentence") if self.combination.one_by_one else tuple(names)

    @cached_property
    def _sacrebleu(self) -> sacrebleu.TER:
        return sacrebleu.TER(
            normalized=self.normalized,
            no_punct=self.no_punct,
            asian_support=self.asian_support,
            case_sensitive=self.case_sensitive,
        )

    def _words(self, texts: Sequence[str]) -> list[str]:
        """Texts whose words are set apart by spaces."""
        tokenizer = self._sacrebleu.tokenizer
        return [tokenizer(text.rstrip()) for text in texts]

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        cuts = texts.cuts
        shown = int(cuts[-1].max())
        values = np.zeros((len(cuts), len(texts.systems), len(texts.references), len(self.columns)))
        if not shown:
            return values
        for chosen, rows in text_blocks(texts):
            # sacreBLEU prepares references twice, which a second time can cut further ("..2") or decode ("&amp;lt;").
            prepared = [[*self._words(self._words(row[:shown])), *self._words(row[shown:])] for row in rows]
            block = Reader(prepared).words("space")
            edited, lengths = edit_matrix(block, shown), block.lengths[:, None, :shown]
            nearest = np.empty((*edited.shape, 3))
            nearest[..., 0] = np.minimum.accumulate(edited, axis=2)
            nearest[..., 1] = np.cumsum(lengths, axis=2) / np.arange(1, shown + 1)
            if isinstance(self.combination, Maximum):
                values[:, :, chosen] = at_cuts(nearest[..., :2], cuts[:, chosen])
                if texts.chosen is not None:
                    texts.chosen[:, :, chosen] = at_cuts(first_best(-edited), cuts[:, chosen])
                continue
            single = np.empty_like(nearest)
            single[..., 0] = edited
            single[..., 1] = lengths
            single[..., 2] = _rate(single)
            weights, originals = texts.weights[chosen], texts.originals[chosen]
            if isinstance(self.combination, Blend):
                nearest[..., 2] = _rate(nearest)
                human = at_cuts(nearest, np.minimum(cuts[:, chosen], originals))
                parts = both_parts(human, single, weights, originals, cuts[:, chosen])
                values[:, :, chosen] = self.combination.joined(*parts)
            else:
                values[:, :, chosen] = weighted_mean(single, weights, cuts[:, chosen])
        return values

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        if sentence and self.combination.one_by_one:
            return np.array(values[..., -1])
        if isinstance(self.combination, Blend):
            return self.combination.between(*map(_rate, self.combination.parts(values)))
        return _rate(values)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        peer = self._sacrebleu
        peer.num_refs = -1 if references is None else references
        combination = ["combine:min"] if isinstance(self.combination, Maximum) else self.combination.described()
        return [*peer.get_signature().format().split("|"), *combination]


def _rate(values: npt.NDArray[Any]) -> Floats:
    edited, length = values[..., 0], values[..., 1]
    rate = np.divide(edited, length, out=(edited > 0).astype(np.float64), where=length > 0)
    return np.asarray(100 * rate)
