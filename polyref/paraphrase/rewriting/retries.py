"""Patience with a server: what is tried again, when, and when it makes no sense to go on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import thread
from typing import Final, TypeVar

from polyref.errors import ModelError

T = TypeVar("T")

#: Seconds before the second try, doubled before each further one; and the longest wait of polyref's own choice.
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
#: A server that asks for more seconds than this is to be asked on another day.
_MOST_PATIENCE: Final = 900.0
#: So many requests in a row without an answer: the server is gone.
_GONE: Final = 16


class TransientError(Exception):
    """No answer, but the next try may get one.

    Args:
        reason: In a few words.
        after: Seconds that the server asks to wait.
        fatal: What to tell the user if no try succeeds; None where only this request fails.
    """

    def __init__(self, reason: str, after: float | None = None, fatal: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after
        self.fatal = fatal


class GivenUpError(Exception):
    """No answer to this request.

    Args:
        reason: Why, in a few words.
        said: What the server said about it.
    """

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(f"{reason}: {said}" if said else reason)
        self.reason = reason
        self.said = said


class RefusedError(GivenUpError):
    """The server does not take the request as it is.

    Args:
        reason: As of :class:`GivenUpError`.
        said: As there.
        named: The names in what it said; some may be of parts of the request.
    """

    def __init__(self, reason: str, said: str, named: Sequence[str] = ()) -> None:
        super().__init__(reason, said)
        self.named = named


class StoppedError(Exception):
    """The run ends: what this request would get is not known."""


class Patience:
    """Tries again, with waits that double and vary; one for all threads of a run.

    Args:
        retries: How often a request is sent again.
        seed: Of the variation of waits.
    """

    def __init__(self, retries: int, seed: int) -> None:
        self._retries = retries
        self._seed = seed
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        #: What ended the run early.
        self.reason: Exception | None = None
        self._not_before = 0.0
        self._in_a_row = 0

    def insist(self, call: Callable[[], T], key: str, retried: Callable[[], object] = lambda: None) -> T:
        """What ``call`` returns, at the first try that does.

        Args:
            call: Raises :class:`TransientError` where another try may help, anything else where not.
            key: Of the request; waits depend on it, so that requests that fail together do not come back together.
            retried: Called before every further try.
        """
        for attempt in range(self._retries + 1):
            self._wait_for_the_others()
            try:
                found = call()
            except TransientError as error:
                if error.after is not None and error.after > _MOST_PATIENCE:
                    raise ModelError(
                        f"the server asks to wait {error.after:.0f} seconds ({error.reason})",
                        remedy="repeat the command then: no answer is lost",
                    ) from None
                if attempt == self._retries:
                    self._note_failure(error)
                    raise GivenUpError(error.reason) from None
                self._pause(error.after, self.wait(key, attempt))
                retried()
            else:
                with self._lock:
                    self._in_a_row = 0
                return found
        raise AssertionError("unreachable")

    def wait(self, key: str, attempt: int) -> float:
        """Seconds before the try after ``attempt``: half to one and a half times the doubled wait."""
        varied = 0.5 + random.Random(f"{self._seed}/{key}/{attempt}").random()
        return min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT) * varied

    def stop(self, reason: Exception | None = None) -> None:
        """End all waits and tries; the first reason counts."""
        with self._lock:
            self.reason = self.reason or reason
        self._stopped.set()

    def _wait_for_the_others(self) -> None:
        """Nobody asks while the server wants no requests."""
        while (left := self._not_before - time.monotonic()) > 0 and not self._stopped.is_set():
            self._stopped.wait(left)
        # A program that ends waits for its pools of threads until their work is done, and stops nothing.
        if self._stopped.is_set() or getattr(thread, "_shutdown", False):
            raise StoppedError

    def _pause(self, asked: float | None, own: float) -> None:
        if asked is not None:
            with self._lock:
                self._not_before = max(self._not_before, time.monotonic() + asked)
        self._stopped.wait(max(own, asked or 0.0))

    def _note_failure(self, error: TransientError) -> None:
        if error.fatal is not None:
            raise ModelError(error.fatal, remedy="repeat the command when it is there: no answer is lost") from None
        with self._lock:
            self._in_a_row += 1
            gone = self._in_a_row >= _GONE
        if gone:
            raise ModelError(
                f"the server did not answer the last {_GONE} requests ({error.reason})",
                remedy="repeat the command with `retry_failed` when it does: no answer is lost",
            ) from None
