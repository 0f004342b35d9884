"""What BLEU, chrF and TER share: blocks of texts are compared and combined, and signatures are sacreBLEU's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.metrics.base import Metric, Texts
from polyref.metrics.combination import MAXIMUM, Combination, Compared
from polyref.metrics.ngram.counts import text_blocks
from polyref.metrics.statistics import Floats, Integers

#: An option that several of these metrics have, with one flag.
LOWERCASE: Final[Mapping[str, Any]] = {
    "help": "Ignore case (TER does anyway).",
    "flag": "--lowercase",
    "short": "-lc",
    "common": True,
}


@dataclass(frozen=True)
class NGramMetric(Metric):
    """A metric of sacreBLEU's, for any number of references."""

    digits: ClassVar[int] = 1
    by_segment: ClassVar[bool] = True
    #: Whether statistics with one reference are whole numbers.
    whole: ClassVar[bool] = True

    combination: Combination = MAXIMUM

    @property
    @abstractmethod
    def own_columns(self) -> Sequence[str]:
        """Names of the statistics with one reference, as in sacreBLEU."""

    @property
    @abstractmethod
    def _peers(self) -> Sequence[Any]:
        """The metrics of sacreBLEU: for corpora, and for sentences."""

    @abstractmethod
    def _compared(self, rows: Sequence[Sequence[str]], references: int, originals: Integers) -> Compared:
        """Texts of some segments, beginning with as many references, the first of which are ``originals``."""

    @abstractmethod
    def _plain(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        """Scores from statistics as with one reference: shape (..., C) to (...)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """As sacreBLEU has them, and what the combination adds to them."""
        return self.combination.columns(self.own_columns)

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        shown = int(texts.cuts[-1].max())
        shape = (len(texts.cuts), len(texts.systems), len(texts.references), len(self.columns))
        values = np.zeros(shape, dtype=np.int32 if self.whole and self.combination.whole else np.float64)
        for places, rows in text_blocks(texts) if shown else ():
            compared = self._compared(rows, shown, texts.originals[places])
            found, chosen = self.combination.count(compared, texts.cuts[:, places], texts.weights[places])
            values[:, :, places] = found
            if chosen is not None and texts.chosen is not None:
                texts.chosen[:, :, places] = chosen
        return values

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return self.combination.score(values, partial(self._plain, sentence=sentence), sentence=sentence)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        peer = self._peers[sentence]
        peer.num_refs = -1 if references is None else references
        combination = self.combination.described(lower=not self.higher_is_better)
        return [*self._unsaid(), *peer.get_signature().format().split("|"), *combination]

    def _unsaid(self) -> list[str]:
        """Parts of the signature that sacreBLEU leaves out."""
        return []
