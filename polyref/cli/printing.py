"""What every command prints alike: JSON for programs, messages in the words of its options, bars for long work."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from polyref.cli.parsing.flags import in_flags
from polyref.errors import PolyrefWarning
from polyref.progress import Advance
from polyref.tables import shown

#: Work that takes longer than this many seconds is announced.
LONG: Final = 180.0
#: How long the first batches are measured before that, in seconds.
MEASURED: Final = 5.0
_HASH: Final = re.compile("[0-9a-f]{10}")
_show_other_warning = warnings.showwarning


def json_object(signature: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    """The common machine output: one object with ``signature`` and ``rows``. NaN must be given as None."""
    text = json.dumps({"signature": signature, "rows": list(rows)}, ensure_ascii=False, allow_nan=False)
    # A path that is not UTF-8 is written as \udcff, from which Python makes the same path.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def remember(signatures: Mapping[str, str]) -> None:
    """Keep what hashes of signatures stand for, so that ``polyref info HASH`` can tell."""
    from polyref.cache import Cache

    Cache().put({_kept(name): text.encode() for name, text in signatures.items()})


def recalled(name: str) -> str | None:
    """The signature that a hash stands for; None for what is no hash, or is not known here."""
    from polyref.cache import Cache

    if not _HASH.fullmatch(name):
        return None
    found = Cache().get([_kept(name)])
    return found[_kept(name)].decode() if found else None


def _kept(name: str) -> bytes:
    return f"signature {name}".encode()


def tell(kind: str, message: str) -> None:
    """A ``note`` or ``warning`` for people, on stderr, in the words of the command that runs."""
    context = click.get_current_context(silent=True)
    click.echo(f"polyref: {kind}: {shown(in_flags(message, context.command if context else None))}", err=True)


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """What polyref has to say of a result on one line; what others have to say as Python says it."""
    if issubclass(category, PolyrefWarning):
        tell("warning", str(message))
    else:
        _show_other_warning(message, category, *place, **more)


@contextmanager
def bars(what: str, unit: str, total: int) -> Iterator[Advance]:
    """A bar on stderr with the rate since the start, which goes away when the work is done; a listener of progress.

    Where stderr is no terminal there is no bar, but the warning is given.
    """
    from tqdm import tqdm

    started, done, announced = time.perf_counter(), 0, False
    # The rate is that of all that was done so far: the longest texts often come first, and the last ones are fast.
    with tqdm(total=total, desc=what, unit=f" {unit}", smoothing=0, delay=1, leave=False, disable=None) as bar:

        def advance(more: int) -> None:
            nonlocal done, announced
            done += more
            bar.update(more)
            spent = time.perf_counter() - started
            if announced or spent < MEASURED:
                return
            announced = True
            left = spent / done * (total - done)
            if left > LONG:
                bar.clear()
                tell("warning", f"{what}: {total} {unit} will take up to {_duration(left)} more, by the first {done}")
                bar.refresh()

        yield advance
    sys.stderr.flush()


def _duration(seconds: float) -> str:
    """``12 minutes``, ``3.5 hours``."""
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
