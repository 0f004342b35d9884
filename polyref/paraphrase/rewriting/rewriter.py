"""Paraphrases by a language model: what is asked, how long, and what is kept of the answers."""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, thread
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from polyref.errors import ModelError, UsageError
from polyref.paraphrase.decoding import Decoding, in_full
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.rewriting.answers import Answer, Answers, identity, rewrites_in
from polyref.paraphrase.rewriting.checks import Checks
from polyref.paraphrase.rewriting.options import RewritingOptions, TextInContext, in_context
from polyref.paraphrase.rewriting.requests import KEEP, PROMPTS, TRANSLATE, Request, Requests, load_prompt
from polyref.progress import work

T = TypeVar("T")

#: Seconds before the second try, doubled before each further one; and the longest wait of polyref's own choice.
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0
#: A server that asks for more seconds than this is to be asked on another day.
_MOST_PATIENCE: Final = 900.0
#: So many requests in a row without an answer: the server is gone.
_GONE: Final = 16


class TransientError(Exception):
    """No answer, but the next try may get one; ``after`` so many seconds, where the server asks for them.

    If no try succeeds the user is told ``fatal``; without it only this request fails.
    """

    def __init__(self, reason: str, after: float | None = None, fatal: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after, self.fatal = reason, after, fatal


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


#: Texts read ahead for every request at a time.
_AHEAD: Final = 4
#: Parts of a request that it can do without, where the server refuses them and the user did not ask for them in `body`.
_OPTIONAL: Final = ("temperature", "seed", "max_tokens", "response_format")
#: What may mend requests that a server refuses.
CHANGES: Final = '`body` changes or takes out parts of requests, such as {"NAME": null}'
#: A text of no consequence: it shows whether the server takes such requests, where it refuses that of the first text.
_FIRST: Final = "The committee will meet again on Friday."


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


class Rewriter(Paraphraser):
    """Paraphrases by a language model.

    ``known`` is what is known of the model, for the signature; None where it says so itself, with its first answer.
    """

    need = "good-writer"
    keeps_markup = True

    def __init__(
        self,
        kind: str,
        chat: ChatModel,
        known: Iterable[str] | None,
        options: RewritingOptions,
        answers: Answers,
        language: str | None,
        source_language: str | None = None,
    ) -> None:
        prompt = load_prompt(_prompt_name(options.prompt, translating=source_language is not None))
        self.answers = answers
        self.requests = Requests(chat.model, prompt, options, language, source_language)
        self._chat, self._options = chat, options
        #: Parts of requests that the server refused in the first one: they are left out of all.
        self.without: tuple[str, ...] = ()
        self._runs: dict[ThreadPoolExecutor, Patience] = {}
        self._closed = False
        bare = [
            message["content"]
            for k in (None, 2)
            for message in prompt.messages(TextInContext(""), k, language, source_language)
        ]
        self._checks = Checks([*bare, prompt.repair, KEEP], language, source_language)
        self._fingerprint: str | None = None
        #: Requests that nobody could answer, by their keys, in the order of the texts.
        self.unanswered: dict[str, Request] = {}
        #: What the server said of a request that failed; "" where it said nothing.
        self.said = ""
        self.name = f"{kind}:{chat.model}"
        said = {
            "prompt": f"{prompt.name}:{prompt.digest}",
            "temperature": in_full(self.requests.temperature),
            "seed": str(options.seed),
            "max_tokens": options.max_tokens,
            "body": _digest(options.body),
            "context": options.context or None,
            "source": options.source,
            "lang": language,
            "from": source_language,
        }
        self._settings = [f"{name}:{value}" for name, value in said.items() if value is not None]
        self._known = known is not None
        self._introduce(known or ())
        what = "rewriting" if source_language is None else "translating"
        self.procedure = f"{what}({prompt.name},{options.form})"

    def _introduce(self, known: Iterable[str]) -> None:
        self.signature = "|".join(map(plain, (self.name, *known, *self._settings)))

    def prepare(self, texts: Iterable[str], k: int) -> None:
        """The server says who it is, and whether it takes such requests, before other work."""
        if self._known or (text := next((text for text in texts if text.strip()), None)) is None:
            return
        patience = self._patience()
        try:
            answer = self._first_answer(self.requests.first(in_context(text), k)[0], patience)
            if answer.failure is not None:  # it may be the text's fault
                answer = self._first_answer(self.requests.first(in_context(_FIRST), 1)[0], patience, last=True)
        except GivenUpError as error:
            remedy = CHANGES if isinstance(error, RefusedError) else None
            raise ModelError(f"the first request got no answer: {error}", remedy=remedy) from None
        self._known = True
        self._fingerprint = answer.fingerprint
        self.without = tuple(answer.without.split(",")) if answer.without else ()
        self._introduce(identity(self._chat.model, [answer]))

    def _first_answer(self, request: Request, patience: Patience, *, last: bool = False) -> Answer:
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

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """Requests of several texts run at a time; lists come in the order of the texts."""
        total = len(texts) if isinstance(texts, list | tuple) else 0
        pool, patience = ThreadPoolExecutor(self._options.concurrency, "polyref-rewriting"), self._patience()
        self._runs[pool] = patience
        waiting: deque[tuple[tuple[object, ...], Future[NBest]]] = deque()
        running: dict[tuple[object, ...], Future[NBest]] = {}
        rest = iter(texts)

        def fill() -> None:
            if pool not in self._runs:
                raise self._was_closed()
            while len(waiting) < _AHEAD * self._options.concurrency and (text := next(rest, None)) is not None:
                given = in_context(text)
                self.prepare([given], k)  # alone: what it finds out holds for the others
                # The same text in the same place is asked for once.
                same = (str(given), given.source, given.before, given.after)
                if same not in running:
                    running[same] = pool.submit(self._rewritten, given, k, patience)
                waiting.append((same, running[same]))

        with work("rewriting", "texts", total, progress=progress) as advance:
            try:
                fill()
                while waiting:
                    same, future = waiting[0]
                    try:
                        found = future.result()
                    except (StoppedError, CancelledError):
                        raise patience.reason or self._was_closed() from None
                    yield found
                    waiting.popleft()
                    if all(other != same for other, _ in waiting):
                        del running[same]
                    advance(1)
                    fill()
            finally:
                # Whoever stops early: what is under way is finished and kept, nothing new is begun.
                self._end(pool)

    def close(self) -> None:
        """Ask nothing more, keep what is under way, and close the file of answers; what was answered is still known."""
        self._closed = True
        for pool in list(self._runs):
            self._end(pool)
        self.answers.close()

    def _was_closed(self) -> UsageError:
        return UsageError(f"{self.name} was closed and asks nothing more", remedy="load it anew: no answer is lost")

    def _end(self, pool: ThreadPoolExecutor) -> None:
        if (patience := self._runs.pop(pool, None)) is not None:
            patience.stop()
        pool.shutdown(wait=True, cancel_futures=True)

    def _patience(self) -> Patience:
        patience = Patience(self._options.retries, self._options.seed)
        if self._closed:
            patience.stop()
        return patience

    def _rewritten(self, text: TextInContext, k: int, patience: Patience) -> NBest:
        """What one thread does; what ends the run ends it for the other threads at once."""
        try:
            return self.rewrite(text, k, patience)
        except StoppedError:
            raise
        except Exception as error:
            patience.stop(error)
            raise

    def rewrite(self, text: TextInContext, k: int, patience: Patience | None = None) -> NBest:
        """Up to ``k`` rewrites of one text; without any, the reason."""
        if not text.strip():
            return NBest(str(text), ())
        patience = patience or self._patience()
        kept: list[str] = []
        faults: Counter[str] = Counter()
        for request in self.requests.first(text, k):
            if not request.sendable:
                return NBest(str(text), (), failure="half of a surrogate pair cannot be sent")
            answer = self.ask(request, patience)
            fault = self._judge(request, answer, kept)
            if fault is not None and answer.failure is None:
                self.answers.count(repairs=1)
                said = answer.content or answer.refusal or "(nothing)"
                again = self.requests.repair(request, said, fault)
                fault = self._judge(again, self.ask(again, patience), kept)
            if fault is not None:
                faults[fault] += 1
        failure = None if kept else faults.most_common(1)[0][0]
        return NBest(str(text), tuple(map(Hypothesis, kept[:k])), failure=failure)

    def _judge(self, request: Request, answer: Answer, kept: list[str]) -> str | None:
        """Add the rewrites of an answer to ``kept``; the fault of one without any, which a second request may mend."""
        if answer.failure is not None:
            self.said = self.said or answer.content
            return answer.failure
        found, fault = rewrites_in(answer, request.wanted, listed=request.listed)
        good, faults = self._checks.sort(request.text, found, kept)
        kept += good
        # An answer that is partly good is good: it was paid for, and another one would be paid for at full size.
        if good:
            return None
        return Counter(faults).most_common(1)[0][0] if faults else fault

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
                optional = [name for name in _OPTIONAL if name in body and name not in self._options.body]
                if (refused := next((name for name in error.named if name in optional), None)) is None:
                    raise
                without.append(refused)
            else:
                return replace(answer, without=",".join(without)) if without else answer


def _prompt_name(name: str, *, translating: bool) -> str:
    """The prompt that is meant: where none is named, that of the task."""
    if translating and name == RewritingOptions.prompt:
        return TRANSLATE
    if name in (PROMPTS if translating else (TRANSLATE,)):
        what = "translations" if name == TRANSLATE else "rewrites of references"
        raise UsageError(f"`prompt` is {name}, which asks for {what}", remedy="leave it out")
    return name


def _digest(body: Mapping[str, Any]) -> str | None:
    if not body:
        return None
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def plain(text: str) -> str:
    """What a server or a user named, for signatures: their own signs are left to polyref."""
    return re.sub(r"[^\w.:/@+,-]", "_", text)[:120]
