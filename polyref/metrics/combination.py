"""How several references make one score: the best, their mean, expected credit, or a blend.

A metric has one of these objects, and says which of them it can do (:attr:`polyref.metrics.base.Metric.combinations`).
The options of the metric make it: ``chrf(combine=expected, alpha=0.5)`` names one of :data:`COMBINATIONS`. The metric
says what single references give (:class:`Compared`), and the combination does the rest: a new one is one class here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.metrics.signature import exact
from polyref.metrics.statistics import Floats, Integers
from polyref.options import Option, check_fields, fields_of, option
from polyref.references import ReferenceSet, Segment

WEIGHTS: Final = ("uniform", "given", "logprob")
_HEADING: Final = "How references combine"
#: What statistics files hold whatever the combination; those of ``share`` and ``temperature``, which are gone, too.
_ALWAYS: Final[Mapping[str, Any]] = {
    "alpha": 1.0,
    "power": 1.0,
    "share": 0.75,
    "weights": "uniform",
    "gamma": 1.0,
    "temperature": 2.0,
}

#: Statistics of shape (K, S, B, C), and which reference each is of, shape (K, S, B), where it is of one.
Combined = tuple[npt.NDArray[Any], Integers | None]


class Compared(ABC):
    """The outputs for some segments beside their references: what a metric knows, and a combination asks for.

    There are B segments, S systems, R references of a segment at most, human ones first, K numbers of references and C
    statistics.

    ``originals`` of shape (B,) says how many of the references are human, and ``usual`` how references combine where
    nothing is said.
    """

    #: Whether a score is a mean of statistics. Otherwise the score of each sentence is kept as one more statistic.
    linear: ClassVar[bool] = False
    #: With the human references, and credit for what the added ones hold: shape (K, S, B, C). Of metrics that offer it.
    credited: Callable[[ExpectedCredit, Integers, Floats], npt.NDArray[Any]]

    def __init__(self, originals: Integers, usual: Combination) -> None:
        self.originals, self.usual = originals, usual

    @property
    @abstractmethod
    def single(self) -> npt.NDArray[Any]:
        """Statistics with every single reference: shape (B, S, R, C)."""

    @abstractmethod
    def score(self, values: npt.NDArray[Any]) -> Floats:
        """Scores of sentences from their statistics: shape (..., C) to (...)."""

    @cached_property
    def scores(self) -> Floats:
        """Scores with every single reference: shape (B, S, R)."""
        return self.score(self.single)

    def best(self, cuts: Integers) -> Combined:
        """With that of the first references whose score is the largest, where a metric has no other rule."""
        chosen = at_cuts(first_best(self.scores), cuts)
        return picked(self.single, chosen, cuts), chosen

    def with_scores(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Statistics and, where it does not follow from their mean, the score of the sentence."""
        return values if self.linear else np.concatenate([values, self.score(values)[..., None]], axis=-1)

    @property
    def each(self) -> npt.NDArray[Any]:
        """:attr:`single`, with the :attr:`scores` as above."""
        return self.single if self.linear else np.concatenate([self.single, self.scores[..., None]], axis=-1)

    def added(self, weights: Floats) -> Floats:
        """Weights of shape (B, R), those of human references 0."""
        return np.where(np.arange(weights.shape[1]) < self.originals[:, None], 0.0, weights)


