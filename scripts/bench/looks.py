"""Test sets, looks at them, and where rows come from: the commit and the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from subprocess import run
from typing import Any, Final

from raw_tables import read, write

from polyref import __version__
from polyref.errors import UsageError

#: Folder and language pair of the sets on which no setting is chosen.
TEST_SETS: Final = frozenset(
    {
        ("wmt22.mqm", "zh-en"),
        ("wmt19", "lt-en"),
        ("wmt19", "gu-en"),
        ("wmt23.mqm", "he-en"),
        ("summeval", "en-en"),
        ("dailydialog", "en-en"),
    }
)
LOOK: Final = (
    *("date", "polyref", "commit", "set", "metrics", "uses", "ks", "placebos", "resamples", "seed", "part"),
    "references",
)
#: Columns that say where a row comes from. Rows from before there were such columns have nothing there.
ORIGIN: Final = ("commit", "models")
#: What the scripts write themselves changes no number.
_RESULTS: Final = (":(top,exclude)docs/benchmarks", ":(top,exclude)docs/images")
#: Parts of signatures that name a model or hash its content.
_MODEL: Final = ("model", "sha", "sha256", "encoder", "encoder-sha256")


def commit() -> str:
    """The commit of this script's checkout, with a + where files differ from it; empty outside of one."""
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head}+" if head and _git("status", "--porcelain", "--", ":/", *_RESULTS) else head


def clean_commit() -> str:
    """The commit, for a look at a test set.

    Raises:
        UsageError: Files differ from it, or there is none: nobody could measure the same again.
    """
    here = commit()
    if not here or here.endswith("+"):
        raise UsageError("the checkout has changes: a look at a test set is from a commit", remedy="commit first")
    return here


def note(path: Path, **look: Any) -> None:
    """Append a look at a test set to the ledger."""
    here = {"date": date.today().isoformat(), "polyref": __version__, **look}
    write(path, LOOK, [*read(path), here])


def models_in(parts: Iterable[str]) -> str:
    """Those of a signature's parts that name models and hash what they hold."""
    return " ".join(part for part in parts if part.partition(":")[0] in _MODEL)


def from_commit(row: Mapping[str, Any], here: str, *models: str) -> dict[str, Any]:
    """A row with its :data:`ORIGIN`."""
    return {**row, "commit": here, "models": "; ".join(filter(None, models))}


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    return run(asked, capture_output=True, text=True, check=False).stdout.strip()
