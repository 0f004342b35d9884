"""A server that means harm: answers without an end, and what it must not be told."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from chat_server import ChatServer

from polyref.chat.asking import TransientError
from polyref.chat.server import Server
from polyref.errors import UsageError

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
#: Bytes and seconds: far less than what the servers below would send, and than the time that they would take.
MOST = 32 << 20
SOON = 15.0


def _endless(start: bytes, piece: bytes, wait: float = 0.0) -> Callable[[socket.socket], int]:
    def answer(client: socket.socket) -> int:
        client.sendall(start)
        sent, end = 0, time.monotonic() + 2 * SOON
        while time.monotonic() < end and sent < 4 * MOST:
            client.sendall(piece)
            sent += len(piece)
            time.sleep(wait)
        return sent

    return answer


def _packed(status: bytes) -> Callable[[socket.socket], int]:
    content = gzip.compress(b"[" + b" " * (64 << 20))
    head = b"HTTP/1.1 %b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (status, len(content))

    def answer(client: socket.socket) -> int:
        client.sendall(head + content)
        return 0

    return answer


#: What is sent, and the reason that the request gets.
ANSWERS = {
    "error without an end": (_endless(b"HTTP/1.1 500 X\r\n\r\n", b" " * 65536), "broken answer"),
    "refusal without an end": (_endless(b"HTTP/1.1 401 X\r\n\r\n", b" " * 65536), "broken answer"),
    "slow error": (_endless(b"HTTP/1.1 500 X\r\n\r\n", b" ", 0.05), "timeout"),
    "slow answer": (_endless(b"HTTP/1.1 200 X\r\n\r\n", b" ", 0.05), "timeout"),
    "slow headers": (_endless(b"HTTP/1.1 200 X\r\nX: ", b"x", 0.05), "timeout"),
    "headers without an end": (_endless(b"HTTP/1.1 200 X\r\n", b"X: y\r\n" * 1000), "connection lost"),
    "slow beginnings": (_endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), "timeout"),
    "beginnings without an end": (_endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), "broken answer|timeout"),
    "packed answer": (_packed(b"200 X"), "broken answer"),
    "packed error": (_packed(b"500 X"), "broken answer"),
}


@contextmanager
def _serving(answer: Callable[[socket.socket], int]) -> Iterator[tuple[str, list[bytes], list[int]]]:
    """An address, the requests that came there, and how much was sent."""
    asked: list[bytes] = []
    sent: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client, suppress(OSError):
                    asked.append(client.recv(1 << 16))
                    sent.append(answer(client))

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", asked, sent
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", ANSWERS)
def test_no_answer_takes_time_or_memory_without_bounds(kind: str) -> None:
    answer, reason = ANSWERS[kind]
    with _serving(answer) as (url, _, sent):
        server = Server("m", url, timeout=0.5 if reason == "timeout" else SOON)
        start = time.monotonic()  # the client has been imported
        with closing(server), pytest.raises(TransientError, match=reason):
            server.answer(BODY)
        assert time.monotonic() - start < SOON + 3
        assert sum(sent) < MOST


KEY = "sk-the-key-of-the-tests-0123456789"


def test_a_server_is_told_the_key_and_nothing_else_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"secret-{name}-0123456789")
    custom = "X-Team: secret-team\nAuthorization: Bearer secret-other\nCookie: secret=1\nAccept-Encoding: br"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", custom)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    asked = ChatServer()
    with asked.running() as url:
        server = Server("m", url)
        server.answer({**BODY, "messages": [{"role": "user", "content": "> Hello."}]})
        server.close()
    (headers,) = asked.headers
    assert headers.keys() == {
        *("accept", "accept-encoding", "authorization", "connection"),
        *("content-length", "content-type", "host", "user-agent"),
    }
    assert headers["authorization"] == f"Bearer {KEY}" and headers["user-agent"] == "polyref"
    assert "secret" not in str(headers)


@pytest.mark.parametrize("host", ["example.org", "10.0.0.7:8000", "192.168.1.4", "[fd00::1]", "gpu7", "2130706433"])
def test_the_key_does_not_leave_the_machine_over_plain_http_unasked(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match=r"would be sent over plain http.*`plain_http`") as caught:
        Server("m", f"http://{host}/v1")
    assert KEY not in str(caught.value)
    Server("m", f"http://{host}/v1", plain_http=True).close()
    Server("m", f"https://{host}/v1").close()
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")  # a word for servers that want none
    Server("m", f"http://{host}/v1").close()
    monkeypatch.delenv("OPENAI_API_KEY")
    Server("m", f"http://{host}/v1").close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "LOCALHOST", "127.8.9.1"])
def test_the_key_goes_to_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Server("m", f"http://{host}:8000/v1").close()


def test_what_stays_on_this_machine_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ChatServer()
    with _serving(lambda client: 0) as (proxy, seen, _), asked.running() as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        server = Server("m", url)
        server.answer({**BODY, "messages": [{"role": "user", "content": "> Hello."}]})
        server.close()
    assert len(asked.headers) == 1 and not seen
