"""Metrics over one reference set as series, with the human references kept or replaced.

Statistics of texts are kept in the cache under a hash of everything that determines them, for every k by itself: a
repeated or interrupted run reads what there is.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.cache import Cache
from polyref.errors import DataError
from polyref.eval.experiments.choices import KEPT
from polyref.eval.experiments.part import Part, PartSeries
from polyref.eval.experiments.series import BoolArray, ComputedSeries, FloatArray, Series
from polyref.metrics.base import Metric
from polyref.metrics.statistics import Statistics
from polyref.references import ReferenceSet


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
