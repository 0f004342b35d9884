"""Work in several processes, with results in the order of the work: all cores of a machine, the same bytes.

Every process builds its own function once (it loads a model, say) and computes with one thread, unless the function
says otherwise: several threads in one process are slower than as many processes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from polyref.errors import PolyrefError, UsageError

T = TypeVar("T")
R = TypeVar("R")

#: Pieces of work that wait for every process, so that none of them runs dry.
_AHEAD: Final = 2

#: What a process computes with, once it has been built there.
_function: Callable[[Any], Any]


def available() -> int:
    """How many processes the machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes(Generic[T, R]):
    """A function in ``jobs`` processes.

    The processes start with the first piece of work, and end with :meth:`close`, with the program, or when the program
    is killed. They are started afresh, not forked: a script that uses them needs ``if __name__ == "__main__":``, as
    with everything in :mod:`multiprocessing`.

    Args:
        build: Called once in every process; gives the function. It can be pickled.
        jobs: Processes, 1 or more.

    Raises:
        UsageError: ``jobs`` is below 1.
    """

    def __init__(self, build: Callable[[], Callable[[T], R]], jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"`jobs` is {jobs}, expected 1 or more processes")
        self.jobs = jobs
        self._build = build
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, work: T) -> Future[R]:
        """Put a piece of work in the queue."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), _begin, (self._build,))
        return self._pool.submit(_call, work)

    def result(self, future: Future[R]) -> R:
        """The result of a piece of work, when it is there.

        Raises:
            PolyrefError: A process ended before its work was done.
        """
        try:
            return future.result()
        except BrokenProcessPool:
            self._pool = None
            raise PolyrefError(
                "a process that computes was ended from outside", remedy="give it more memory, or use fewer: `jobs`"
            ) from None

    def map(self, work: Iterable[T]) -> Iterator[R]:
        """The results of all pieces of work, in order. The work is read ahead by a few pieces for every process."""
        waiting: deque[Future[R]] = deque()
        try:
            for piece in work:
                waiting.append(self.submit(piece))
                if len(waiting) > _AHEAD * self.jobs:
                    yield self.result(waiting.popleft())
            while waiting:
                yield self.result(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the processes; work in the queue is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Processes[T, R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _begin(build: Callable[[], Callable[[Any], Any]]) -> None:
    """Make a process ready."""
    global _function
    # Ctrl-C reaches the whole group: the program that started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = build()


def _end_with_parent() -> None:
    """A killed program cannot end its processes."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        signal.raise_signal(signal.SIGTERM)


def _call(work: Any) -> Any:
    return _function(work)
