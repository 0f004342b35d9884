"""Rewriting as a generator: texts become requests, answers become checked rewrites."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final, Protocol

from polyref.errors import ModelError
from polyref.paraphrase.diverse_beam import Decoding
from polyref.paraphrase.nbest import Hypothesis, NBest
from polyref.paraphrase.paraphraser import Paraphraser
from polyref.paraphrase.rewriting.answers import Answer, rewrites_in
from polyref.paraphrase.rewriting.checks import Checks
from polyref.paraphrase.rewriting.context import TextInContext, in_context
from polyref.paraphrase.rewriting.journal import Answers, identity
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.paraphrase.rewriting.prompts import load_prompt
from polyref.paraphrase.rewriting.requests import Request, Requests
from polyref.paraphrase.rewriting.retries import GivenUpError, Patience
from polyref.paraphrase.search.options import in_full
from polyref.progress import work

#: Texts read ahead for every request at a time.
_AHEAD: Final = 4
#: A text of no consequence: the first request of a run shows that the server takes such requests, and what it is.
_FIRST: Final = TextInContext("The committee will meet again on Friday.")


class ChatModel(Protocol):
    """What answers: a server, a model of this machine, or nobody."""

    model: str

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The answer to a request; see :class:`~polyref.paraphrase.rewriting.server.Server` for what is raised."""


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

    Args:
        kind: Name of the generator.
        chat: Who answers.
        known: What is known of the model, for the signature.
        options: What is asked for, and how.
        answers: Where the answers are kept.
        language: Code of the language to write; None for that of each text.

    Attributes:
        answers: As given; ``answers.usage`` counts requests and tokens.
    """

    def __init__(
        self,
        kind: str,
        chat: ChatModel,
        known: Iterable[str],
        options: RewritingOptions,
        answers: Answers,
        language: str | None,
    ) -> None:
        prompt = load_prompt(options.prompt)
        self.answers = answers
        self.requests = Requests(chat.model, prompt, options, language)
        self._chat = chat
        self._options = options
        self._patience = Patience(options.retries, options.seed)
        bare = [message["content"] for k in (None, 2) for message in prompt.messages(TextInContext(""), k, language)]
        self._checks = Checks([*bare, prompt.repair], language)
        self._fingerprint: str | None = None
        #: Requests that nobody could answer, by their keys, in the order of the texts.
        self.unanswered: dict[str, Request] = {}
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
        }
        self._settings = [f"{name}:{value}" for name, value in said.items() if value is not None]
        self._introduce(known)
        self.procedure = f"rewriting({prompt.name},{options.form})"

    def _introduce(self, known: Iterable[str]) -> None:
        self.signature = "|".join(map(plain, (self.name, *known, *self._settings)))

    def greet(self) -> None:
        """Ask a first time: the server says who it is, and whether it takes such requests, before any work."""
        request = self.requests.first(_FIRST, 1)[0]
        answer = self.answers.get(request.key)
        if answer is None or answer.failure is not None:
            try:
                answer = self._insist(request)
            except GivenUpError as error:
                raise ModelError(f"the first request got no answer: {error}") from None
            self.answers.add(request.key, answer)
        self._fingerprint = answer.fingerprint
        self._introduce(identity(self._chat.model, [answer]))

    def generate(
        self, texts: Iterable[str], k: int, *, decoding: Decoding | None = None, progress: bool = False
    ) -> Iterator[NBest]:
        """See :class:`Paraphraser`. Requests of several texts run at a time; lists come in the order of the texts."""
        total = len(texts) if isinstance(texts, list | tuple) else 0
        pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="polyref-rewriting")
        waiting: deque[tuple[tuple[object, ...], Future[NBest]]] = deque()
        running: dict[tuple[object, ...], Future[NBest]] = {}
        same: tuple[object, ...]
        rest = iter(texts)
        hearing = ExitStack()
        advance = hearing.enter_context(work("rewriting", "texts", total, progress=progress))
        try:
            while True:
                while len(waiting) < _AHEAD * self._options.concurrency:
                    text = next(rest, None)
                    if text is None:
                        break
                    given = in_context(text)
                    # The same text in the same place is asked for once.
                    same = (str(given), given.source, given.before, given.after)
                    if same not in running:
                        running[same] = pool.submit(self.rewrite, given, k)
                    waiting.append((same, running[same]))
                if not waiting:
                    break
                same, future = waiting[0]
                yield future.result()
                waiting.popleft()
                if all(other != same for other, _ in waiting):
                    del running[same]
                advance(1)
        finally:
            if waiting:  # somebody stops early: what is under way is finished and kept, nothing new is begun
                patience, self._patience = self._patience, Patience(self._options.retries, self._options.seed)
                patience.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            hearing.close()

    def close(self) -> None:
        """Close the file of answers; what was answered is still known."""
        self.answers.close()

    def rewrite(self, text: TextInContext, k: int) -> NBest:
        """Up to ``k`` rewrites of one text; without any, the reason."""
        if not text.strip():
            return NBest(str(text), ())
        kept: list[str] = []
        faults: Counter[str] = Counter()
        for request in self.requests.first(text, k):
            answer = self.ask(request)
            fault = self._judge(request, answer, kept)
            if fault is not None and answer.failure is None:
                self.answers.count(repairs=1)
                said = answer.content or answer.refusal or "(nothing)"
                again = self.requests.repair(request, said, fault)
                fault = self._judge(again, self.ask(again), kept)
            if fault is not None:
                faults[fault] += 1
        failure = None if kept else faults.most_common(1)[0][0]
        return NBest(str(text), tuple(map(Hypothesis, kept[:k])), failure=failure)

    def _judge(self, request: Request, answer: Answer, kept: list[str]) -> str | None:
        """Add the rewrites of an answer to ``kept``; the fault of an answer that a second request may mend."""
        if answer.failure is not None:
            return answer.failure
        found, fault = rewrites_in(answer, request.wanted, listed=request.listed)
        good, faults = self._checks.sort(request.text, found, kept)
        kept += good
        # An answer that is half good is good: filters expect that candidates are lost.
        return Counter(faults).most_common(1)[0][0] if fault is None and faults and not good else fault

    def ask(self, request: Request) -> Answer:
        """The answer to a request: the one that is kept, or a new one, which is kept from now on."""
        known = self.answers.get(request.key)
        if known is not None:
            return known
        try:
            answer = self._insist(request)
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

    def _insist(self, request: Request) -> Answer:
        return self._patience.insist(
            lambda: self._chat.answer(request.body), request.key, lambda: self.answers.count(retries=1)
        )


def _digest(body: Mapping[str, Any]) -> str | None:
    if not body:
        return None
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def plain(text: str) -> str:
    """What a server or a user named, for signatures: their own signs are left to polyref."""
    return re.sub(r"[^\w.:/@+,-]", "_", text)[:120]
