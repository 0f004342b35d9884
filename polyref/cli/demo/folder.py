"""The folder of ``polyref demo``: the example texts of the package, and what the demo makes of them."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path

from polyref.errors import DataError, UsageError
from polyref.json_files import try_json
from polyref.textfiles import check_writable, write_atomically

EXAMPLES = ("refs.en", "sysA.en", "sysB.en", "README.md")
#: What the demo makes of them.
MADE, DROPPED, SCORES, PAGE = "refs.polyref.jsonl", "dropped.jsonl", "scores.json", "refs.html"
#: The shipped model's first paraphrases are its best: the examples are references whose first three are right.
K = 3
KS = (0, K)
METRICS = ("bleu", "chrf++")


def demo_folder(output: str) -> Path:
    """Make the folder and put the example texts there."""
    folder = Path(output)
    _refuse_overwriting(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror}", file=output, remedy="choose another folder: -o") from None
    check_writable(folder / MADE)
    for name in EXAMPLES:
        if not (folder / name).exists():
            with write_atomically(folder / name) as target:
                target.write(_packaged(name).decode("utf-8"))
    return folder


def _packaged(name: str) -> bytes:
    return (files("polyref") / "examples" / name).read_bytes()


def _refuse_overwriting(folder: Path) -> None:
    """Refuse a folder where a file of the demo's names is not the demo's."""
    there = [name for name in EXAMPLES if os.path.lexists(folder / name)]
    theirs = [name for name in there if not _holds(folder / name, _packaged(name))]
    made = _made_here(folder / MADE)
    ours = {MADE: made, DROPPED: made, PAGE: made, SCORES: _scored_here(folder / SCORES)}
    for name, is_ours in ours.items():
        if os.path.lexists(folder / name) and not (len(there) == len(EXAMPLES) and is_ours):
            theirs.append(name)
    if theirs:
        raise UsageError(f"{folder / theirs[0]} is there and not of this demo", remedy="choose another folder: -o")


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _made_here(path: Path) -> bool:
    """Whether the reference set says that it was made of the example references, with as many paraphrases."""
    try:
        with path.open("rb") as stream:
            meta = (try_json(stream.readline()) or {})["meta"]
        digest = hashlib.sha256(_packaged("refs.en")).hexdigest()
        return bool(meta["inputs"] == [{"name": "refs.en", "sha256": digest}] and meta["k"] == K)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _scored_here(path: Path) -> bool:
    """Whether the scores are of the example systems, with the demo's metrics and numbers of references."""
    try:
        scores = try_json(path.read_bytes()) or {}
        found = {(row["system"], row["metric"], row["k"]) for row in scores["rows"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return found == {(system, metric, k) for system in ("sysA.en", "sysB.en") for metric in METRICS for k in KS}
