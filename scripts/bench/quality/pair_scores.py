"""Metrics for evidence.py that keep the score of every pair of texts they ever compared in a file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from looks import models_in

from polyref.metrics.base import Metric
from polyref.metrics.embedding.bertscore import BERTScore
from polyref.metrics.likelihood import SequenceMetric
from polyref.metrics.likelihood.bartscore import BARTScore
from polyref.metrics.pairs import PairMetric
from polyref.metrics.registry import get_metric

Floats = npt.NDArray[np.float64]

#: Metrics whose scores of pairs are kept here, and so not in polyref's own cache.
NEURAL: Final = ("bertscore", "esim", "prism", "bartscore")
#: Options of a metric that say what becomes of the scores of pairs.
_COMBINING: Final = ("combine", "weights", "gamma", "temperature", "blend")
#: What Prism calls the directions of BARTScore.
_DIRECTIONS: Final = {"precision": "forward", "recall": "backward", "f": "mean"}


def metric_of(name: str, use: str, work: Path, **options: Any) -> Metric:
    """A metric with a use of its references; neural ones keep their scores of pairs in ``work``.

    ``bartscore-DIRECTION`` is BARTScore with the shipped model.
    """
    name, _, direction = name.partition("-")
    if direction:
        options |= {"direction": direction, "model": "shipped"}
    extra = {"prism": {"jobs": 1}, "bartscore": {"jobs": 1}}.get(name, {})
    extra |= {"cache": False} if name in NEURAL else {}
    metric = get_metric(name, combine=use, **extra, **options)
    return _keeping(metric, work / "pairs") if isinstance(metric, PairMetric) else metric


def _keeping(metric: PairMetric, folder: Path) -> PairMetric:
    """The same metric; every pair of texts that it ever scored is kept in a file."""
    if isinstance(metric, BARTScore) and not metric.prompts:
        return _from_prism(metric, folder)
    kind = type(metric)
    unlike = {name: value for name, value in metric.options.items() if name not in _COMBINING}
    decided = json.dumps([unlike, *_described_model(metric)], sort_keys=True, default=str)
    digest = hashlib.sha256(decided.encode()).hexdigest()[:12]
    store = _store(folder / f"{metric.name}-{digest}.sqlite")
    compute = _matched if isinstance(metric, BERTScore) else kind._pairs

    def pairs(self: PairMetric, asked: Sequence[tuple[str, str]]) -> Floats:
        return store.scores(asked, lambda missing: compute(self, missing), len(self.measures))

    members = {"_pairs": pairs, "_count": PairMetric._count}
    return type(kind.__name__, (kind,), members)(**{one.name: getattr(metric, one.name) for one in fields(metric)})


def models_of(metric: Metric) -> str:
    """The models of a metric with hashes of what they hold; empty for one without."""
    return models_in([*metric._describe(None, sentence=False), *_described_model(metric)])


def _described_model(metric: Metric) -> list[str]:
    """What the options of Prism and BARTScore do not say of their model, of which they have the name alone."""
    if not isinstance(metric, SequenceMetric):
        return []
    return [part for part in metric._model_parts() if not part.startswith("cut:")]


def _from_prism(metric: BARTScore, folder: Path) -> PairMetric:
    """BARTScore: with the same model, its two directions and their mean are those of Prism."""
    prism = _keeping(get_metric("prism", model=metric.model, jobs=metric.jobs, cache=metric.cache), folder)
    columns = [prism.measures.index(_DIRECTIONS[measure]) for measure in metric.measures]

    def pairs(self: PairMetric, asked: Sequence[tuple[str, str]]) -> Floats:
        found: Floats = prism._pairs(asked)[:, columns]
        return found

    given = {one.name: getattr(metric, one.name) for one in fields(metric)}
    return type("BARTScore", (BARTScore,), {"_pairs": pairs})(**given)


def _matched(metric: BERTScore, pairs: Sequence[tuple[str, str]]) -> Floats:
    """BERTScore of pairs, those of one segment together."""
    outputs: dict[str, list[str]] = {}
    for reference, output in pairs:
        outputs.setdefault(reference, []).append(output)
    groups: dict[tuple[str, ...], list[str]] = {}
    for reference, texts in outputs.items():
        groups.setdefault(tuple(texts), []).append(reference)
    found = {}
    sides = [(list(texts), references) for texts, references in groups.items()]
    for (texts, references), block in zip(sides, metric._matched(sides, None), strict=True):
        for u, text in enumerate(texts):
            for v, reference in enumerate(references):
                found[reference, text] = block[0, u, v]
    return np.array([found[pair] for pair in pairs])


@cache
def _store(path: Path) -> _Store:
    return _Store(path)


class _Store:
    """Scores of pairs of texts in a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path)
        self._file.execute("create table if not exists scores (pair blob primary key, score blob) without rowid")
        self._known = {
            pair: np.frombuffer(score) for pair, score in self._file.execute("select pair, score from scores")
        }

    def scores(
        self, pairs: Sequence[tuple[str, str]], compute: Callable[[Sequence[tuple[str, str]]], Floats], measures: int
    ) -> Floats:
        """Shape (pairs, measures); those not known yet are computed some hundreds at a time, and kept at once."""
        keys = [_key(pair) for pair in pairs]
        missing = [pair for pair, key in zip(pairs, keys, strict=True) if key not in self._known]
        for at in range(0, len(missing), 2000):
            part = missing[at : at + 2000]
            found = zip(map(_key, part), compute(part), strict=True)
            new = {key: np.ascontiguousarray(score, dtype=np.float64) for key, score in found}
            self._file.executemany(
                "insert or replace into scores values (?, ?)", [(k, v.tobytes()) for k, v in new.items()]
            )
            self._file.commit()
            self._known |= new
        return np.array([self._known[key] for key in keys]).reshape(-1, measures)


def _key(pair: Iterable[str]) -> bytes:
    return hashlib.blake2b("\0".join(pair).encode(), digest_size=16).digest()
