"""Score sets that are too large for memory: texts are read in stretches, and of each only statistics are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError
from polyref.metrics.api import Facts, wanted_ks, without_trailing_space
from polyref.metrics.base import Metric
from polyref.metrics.significance import SEED
from polyref.metrics.statistics import Statistics, check_present
from polyref.metrics.table import ScoreTable, measured
from polyref.progress import listening, work
from polyref.references import ReferenceSet
from polyref.values import wholes

#: More extra references than any segment has.
_ALL: Final = 1 << 30


def streams(metrics: Iterable[Metric]) -> bool:
    """Whether these metrics give the same scores to the last digit if texts come in stretches."""
    return all(metric.by_segment for metric in metrics)


@dataclass(frozen=True)
class Stretch:
    """Segments that follow each other: their references, and the outputs of every system."""

    references: ReferenceSet
    systems: Mapping[str, Sequence[str]]


def score_streamed(
    stretches: Iterable[Stretch],
    metrics: Mapping[str, Metric],
    ks: Sequence[int] | None = None,
    *,
    test: str | None = None,
    trials: int | None = None,
    seed: int = SEED,
    allow_missing: bool = False,
    total: int = 0,
) -> ScoreTable:
    """What :func:`polyref.metrics.api.score` gives, for a set of any size.

    Every stretch is read once, and :func:`streams` holds of the metrics. ``total`` segments, 0 where their number is
    not known, are for the bar; all else is as for ``score``.
    """
    asked = wholes("ks", ks)
    gathered = _Gathered(metrics, asked or (0, _ALL))
    with work("scoring", "segments", total) as advance:
        for stretch in stretches:
            with listening(None):
                gathered.add(stretch)
            advance(len(stretch.references))
    if not gathered.segments:
        raise DataError("no segment: nothing to score")
    extras = np.concatenate(gathered.extras)
    human = any(counts.any() for counts in gathered.originals)
    wanted = wanted_ks(asked, int(extras.max()), metrics, human=human)
    results = []
    for name, metric in metrics.items():
        stats = gathered.statistics(name, metric, extras, wanted)
        if not allow_missing:
            check_present(stats.segments, stats.counts(stats.ks[0]), stats.ks[0])
        results += [measured(name, metric, stats, k, test, trials, seed) for k in wanted]
    return gathered.facts.table(results, asked, wanted, gathered.meta)


class _Gathered:
    """What is kept of stretches; no segment has ``_ALL`` extra references."""

    def __init__(self, metrics: Mapping[str, Metric], ks: Sequence[int]) -> None:
        self._metrics, self._ks = metrics, tuple(ks)
        self._values: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in metrics}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._systems: tuple[str, ...] = ()
        self.segments: list[str] = []
        self.originals: list[npt.NDArray[np.int64]] = []
        self.extras: list[npt.NDArray[np.int64]] = []
        self.meta: Mapping[str, Any] = {}
        self.facts = Facts(metrics, self._ks)

    def add(self, stretch: Stretch) -> None:
        """Read a stretch; white space at the end of texts is cut."""
        outputs = {name: [text.rstrip() for text in texts] for name, texts in stretch.systems.items()}
        references = without_trailing_space(stretch.references)
        for name, metric in self._metrics.items():
            stats = metric.statistics(outputs, references, ks=self._ks, allow_missing=True)
            self._values[name].append(_small(np.stack([stats.at(k) for k in self._ks])))
            self._dtypes[name] = stats.values.dtype
        self._systems, self.meta = stats.systems, references.meta
        self.segments += stats.segments
        self.originals.append(stats.originals)
        self.extras.append(stats.extras)
        self.facts.add(outputs, references)

    def statistics(self, name: str, metric: Metric, extras: npt.NDArray[np.int64], wanted: Sequence[int]) -> Statistics:
        """The statistics of one metric for the whole set, which are given up here."""
        values = np.concatenate(self._values.pop(name), axis=2, dtype=self._dtypes[name])
        most = int(extras.max())
        places = {min(k, most): place for place, k in reversed(list(enumerate(self._ks)))}
        stored = sorted({min(k, most) for k in wanted})
        chosen = [places[k] for k in stored]
        return Statistics(
            metric=metric.name,
            options=metric.options,
            systems=self._systems,
            segments=tuple(self.segments),
            ks=tuple(stored),
            columns=metric.columns,
            values=values if chosen == [*range(len(values))] else values[chosen],
            originals=np.concatenate(self.originals),
            extras=extras,
            meta=self.meta,
        )


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same whole numbers in two bytes each, where they fit."""
    whole = np.issubdtype(values.dtype, np.integer) and values.min() >= 0 and values.max() < 1 << 16
    return values.astype(np.uint16) if whole else values
