"""Asking: tries, waits, who answers, and what is said where nobody does."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import thread
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from polyref.chat.answers import Answer, Answers
from polyref.chat.requests import Request, check_body
from polyref.errors import ModelError, PolyrefWarning

T = TypeVar("T")

#: Seconds before the second try, doubled before each further one; and the longest wait of polyref's own choice.
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
#: A server that asks for more seconds than this is to be asked on another day.
_MOST_PATIENCE: Final = 900.0
#: So many requests in a row without an answer: the server is gone.
_GONE: Final = 16


#: Parts of a request that it can do without, where the server refuses them and the user did not ask for them in `body`.
_OPTIONAL: Final = ("temperature", "seed", "max_tokens", "response_format")
#: What may mend requests that a server refuses.
CHANGES: Final = '`body` changes or takes out parts of requests, such as {"NAME": null}'


class TransientError(Exception):
    """No answer, but the next try may get one; ``after`` so many seconds, where the server asks for them.

    If no try succeeds the user is told ``fatal``; without it only this request fails.
    """

    def __init__(self, reason: str, after: float | None = None, fatal: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after, self.fatal = reason, after, fatal


class UsageNote(PolyrefWarning):
    """What was asked and what it cost: for who uses the command line a note, no warning."""

    kind = "note"


class GivenUpError(Exception):
    """No answer to this request: why, in a few words, and what the server said about it."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(f"{reason}: {said}" if said else reason)
        self.reason, self.said = reason, said


class RefusedError(GivenUpError):
    """The server does not take the request as it is; some of the names in what it said may be of parts of it."""

    def __init__(self, reason: str, said: str, named: Sequence[str] = ()) -> None:
        super().__init__(reason, said)
        self.named = named


class StoppedError(Exception):
    """The run ends: what this request would get is not known."""


class Patience:
    """Tries again, with waits that double and vary; one for all threads of a run."""

    def __init__(self, retries: int, seed: int) -> None:
        self._retries, self._seed = retries, seed
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        #: What ended the run early.
        self.reason: Exception | None = None
        self._not_before = 0.0
        self._in_a_row = 0

    def insist(self, call: Callable[[], T], key: str, retried: Callable[[], object] = lambda: None) -> T:
        """What ``call`` returns, at the first try that raises no :class:`TransientError`.

        Waits depend on the key of the request, so that requests that fail together do not come back together.
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


class ChatModel(Protocol):
    """What answers: a server, a model of this machine, or nobody."""

    model: str

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The answer to a request, or one of the errors above."""


class Nobody:
    """Answers nothing: what is not known already fails."""

    def __init__(self, model: str) -> None:
        self.model = model

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Fails."""
        raise GivenUpError(UNANSWERED)


#: What fails where nobody can be asked. It is no answer, and is not kept as one.
UNANSWERED: Final = "not answered in the batch"


class Asker:
    """Asks a model: no request twice, patiently, and without the parts that it refuses.

    Attributes:
        answers: What it said, now and before.
        without: Parts of requests that the server refused in the first one: they are left out of all.
        unanswered: Requests that nobody could answer, by their keys, in the order of the texts.
    """

    def __init__(
        self, chat: ChatModel, answers: Answers, *, retries: int, seed: int, body: Mapping[str, Any] | None = None
    ) -> None:
        """``body`` are the parts of requests that the user asked for: they are never left out."""
        check_body(body or {})
        self.answers = answers
        self.without: tuple[str, ...] = ()
        self.unanswered: dict[str, Request] = {}
        self._chat, self._retries, self._seed, self._own = chat, retries, seed, body or {}
        self._fingerprint: str | None = None

    def patience(self) -> Patience:
        """For the threads of a run."""
        return Patience(self._retries, self._seed)

    def begin(self, first: Request, plain: Request, patience: Patience) -> Answer:
        """The first answer, before other work: it says who the model is, and what it takes.

        Where ``first`` fails it may be its text's fault, and ``plain`` is asked.
        """
        try:
            answer = self._first(first, patience)
            if answer.failure is not None:
                answer = self._first(plain, patience, last=True)
        except GivenUpError as error:
            remedy = CHANGES if isinstance(error, RefusedError) else None
            raise ModelError(f"the first request got no answer: {error}", remedy=remedy) from None
        self._fingerprint = answer.fingerprint
        self.without = tuple(answer.without.split(",")) if answer.without else ()
        return answer

    def report(self, prices: tuple[float, float] | None, said: str = "") -> Iterator[str]:
        """What was asked and what it cost; then warnings, with what the server ``said`` of a request that failed."""
        usage = self.answers.usage
        yield (
            f"{usage.requests} requests answered, {usage.known} known before, {usage.repairs} repairs, "
            f"{usage.retries} sent again, {usage.failures} failed; "
            f"in all runs {usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written"
            + (f", cost {round(usage.cost(prices), 6):.4f}" if prices else "")
        )
        if self.without:
            yield f"the server refuses {', '.join(self.without)}: requests were sent without"
        if said:
            yield f"of a request that failed the server says: {said} (--body changes requests)"
        if usage.other:
            yield f"the server changed meanwhile: {usage.other} answers have another system_fingerprint"

    def _first(self, request: Request, patience: Patience, *, last: bool = False) -> Answer:
        answer = self.answers.get(request.key) if request.sendable else Answer(failure="not sent")
        if answer is None or (last and answer.failure is not None):
            try:
                answer = self._insist(request, patience)
            except RefusedError as error:
                if last:
                    raise
                answer = Answer(error.said, failure=error.reason)
            self.answers.add(request.key, answer)
        return answer

    def ask(self, request: Request, patience: Patience) -> Answer:
        """The answer to a request: the one that is kept, or a new one, which is kept from now on."""
        known = self.answers.get(request.key)
        if known is not None:
            return known
        try:
            answer = self._insist(request, patience)
        except GivenUpError as error:
            answer = Answer(error.said, failure=error.reason)
            if error.reason == UNANSWERED:
                self.answers.count(failures=1)
                self.unanswered[request.key] = request
                return answer
        self.answers.add(request.key, answer)
        if self._fingerprint is not None and answer.failure is None and answer.fingerprint != self._fingerprint:
            self.answers.count(other=1)
        return answer

    def _insist(self, request: Request, patience: Patience) -> Answer:
        """An answer to the request, or to what is left of it when the server refuses parts by name."""
        without = [name for name in self.without if name in request.body]
        while True:
            body = {name: part for name, part in request.body.items() if name not in without}
            try:
                answer = patience.insist(
                    lambda body=body: self._chat.answer(body),  # type: ignore[misc]
                    request.key,
                    lambda: self.answers.count(retries=1),
                )
            except RefusedError as error:
                optional = [name for name in _OPTIONAL if name in body and name not in self._own]
                if (refused := next((name for name in error.named if name in optional), None)) is None:
                    raise
                without.append(refused)
            else:
                return replace(answer, without=",".join(without)) if without else answer


def plain(text: str) -> str:
    """What a server or a user named, for signatures: their own signs are left to polyref."""
    return re.sub(r"[^\w.:/@+,-]", "_", text)[:120]