@dataclass(frozen=True, kw_only=True)
class Combination(ABC):
    """A way to combine references."""

    #: What ``combine`` calls it.
    name: ClassVar[str]
    #: Whether outputs are scored with every reference alone, and the scores combined.
    one_by_one: ClassVar[bool] = False
    #: Whether extra references earn credit beside the human ones, which every segment then needs.
    credits: ClassVar[bool] = False
    #: Whether statistics that are whole numbers stay so.
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(f"combination {self.name}", self)

    @abstractmethod
    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        """Statistics with the first references, ``cuts`` of them, shape (K, B), by their ``weights``, shape (B, R)."""

    def columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of the statistics of a metric of sentences, from those with one reference."""
        return (*names, "sentence") if self.one_by_one else tuple(names)

    def parts(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        """What scores are made from: one set of statistics, or more, which :meth:`joined` brings together."""
        return (values,)

    def joined(self, scores: Sequence[Floats]) -> Floats:
        """One score from those of all :meth:`parts`."""
        return scores[0]

    def score(self, values: npt.NDArray[Any], score: Callable[[npt.NDArray[Any]], Floats], *, sentence: bool) -> Floats:
        """Scores from what :meth:`count` gives, of sentences or summed, by the ``score`` of one set of statistics."""
        if sentence and self.one_by_one:
            return np.array(values[..., -1])
        return self.joined([score(part) for part in self.parts(values)])

    @property
    def weighed_by(self) -> str:
        """What references are weighed by: ``uniform``, ``given`` or ``logprob``; empty where they are not."""
        return ""

    def reads(self, option: str) -> bool:
        """Whether a value of ``option`` (``alpha``, ``gamma`` ...) means anything here."""
        return option in fields_of(type(self))

    def options(self, *names: str) -> dict[str, Any]:
        """``combine`` and its options, as plain JSON values; those of other combinations have their defaults.

        ``names`` are those to give, beside newer ones of its own; none: all.
        """
        own = {name: getattr(self, name) for name in fields_of(type(self))}
        values = {"combine": self.name, **_ALWAYS, **own}
        # Files of statistics from before an option was there stay readable.
        newer = own.keys() - _ALWAYS.keys()
        return {name: value for name, value in values.items() if not names or name in names or name in newer}

    def described(self, *, lower: bool = False) -> list[str]:
        """``key:value`` parts of a signature, of a metric of which ``lower`` scores may be better."""
        return [f"combine:{self.name}"]

    def weigh(self, references: ReferenceSet, cuts: Integers) -> Floats:
        """Unnormalised weights of the references in use, shape (N, R): 0 beyond those, or where none is weighed.

        ``cuts`` of shape (K, N) say how many references of a segment count.
        """
        return np.zeros((len(references), int(cuts[-1].max(initial=0))))


@dataclass(frozen=True, kw_only=True)
class Maximum(Combination):
    """sacreBLEU's rule: BLEU clips against the most any reference has; others take the best reference, by score."""

    name: ClassVar[str] = "max"
    whole: ClassVar[bool] = True

    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        return texts.best(cuts)

    def described(self, *, lower: bool = False) -> list[str]:
        return ["combine:min"] if lower else super().described()


@dataclass(frozen=True, kw_only=True)
class MaximumEach(Combination):
    """Of metrics of pairs: precision, recall and F take the best reference each."""

    name: ClassVar[str] = "max-each"

    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        return at_cuts(np.maximum.accumulate(texts.single, axis=2), cuts), None


@dataclass(frozen=True, kw_only=True)
class Weighted(Combination):
    """Combinations that weigh references.

    Attributes:
        weights: ``uniform``; ``given``, their own ``weight`` (1 without one); or ``logprob``, exp(gamma x
            log-probability), relative to the best of the segment that is in use, which human references share.
        gamma: Sharpness of ``logprob``, 0 or more.
    """

    weights: str = option("uniform", help="What references weigh, with all but max.", choices=WEIGHTS)
    gamma: float = option(1.0, help="Sharpness of the weights by log-probability.", least=0)

    @property
    def weighed_by(self) -> str:
        return self.weights

    def reads(self, option: str) -> bool:
        return super().reads(option) and (option != "gamma" or self.weights == "logprob")

    def described(self, *, lower: bool = False) -> list[str]:
        parts = [*super().described(), *self._own(), f"weights:{self.weights}"]
        return [*parts, f"gamma:{exact(self.gamma)}"] if self.weights == "logprob" else parts

    def _own(self) -> list[str]:
        """What stands between the name and the weights in a signature."""
        return []

    def weigh(self, references: ReferenceSet, cuts: Integers) -> Floats:
        weights = super().weigh(references, cuts)
        for n, segment in enumerate(references):
            used = int(cuts[-1, n])
            if self.credits and used and not segment.originals:
                raise DataError(
                    f"segment {segment.id} has no human reference, which expected credit needs", remedy="combine by max"
                )
            weights[n, :used] = self._segment_weights(segment, max(used - len(segment.originals), 0))[:used]
            # The smallest number of references in use, which k = 0 of a segment without a human one is not.
            first = next((int(cut) for cut in cuts[:, n] if cut), 0)
            if self.one_by_one and first and not weights[n, :first].any():
                raise DataError(f"the references of segment {segment.id} have no weight", remedy="weigh them uniformly")
        return weights

    def _segment_weights(self, segment: Segment, k: int) -> list[float]:
        extras = segment.extras[:k]
        refs = (*segment.originals, *extras)
        if self.weights == "given":
            return [1.0 if ref.weight is None else ref.weight for ref in refs]
        if self.weights == "logprob":
            known = [ref.logprob for ref in extras if ref.logprob is not None]
            if len(known) < len(extras):
                raise DataError(
                    f"segment {segment.id} has an extra reference without a log-probability",
                    remedy="weigh references uniformly",
                )
            best = max(known, default=0.0)
            return [1.0] * len(segment.originals) + [math.exp(self.gamma * (value - best)) for value in known]
        return [1.0] * len(refs)


