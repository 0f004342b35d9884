"""Scores to hold against judgements: of a metric computed here for every k, or stored in the set.

Statistics of texts are kept in the cache under a hash of everything that determines them, for every k by itself: a
repeated or interrupted run reads what there is.
"""

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
from polyref.eval.data.score_files import BoolArray, FloatArray, StoredScores
from polyref.eval.options import KEPT
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

    metric: str
    ks: tuple[int | None, ...]
    resamples: bool = True

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Corpus-level scores, shape (systems,), over some segments; None when there are none at this level."""

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Segment-level scores, shape (systems, segments); None when there are none at this level."""

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Corpus-level scores of redrawn test sets, shape (resamples, systems)."""
        raise UsageError(f"the stored system scores of {self.metric} cannot be resampled over segments")

    def signature(self, k: int | None) -> str:
        """How the corpus-level scores came about."""


class ComputedSeries(Series):
    """A metric of polyref over a reference set.

    Args:
        metric: The metric.
        outputs: System -> its outputs.
        references: The references; ``k`` counts the extra ones.
        ks: Numbers of extra references.
        name: What to call it in rows; default: its registry name.
        zero: Also keep k = 0, which gains are measured from.
        bare: References that stand for the others where k > 0.
        cache: What keeps statistics; None keeps nothing.
    """

    def __init__(
        self,
        metric: Metric,
        outputs: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        ks: Sequence[int],
        *,
        name: str | None = None,
        zero: bool = True,
        bare: ReferenceSet | None = None,
        cache: Cache | None = None,
    ) -> None:
        wanted = sorted({0, *ks} if zero else set(ks))
        self.metric = name or metric.name
        self.ks = tuple(wanted)
        self._metric = metric
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._systems = list(outputs)
        if bare is None:
            self._statistics = dict.fromkeys(wanted, _statistics(metric, outputs, references, wanted, cache))
        else:
            added = [k for k in wanted if k]
            self._statistics = {0: _statistics(metric, outputs, references, [0], cache)}
            if added:
                self._statistics |= dict.fromkeys(added, _statistics(metric, outputs, bare, added, cache))

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Corpus-level scores, negated for error rates."""
        return self._sign * self._scores(k, over).system[self._rows(systems)]

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Scores of outputs, negated for error rates."""
        return self._sign * self._scores(k).segment[self._rows(systems)]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Corpus-level scores of redrawn test sets, from the same statistics."""
        drawn = self._metric.resample(self._statistics[k or 0], draws, k=k or 0)
        return self._sign * drawn[:, self._rows(systems)]

    def signature(self, k: int | None) -> str:
        """The metric's own."""
        return self._scores(k).signature

    def _scores(self, k: int | None, over: BoolArray | None = None) -> Scores:
        return self._metric.aggregate(self._statistics[k or 0], k=k or 0, over=over)

    def _rows(self, systems: Sequence[str]) -> list[int]:
        return [self._systems.index(name) for name in systems]


class LengthSeries(Series):
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

    def __init__(
        self, outputs: Mapping[str, Sequence[str]], references: ReferenceSet, ks: Sequence[int], *, kept: bool = True
    ) -> None:
        self.ks = tuple(sorted({0, *ks}))
        self._systems = list(outputs)
        found = np.array([[1.0 + len(text) for text in texts] for texts in outputs.values()])
        human = _nearest(found, [[ref.text for ref in segment.originals] for segment in references])
        added = [[ref.text for ref in segment.extras] for segment in references]
        self._cells = {0: human}
        for k in filter(None, self.ks):
            more = _nearest(found, [texts[:k] for texts in added])
            self._cells[k] = np.maximum(human, more) if kept else more

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Means of the scores of outputs."""
        cells = self.segment(systems, k)
        means: FloatArray = (cells if over is None else cells[:, over]).mean(axis=1)
        return means

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray:
        """Scores of outputs."""
        return self._cells[k or 0][[self._systems.index(name) for name in systems]]

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Means over redrawn test sets."""
        means: FloatArray = draws @ self.segment(systems, k).T / draws.sum(axis=1, keepdims=True)
        return means

    def signature(self, k: int | None) -> str:
        """The same for every k."""
        return OF_LENGTH


def _nearest(found: FloatArray, references: Sequence[Sequence[str]]) -> FloatArray:
    """Minus the distance to the nearest reference, shape (systems, segments), of outputs of these lengths."""
    best = np.full(found.shape, -np.inf)
    for rank in range(max(map(len, references), default=0)):
        lengths = [1.0 + len(texts[rank]) if rank < len(texts) else math.nan for texts in references]
        best = np.fmax(best, -abs(np.log(found / np.array(lengths))))
    return best


