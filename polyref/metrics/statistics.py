"""What a metric stores about a test set, and the scores that come out of it.

Corpus scores, sentence scores, every number of references and every resampling are sums over :class:`Statistics`:
the text is read once, and the statistics can be kept in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError
from polyref.values import html_table

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Choices = npt.NDArray[np.int16]


@dataclass(frozen=True, repr=False)
class Statistics:
    """Sufficient statistics per number of references, system and segment.

    Attributes:
        metric: Registry name of the metric that made them.
        options: Its options, as plain JSON values.
        systems: Names of the systems, S of them.
        segments: Ids of the segments, N of them.
        ks: The stored numbers of extra references, ascending, K of them; none is larger than the largest number of
            extra references that a segment has.
        columns: Names of the statistics, C of them.
        values: Array of shape (K, S, N, C): whole numbers, or real numbers where references are combined by mean or
            expected credit. A segment without any reference holds zeros.
        originals: Shape (N,): human references per segment.
        extras: Shape (N,): extra references per segment.
        meta: The ``meta`` of the reference set.
        chosen: Shape (K, S, N): which reference a sentence score is of, counted from 0, human ones first; -1 where it
            is of several or of none. None where nobody knows: it is not in files.
    """

    metric: str
    options: Mapping[str, Any]
    systems: tuple[str, ...]
    segments: tuple[str, ...]
    ks: tuple[int, ...]
    columns: tuple[str, ...]
    values: npt.NDArray[Any]
    originals: Integers
    extras: Integers
    meta: Mapping[str, Any] = field(default_factory=dict)
    chosen: Choices | None = None

    def __repr__(self) -> str:
        ks = ", ".join(map(str, self.ks))
        return f"Statistics({self.metric}: {len(self.systems)} systems, {len(self.segments)} segments, k = {ks})"

    def at(self, k: int, values: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """The statistics with the first ``k`` extra references, shape (S, N, C), or that part of ``values``.

        A ``k`` above the largest number of extra references is that number.

        Raises:
            ValueError: ``k`` is negative or was not stored.
        """
        clamped = min(k, self.most_extras)
        if clamped not in self.ks:
            raise ValueError(f"k is {k}, but statistics are stored for k = {', '.join(map(str, self.ks))}")
        view: npt.NDArray[Any] = (self.values if values is None else values)[self.ks.index(clamped)]
        return view

    @property
    def most_extras(self) -> int:
        """The largest number of extra references that a segment has."""
        return int(self.extras.max(initial=0))

    def counts(self, k: int) -> Integers:
        """Shape (N,): the number of references every segment uses with ``k`` extra ones at most."""
        return self.originals + np.minimum(self.extras, min(k, self.most_extras))

    def save(self, path: str | Path) -> None:
        """Write to one ``.npz`` file: the arrays, and a JSON header as bytes (no pickle). Equal input, equal bytes.

        Raises:
            DataError: ``path`` cannot be written. Nothing is left half-written.
        """
        _files().save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Read what :meth:`save` wrote.

        Raises:
            DataError: The file is missing, broken, not of this kind or version, or unpacks to more than
                $POLYREF_MAX_UNPACKED bytes, by default 4 GiB.
        """
        loaded: Statistics = _files().load(path)
        return loaded


def _files() -> Any:
    """The form of their files, which needs more than statistics do."""
    return import_module("polyref.metrics.statistics_file")


def check_finite(what: str, values: npt.NDArray[Any], systems: Sequence[str], segments: Sequence[str] = ()) -> None:
    """Refuse values of a metric, shape (S, N, ...), or (S,) without segments, of which one is NaN or infinite."""
    if values.dtype.kind not in "f" or (finite := np.isfinite(values)).all():
        return
    place = tuple(np.argwhere(~finite)[0])
    where = f"segment {segments[place[1]]} of " if segments else ""
    raise DataError(
        f"{what} gives {values[place]} for {where}{systems[place[0]]}, expected a finite number",
        remedy="is its model damaged? With half precision, try float32",
    )


def check_present(segments: Sequence[str], counts: Integers, k: int) -> None:
    """Refuse segments of which the ``counts`` of references with ``k`` extra ones hold a 0."""
    if counts.all():
        return
    empty = np.flatnonzero(counts == 0)
    others = f": {len(empty)} of {len(counts)} segments have none" if len(empty) > 1 else ""
    raise DataError(
        f"segment {segments[int(empty[0])]} has no reference with k = {k}{others}",
        remedy="give it one, ask for larger k, or allow missing references (`allow_missing`)",
    )


@dataclass(frozen=True, repr=False)
class Scores:
    """The scores of all systems with one number of references.

    Attributes:
        name: What to call the metric: ``BLEU``, or ``parBLEU`` where extra references were used.
        k: The number of extra references asked for.
        systems: Names of the systems, S of them.
        segments: Ids of the segments, N of them.
        system: Shape (S,): corpus-level scores, in the metric's own scale (0 to 100 for BLEU and chrF).
        segment: Shape (S, N): sentence-level scores; NaN for a segment without any reference.
        references: Smallest and largest number of references a segment used.
        signature: Everything that made the corpus-level scores.
        segment_signature: The same of the sentence-level scores, where the metric has other defaults for sentences.
        missing: Segments without any reference, which the corpus-level scores leave out.
        chosen: Shape (S, N): as in :class:`Statistics`.
    """

    name: str
    k: int
    systems: tuple[str, ...]
    segments: tuple[str, ...]
    system: Floats
    segment: Floats
    references: tuple[int, int]
    signature: str
    segment_signature: str
    missing: int = 0
    chosen: Choices | None = None

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {score:.4g}" for name, score in zip(self.systems, self.system, strict=True))
        return f"Scores({self.name}, k = {self.k}: {shown})"

    def _repr_html_(self) -> str:
        rows = [(name, f"{score:.4g}") for name, score in zip(self.systems, self.system, strict=True)]
        head = ("system", f"{self.name}, k = {self.k}")
        return html_table(head, rows, caption=self.signature)
