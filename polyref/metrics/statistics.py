"""What a metric stores about a test set, and the scores that come out of it.

Corpus scores, sentence scores, every number of references and every resampling are sums over :class:`Statistics`:
the text is read once, and the statistics can be kept in a file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError
from polyref.json_files import Record, try_json
from polyref.publishing import published_file
from polyref.tables import html_table
from polyref.textfiles import check_writable, most_unpacked, unpacks_to_more

FORMAT_VERSION: Final = 1

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
        header = {
            "polyref_statistics": FORMAT_VERSION,
            "metric": self.metric,
            "options": dict(self.options),
            "systems": self.systems,
            "segments": self.segments,
            "ks": self.ks,
            "columns": self.columns,
            "meta": dict(self.meta),
        }
        packed = np.frombuffer(json.dumps(header, ensure_ascii=False, allow_nan=False).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, header=packed, values=self.values, originals=self.originals, extras=self.extras)
        check_writable(path)
        with published_file(path) as raw:
            raw.write(buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Read what :meth:`save` wrote.

        Raises:
            DataError: The file is missing, broken, not of this kind or version, or unpacks to more than
                $POLYREF_MAX_UNPACKED bytes, by default 4 GiB.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(part.file_size for part in archive.infolist()) > most_unpacked():
                    raise unpacks_to_more(path)
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as arrays:
                header = try_json(arrays["header"].tobytes())
                values, originals, extras = arrays["values"], arrays["originals"], arrays["extras"]
            if header is None:
                raise ValueError("the header is not an object")
            if header["polyref_statistics"] != FORMAT_VERSION:
                found = header["polyref_statistics"]
                raise DataError(f"format version {found}, expected {FORMAT_VERSION}", file=path)
            record = Record(header, str(path), where="is not a statistics file: ")
            ks = tuple(record.each("ks", Record.whole))
            if not ks or list(ks) != sorted(set(ks)):
                record.fail("ks is no ascending list of numbers of references")
            names = {key: tuple(record.each(key, Record.text)) for key in ("systems", "segments", "columns")}
            shape = (len(ks), *(len(names[key]) for key in ("systems", "segments", "columns")))
            segments = (shape[2],)
            if values.shape != shape or originals.shape != segments or extras.shape != segments:
                raise ValueError(f"values have shape {values.shape}, expected {shape}")
            for counts in (originals, extras):
                if counts.dtype.kind not in "iu" or (counts < 0).any():
                    raise ValueError("numbers of references are no whole numbers of 0 or more")
            if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise ValueError(f"values are no finite numbers ({values.dtype})")
            return cls(
                metric=record.needed("metric", record.text),
                options=record.needed("options", record.child).values,
                ks=ks,
                values=values,
                originals=originals,
                extras=extras,
                meta=record.needed("meta", record.child).values,
                systems=names["systems"],
                segments=names["segments"],
                columns=names["columns"],
            )
        except FileNotFoundError:
            raise DataError("no such file", file=path, remedy="check the path") from None
        except DataError:
            raise
        except Exception as error:  # whatever NumPy, zip and zlib find wrong with a file that is not what it seems
            raise DataError(f"is not a statistics file: {' '.join(str(error).split())[:200]}", file=path) from None


def check_finite(what: str, values: npt.NDArray[Any], systems: Sequence[str], segments: Sequence[str] = ()) -> None:
    """Refuse what a metric gives where it is no finite number.

    Args:
        what: The metric, for the message.
        values: Shape (S, N, ...); (S,) without segments.
        systems: S names.
        segments: N ids, or none.

    Raises:
        DataError: Naming the first system and segment of which a value is NaN or infinite.
    """
    if values.dtype.kind not in "f" or (finite := np.isfinite(values)).all():
        return
    place = tuple(np.argwhere(~finite)[0])
    where = f"segment {segments[place[1]]} of " if segments else ""
    raise DataError(
        f"{what} gives {values[place]} for {where}{systems[place[0]]}, expected a finite number",
        remedy="is its model damaged? With half precision, try float32",
    )


def check_present(segments: Sequence[str], counts: Integers, k: int) -> None:
    """Refuse segments without a reference.

    Args:
        segments: Ids.
        counts: Shape (N,): how many references each of them uses.
        k: Number of extra references that were asked for.
    """
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
        return html_table(("system", f"{self.name}, k = {self.k}"), rows, caption=self.signature)
