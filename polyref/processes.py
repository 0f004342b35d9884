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
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.queues import SimpleQueue
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from polyref.errors import PolyrefError, UsageError
from polyref.progress import Advance, in_hand, telling

T = TypeVar("T")
R = TypeVar("R")

#: Pieces of work that wait for every process, so that none of them runs dry.
_AHEAD: Final = 2

#: What a process computes with, once it has been built there.
_function: Callable[[Any], Any]


def available() -> int:
    """How many processes the machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: Seconds between two looks at how far the processes have come.
_LOOK: Final = 0.2
#: Where a process tells how far it has come.
_told: SimpleQueue[tuple[int, int]]


class Processes(Generic[T, R]):
    """A function in ``jobs`` processes.

    What it tells of its progress (:func:`polyref.progress.tell`) is told here, while a result is waited for.

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
        self._told: SimpleQueue[tuple[int, int]]
        self._numbers = count()
        self._told_to: dict[int, Advance] = {}
        self._known: dict[Future[R], int] = {}

    def submit(self, work: T, advance: Advance | None = None) -> Future[R]:
        """Put a piece of work in the queue; ``advance`` (or the work in hand now) is told how far it has come."""
        if self._pool is None:
            context = get_context("spawn")
            self._told = context.SimpleQueue()
            self._pool = ProcessPoolExecutor(self.jobs, context, _begin, (self._build, self._told))
        number = next(self._numbers)
        future = self._pool.submit(_call, number, work)
        self._told_to[number], self._known[future] = advance or in_hand(), number
        return future

    def result(self, future: Future[R]) -> R:
        """The result of a piece of work, when it is there.

        Raises:
            PolyrefError: A process ended before its work was done.
        """
        try:
            while not wait_for([future], _LOOK).done:
                self._hear()
            self._hear()
            del self._told_to[self._known.pop(future)]
            return future.result()
        except BrokenProcessPool:
            self._pool = None
            raise PolyrefError(
                "a process that computes was ended from outside", remedy="give it more memory, or use fewer: `jobs`"
            ) from None

    def _hear(self) -> None:
        """Pass on what the processes have told."""
        while not self._told.empty():
            number, more = self._told.get()
            self._told_to[number](more)

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


def _begin(build: Callable[[], Callable[[Any], Any]], told: SimpleQueue[tuple[int, int]]) -> None:
    """Make a process ready."""
    global _function, _told
    _told = told
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


def _call(number: int, work: Any) -> Any:
    with telling(lambda more: _told.put((number, more))):
        return _function(work)
