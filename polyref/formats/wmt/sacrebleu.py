"""Test sets that sacreBLEU knows by name: read from its cache, which is filled only where that is allowed."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.languages import find_pair

#: What a path to such a set starts with: ``sacrebleu:wmt22``.
SCHEME: Final = "sacrebleu:"
#: Whether sacreBLEU may download, as it may for its tokenisers.
DOWNLOAD: Final = "POLYREF_DOWNLOAD"


def set_files(name: str, pair: str | None) -> list[Path]:
    """The references of a test set, which are plain text files.

    Args:
        name: As sacreBLEU calls it, ``wmt22``.
        pair: Language pair, ``SRC-TGT``.
    """
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise UsageError(f"sacreBLEU has no test set {name!r}, it has: {', '.join(DATASETS)}")
    known: Any = DATASETS[name]
    pair = pair and (find_pair(pair, known.langpairs, name) or pair)
    if pair is None or pair not in known.langpairs:
        pairs = ", ".join(known.langpairs)
        if pair is None:
            raise UsageError(f"the test set {name} needs a language pair, it has: {pairs}", remedy="name it: `pair`")
        raise UsageError(f"the test set {name} has no pair {pair!r}, it has: {pairs}")
    folder = Path(vars(known)["_outdir"])
    found = _cached(folder, known, pair)
    if not found:
        if os.environ.get(DOWNLOAD, "") in ("", "0"):
            raise DataError(
                f"the test set {name} {pair} is not on this machine, and nothing is downloaded unasked",
                file=folder,
                remedy=f"set the environment variable {DOWNLOAD}=1 to let sacreBLEU download it once",
            )
        warnings.warn(f"sacreBLEU downloads the test set {name} {pair} to {folder}", PolyrefWarning, stacklevel=2)
        try:
            found = [Path(path) for path in known.get_reference_files(pair)]
        except (SystemExit, OSError) as error:
            raise DataError(f"the test set {name} could not be downloaded: {error}", file=folder) from None
    return found


def _cached(folder: Path, known: Any, pair: str) -> list[Path]:
    """The references as far as sacreBLEU has them: what it downloaded, or the texts that it made of that."""
    archives = [Path(known._rawdir, known._get_tarball_filename(url)) for url in known.data]
    if all(path.is_file() and path.stat().st_size for path in archives):
        return [Path(path) for path in known.get_reference_files(pair)]
    start = f"{known.name.replace('/', '_')}.{pair}."
    texts = sorted(folder.glob(f"{start}ref*"))
    if not hasattr(known, "_get_langpair_allowed_refs"):
        return texts
    allowed = {f"{start}{field.replace(':', '-')}" for field in known._get_langpair_allowed_refs(pair)}
    return [path for path in texts if path.name in allowed]
