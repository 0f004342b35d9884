"""Some of a set's segments: those that are judged, or a random part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from polyref.errors import UsageError
from polyref.eval.experiments.choices import Choices
from polyref.eval.experiments.series import BoolArray, FloatArray, Series
from polyref.eval.judgements.gold import Gold
from polyref.references import ReferenceSet

#: Share of their standard deviation by which scores of systems may differ from the means of those of segments.
_ROUNDED: Final = 0.01


@dataclass(frozen=True)
class Part:
    """The segments that are scored, where these are not all.

    Attributes:
        mask: Which they are, shape (segments,).
        judged: How many segments are judged.
        drawn: Whether they are a random part of these.
    """

    mask: BoolArray
    judged: int
    drawn: bool

    @property
    def segments(self) -> int:
        """How many they are."""
        return int(self.mask.sum())

    @property
    def described(self) -> str:
        """A part of a signature."""
        return f"scored:{'random' if self.drawn else 'judged'}*{self.segments}"

    def note(self, seed: int) -> str:
        """What to tell the reader."""
        total = f"{len(self.mask):,}"
        if self.drawn:
            return (
                f"scored are {self.segments:,} of the {self.judged:,} judged segments (of {total}), drawn by `seed` "
                f"{seed}: scores of systems and intervals are of this part"
            )
        return (
            f"scored are the {self.judged:,} of {total} segments that are judged, and scores of systems are over these "
            "(`all_segments` scores the rest too)"
        )

    def texts(self, outputs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The outputs of these segments."""
        there = np.flatnonzero(self.mask).tolist()
        return {name: [texts[place] for place in there] for name, texts in outputs.items()}

    def references(self, references: ReferenceSet) -> ReferenceSet:
        """The references of these segments."""
        there = np.flatnonzero(self.mask).tolist()
        return ReferenceSet(tuple(references.segments[place] for place in there), references.meta)


def part_of(gold: Gold, choices: Choices, segments: int, costly: bool, several: bool) -> Part | None:
    """The segments to score; None for all of them.

    Where a metric is costly, these are the judged ones, for all metrics of a run alike. But where scores of systems are
    not the means of those of the judged segments, they say something of the others too, and all are scored, as WMT
    does. A random part is drawn so that of two parts with one seed the smaller one lies in the larger one.

    Args:
        gold: The judgements of the systems that stay.
        choices: What was asked for.
        segments: How many segments the set has.
        costly: Whether a metric of the run is.
        several: Whether other sets or pairs are evaluated too, which may leave segments out.

    Raises:
        UsageError: ``all_segments`` is given, and all are scored without it.
    """
    judged = _judged(gold, segments)
    if choices.segments is None:
        if costly and not judged.all() and _systems_are_means(gold):
            return None if choices.all_segments else Part(judged, int(judged.sum()), drawn=False)
        if choices.all_segments and not several:
            raise UsageError(f"`all_segments` has no use: all {segments} are scored without it", remedy="leave it out")
        return None
    # Not the stream of the redrawn test sets.
    order = np.random.default_rng([choices.bootstrap.seed, 2]).permutation(segments)
    mask = np.zeros(segments, dtype=np.bool_)
    mask[order[judged[order]][: choices.segments]] = True
    return Part(mask, int(judged.sum()), drawn=True)


class PartSeries:
    """A metric over some segments alone; in the others, outputs have no score.

    Args:
        series: The metric over the texts of these segments.
        mask: Which segments of the set they are.
    """

    def __init__(self, series: Series, mask: BoolArray) -> None:
        self.metric, self.ks, self.resamples = series.metric, series.ks, series.resamples
        self._series, self._mask = series, mask

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`."""
        return self._series.system(systems, k, None if over is None else over[self._mask])

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`; NaN where nothing is scored."""
        found = self._series.segment(systems, k)
        if found is None:
            return None
        scores = np.full((len(found), len(self._mask)), np.nan)
        scores[:, self._mask] = found
        return scores

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """See :class:`Series`."""
        return self._series.drawn_system(systems, k, draws[:, self._mask])

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        return self._series.signature(k)


def _judged(gold: Gold, segments: int) -> BoolArray:
    """Segments with a judgement of any output; all of them where systems alone are judged."""
    judged = np.zeros(segments, dtype=np.bool_)
    for scores in gold.segment.values():
        judged |= ~np.isnan(scores)
    if gold.pairs is not None:
        judged[gold.pairs.segment] = True
    return judged if judged.any() else ~judged


def _systems_are_means(gold: Gold) -> bool:
    """Whether the scores of systems are the means of those of their judged segments, but for rounding."""
    if not gold.system.keys() <= gold.segment.keys():
        return False
    scores = np.array(list(gold.system.values()))
    means = np.array([np.nanmean(gold.segment[name]) for name in gold.system])
    return (
        bool(np.allclose(scores, means, rtol=0, atol=max(_ROUNDED * float(scores.std()), 1e-6)))
        if len(scores)
        else True
    )
