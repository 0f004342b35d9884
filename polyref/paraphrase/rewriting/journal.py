"""The answers of a run, each on the disk before it is used: none is asked, or paid, for twice."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from polyref.paraphrase.rewriting.answers import Answer
from polyref.store import Journal

_SETTINGS: Final = {"answers of language models": 1}
#: What is kept of an answer (see :func:`polyref.json_files.misfit`).
_FIELDS: Final = {one.name: (int if isinstance(one.default, int) else str,) for one in fields(Answer)}
_RECORD: Final = {"key": str, "server": (str,), "answer": _FIELDS}


@dataclass
class Usage:
    """What was asked and answered.

    Attributes:
        requests: Requests that were answered, or given up, now.
        known: Requests whose answer was there before, each once.
        repairs: Second requests among both.
        retries: How often a request was sent again.
        failures: Requests without an answer among both.
        prompt_tokens: Tokens read for all answers that the file holds, of this run and of those before, and of batches.
        completion_tokens: Tokens written for them.
        other: New answers of a server that had changed meanwhile.
    """

    requests: int = 0
    known: int = 0
    repairs: int = 0
    retries: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    other: int = 0

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

    An answer holds for the server that gave it; one from a batch holds for any.

    Args:
        path: The file; None keeps them in memory alone.
        server: Address of the server; None for a batch, or for a model of this machine.
        retry_failed: Forget requests that the server did not answer.

    Attributes:
        usage: What this run asked for, and the tokens of all runs.
    """

    def __init__(self, path: str | Path | None, server: str | None = None, *, retry_failed: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self.usage = Usage()
        self._server = server
        self._lock = threading.Lock()
        self._known: dict[str, Answer] = {}
        self._met: set[str] = set()
        self._journal = None if path is None else Journal.open(path, _SETTINGS)
        remedy = "move the file away, or delete this line and all after it"
        for record in self._journal.records(_RECORD, remedy) if self._journal else ():
            values = {name: record["answer"].get(name) for name in _FIELDS}
            answer = Answer(**{name: value for name, value in values.items() if value is not None})
            key = record["key"]
            self._count_tokens(answer)
            if record.get("server") not in (None, server) and server is not None:
                continue
            if not (retry_failed and answer.failure is not None):
                self._known[key] = answer
            else:
                self._known.pop(key, None)

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