@dataclass(frozen=True, kw_only=True)
class Mean(Weighted):
    """A reference drawn by weight.

    Sentence scores are the weighted mean of the scores with single references; corpus scores come from the weighted
    mean of the statistics.
    """

    name: ClassVar[str] = "mean"
    one_by_one: ClassVar[bool] = True

    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        return weighted_mean(texts.each, weights, cuts), None


@dataclass(frozen=True, kw_only=True)
class ExpectedCredit(Weighted):
    """Extra references earn in part.

    The human references are as in :class:`Maximum`; an n-gram that none of them holds earns ``alpha`` times the weight
    of the extra references that hold it: what one doubtful paraphrase says counts for almost nothing. BLEU's brevity
    penalty uses the human references only. chrF scores with one human reference at a time, the best: what only another
    one holds earns nothing beside it. With ``alpha=0`` or ``k=0`` it is the maximum over the human references.

    Attributes:
        alpha: Credit of an extra reference against a human one, 0 to 1.
        power: Exponent, above 0, on the summed weight of the extra references that hold an n-gram. Below 1, credit
            lies between the expectation and what any single one says.
    """

    name: ClassVar[str] = "expected"
    credits: ClassVar[bool] = True

    alpha: float = option(1.0, help="Credit of an extra reference against a human one.", least=0, most=1)
    power: float = option(1.0, help="Exponent on the weight of the extra references that hold an n-gram.", above=0)

    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        return texts.credited(self, cuts, texts.added(weights)), None

    def earned(
        self, held: npt.NDArray[np.float32], new: npt.NDArray[np.float32], weights: Floats, cuts: Integers
    ) -> Floats:
        """What the n-grams of every output earn: shape (K, S, B).

        ``held`` of shape (B, R, W) says which reference holds which of W n-grams, and ``new`` of shape (B, S, W) which
        of them every output can earn for. References of weight 0 give no credit.
        """
        if self.power == 1:
            return self.alpha * weighted_mean(new @ held.transpose(0, 2, 1), weights, cuts)
        result = np.zeros((len(cuts), new.shape[1], len(held)))
        for n in range(len(held)):
            asked = weights[n] * (np.arange(held.shape[1]) < cuts[:, n, None])
            norms = np.cumsum(asked, axis=1)[:, -1:]
            shares = _coarse(np.divide(asked, norms, out=np.zeros_like(asked), where=norms > 0))
            shares = np.minimum(shares @ held[n].astype(np.float64), 1)
            result[:, :, n] = _coarse(shares**self.power) @ new[n].T.astype(np.float64)
        return self.alpha * result

    def _own(self) -> list[str]:
        return [f"alpha:{exact(self.alpha)}", *([f"power:{exact(self.power)}"] if self.power != 1 else [])]


