"""Work in several processes, with results in the order of the work: all cores of a machine, the same bytes.

::

    program --work--> supervisor --fork--> worker, worker, ...
            <-results-     <----results-----
            <------------reports of progress---------

The supervisor builds the function once (it loads a model, say), and the workers are forked from it: they share its
memory and begin at once. Each computes with one thread, unless the function says otherwise: several threads in one
process are slower than as many processes. The supervisor ends when the program closes the pipe or is killed, and ends
its workers, which end with it in any case.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.queues import SimpleQueue
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from pathlib import Path
from traceback import format_exception
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from polyref.errors import PolyrefError, UsageError
from polyref.progress import Advance, in_hand, telling

T = TypeVar("T")
R = TypeVar("R")

#: Pieces of work that wait for every process, so that none of them runs dry.
_AHEAD: Final = 2
#: NumPy's library starts threads when it is loaded, which would keep the supervisor from being forked.
_ALONE: Final = {"OPENBLAS_NUM_THREADS": "1"}
#: Seconds between two looks at how far the workers have come.
_LOOK: Final = 0.2

# In a worker: what it computes with, where it reports progress (number of the work, units), and its own place.
_function: Callable[[Any], Any]
_reports: SimpleQueue[tuple[int, int]]
_place = 0


def available() -> int:
    """How many processes the machine can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def place() -> int:
    """Which of the processes of :class:`Processes` this is, from 0; 0 where it is none of them."""
    return _place


