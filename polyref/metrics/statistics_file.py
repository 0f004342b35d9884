"""Files of statistics: ``.npz`` with the arrays, and a JSON header as bytes."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError
from polyref.json_files import Record, try_json
from polyref.metrics.statistics import Statistics
from polyref.publishing import check_writable, published_file
from polyref.textfiles import most_unpacked, unpacks_to_more

FORMAT_VERSION: Final = 1


def save(stats: Statistics, path: str | Path) -> None:
    """Write statistics, whole or not at all. Equal ones give equal bytes."""
    header = {
        "polyref_statistics": FORMAT_VERSION,
        "metric": stats.metric,
        "options": dict(stats.options),
        "systems": stats.systems,
        "segments": stats.segments,
        "ks": stats.ks,
        "columns": stats.columns,
        "meta": dict(stats.meta),
    }
    packed = np.frombuffer(json.dumps(header, ensure_ascii=False, allow_nan=False).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=packed, values=stats.values, originals=stats.originals, extras=stats.extras)
    check_writable(path)
    with published_file(path) as raw:
        raw.write(buffer.getvalue())


def load(path: str | Path) -> Statistics:
    """Read statistics; a file that is not what :func:`save` writes is refused."""
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
        return Statistics(
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
