"""Reference-free peer evaluation: how likely the output is under another translation model, given the source.

The ways to score of Agrawal, Foster, Freitag & Cherry 2021 (NAACL, "Assessing Reference-Free Peer Evaluation for
Machine Translation"): token log-probabilities are summed up by mean, sum, median, minimum or standard deviation;
several passes with Monte Carlo dropout (Gal & Ghahramani 2016) or with sampled segmentations (subword regularisation,
Kudo 2018) make an ensemble; and confidence thresholds bound what single tokens can do: one that the model gives less
probability than ``low`` counts as ``low``, one with more than ``high`` as ``high``. How the thresholds act is defined
here; the paper's own definition may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import UsageError
from polyref.metrics.likelihood import SourceMetric, TextPair
from polyref.metrics.signature import exact
from polyref.metrics.statistics import Floats
from polyref.models.forced import seed_of
from polyref.options import option
from polyref.progress import each

#: How many values become one; larger is better for all: the standard deviation is negated, because it is uncertainty.
AGGREGATES: Final[dict[str, Callable[[Floats], float]]] = {
    "mean": lambda values: float(values.mean()),
    "sum": lambda values: float(values.sum()),
    "median": lambda values: float(np.median(values)),
    "min": lambda values: float(values.min()),
    "std": lambda values: -float(values.std()),
}
#: Token log-probabilities of the samples of one pair.
Samples = list[npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Peer(SourceMetric):
    """Peer evaluation: one pass, or the mean of several.

    ``tokens`` says how the tokens of a sample make one value, and ``over`` how the samples do; the standard deviation
    is negated. Several samples need dropout or sampled segmentations (``subwords``, ``nbest``), and every pair's draws
    come from ``seed`` and the pair's own text.
    """

    name = "peer"
    label = "Peer"

    tokens: str = option("mean", help="How tokens make one value.", choices=tuple(AGGREGATES))
    over: str = option("mean", help="How samples do.", choices=tuple(AGGREGATES))
    samples: int = option(1, help="Passes with dropout or sampled segmentations.", least=1)
    dropout: float = option(0.0, help="Rate of Monte Carlo dropout.", least=0, below=1)
    subwords: float | None = option(None, help="Smoothing of sampled segmentations.", least=0, otherwise="none")
    nbest: int = option(64, help="Segmentations to draw from.", least=1, needs=("subwords",))
    low: float = option(0.0, help="Least probability that a token counts with.", least=0, most=1)
    high: float = option(1.0, help="Largest probability that a token counts with.", least=0, most=1)
    seed: int = option(1, help="Of dropout and segmentations.", needs=("dropout", "subwords"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples > 1 and not self._random:
            raise UsageError(f"peer: {self.samples} samples would be equal", remedy="ask for dropout or subwords")
        if self.over != "mean" and self.samples == 1:
            raise UsageError(f"peer: {self.over} over samples, but there is one", remedy="ask for more samples")
        if not 0 <= self.low < self.high <= 1:
            raise UsageError(
                f"peer: confidence thresholds {self.low:g} and {self.high:g}, expected 0 <= low < high <= 1"
            )

    @property
    def _random(self) -> bool:
        return self.dropout > 0 or self.subwords is not None

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        parts = ["dir:source-to-output", f"tokens:{self.tokens}"]
        if self._random:
            parts.append(f"samples:{self.samples}*{self.over}")
        if self.dropout:
            parts.append(f"dropout:{exact(self.dropout)}")
        if self.subwords is not None:
            parts.append(f"subwords:{exact(self.subwords)}/{self.nbest}")
        if self._random:
            parts.append(f"seed:{self.seed}")
        if (self.low, self.high) != (0, 1):
            parts.append(f"thresholds:{exact(self.low)}..{exact(self.high)}")
        return parts

    def _pair_scores(self, pairs: Sequence[TextPair]) -> Floats:
        divided = self._divided(pairs)
        found = iter(self._samples([window for windows in divided for window in windows]))
        together = [zip(*(next(found) for _ in windows), strict=True) for windows in divided]
        return self._summed([[np.concatenate(rows) for rows in samples] for samples in together])

    def _summed(self, sampled: Sequence[Samples]) -> Floats:
        """Scores from token log-probabilities: shape (P,)."""
        least, most = math.log(self.low) if self.low > 0 else -math.inf, math.log(self.high)
        tokens, over = AGGREGATES[self.tokens], AGGREGATES[self.over]
        values = [
            over(np.array([tokens(np.clip(row.astype(np.float64), least, most)) for row in samples]))
            for samples in sampled
        ]
        return np.array(values, dtype=np.float64)

    def _samples(self, pairs: Sequence[TextPair]) -> list[Samples]:
        """Token log-probabilities of the samples of every pair."""
        scorer, lang = self.scorer, self._target_lang
        usual = self._jobs(pairs)
        if self.subwords is None:
            if not self.dropout:
                return [[row] for row in scorer.score(usual, lang)]
            return [
                list(scorer.dropout_scores(job, lang, samples=self.samples, rate=self.dropout, seed=self.seed))
                for job in each(usual, "scoring", "texts")
            ]
        sources = self._drawn("source", [source for source, _ in pairs], scorer.read(self._source_lang))
        targets = self._drawn("target", [target for _, target in pairs], lang)
        jobs = [list(zip(sources[source], targets[target])) for source, target in pairs]
        if self.dropout:
            return [
                [
                    scorer.dropout_scores(job, lang, samples=1, rate=self.dropout, seed=seed_of(self.seed, number))[0]
                    for number, job in enumerate(row)
                ]
                for row in each(jobs, "scoring", "texts")
            ]
        scored = iter(scorer.score([job for row in jobs for job in row], lang))
        return [[next(scored) for _ in row] for row in jobs]

    def _drawn(self, side: str, texts: Sequence[str], lang: str | None) -> dict[str, list[tuple[int, ...]]]:
        assert self.subwords is not None
        options = {"count": self.samples, "alpha": self.subwords, "nbest": self.nbest, "seed": self.seed}
        return {text: self.scorer.segmentations(side, text, lang, **options) for text in dict.fromkeys(texts)}  # type: ignore[arg-type]
