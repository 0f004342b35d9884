"""Work as a Ray Data pipeline: pieces in, a pool of actors, results out in order.

Everything but the order of the results and the errors of polyref is Ray's own: where actors run, how many there are,
how much is under way at a time, and what happens when a worker or a node dies (its pieces are done again by another).
A piece gives the same result wherever and however often it is done, so none of that can be seen in the results.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from polyref.errors import PolyrefError, UsageError

T = TypeVar("T")
R = TypeVar("R")

#: Names of the columns of the pieces and of the results.
_PIECE: Final = "piece"
_RESULT: Final = "result"
#: What Ray reads when it starts, where the user has not decided otherwise: it reports no usage to its makers, and does
#: not print what it writes into its logs.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
#: Seconds to wait for a cluster to answer.
_PATIENCE: Final = 10.0
#: What workers read when they load torch: oneDNN keeps fewer compiled products, as in polyref's commands.
_ENVIRONMENT: Final = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32"}


class RayWorkers(Generic[T, R]):
    """A function, built once in every actor of a Ray Data pipeline; the rest is as an ``Engine`` says it."""

    def __init__(
        self, build: Callable[[], Callable[[T], R]], *, jobs: int | None, address: str | None, gpus: float
    ) -> None:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise UsageError(f"Ray cannot be imported: {error}", remedy="pip install 'ray[data]'") from None
        self._build, self._jobs, self._address, self._gpus = build, jobs, address, gpus
        self._ray: Any = ray

    def map(self, work: Iterable[T]) -> Iterator[R]:
        """The results of all pieces of work, in order. All are in Ray's object store before the first is done."""
        # Closed at once after an error too, not when its traceback is gone: actors hold a part of the cluster.
        with closing(self._outcomes(work)) as found:
            while True:
                try:
                    outcome = next(found, None)
                except self._ray.exceptions.UserCodeException:
                    raise  # a fault of the program, with the traceback of the worker
                except self._ray.exceptions.RayError as error:
                    raise PolyrefError(
                        f"Ray gave up: {_written_lines(error)[-1]}",  # the end of what a worker says names the cause
                        remedy="every node needs polyref of the same version and the models; what is finished is kept",
                    ) from error
                if outcome is None:
                    return
                if isinstance(outcome, _Failure):
                    raise outcome.error
                yield outcome.result

    def close(self) -> None:
        """Nothing: actors end with their pipeline, and a cluster that was started here with the program."""

    def _outcomes(self, work: Iterable[T]) -> Generator[_Success | _Failure, None, None]:
        import pandas

        self._connect()
        data = self._ray.data
        context = data.DataContext.get_current().copy()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.enable_pandas_block = True  # columns of Python objects
        # A piece is a block of its own: it is what an actor is given at a time, and what is done again if that dies.
        pieces = [self._ray.put(pandas.DataFrame({_PIECE: pandas.Series([piece], dtype=object)})) for piece in work]
        if not pieces:
            return
        pool = data.ActorPoolStrategy(
            size=min(self._jobs, len(pieces)) if self._jobs else None,
            # One piece after the other, the next one at hand: what is first in order is finished first.
            max_concurrent_calls_per_actor=1,
            max_tasks_in_flight_per_actor=2,
        )
        with data.DataContext.current(context):
            results = data.from_pandas_refs(pieces).map_batches(
                _Actor,
                fn_constructor_args=(self._build,),
                batch_size=1,
                batch_format="pandas",
                compute=pool,
                num_cpus=1,
                num_gpus=self._gpus or None,
            )
            for block in results.iter_batches(batch_size=None, batch_format="pandas", prefetch_batches=0):
                yield from block[_RESULT]

    def _connect(self) -> None:
        """Connect to the cluster, unless the program has done so."""
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        if self._ray.is_initialized():
            return
        # Ray prints on stdout, where results go, what happens to workers and nodes; there is no option for it. Its logs
        # have it, too, and work that is lost for good is an error.
        self._ray._private.worker.print_worker_logs = lambda *what, **how: None
        where = "" if self._address is None else f" at {self._address}"
        try:
            _check_reachable(self._address)
            with _silent_start():
                self._ray.init(
                    self._address,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    runtime_env={"env_vars": _ENVIRONMENT},
                )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise PolyrefError(
                f"no Ray cluster can be reached or started{where}: {_written_lines(error)[0]}",
                remedy="`address` is auto on a node of the cluster, else the HOST:PORT that `ray start --head` says",
            ) from None


@dataclass
class _Success:
    result: Any


@dataclass
class _Failure:
    error: PolyrefError


class _Actor:
    """Builds its function with the first piece of work: what goes wrong then is told as well."""

    def __init__(self, build: Callable[[], Callable[[Any], Any]]) -> None:
        self._build = build
        self._function: Callable[[Any], Any] | None = None

    def __call__(self, batch: Any) -> Any:
        import pandas

        outcomes = pandas.Series([self._done(piece) for piece in batch[_PIECE]], dtype=object)
        return pandas.DataFrame({_RESULT: outcomes})

    def _done(self, piece: Any) -> _Success | _Failure:
        try:
            if self._function is None:
                self._function = self._build()
            return _Success(self._function(piece))
        except PolyrefError as error:
            return _Failure(error)


@contextmanager
def _silent_start() -> Iterator[None]:
    """Leave out of stderr that Ray took its level of logging from ``_QUIET``, which its C++ says whatever the level."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            said.seek(0)
            for line in said:
                if b"RAY_BACKEND_LOG_LEVEL" not in line:
                    os.write(2, line)


def _check_reachable(address: str | None) -> None:
    """Ray waits a quarter of an hour for a cluster that is not there."""
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.removeprefix("ray://").strip("[]"), int(port)), timeout=_PATIENCE).close()


def _written_lines(error: Exception) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
