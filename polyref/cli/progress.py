"""Bars on a terminal for whatever takes more than a second, and a warning before work that takes minutes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from polyref.cli.printing import tell
from polyref.progress import Advance

#: Work that takes longer than this many seconds is announced.
LONG: Final = 180.0
#: How long the first batches are measured before that, in seconds.
MEASURED: Final = 5.0


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
