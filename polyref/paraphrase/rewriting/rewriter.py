"""Paraphrases by a language model: what is asked, how long, and what is kept of the answers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final

from polyref.chat.answers import Answer, Answers, identity
from polyref.chat.asking import Asker, ChatModel, Patience, StoppedError, plain
from polyref.errors import UsageError
from polyref.paraphrase.decoding import Decoding, in_full
from polyref.paraphrase.paraphraser import Hypothesis, NBest, Paraphraser
from polyref.paraphrase.rewriting.answers import rewrites_in
from polyref.paraphrase.rewriting.checks import Checks
from polyref.paraphrase.rewriting.options import RewritingOptions, TextInContext, in_context
from polyref.paraphrase.rewriting.requests import KEEP, PROMPTS, TRANSLATE, Requests, RewriteRequest, load_prompt
from polyref.progress import work

#: Texts read ahead for every request at a time.
_AHEAD: Final = 4
#: A text of no consequence: it shows whether the server takes such requests, where it refuses that of the first text.
_FIRST: Final = "The committee will meet again on Friday."


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
        self.asker = Asker(chat, answers, retries=options.retries, seed=options.seed, body=options.body)
        self._chat, self._options = chat, options
        self._runs: dict[ThreadPoolExecutor, Patience] = {}
        self._closed = False
        bare = [
            message["content"]
            for k in (None, 2)
            for message in prompt.messages(TextInContext(""), k, language, source_language)
        ]
        self._checks = Checks([*bare, prompt.repair, KEEP], language, source_language)
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
        first, plainly = (self.requests.first(in_context(one), n)[0] for one, n in ((text, k), (_FIRST, 1)))
        answer = self.asker.begin(first, plainly, self._patience())
        self._known = True
        self._introduce(identity(self._chat.model, [answer]))

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
        patience = self.asker.patience()
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
            answer = self.asker.ask(request, patience)
            fault = self._judge(request, answer, kept)
            if fault is not None and answer.failure is None:
                self.answers.count(repairs=1)
                said = answer.content or answer.refusal or "(nothing)"
                again = self.requests.repair(request, said, fault)
                fault = self._judge(again, self.asker.ask(again, patience), kept)
            if fault is not None:
                faults[fault] += 1
        failure = None if kept else faults.most_common(1)[0][0]
        return NBest(str(text), tuple(map(Hypothesis, kept[:k])), failure=failure)

    def _judge(self, request: RewriteRequest, answer: Answer, kept: list[str]) -> str | None:
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
