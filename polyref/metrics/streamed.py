"""Score sets that are too large for memory: texts are read in stretches, and of each only statistics are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError
from polyref.metrics.api import empty_texts, note_of_empty, notes_of_counts, wanted_ks, without_trailing_space
from polyref.metrics.base import Metric
from polyref.metrics.copies import CopyCount
from polyref.metrics.ngram.tokenizers import Doubts
from polyref.metrics.signature import InputsDigest
from polyref.metrics.significance import SEED, measured
from polyref.metrics.statistics import Statistics, check_present
from polyref.metrics.table import ScoreTable
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
    """Segments that follow each other.

    Attributes:
        references: Their references.
        systems: Name of a system -> its outputs.
    """

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

    Args:
        stretches: The set; each is read once.
        metrics: Of which :func:`streams` holds.
        ks: As for ``score``.
        test: As for ``score``.
        trials: As for ``score``.
        seed: As for ``score``.
        allow_missing: As for ``score``.
        total: Number of segments, for the bar; 0 where it is not known.
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
    segments = tuple(gathered.segments)
    human = any(counts.any() for counts in gathered.originals)
    wanted = wanted_ks(asked, int(extras.max()), metrics, human=human)
    results = []
    for name, metric in metrics.items():
        stats = gathered.statistics(name, metric, segments, extras, wanted)
        if not allow_missing:
            check_present(stats.segments, stats.counts(stats.ks[0]), stats.ks[0])
        results += [measured(name, metric, stats, k, test, trials, seed) for k in wanted]
    notes = [*note_of_empty(gathered.empty), *gathered.doubts.found()]
    notes += notes_of_counts(asked, int(extras.min()), results, human=human)
    # Where nobody said how many, it is all there are.
    counted = (replace(one, k=min(one.k, wanted[-1]) if not asked else one.k) for one in gathered.copies.found())
    copies = tuple(one for one in counted if one.k in wanted and one.k)
    signature = gathered.digest.signature(tuple(metrics), wanted, gathered.meta)
    return ScoreTable(tuple(results), signature, tuple(notes), copies=copies)


class _Gathered:
    """What is kept of stretches.

    Args:
        metrics: By name.
        ks: Numbers of extra references; no segment has ``_ALL``.
    """

    def __init__(self, metrics: Mapping[str, Metric], ks: Sequence[int]) -> None:
        self._metrics, self._ks = metrics, tuple(ks)
        self._values: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in metrics}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._systems: tuple[str, ...] = ()
        self.segments: list[str] = []
        self.originals: list[npt.NDArray[np.int64]] = []
        self.extras: list[npt.NDArray[np.int64]] = []
        self.meta: Mapping[str, Any] = {}
        self.empty: Counter[str] = Counter()
        self.copies = CopyCount(self._ks)
        self.doubts = Doubts({metric.tokenize for metric in metrics.values() if hasattr(metric, "tokenize")})
        self.digest = InputsDigest({metric.weighed_by for metric in metrics.values()})

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
        # Counter.update adds up, and keeps the order of the systems.
        self.empty.update(empty_texts(outputs, references))
        self.doubts.add(outputs, ((ref.text for ref in segment.refs) for segment in references))
        self.digest.add(references)
        self.copies.add(references, outputs)

    def statistics(
        self, name: str, metric: Metric, segments: tuple[str, ...], extras: npt.NDArray[np.int64], wanted: Sequence[int]
    ) -> Statistics:
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
            segments=segments,
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
