"""Scores to hold against judgements: of a metric computed here for every k, or stored in the set."""

from __future__ import annotations

import hashlib
import io
import json
import math
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.cache import Cache
from polyref.errors import DataError, UsageError
from polyref.eval.experiments.choices import KEPT
from polyref.eval.judgements.gold import BoolArray, FloatArray, StoredScores
from polyref.metrics.base import Metric
from polyref.metrics.statistics import Scores, Statistics
from polyref.references import ReferenceSet
from polyref.tables import name_as_text

#: What a metric is called that sees nothing but lengths.
LENGTH_ONLY: Final = "length-only"
OF_LENGTH: Final = f"{LENGTH_ONLY}|unit:characters|combine:max"


class Series(Protocol):
    """The scores of one metric, for one or more numbers of extra references; larger is always better.

    Attributes:
        metric: The name it was asked for by.
        ks: Numbers of extra references, ascending; ``(None,)`` for stored scores.
        resamples: Whether ``drawn_system`` works.
    """

    @property
    def metric(self) -> str:
        """See above."""

    @property
    def ks(self) -> tuple[int | None, ...]:
        """See above."""

    @property
    def resamples(self) -> bool:
        """See above."""

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Corpus-level scores, shape (systems,), over some segments; None when there are none at this level."""

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Segment-level scores, shape (systems, segments); None when there are none at this level."""

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Corpus-level scores of redrawn test sets, shape (resamples, systems)."""

    def signature(self, k: int | None) -> str:
        """How the corpus-level scores came about."""


class ComputedSeries:
    """A metric of polyref over a reference set.

    Args:
        metric: The metric.
        outputs: System -> its outputs.
        references: The references; ``k`` counts the extra ones.
        ks: Numbers of extra references.
        name: What to call it in rows; default: its registry name.
        zero: Also keep k = 0, which gains are measured from.
    """

    resamples = True

    def __init__(
        self,
        metric: Metric,
        outputs: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        ks: Sequence[int],
        *,
        name: str | None = None,
        zero: bool = True,
    ) -> None:
        wanted = sorted({0, *ks} if zero else set(ks))
        self._set(metric, metric.statistics(outputs, references, ks=wanted), wanted, name)

    @classmethod
    def of(
        cls, metric: Metric, statistics: Statistics, ks: Sequence[int], *, name: str | None = None, zero: bool = True
    ) -> ComputedSeries:
        """The same from stored statistics, which must hold every k that is wanted."""
        series = cls.__new__(cls)
        series._set(metric, statistics, sorted({0, *ks} if zero else set(ks)), name)
        return series

    def _set(self, metric: Metric, statistics: Statistics, ks: Sequence[int], name: str | None) -> None:
        self.metric = name or metric.name
        self.ks: tuple[int | None, ...] = tuple(ks)
        self._metric = metric
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._statistics = statistics

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`."""
        scores = self._metric.aggregate(self._statistics, k=k or 0, over=over).system
        return self._sign * scores[self._rows(systems)]

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        scores = self._metric.aggregate(self._statistics, k=k or 0).segment
        return self._sign * scores[self._rows(systems)]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """See :class:`Series`."""
        return self._sign * self._metric.resample(self._statistics, draws, k=k or 0)[:, self._rows(systems)]

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        return self._metric.aggregate(self._statistics, k=k or 0).signature

    def _rows(self, systems: Sequence[str]) -> list[int]:
        return [self._statistics.systems.index(name) for name in systems]


