"""How long a server is asked again: failures in a row, and waits that it asks for. No test waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from chat_server import ChatServer

from polyref.chat import asking, server
from polyref.chat.asking import GivenUpError, Patience, TransientError
from polyref.chat.server import Server
from polyref.errors import ModelError

#: Of seconds since 1970: Friday, 13 February 2009, 23:31:30 GMT.
NOW = 1234567890.0


def _fails(after: float | None = None) -> str:
    raise TransientError("server error 500", after=after)


def test_only_failures_in_a_row_end_a_run() -> None:
    patience = Patience(0, 0)
    for _ in range(3):
        for _ in range(15):
            with pytest.raises(GivenUpError, match="server error 500"):
                patience.insist(_fails, "key")
        assert patience.insist(lambda: "an answer", "key") == "an answer"
    for _ in range(15):
        with pytest.raises(GivenUpError):
            patience.insist(_fails, "key")
    with pytest.raises(ModelError, match=r"did not answer the last 16 requests \(server error 500\)"):
        patience.insist(_fails, "key")


def test_a_failure_counts_when_its_last_try_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_FIRST_WAIT", 0.0)
    patience = Patience(2, 0)
    tries = 0

    def call() -> str:
        nonlocal tries
        tries += 1
        return _fails()

    for _ in range(15):
        with pytest.raises(GivenUpError):
            patience.insist(call, "key")
    assert tries == 45
    with pytest.raises(ModelError, match="the last 16 requests"):
        patience.insist(_fails, "key")


class _Clock:
    """Time that passes in waits alone, and an event that is waited for; meanwhile another thread may do something."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.meanwhile: Callable[[], object] | None = None

    def monotonic(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        self.now = max(self.now, end)


@pytest.mark.parametrize("seconds", [30.0, 0.8])
def test_the_other_threads_wait_too_where_the_server_asks_for_it(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock()
    monkeypatch.setattr(asking, "time", clock)
    monkeypatch.setattr(asking, "threading", SimpleNamespace(Lock=threading.Lock, Event=lambda: clock))
    patience = Patience(1, 0)
    asked: dict[str, list[float]] = {"one": [], "other": []}

    def call(name: str, after: float | None) -> str:
        asked[name].append(clock.now - 1000)
        return _fails(after) if name == "one" and len(asked[name]) == 1 else name

    # While the first one waits, the other comes.
    clock.meanwhile = lambda: patience.insist(lambda: call("other", None), "other")
    assert patience.insist(lambda: call("one", seconds), "one") == "one"
    assert asked == {"one": [0, pytest.approx(seconds)], "other": [pytest.approx(seconds)]}
    # What polyref waits of its own choice is its own affair.
    asked.update(one=[], other=[])
    clock.now = 1000.0 + 60
    clock.meanwhile = lambda: patience.insist(lambda: call("other", None), "other")
    assert patience.insist(lambda: call("one", None), "one") == "one"
    assert asked["one"] == pytest.approx([60, 60 + patience.wait("one", 0)]) and asked["other"] == [60]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250.5"}, 0.2505),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "1500", "retry-after": "3"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "Fri, 13 Feb 2009 23:33:00 GMT"}, 90.0),
        ({"retry-after": "Fri, 13 Feb 2009 23:31:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_what_a_server_says_of_waiting(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], seconds: float | None
) -> None:
    monkeypatch.setattr(server, "time", SimpleNamespace(time=lambda: NOW))
    found = server._retry_after(headers)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_a_rate_limit_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    body = {"model": "tiny", "messages": [{"role": "user", "content": "> It is late."}]}
    for trouble, after in (("429", 0.05), ("503", None)):
        with ChatServer(lambda *about, trouble=trouble: trouble).running() as url:  # type: ignore[misc]
            asked = Server("tiny", url)
            with pytest.raises(TransientError) as caught:
                asked.answer(body)
            asked.close()
        assert caught.value.after == after
