"""TER and parTER: sacreBLEU's translation edit rate for any number of references (Snover et al. 2006)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import ter as sacrebleu

from polyref.metrics.base import Metric, Texts
from polyref.metrics.editrate import edits
from polyref.metrics.statistics import Floats


@dataclass(frozen=True)
class TER(Metric):
    """TER: edits to the nearest reference, per word of the average reference. Lower is better.

    Attributes:
        normalized: Tokenise and normalise as Tercom does.
        no_punct: Remove punctuation.
        asian_support: Treat East Asian characters as words, with ``normalized`` or ``no_punct``.
        case_sensitive: Do not ignore case.
    """

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False

    higher_is_better: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The registry name."""
        return "ter"

    @property
    def label(self) -> str:
        """What people call it."""
        return "TER"

    @property
    def options(self) -> dict[str, Any]:
        """The options, as plain JSON values."""
        return asdict(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Edits to the nearest reference, and the mean length of the references."""
        return ("edits", "reference")

    @cached_property
    def _sacrebleu(self) -> sacrebleu.TER:
        return sacrebleu.TER(**self.options)

    def _words(self, text: str) -> tuple[str, ...]:
        return tuple(self._sacrebleu.tokenizer(text.rstrip()).split())

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        cuts = texts.cuts
        values = np.zeros((len(cuts), len(texts.systems), len(texts.references), 2))
        for n, refs in enumerate(texts.references):
            used = int(cuts[-1, n])
            if not used:
                continue
            references = [self._words(text) for text in refs[:used]]
            lengths = np.cumsum([len(words) for words in references]) / np.arange(1, used + 1)
            # Systems often agree, and paraphrases repeat: every pair is compared once.
            known: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
            for s, system in enumerate(texts.systems):
                output = self._words(system[n])
                distances = []
                for reference in references:
                    pair = (output, reference)
                    if pair not in known:
                        known[pair] = edits(output, reference)
                    distances.append(known[pair])
                nearest = np.minimum.accumulate(distances)
                for row, cut in enumerate(cuts[:, n]):
                    if cut:
                        values[row, s, n] = nearest[cut - 1], lengths[cut - 1]
        return values

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        edited, length = values[..., 0], values[..., 1]
        rate = np.divide(edited, length, out=(edited > 0).astype(np.float64), where=length > 0)
        return np.asarray(100 * rate)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        peer = self._sacrebleu
        peer.num_refs = -1 if references is None else references
        return [*peer.get_signature().format().split("|"), "combine:min"]
