"""BARTScore (Yuan, Neubig & Liu 2021, NeurIPS, "BARTScore: Evaluating Generated Text as Text Generation").

The mean token log-probability of one text given another under an encoder-decoder:

* ``precision``: output given reference; ``recall``: reference given output; ``f``: their arithmetic mean;
* faithfulness (``bartscore-src``): output given source.

As in the authors' program every target token counts, the special ones of the tokeniser among them: for BART ``<s>``
and ``</s>``. Language tags of multilingual models, which their program does not foresee, are fed and not counted.

A prompt z joins the source, ``"TEXT z,"``, or the target, ``"z, TEXT"`` (where its tokens count, too). Several prompts
are an ensemble: the mean of the scores with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy.typing as npt

from polyref.errors import UsageError
from polyref.metrics.combination import MEAN, Combination
from polyref.metrics.likelihood import SequenceMetric, SourceMetric, TextPair, both_ways
from polyref.metrics.pairs import PairMetric, mean_of
from polyref.metrics.signature import flat
from polyref.metrics.statistics import Floats
from polyref.options import option

DIRECTIONS: Final = ("precision", "recall", "f")
PROMPT_SIDES: Final = ("source", "target")


@dataclass(frozen=True, kw_only=True)
class Prompted(SequenceMetric):
    """A metric with prompts, such as ``Such as``, for the encoder's text or the decoder's; none are needed."""

    family: ClassVar[str] = "bartscore"

    prompts: Sequence[str] = option(
        (), help="A prompt; several are an ensemble.", flag="--bartscore-prompt", metavar="TEXT"
    )
    prompt_side: str = option(
        "source", help="Whose prompt: of the encoder or the decoder.", choices=PROMPT_SIDES, needs=("prompts",)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not prompt.strip() for prompt in self.prompts):
            raise UsageError(f"{self.name}: `prompts` is {self.prompts!r}, expected texts that are not blank")

    def _asked(self, pair: TextPair) -> Sequence[TextPair]:
        source, target = pair
        if self.prompt_side == "source":
            return [(f"{source} {prompt},", target) for prompt in self.prompts] or [pair]
        return [(source, f"{prompt}, {target}") for prompt in self.prompts] or [pair]

    def _described_prompts(self) -> list[str]:
        if not self.prompts:
            return []
        return [f"prompts:{self.prompt_side}({flat('+'.join(self.prompts))})"]


@dataclass(frozen=True, kw_only=True)
class BARTScore(Prompted, PairMetric):
    """BARTScore against references.

    They combine by the mean (the authors' default), the maximum, or, with ``f``, the best reference of each direction,
    as the authors' experiments have it.
    """

    name = "bartscore"
    label = "BARTScore"

    combination: Combination = MEAN
    direction: str = option("f", help="Output given reference, the reverse, or both.", choices=DIRECTIONS)

    @property
    def measures(self) -> tuple[str, ...]:
        """The direction; of ``f`` precision, recall and their mean."""
        return DIRECTIONS if self.direction == "f" else (self.direction,)

    def _pairs(self, pairs: Sequence[TextPair]) -> Floats:
        if self.direction == "f":
            return both_ways(pairs, self._means)
        back = [(output, reference) for reference, output in pairs]
        return self._means(pairs if self.direction == "precision" else back)[:, None]

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        sums = values[..., 0] / 2 + values[..., 1] / 2 if self.direction == "f" else values[..., 0]
        return mean_of(sums, values[..., -1])

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return [f"dir:{self.direction}", "tokens:mean", *self._described_prompts(), *self.combination.described()]


@dataclass(frozen=True, kw_only=True)
class BARTScoreSrc(Prompted, SourceMetric):
    """BARTScore's faithfulness: output given source; no reference is read."""

    name = "bartscore-src"
    label = "BARTScore-src"

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return ["dir:faithfulness", "tokens:mean", *self._described_prompts()]
