"""ROUGE (Lin 2004), by Google's rouge-score, for summaries: each output against its best reference by F.

The numbers are those of ``RougeScorer.score_multi``; no bootstrap stands between segments and the score of a system,
which is their mean. Tokens are runs of ``a-z0-9`` in small letters: texts in other scripts score 0. ``rougeLsum``
takes the lines of a text for its sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ClassVar, Final

import numpy as np

from polyref.errors import UsageError
from polyref.metrics.pairs import PairMetric
from polyref.metrics.statistics import Floats
from polyref.options import option

TYPES: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@dataclass(frozen=True, kw_only=True)
class ROUGE(PairMetric):
    """ROUGE-N and ROUGE-L, 0 to 1; statistics hold precision, recall and F."""

    by_segment: ClassVar[bool] = True

    type: str = option("rougeL", help="Words (1), pairs of them (2), or the longest common subsequence.", choices=TYPES)
    stemmer: bool = option(False, help="Porter's stemmer on words of more than 3 letters; English only.")

    name = "rouge"
    measures = ("precision", "recall", "f")

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_spec("rouge_score") is None:
            raise UsageError("rouge needs rouge-score, which is not installed", remedy="pip install rouge-score")

    @property
    def label(self) -> str:
        return f"ROUGE-{self.type.removeprefix('rouge')}"

    @cached_property
    def _scorer(self) -> Any:
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer([self.type], use_stemmer=self.stemmer)

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        # A score is a tuple of precision, recall and F.
        found = [self._scorer.score(reference, output)[self.type] for reference, output in pairs]
        return np.array(found, dtype=np.float64).reshape(-1, len(self.measures))

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        stemmer = "porter" if self.stemmer else "none"
        return [
            *self.combination.described(),
            f"type:{self.type}",
            f"stemmer:{stemmer}",
            f"rouge-score:{version('rouge-score')}",
        ]