class LeaveOneOutSeries(Series):
    """A metric with the human references, and with the outputs of the other systems as well: within segments alone.

    Args:
        human: The metric over the human references.
        found: Its scores against the other systems (:func:`polyref.metrics.api.leave_one_out`).
        higher_is_better: False for error rates, whose scores are then negated.
    """

    resamples = False

    def __init__(self, human: ComputedSeries, found: Scores, higher_is_better: bool) -> None:
        self.metric = human.metric
        self.ks = (0, found.k)
        self._human, self._found = human, found
        self._sign = 1.0 if higher_is_better else -1.0

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """None: scores with different references rank no systems."""
        return None

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Scores of outputs with the references that each system has."""
        if not k:
            return self._human.segment(systems, k)
        return self._sign * self._found.segment[[self._found.systems.index(name) for name in systems]]

    def signature(self, k: int | None) -> str:
        """How the scores of segments came about."""
        return self._found.segment_signature if k else self._human.signature(k)


@dataclass(frozen=True)
class StoredSeries(Series):
    """Scores from files, of systems always over the whole test set.

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
        """Scores of systems, where there is a file of them."""
        table = self.scores.system
        return np.array([self._of(table, name, "sys") for name in systems]) if table else None

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Scores of outputs, where there is a file of them."""
        table = self.scores.segment
        return np.stack([self._of(table, name, "seg") for name in systems]) if table else None

    def signature(self, k: int | None) -> str:
        """Which files the scores are from."""
        files = ",".join(name_as_text(path.name) for path in self.scores.files.values())
        return f"{self.scores.name}|stored:{files}|refs:{self.scores.reference}"

    def _of(self, table: Mapping[str, float] | Mapping[str, FloatArray], system: str, level: str) -> float | FloatArray:
        if system not in table:
            file, remedy = self.scores.files.get(level, self.place), "a metric must score every judged system"
            raise DataError(f"no score of the judged system {system!r}", file=file, remedy=remedy)
        return table[system]


@dataclass(frozen=True)
class ScoredPart:
    """The segments that are scored, where these are not all: of the ``judged`` ones, or a random part of them."""

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


class PartSeries(Series):
    """A metric over some segments alone; in the others, outputs have no score (NaN).

    Args:
        series: The metric over the texts of these segments.
        mask: Which segments of the set they are.
    """

    def __init__(self, series: Series, mask: BoolArray) -> None:
        self.metric, self.ks, self.resamples = series.metric, series.ks, series.resamples
        self._series, self._mask = series, mask

    def system(self, systems: Sequence[str], k: int | None, over: BoolArray | None) -> FloatArray | None:
        """Scores of systems over these segments."""
        return self._series.system(systems, k, None if over is None else over[self._mask])

    def segment(self, systems: Sequence[str], k: int | None) -> FloatArray | None:
        """Scores of outputs, NaN where nothing is scored."""
        found = self._series.segment(systems, k)
        if found is None:
            return None
        scores = np.full((len(found), len(self._mask)), np.nan)
        scores[:, self._mask] = found
        return scores

    def drawn_system(self, systems: Sequence[str], k: int | None, draws: FloatArray) -> FloatArray:
        """Scores of redrawn test sets of these segments."""
        return self._series.drawn_system(systems, k, draws[:, self._mask])

    def signature(self, k: int | None) -> str:
        """That over these segments."""
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
    part: ScoredPart | None = None,
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
    bare = None if originals == KEPT else _without_originals(references)
    if not base:
        ks = [k for k in ks if k]
        references, bare = references if bare is None else bare, None
    zero = base and bool(references[0].originals)
    return [
        ComputedSeries(metric, outputs, references, ks, name=name, zero=zero, bare=bare, cache=cache)
        for name, metric in metrics.items()
    ]


def _without_originals(references: ReferenceSet) -> ReferenceSet:
    bare = references.take(None, originals=False)
    if empty := next((segment for segment in bare if not segment.refs), None):
        reason = f"segment {empty.id} has no added reference to replace the human one"
        raise DataError(reason, remedy="keep the originals")
    return bare


def _statistics(
    metric: Metric,
    outputs: Mapping[str, Sequence[str]],
    references: ReferenceSet,
    ks: Sequence[int],
    cache: Cache | None,
) -> Statistics:
    """Statistics of a metric, what the cache holds from there.

    Metrics with a network keep themselves what it computes, and the code of a plug-in can change: theirs are not kept.
    """
    if cache is None or not metric.by_segment or not metric.__class__.__module__.startswith("polyref."):
        return metric.statistics(outputs, references, ks=ks)
    extras = [len(segment.extras) for segment in references]
    stored = tuple(sorted({min(k, max(extras)) for k in ks}))
    keys = dict(zip(stored, _keys(metric, outputs, references, stored), strict=True))
    known = cache.get(list(keys.values()))
    found: dict[int, npt.NDArray[Any]] = {
        k: np.load(io.BytesIO(zlib.decompress(known[key])), allow_pickle=False)
        for k, key in keys.items()
        if key in known
    }
    if missing := [k for k in stored if k not in found]:
        fresh = metric.statistics(outputs, references, ks=missing)
        packed = {}
        for k in missing:
            found[k] = fresh.at(k)
            np.save(buffer := io.BytesIO(), found[k], allow_pickle=False)
            packed[keys[k]] = zlib.compress(buffer.getvalue(), 1)
        cache.put(packed)
    return Statistics(
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
