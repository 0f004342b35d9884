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
from polyref.metrics.statistics import Floats, Integers

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
        peer = self._sacrebleu
        values = np.zeros((len(cuts), len(systems), len(references), len(self.columns)), dtype=np.int32)
        for n, texts in enumerate(references):
            used = int(cuts[-1, n])
            known = [peer._extract_reference_info([peer._preprocess_segment(text)])["ref_ngrams"] for text in texts]
            for s, system in enumerate(systems):
                output = peer._preprocess_segment(system[n])
                rows = [peer._compute_segment_statistics(output, {"ref_ngrams": known[j]}) for j in range(used)]
                best = self._running_best(np.array(rows, dtype=np.int32).reshape(used, len(self.columns)))
                for row, cut in enumerate(cuts[:, n]):
                    if cut:
                        values[row, s, n] = rows[best[cut - 1]]
        return values

    def _running_best(self, rows: npt.NDArray[Any]) -> list[int]:
        """``result[j]`` is the first of references 0..j with the best sentence F."""
        best, result = 0, []
        scores = self._score(rows, sentence=True)
        for j, score in enumerate(scores):
            if score > scores[best]:
                best = j
            result.append(best)
        return result

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
