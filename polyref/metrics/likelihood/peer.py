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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.metrics.likelihood.base import SourceMetric, TextPair, unique
from polyref.metrics.option import option
from polyref.metrics.statistics import Floats
from polyref.models.scoring.base import seed_of
from polyref.progress import each
from polyref.references import ReferenceSet

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
    """Peer evaluation.

    Attributes:
        tokens: How the tokens of a sample make one value: ``mean``, ``sum``, ``median``, ``min`` or ``std`` (negated).
        over: How samples do, with the same names.
        samples: Passes, 1 or more; more than one needs dropout or sampled segmentations.
        dropout: Dropout rate, 0 (none) to 1 (below 1).
        subwords: Smoothing alpha of sampled segmentations of source and output, 0 or more; None: the usual ones.
        nbest: Segmentations to draw from.
        low: Least probability that a token counts with, 0 to ``high``.
        high: Largest, ``low`` to 1.
        seed: Of dropout and segmentations. Every pair's draws come from it and the pair's own text.

    Raises:
        UsageError: An option is out of range.
    """

    tokens: str = option("mean", help="How tokens make one value.", choices=tuple(AGGREGATES))
    over: str = option("mean", help="How samples do.", choices=tuple(AGGREGATES))
    samples: int = option(1, help="Passes with dropout or sampled segmentations.", least=1)
    dropout: float = option(0.0, help="Rate of Monte Carlo dropout.", least=0, below=1)
    subwords: float | None = option(None, help="Smoothing of sampled segmentations.", least=0, otherwise="none")
    nbest: int = option(64, help="Segmentations to draw from.", least=1)
    low: float = option(0.0, help="Least probability that a token counts with.", least=0, most=1)
    high: float = option(1.0, help="Largest probability that a token counts with.", least=0, most=1)
    seed: int = option(1, help="Of dropout and segmentations.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples > 1 and not self._random:
            raise UsageError(f"peer: {self.samples} samples would be equal", remedy="ask for dropout or subwords")
        if self.over != "mean" and self.samples == 1:
            raise UsageError(f"peer: {self.over} over samples, but there is one", remedy="ask for more samples")
        _check_thresholds(self.low, self.high)

    @property
    def name(self) -> str:
        """The registry name."""
        return "peer"

    @property
    def label(self) -> str:
        """What people call it."""
        return "Peer"

    @property
    def _random(self) -> bool:
        return self.dropout > 0 or self.subwords is not None

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        parts = ["dir:source-to-output", f"tokens:{self.tokens}"]
        if self._random:
            parts.append(f"samples:{self.samples}*{self.over}")
        if self.dropout:
            parts.append(f"dropout:{self.dropout:g}")
        if self.subwords is not None:
            parts.append(f"subwords:{self.subwords:g}/{self.nbest}")
        if self._random:
            parts.append(f"seed:{self.seed}")
        if (self.low, self.high) != (0, 1):
            parts.append(f"thresholds:{self.low:g}..{self.high:g}")
        return parts

    def _pair_scores(self, pairs: Sequence[TextPair]) -> Floats:
        return self._summed(self._samples(pairs), self.low, self.high)

    def _summed(self, sampled: Sequence[Samples], low: float, high: float) -> Floats:
        """Scores from token log-probabilities: shape (P,)."""
        least = math.log(low) if low > 0 else -math.inf
        tokens, over = AGGREGATES[self.tokens], AGGREGATES[self.over]

        def value(samples: Samples) -> float:
            clipped = [np.clip(row.astype(np.float64), least, math.log(high)) for row in samples]
            return over(np.array([tokens(row) for row in clipped]))

        return np.array([value(samples) for samples in sampled], dtype=np.float64)

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


@dataclass(frozen=True)
class Thresholds:
    """Confidence thresholds and how well the scores with them agree with people.

    Attributes:
        low: Least probability of a token.
        high: Largest.
        value: The correlation.
    """

    low: float
    high: float
    value: float


def choose_thresholds(
    metric: Peer,
    systems: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    human: npt.ArrayLike,
    *,
    lows: Sequence[float] = (0.0, 1e-4, 1e-3, 1e-2, 0.05, 0.1),
    highs: Sequence[float] = (0.5, 0.7, 0.9, 1.0),
    statistic: str = "pearson",
) -> list[Thresholds]:
    """Try all pairs of thresholds on development data: the model runs once, whatever the grid.

    Args:
        metric: Its own thresholds are ignored.
        systems: Name to outputs.
        references: Segments with their sources.
        human: Shape (S, N): human scores, larger is better; NaN for outputs that nobody judged.
        lows: Values of ``low`` to try.
        highs: Values of ``high``; pairs with ``low`` not below ``high`` are left out.
        statistic: ``pearson`` or ``kendall`` (tau-b) over judged outputs, or ``system``: Pearson over the systems'
            means of them.

    Returns:
        All pairs, the best first; of equal ones, the one that changes less.

    Raises:
        UsageError: A threshold is not in 0 to 1, no pair is left, or the statistic is unknown.
        DataError: A segment has no source, ``human`` has another shape, fewer than two outputs (or systems) are
            judged, or the human scores are all equal.
    """
    from scipy.stats import kendalltau, pearsonr

    if statistic not in ("pearson", "kendall", "system"):
        raise UsageError(f"the statistic is {statistic!r}, expected pearson, kendall or system")
    grid = [(low, high) for low, high in product(lows, highs) if low < high]
    for low, high in grid:
        _check_thresholds(low, high)
    if not grid:
        raise UsageError("no low threshold is below a high one")
    judged = np.asarray(human, dtype=np.float64)
    if judged.shape != (len(systems), len(references)):
        raise DataError(
            f"human scores have shape {judged.shape}, expected {len(systems)} systems x {len(references)} segments"
        )
    known = ~np.isnan(judged)
    sources = [segment.source for segment in references]
    missing = [segment.id for segment in references if segment.source is None]
    if missing:
        raise DataError(f"segment {missing[0]} has no source, which {metric.label} reads")
    metric._check_model()
    texts = [str(source) for source in sources]
    pairs = unique(zip(texts, system, strict=True) for system in systems.values())
    place = {pair: number for number, pair in enumerate(pairs)}
    sampled = metric._samples(pairs)
    where = np.array([[place[pair] for pair in zip(texts, system)] for system in systems.values()])

    def wanted(values: Floats) -> Floats:
        if statistic != "system":
            return values[known]
        return np.array([row[mask].mean() for row, mask in zip(values, known) if mask.any()])

    goal = wanted(judged)
    if len(goal) < 2 or np.ptp(goal) == 0:
        raise DataError(f"{len(goal)} human scores with {len(np.unique(goal))} values, expected at least two")
    found = []
    for low, high in grid:
        values = wanted(metric._summed(sampled, low, high)[where])
        value = 0.0  # where the thresholds leave no difference between outputs
        if np.ptp(values) > 0:
            value = float((kendalltau if statistic == "kendall" else pearsonr)(values, goal).statistic)
        found.append(Thresholds(low, high, value))
    return sorted(found, key=lambda one: (-one.value, one.low, -one.high))


def _check_thresholds(low: float, high: float) -> None:
    if not 0 <= low < high <= 1:
        raise UsageError(f"peer: confidence thresholds {low:g} and {high:g}, expected 0 <= low < high <= 1")