@dataclass(frozen=True, kw_only=True)
class Blend(Weighted):
    """Between the score against the human references and the mean over the added ones.

    The score is ``(1 - blend) x score against the human references + blend x mean over the added references of the
    score with that one alone``. The human references combine as they do where nothing is said. A segment without added
    references has the first part alone, one without human references the second.

    Sentences are scored so. The corpus score of an n-gram metric blends two corpus scores: one from the statistics
    with the human references, one from the weighted mean of those with single added references. That of other metrics
    is the mean over segments.

    Attributes:
        blend: Share of the added references, 0 to 1.
    """

    name: ClassVar[str] = "blend"
    one_by_one: ClassVar[bool] = True

    blend: float = option(0.5, help="Share of the added references' mean score, with blend.", least=0, most=1)

    def count(self, texts: Compared, cuts: Integers, weights: Floats) -> Combined:
        originals = texts.originals
        human, _ = texts.usual.count(texts, np.minimum(cuts, originals), np.ones_like(weights))
        human = texts.with_scores(human)
        asked = texts.added(weights)
        known = at_cuts(np.cumsum(asked, axis=1)[:, None], cuts)[..., None] > 0
        # A segment without references of one kind, or none that weighs anything, has the other kind's part twice.
        added = np.where(known, weighted_mean(texts.each, asked, cuts), human)
        human = np.where((originals > 0)[:, None], human, added)
        if texts.linear:
            return self.joined([human, added]), None
        sentence = self.joined([human[..., -1:], added[..., -1:]])
        return np.concatenate([human[..., :-1], added[..., :-1], sentence], axis=-1), None

    def columns(self, names: Sequence[str]) -> tuple[str, ...]:
        return super().columns([*names, *(f"added_{name}" for name in names)])

    def parts(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
        middle = values.shape[-1] // 2
        return values[..., :middle], values[..., middle:-1]

    def joined(self, scores: Sequence[Floats]) -> Floats:
        human, added = scores
        return np.asarray(human + self.blend * (added - human))

    def _own(self) -> list[str]:
        return [f"blend:{exact(self.blend)}"]


#: What most metrics do where nothing is said, and what the others do.
MAXIMUM: Final = Maximum()
MEAN: Final = Mean()
#: By name.
COMBINATIONS: Final[Mapping[str, type[Combination]]] = {
    kind.name: kind for kind in (Maximum, MaximumEach, Mean, ExpectedCredit, Blend)
}
#: The options of all combinations, in the order of the help.
_KNOWN: Final[Mapping[str, Option]] = {
    name: replace(fields_of(kind)[name], flag=f"--{name}", heading=_HEADING)
    for kind, names in ((ExpectedCredit, ("alpha", "power", "weights", "gamma")), (Blend, ("blend",)))
    for name in names
}


def combination_options(kinds: Sequence[type[Combination]], default: Combination) -> dict[str, Option]:
    """The options of a metric that combines references in one of these ways; none where there is no choice."""
    if len(kinds) < 2:
        return {}
    read = {name for kind in kinds for name in fields_of(kind)}
    combine = Option(
        name="combine",
        help="How references combine.",
        choices=tuple(kind.name for kind in kinds),
        default=default.name,
        flag="--combine",
        heading=_HEADING,
        common=True,
    )
    return {"combine": combine, **{name: one for name, one in _KNOWN.items() if name in read}}


def idle(name: str, chosen: Sequence[str], kinds: Iterable[type[Combination]]) -> UsageError:
    """The error that an option has no use where ``chosen`` combinations are, of the ``kinds`` there might be."""
    if name == "gamma" and any(issubclass(COMBINATIONS[one], Weighted) for one in chosen):
        remedy = "set `weights` to logprob"
    else:
        readers = [kind.name for kind in kinds if name in fields_of(kind)]
        remedy = f"set `combine` to one of {', '.join(dict.fromkeys(readers))}"
    return UsageError(
        f"`{name}` is given, but has no use when references combine by {', '.join(chosen)}", remedy=remedy
    )


def at_cuts(running: npt.NDArray[Any], cuts: Integers) -> npt.NDArray[Any]:
    """What the first references give, for every number of references; zeros where none counts: shape (K, S, B, ...).

    Entry j of ``running`` (B, S, R, ...) is what references 0 .. j give; ``cuts`` (K, B) says how many count.
    """
    picked = running[np.arange(len(running)), :, np.maximum(cuts - 1, 0)]
    picked[cuts == 0] = 0
    return picked.swapaxes(1, 2)


def first_best(scores: npt.NDArray[Any]) -> Integers:
    """``result[:, :, j]`` is the first of references 0 .. j that has the best score; shape (B, S, R), as ``scores``."""
    best = np.zeros(scores.shape, dtype=np.int64)
    better = scores[:, :, 1:] > np.maximum.accumulate(scores, axis=2)[:, :, :-1]
    best[:, :, 1:] = np.maximum.accumulate(np.where(better, np.arange(1, scores.shape[2]), 0), axis=2)
    return best


def picked(single: npt.NDArray[Any], chosen: Integers, cuts: Integers) -> npt.NDArray[Any]:
    """Statistics with the chosen references, shape (K, S, B), of those with every single one, shape (B, S, R, C)."""
    segments, systems = single.shape[:2]
    found: npt.NDArray[Any] = single[np.arange(segments), np.arange(systems)[:, None], chosen]
    found.swapaxes(1, 2)[cuts == 0] = 0
    return found


def _coarse(values: Floats) -> Floats:
    """Multiples of 2**-40: sums of them are exact, so that neither their order nor zeros between them matter."""
    return np.asarray(np.round(values * 2.0**40) * 2.0**-40)


def weighted_mean(values: npt.NDArray[Any], weights: Floats, cuts: Integers) -> Floats:
    """Weighted means of values (B, S, R, ...) over the first references, as :func:`at_cuts` gives them.

    Weights (B, R) need not be normalised. Zeros where none has weight.
    """
    spread = weights.reshape(len(weights), 1, -1, *[1] * (values.ndim - 3))
    sums = at_cuts(np.cumsum(values * spread, axis=2, dtype=np.float64), cuts)
    norms = at_cuts(np.cumsum(weights, axis=1)[:, None], cuts)
    norms = norms.reshape(*norms.shape, *[1] * (sums.ndim - 3))
    means: Floats = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)
    return means