class LengthSeries:
    """A metric that sees nothing but lengths: how near an output's is to that of the reference nearest to it.

    A score is minus the absolute logarithm of the ratio of the two lengths in characters, each plus one; that of a
    system is the mean of its segments'.

    Args:
        outputs: System -> its outputs.
        references: The references; every segment has an original.
        ks: Numbers of added references; 0, which gains are measured from, is added.
        kept: Whether the originals stay for k > 0; else every segment needs an added reference.
    """

    metric = LENGTH_ONLY
    resamples = True

    def __init__(
        self, outputs: Mapping[str, Sequence[str]], references: ReferenceSet, ks: Sequence[int], *, kept: bool = True
    ) -> None:
        self.ks: tuple[int | None, ...] = tuple(sorted({0, *ks}))
        self._systems = list(outputs)
        found = np.array([[1.0 + len(text) for text in texts] for texts in outputs.values()])
        human = _nearest(found, [[ref.text for ref in segment.originals] for segment in references])
        added = [[ref.text for ref in segment.extras] for segment in references]
        self._scores = {0: human}
        for k in filter(None, self.ks):
            more = _nearest(found, [texts[:k] for texts in added])
            self._scores[k] = np.maximum(human, more) if kept else more

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`."""
        cells = self.segment(systems, k)
        means: FloatArray = (cells if over is None else cells[:, over]).mean(axis=1)
        return means

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray:
        """See :class:`Series`."""
        return self._scores[k or 0][[self._systems.index(name) for name in systems]]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """See :class:`Series`."""
        means: FloatArray = draws @ self.segment(systems, k).T / draws.sum(axis=1, keepdims=True)
        return means

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        return OF_LENGTH


def _nearest(found: FloatArray, references: Sequence[Sequence[str]]) -> FloatArray:
    """Minus the distance to the nearest reference, shape (systems, segments), of outputs of these lengths."""
    best = np.full(found.shape, -np.inf)
    for rank in range(max(map(len, references), default=0)):
        lengths = [1.0 + len(texts[rank]) if rank < len(texts) else math.nan for texts in references]
        best = np.fmax(best, -abs(np.log(found / np.array(lengths))))
    return best


class LeaveOneOutSeries:
    """A metric with the human references, and with the outputs of the other systems as well: within segments alone.

    Args:
        human: The metric over the human references.
        found: Its scores against the other systems (:mod:`polyref.metrics.api`).
        higher_is_better: False for error rates, whose scores are then negated.
    """

    resamples = False

    def __init__(self, human: ComputedSeries, found: Scores, higher_is_better: bool) -> None:
        self.metric = human.metric
        self.ks: tuple[int | None, ...] = (0, found.k)
        self._human, self._found = human, found
        self._sign = 1.0 if higher_is_better else -1.0

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """None: scores with different references rank no systems."""
        return None

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        if not k:
            return self._human.segment(systems, k)
        return self._sign * self._found.segment[[self._found.systems.index(name) for name in systems]]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """There are no scores of systems to redraw."""
        raise UsageError(f"{self.metric} has no scores of systems with references of their own")

    def signature(self, k: int | None) -> str:
        """How the scores of segments came about."""
        return self._found.segment_signature if k else self._human.signature(k)


@dataclass(frozen=True)
class StoredSeries:
    """Scores from files.

    Attributes:
        metric: The name it was asked for by.
        scores: What the files hold.
        place: Where they are, for messages.
    """

    metric: str
    scores: StoredScores
    place: Path
    ks: tuple[int | None, ...] = (None,)
    resamples: bool = False

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """See :class:`Series`; stored scores are always over the whole test set."""
        if not self.scores.system:
            return None
        return np.array([self._of(self.scores.system, s, "sys") for s in systems])

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """See :class:`Series`."""
        if not self.scores.segment:
            return None
        return np.stack([self._of(self.scores.segment, s, "seg") for s in systems])

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Stored system scores cannot be redrawn."""
        raise UsageError(f"the stored system scores of {self.metric} cannot be resampled over segments")

    def signature(self, k: int | None) -> str:
        """See :class:`Series`."""
        files = ",".join(name_as_text(path.name) for path in self.scores.files.values())
        return f"{self.scores.name}|stored:{files}|refs:{self.scores.reference}"

    def _of(self, table: Mapping[str, float] | Mapping[str, FloatArray], system: str, level: str) -> float | FloatArray:
        if system not in table:
            raise DataError(
                f"no score of the judged system {system!r}",
                file=self.scores.files.get(level, self.place),
                remedy="a metric must score every judged system",
            )
        return table[system]


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


def series_of(
    metrics: Mapping[str, Metric],
    outputs: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    ks: Sequence[int],
    *,
    originals: str = KEPT,
    cache: Cache | None = None,
    base: bool = True,
    part: Part | None = None,
) -> list[Series]:
    """Metrics over one set of references, ready to be held against judgements.

    Args:
        metrics: Name in the table -> metric.
        outputs: System -> its outputs.
        references: Human references and added ones.
        ks: Numbers of added references; 0 is measured as well, and always with the human references.
        originals: ``kept``, or ``replaced``: for k > 0 the added references stand alone.
        cache: What keeps statistics; None keeps nothing.
        base: False for k > 0 alone: placebos have no other k = 0.
        part: The segments that are scored; None for all.
    """
    if part is not None:
        texts, there = part.texts(outputs), part.references(references)
        inside = series_of(metrics, texts, there, ks, originals=originals, cache=cache, base=base)
        return [PartSeries(one, part.mask) for one in inside]
    added = [k for k in ks if k]
    if not base:
        shown = references if originals == KEPT else _without_originals(references)
        return [_series(metric, name, outputs, shown, added, cache, zero=False) for name, metric in metrics.items()]
    kept = {name: _series(metric, name, outputs, references, ks, cache) for name, metric in metrics.items()}
    if originals == KEPT:
        return list(kept.values())
    bare = _without_originals(references)
    return [
        _ReplacedSeries(kept[name], _series(metric, name, outputs, bare, added, cache))
        for name, metric in metrics.items()
    ]


class _ReplacedSeries:
    """Added references alone for k > 0, and the human ones alone for k = 0: what gains are measured from."""

    resamples = True

    def __init__(self, kept: ComputedSeries, replaced: ComputedSeries) -> None:
        self.metric = kept.metric
        self.ks = kept.ks
        self._kept, self._replaced = kept, replaced

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        return self._of(k).system(systems, k, over)

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        return self._of(k).segment(systems, k)

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        return self._of(k).drawn_system(systems, k, draws)

    def signature(self, k: int | None) -> str:
        return self._of(k).signature(k)

    def _of(self, k: int | None) -> ComputedSeries:
        return self._replaced if k else self._kept


def _without_originals(references: ReferenceSet) -> ReferenceSet:
    bare = references.take(None, originals=False)
    for segment in bare:
        if not segment.refs:
            raise DataError(
                f"segment {segment.id} has no added reference to replace the human one",
                remedy="keep the originals",
            )
    return bare


def _series(
    metric: Metric,
    name: str,
    outputs: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    ks: Sequence[int],
    cache: Cache | None,
    *,
    zero: bool = True,
) -> ComputedSeries:
    """A metric over one set of references, with the statistics that the cache holds."""
    zero = zero and bool(references[0].originals)
    if cache is None or not _is_kept(metric):
        return ComputedSeries(metric, outputs, references, ks, name=name, zero=zero)
    extras = [len(segment.extras) for segment in references]
    stored = tuple(sorted({min(k, max(extras)) for k in ({0, *ks} if zero else ks)}))
    keys = dict(zip(stored, _keys(metric, outputs, references, stored), strict=True))
    known = cache.get(list(keys.values()))
    found = {k: _unpacked(known[key]) for k, key in keys.items() if key in known}
    if missing := [k for k in stored if k not in found]:
        fresh = metric.statistics(outputs, references, ks=missing)
        found |= {k: fresh.at(k) for k in missing}
        cache.put({keys[k]: _packed(found[k]) for k in missing})
    statistics = Statistics(
        metric=metric.name,
        options=metric.options,
        systems=tuple(outputs),
        segments=tuple(segment.id for segment in references),
        ks=stored,
        columns=metric.columns,
        values=np.stack([found[k] for k in stored]),
        originals=np.array([len(segment.originals) for segment in references], dtype=np.int64),
        extras=np.array(extras, dtype=np.int64),
        meta=references.meta,
    )
    return ComputedSeries.of(metric, statistics, ks, name=name, zero=zero)


def _is_kept(metric: Metric) -> bool:
    """Whether statistics are kept: metrics with a network keep what it computes, and a plug-in's code can change."""
    return metric.by_segment and metric.__class__.__module__.startswith("polyref.")


def _packed(values: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return zlib.compress(buffer.getvalue(), 1)


def _unpacked(packed: bytes) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    return values


def _keys(
    metric: Metric, outputs: Mapping[str, Sequence[str]], references: ReferenceSet, ks: Sequence[int]
) -> list[bytes]:
    """Hashes of everything that the statistics with each number of references depend on."""
    versions = [__version__, version("sacrebleu"), *sys.version_info[:2]]
    known = ["statistics 1", *versions, metric.name, metric.options, metric._describe(None, sentence=False)]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for name, texts in outputs.items():
        digest.update(json.dumps([name, list(texts)]).encode())
    for segment in references:
        refs = [[ref.original, ref.text, ref.weight, ref.logprob] for ref in segment.refs]
        digest.update(json.dumps([segment.id, segment.source, refs]).encode())
    return [hashlib.sha256(digest.digest() + str(k).encode()).digest() for k in ks]
