"""Kill a piece of work at each of its dealings with the disk, one after the other.

The work runs in a child made by ``fork``, so that a thousand kills cost no thousand starts of Python. Import this in a
process of its own (:func:`run_program`): forking one with threads is not safe.
"""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: What is counted, beside calls of ``os.fsync``: events of Python's audit hooks.
EVENTS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"})
KILLED = 9
#: Sizes of a file at which a write to it is cut short.
CUTS = 5
#: More dealings with the disk than any work has.
ENDLESS = 1_000_000


def every_kill(work: Callable[[], Any], most: int = 10_000, first: int = 1) -> Iterator[int]:
    """Run ``work`` in a child that dies before its first dealing with the disk, its second, and so on.

    Args:
        work: What to run; leaving by ``SystemExit`` without a code is an end as well.
        most: Kills before it is taken to have no end.
        first: The dealing to die at first.

    Yields after each death; ends when the child came to its end by itself.

    Raises:
        AssertionError: The work itself failed, or came to no end after ``most`` kills.
    """
    for at in range(first, first + most):
        child = os.fork()
        if not child:
            _die_at(at)
            try:
                work()
            except BaseException as error:
                if isinstance(error, SystemExit) and not error.code:
                    os._exit(0)
                import traceback

                traceback.print_exc(file=sys.__stderr__)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, KILLED), f"the work failed before its dealing {at} with the disk"
        if code == 0:
            return
        yield at
    raise AssertionError("no end")


def every_cut(work: Callable[[], Any], largest: int) -> Iterator[str]:
    """Run ``work`` in a child that dies while it writes: as soon as a file has so and so many bytes.

    The system cuts a write short at the limit and kills at the next one, so that what is there is half a write. Some
    libraries ask for the whole room at first and get an error, as on a full disk.

    Args:
        work: As for :func:`every_kill`.
        largest: Bytes of the largest file that the work writes; limits go up to this.

    Yields after each death.

    Raises:
        AssertionError: The work came to its end.
    """
    for limit in sorted({largest * part // CUTS for part in range(CUTS)}):
        child = os.fork()
        if not child:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                work()
            except BaseException as error:
                os._exit(0 if isinstance(error, SystemExit) and not error.code else 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status), f"the work ended where files have {limit} bytes at most"
        yield f"{limit} bytes"


def _die_at(at: int) -> None:
    left = at

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(KILLED)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in EVENTS:
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        count()

    real = os.fsync

    def fsync(handle: int) -> None:
        count()
        real(handle)

    os.fsync = fsync
    sys.addaudithook(hook)


def run_program(program: str, folder: Path) -> str:
    """Run Python code in a fresh interpreter, in ``folder``, with this module at hand; returns what it printed."""
    start = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    done = subprocess.run([sys.executable, "-c", start + program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def survives(
    work: Callable[[], Any],
    start: Callable[[], Any],
    place: Path,
    units: list[set[str]],
    settle: Callable[[], Any] = lambda: None,
) -> int:
    """Kill ``work`` everywhere, also in the middle of a write: what it writes is old or new.

    The same work once more ends as if undisturbed.

    Args:
        work: Writes into ``place``.
        start: Fills the empty folder ``place`` with what is there before.
        place: A folder for results alone; emptied again and again.
        units: Names in ``place`` that are old or new together; other visible names are unfinished work.
        settle: What whoever comes next does first.

    Returns:
        The number of kills.

    Raises:
        AssertionError: Something was neither old nor new, or the second try gave other bytes or left something.
    """

    def fresh() -> dict[str, bytes]:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        start()
        return _contents(place)

    old = fresh()
    work()  # here, so that the children find everything imported
    new = _contents(place)
    assert new != old, "the work changed nothing"
    fresh()
    kills = 0
    largest = max(map(len, new.values()))
    for at in itertools.chain(every_kill(work), every_cut(work, largest)):
        settle()
        found = _contents(place)
        for unit in units:
            states = [
                {name: content for name, content in one.items() if name.split("/")[0] in unit}
                for one in (found, old, new)
            ]
            assert states[0] in states[1:], (at, unit, sorted(found))
        if found != new:
            _completed(work)
            again = _contents(place)
            assert sorted(again) == sorted(new), (at, sorted(again))
            assert again == new, (at, [name for name in new if again[name] != new[name]])
        kills += 1
        fresh()
    return kills


def _contents(folder: Path) -> dict[str, bytes]:
    """Bytes of every file, hidden ones too; folders end in a slash and hold nothing."""
    return {
        str(path.relative_to(folder)) + ("/" if path.is_dir() else ""): b"" if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def _completed(work: Callable[[], Any]) -> None:
    """Run the work in a child of its own, to its end."""
    for at in every_kill(work, first=ENDLESS):
        raise AssertionError(at)