class Processes(Generic[T, R]):
    """A function in ``jobs`` processes.

    What it tells of its progress (:func:`polyref.progress.tell`) is told here, while a result is waited for.

    The processes start with the first piece of work, and end with :meth:`close`, with the program, or when the program
    is killed. The first is started afresh, not forked. It does not read the script that is run, so that needs no
    ``if __name__ == "__main__":``, unless ``build`` holds something that is defined in it.

    Args:
        build: Called once, or once in every process where building starts threads; gives the function. It can be
            pickled.
        jobs: Processes, 1 or more.
    """

    def __init__(self, build: Callable[[], Callable[[T], R]], jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"`jobs` is {jobs}, expected 1 or more processes")
        self.jobs = jobs
        self._build = build
        self._reports: SimpleQueue[tuple[int, int]]
        self._numbers = count()
        self._line: Connection | None = None
        self._asked: dict[int, Future[R]] = {}
        self._numbers_of: dict[Future[R], int] = {}
        self._listeners: dict[int, Advance] = {}

    def submit(self, work: T, advance: Advance | None = None) -> Future[R]:
        """Put a piece of work in the queue; ``advance`` (or the work in hand now) is told how far it has come."""
        if self._line is None:
            self._line = self._start()
        packed = bytes(ForkingPickler.dumps(work))
        number, future = next(self._numbers), Future[R]()
        self._asked[number], self._numbers_of[future] = future, number
        self._listeners[number] = advance or in_hand()
        try:
            self._line.send((number, packed))
        except BrokenPipeError as error:
            if self._asked.pop(number, None):
                _settle(future, False, error)
        return future

    def _start(self) -> Connection:
        context = get_context("spawn")
        self._reports = context.SimpleQueue()
        (orders, line), (results, answers) = Pipe(duplex=False), Pipe(duplex=False)
        supervisor = context.Process(target=_supervise, args=(self._build, self.jobs, self._reports, orders, answers))
        with _environment(_ALONE), _without_script(self._build):
            supervisor.start()
        orders.close()
        answers.close()
        threading.Thread(target=_receive, args=(results, self._asked), daemon=True).start()
        # Before the program waits for its processes at its end.
        self._hang_up = Finalize(self, line.close, exitpriority=10)
        return line

    def result(self, future: Future[R]) -> R:
        """The result of a piece of work, when it is there."""
        try:
            while not wait_for([future], _LOOK).done:
                self._pass_on_reports()
            self._pass_on_reports()
            del self._listeners[self._numbers_of.pop(future)]
            return future.result()
        except (BrokenProcessPool, BrokenPipeError):
            self.close()
            raise PolyrefError(
                "a process that computes was ended from outside", remedy="give it more memory, or use fewer: `jobs`"
            ) from None

    def _pass_on_reports(self) -> None:
        while not self._reports.empty():
            number, more = self._reports.get()
            self._listeners[number](more)

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
        """End the processes, and the work that they do."""
        if self._line is not None:
            self._hang_up()
            self._line, self._asked = None, {}

    def __enter__(self) -> Processes[T, R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The environment with these values, which the user's own go before; as it was afterwards."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


@contextmanager
def _without_script(build: Callable[..., Any]) -> Iterator[None]:
    """A process that is started here does not run the script of this one again, unless ``build`` needs it."""
    script = vars(sys.modules["__main__"])
    needed = b"__main__" in bytes(ForkingPickler.dumps(build))
    places = [] if needed else ["__file__", "__spec__"]  # where multiprocessing looks for it
    before = {name: script[name] for name in places if name in script}
    script.update(dict.fromkeys(before))
    try:
        yield
    finally:
        script.update(before)


def _receive(results: Connection, asked: dict[int, Future[Any]]) -> None:
    """Take results from the supervisor until it ends; what is missing then has failed."""
    with results, suppress(EOFError, OSError):  # OSError: it ended within a message
        while True:
            number, answer = results.recv()
            _settle(asked.pop(number), *_unpacked(*answer))
    while asked:
        _settle(asked.popitem()[1], False, BrokenPipeError())


def _settle(future: Future[Any], done: bool, value: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if done:
        future.set_result(value)
    else:
        future.set_exception(value)


def _packed(done: bool, value: Any) -> tuple[bool, bytes, str]:
    """What comes of a piece of work, as bytes: whether it was done, its result or its error, and where that was raised.

    Processes on the way hand it on as it is: only the program itself reads results and errors.
    """
    origin = "" if done else "".join(format_exception(value))
    try:
        return done, bytes(ForkingPickler.dumps(value)), origin
    except Exception as error:  # as pickles differ in what they raise
        return False, b"", origin or "".join(format_exception(error))


def _unpacked(done: bool, packed: bytes, origin: str) -> tuple[bool, Any]:
    """Whether the work was done, and its result or its error; one that cannot be pickled is told by its last line."""
    try:
        value = ForkingPickler.loads(packed) if packed else None
    except Exception as error:
        value = None
        origin = origin or "".join(format_exception(error))
        done = False
    if done:
        return True, value
    if not isinstance(value, BaseException):
        value = RuntimeError(origin.strip().rpartition("\n")[2])
    value.__cause__ = RuntimeError(origin)
    return False, value


def _supervise(
    build: Callable[[], Callable[[Any], Any]],
    jobs: int,
    reports: SimpleQueue[tuple[int, int]],
    orders: Connection,
    answers: Connection,
) -> None:
    """Build the function and fork the workers that use it, then hand on work and results until the orders end.

    A process with several threads cannot be forked safely. If building starts some (a GPU, a library with threads of
    its own), every worker is started afresh and builds for itself.
    """
    # Ctrl-C reaches the whole group: the program that started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _function
    try:
        _function = build()
    except BaseException as error:
        to_all = _packed(False, error)
        with suppress(EOFError, OSError):
            while True:
                answers.send((orders.recv()[0], to_all))
        return
    places = get_context("spawn").SimpleQueue()
    for number in range(jobs):
        places.put(number)
    if _forkable():
        pool = ProcessPoolExecutor(jobs, get_context("fork"), _start_worker, (None, reports, places))
    else:
        del _function
        gc.collect()
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start_worker, (build, reports, places))
    speaking = threading.Lock()

    def answer(number: int, future: Future[Any]) -> None:
        failed = future.exception()
        with speaking, suppress(OSError):
            answers.send((number, _packed(False, failed) if failed else future.result()))

    with suppress(EOFError):
        while True:
            number, packed = orders.recv()
            try:
                future = pool.submit(_done, number, packed)
            except BrokenProcessPool as broken:
                future = Future()
                future.set_exception(broken)
            future.add_done_callback(partial(answer, number))
    for process in active_children():  # whatever they do
        process.terminate()
    pool.shutdown()


def _forkable() -> bool:
    """Whether this process has one thread."""
    threads = Path("/proc/self/task")
    return sys.platform == "linux" and threads.exists() and len(list(threads.iterdir())) == 1


def _start_worker(
    build: Callable[[], Callable[[Any], Any]] | None, reports: SimpleQueue[tuple[int, int]], places: SimpleQueue[int]
) -> None:
    global _function, _reports, _place
    _reports, _place = reports, places.get()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if build is not None:
        try:
            _function = build()
        except BaseException as error:
            _function = partial(_fail, error)


def _end_with_parent() -> None:
    """A killed program cannot end its processes."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        signal.raise_signal(signal.SIGTERM)


def _fail(error: BaseException, work: Any) -> Any:
    raise error


def _done(number: int, packed: bytes) -> tuple[bool, bytes, str]:
    try:
        with telling(lambda more: _reports.put((number, more))):
            return _packed(True, _function(ForkingPickler.loads(packed)))
    except BaseException as error:
        return _packed(False, error)
