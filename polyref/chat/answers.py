"""Answers, and where they are kept."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from polyref.json_files import TOO_LARGE
from polyref.store import Journal

#: What stands in the place of a key that a server repeats.
CROSSED_OUT: Final = "[key]"
#: Thoughts: where a template opens them, the answer holds their end alone; an answer may also break off in them.
_THOUGHT: Final = re.compile(r"\A(?:.*?</think(?:ing)?>|\s*<think(?:ing)?>.*)", re.DOTALL)
_HALF: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Answer:
    """What a model answered, or why there is no answer."""

    content: str = ""  # of a failure, what the server said
    refusal: str | None = None  # why the model refused
    finish: str = "stop"  # why it ended: stop, length, content_filter ...
    failure: str | None = None  # why there is no answer
    model: str | None = None  # as it names itself
    fingerprint: str | None = None  # what the server calls its state
    prompt_tokens: int = 0
    completion_tokens: int = 0
    without: str | None = None  # parts of the request that the server refused and that were left out, with commas

    def record(self) -> dict[str, Any]:
        """As plain values, without what is not said."""
        return {name: value for name, value in asdict(self).items() if value != getattr(Answer, name)}

    @property
    def said(self) -> str:
        """The content without thoughts before it."""
        return _THOUGHT.sub("", self.content).strip()


class NoAnswerError(ValueError):
    """A body that is no chat completion."""


def read_completion(body: Any) -> Answer:
    """The answer in a chat completion."""
    if not isinstance(body, Mapping):
        raise NoAnswerError("no JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise NoAnswerError("without choices")
    message = choices[0].get("message")
    if not isinstance(message, Mapping):
        raise NoAnswerError("without a message")
    usage = body.get("usage")
    return Answer(
        content=_text(message.get("content")) or "",
        refusal=_text(message.get("refusal")),
        finish=_text(choices[0].get("finish_reason")) or "stop",
        model=_text(body.get("model")),
        fingerprint=_text(body.get("system_fingerprint")),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _text(value: Any) -> str | None:
    return readable(value) if isinstance(value, str) and value else None


def readable(text: str) -> str:
    """What somebody sent, as it can be kept and shown: halves of surrogate pairs are no text."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", text)


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOO_LARGE else 0


_SETTINGS: Final = {"answers of language models": 1}
#: What is kept of an answer.
_FIELDS: Final = {one.name: (int if isinstance(one.default, int) else str,) for one in fields(Answer)}
_RECORD: Final = {"key": str, "server": (str,), "answer": _FIELDS}


@dataclass
class Usage:
    """What was asked and answered."""

    requests: int = 0  # answered, or given up, now
    known: int = 0  # whose answer was there before, each once
    repairs: int = 0  # second requests among both
    retries: int = 0  # how often a request was sent again
    failures: int = 0  # without an answer among both
    prompt_tokens: int = 0  # read for all answers that the file holds, of this run, of those before, and of batches
    completion_tokens: int = 0  # written for them
    other: int = 0  # new answers of a server that had changed meanwhile

    def cost(self, prices: tuple[float, float]) -> float:
        """What all these answers cost, at these prices of a million tokens read and written."""
        return (self.prompt_tokens * prices[0] + self.completion_tokens * prices[1]) / 1e6


def identity(model: str, answers: Iterable[Answer]) -> list[str]:
    """Models other than the one that was asked for, fingerprints and refused parts of requests, for a signature."""
    there = list(answers)
    found = {
        "model": {answer.model for answer in there if answer.model not in (None, model)},
        "fingerprint": {answer.fingerprint for answer in there if answer.fingerprint is not None},
        "without": {answer.without for answer in there if answer.without is not None},
    }
    return [f"{part}:{'+'.join(sorted(map(str, names)))}" for part, names in found.items() if names]


class Answers:
    """Answers by the keys of their requests, in memory and in a file. Threads may share it.

    An answer holds for the server that gave it; one from a batch, or of a model of this machine, holds for any.
    ``usage`` is what this run asked for, and the tokens of all runs.
    """

    def __init__(self, path: str | Path | None, server: str | None = None, *, retry_failed: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self.usage = Usage()
        self._server = server
        self._lock = threading.Lock()
        self._known: dict[str, Answer] = {}
        self._met: set[str] = set()
        self._journal = None if path is None else Journal.open(path, _SETTINGS, private=True)
        remedy = "move the file away, or delete this line and all after it"
        for record in self._journal.records(_RECORD, remedy) if self._journal else ():
            given = record["answer"]
            answer = Answer(**{name: given[name] for name in _FIELDS if given.get(name) is not None})
            self._count_tokens(answer)
            if server is not None and record.get("server") not in (None, server):
                continue
            self._known[record["key"]] = answer
            if retry_failed and answer.failure is not None:
                del self._known[record["key"]]

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Answer | None:
        """The answer to a request, if there is one."""
        with self._lock:
            found = self._known.get(key)
            if found is not None and key not in self._met:
                self._met.add(key)
                self.usage.known += 1
                self.usage.failures += found.failure is not None
            return found

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer that was just given, and wait until it is on the disk."""
        with self._lock:
            self._met.add(key)
            self.usage.requests += 1
            self.usage.failures += answer.failure is not None
            self._keep(key, answer, self._server)

    def identity(self, model: str) -> list[str]:
        """What the answers say of who gave them: models by other names, and fingerprints, for a signature."""
        return identity(model, self._known.values())

    def take_over(self, answers: Iterable[tuple[str, Answer]]) -> int:
        """Keep answers that come from elsewhere, where there is none yet; how many these were."""
        taken = 0
        with self._lock:
            for key, answer in answers:
                known = self._known.get(key)
                if known is None or (known.failure is not None and known != answer):
                    self._keep(key, answer, None)
                    taken += 1
        return taken

    def count(self, **more: int) -> None:
        """Count something in ``usage``."""
        with self._lock:
            self.usage = replace(
                self.usage, **{name: getattr(self.usage, name) + value for name, value in more.items()}
            )

    def _keep(self, key: str, answer: Answer, server: str | None) -> None:
        if self._journal is not None:
            about = {} if server is None else {"server": server}
            self._journal.append({"key": key, **about, "answer": answer.record()})
        self._known[key] = answer
        self._count_tokens(answer)

    def _count_tokens(self, answer: Answer) -> None:
        self.usage.prompt_tokens += answer.prompt_tokens
        self.usage.completion_tokens += answer.completion_tokens

    def close(self) -> None:
        """Close the file."""
        if self._journal is not None:
            self._journal.__exit__(None, None, None)
            self._journal = None

    def __del__(self) -> None:
        if hasattr(self, "_journal"):
            self.close()
