"""Prism (Thompson & Post 2020, EMNLP, "Automatic Machine Translation Evaluation in Many Languages via Zero-Shot
Paraphrasing"): how likely the output is under a multilingual translation model.

* Prism-ref: the mean of H(output | reference) and H(reference | output), each the mean token log-probability.
* Prism-src: H(output | source).

As in the authors' program the end of sentence counts and the language tag does not, and the softmax has temperature 1.
Their program takes one reference; several are combined by the mean of the scores here, unless asked otherwise.
Log-probabilities are in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from polyref.errors import UsageError
from polyref.metrics.combination import MEAN, Combination
from polyref.metrics.likelihood import SequenceMetric, SourceMetric, TextPair, both_ways
from polyref.metrics.pairs import PairMetric, mean_of
from polyref.metrics.statistics import Floats
from polyref.options import option


@dataclass(frozen=True, kw_only=True)
class PrismRef(SequenceMetric, PairMetric):
    """Prism-ref. By default with the shipped paraphraser, English to English; Prism's own model is a fairseq folder."""

    name = "prism"
    label = "Prism-ref"
    par_label = "parPrism"
    #: Output given reference, reference given output, and their mean.
    measures = ("forward", "backward", "mean")

    model: str = option("shipped", help="The model: a folder or a name.", flag="--prism-model", metavar="MODEL")
    combination: Combination = MEAN

    def _pairs(self, pairs: Sequence[TextPair]) -> Floats:
        return both_ways(pairs, self._means)

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return mean_of(values[..., 0] / 2 + values[..., 1] / 2, values[..., -1])

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return ["dir:both", "tokens:mean", *self.combination.described()]


@dataclass(frozen=True, kw_only=True)
class PrismSrc(SourceMetric):
    """Prism-src: no reference is read. The model must translate."""

    name = "prism-src"
    label = "Prism-src"
    family: ClassVar[str] = "prism"

    model: str = option("shipped", help="The model: a folder or a name.", flag="--prism-model", metavar="MODEL")

    def _check_model(self) -> None:
        if self.facts.monolingual:
            raise UsageError(
                f"Prism-src asks how likely a translation is, but {self.facts.name} reads and writes one language",
                remedy="name a translation model, prism-src(model=...), such as a fairseq folder of Prism's model",
            )
        super()._check_model()

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return ["dir:source-to-output", "tokens:mean"]
