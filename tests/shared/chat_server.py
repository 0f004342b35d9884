"""A server that speaks OpenAI's protocol, and does so badly where it is told to: real HTTP, no model.

It rewrites by fixed rules, so that every answer is known, and counts what it was asked and what it gave.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RULES = (
    "People say: {}",
    "One hears: {}",
    "The neighbours say: {}",
    "It is said: {}",
    "We are told: {}",
    "The report says: {}",
    "They say: {}",
    "Someone wrote: {}",
)
GERMAN = "Der Ausschuss wird sich am kommenden Freitag wieder in diesem Haus treffen, sagen die Leute im Dorf ({})."
FINGERPRINT = "fp_of_the_tests"

#: What no text holds, in one of the rewrites. Bytes that are no UTF-8 are put in when the answer is sent.
ODD = {"half a pair": "\ud83d", "NUL": "\0", "direction": "\u202e", "byte": "BYTE", "escape": "\x1b[2J"}
#: Troubles, beside errors by their number, in which there is no whole answer.
UNANSWERED = frozenset(("half a JSON", "hangs up", "slow"))
#: Says what goes wrong with a request: its text, how often it came before, whether it is a second one for an answer
#: that could not be used.
Trouble = Callable[[str, int, bool], str | None]


def no_trouble(text: str, attempt: int, repair: bool) -> str | None:
    return None


class ChatServer:
    """Counts and answers.

    Attributes:
        requests: Bodies as they came.
        attempts: How often each request came, by the hash of its body.
        given: How often each request got a whole answer.
        most: Most requests at a time.
        fingerprint: What it calls itself.
        refuses: Parts of requests that it does not take; the first one that a request has is named in its error.
        spells: Bytes that it sends in place of others.
    """

    def __init__(self, trouble: Trouble = no_trouble) -> None:
        self.trouble = trouble
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.attempts: Counter[str] = Counter()
        self.given: Counter[str] = Counter()
        self.fingerprint: str | None = FINGERPRINT
        self.refuses: tuple[str, ...] = ()
        self.spells: dict[bytes, bytes] = {b"BYTE": b"\xff"}
        self.delay = 0.0
        self.most = 0
        self._now = 0
        self._admitted = 0
        self._lock = threading.Lock()
        self._hold_after: int | None = None
        self._released = threading.Event()

    def hold_after(self, given: int) -> None:
        """Give so many whole answers in all, and keep waiting who would get another one."""
        self._released.clear()
        self._hold_after = given

    def release(self) -> None:
        """Drop the requests that wait, unanswered, and answer those that come."""
        self._hold_after = None
        self._released.set()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its address while it runs."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.serve(self, body, {name.lower(): value for name, value in self.headers.items()})

            def log_message(self, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass  # clients that are killed

        with Quiet(("127.0.0.1", 0), Handler) as http:
            threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
            try:
                yield f"http://127.0.0.1:{http.server_address[1]}/v1"
            finally:
                self.release()
                http.shutdown()

    def serve(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], headers: dict[str, str]) -> None:
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            trouble = self.trouble(text_of(body), self.attempts[key], len(body["messages"]) > 2)
            refused = [name for name in self.refuses if name in body]
            trouble = f"400 {refused[0]}" if refused else trouble
            answered = trouble not in UNANSWERED and not (trouble or "")[:3].isdigit()
            held = answered and self._hold_after is not None and self._admitted >= self._hold_after
            if not held:
                self._admitted += answered
                self.requests.append(body)
                self.headers.append(headers)
                self.attempts[key] += 1
                self._now += 1
                self.most = max(self.most, self._now)
        if held:
            self._released.wait(60)
            handler.close_connection = True
            return
        try:
            time.sleep(self.delay)
            whole = self._reply(handler, body, trouble, headers)
        finally:
            with self._lock:
                self._now -= 1
        if whole:
            with self._lock:
                self.given[key] += 1

    def _reply(self, handler: Any, body: dict[str, Any], trouble: str | None, headers: dict[str, str]) -> bool:
        """Send the reply; whether it was a whole answer."""
        if trouble is not None and trouble[:3].isdigit():
            status = int(trouble[:3])
            error = {"message": f"error {trouble}, {headers.get('authorization')}", "code": trouble[4:] or None}
            more = {"Retry-After": "0.05"} if status == 429 else {}
            more |= {"Location": "http://127.0.0.1:9/v1/chat/completions"} if 300 <= status < 400 else {}
            _send(handler, status, self._spelt({"error": error}), more)
            return False
        content = self._spelt(self.completion(body, trouble, headers))
        if trouble == "half a JSON":
            _send(handler, 200, content[: len(content) // 2])
        elif trouble == "hangs up":
            _send(handler, 200, content[: len(content) // 2], {"Content-Length": str(len(content))})
            handler.close_connection = True
        elif trouble == "slow":
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            for byte in content:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(0.1)
        else:
            _send(handler, 200, content)
            return True
        return False

    def _spelt(self, value: Any) -> bytes:
        content = json.dumps(value).encode()
        for one, other in self.spells.items():
            content = content.replace(one, other)
        return content

    def completion(self, body: dict[str, Any], trouble: str | None, headers: dict[str, str]) -> dict[str, Any]:
        text = text_of(body)
        k = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        # Without the form of the answer, the question says it in words.
        several = re.search(r"in (\d+) different ways", str(body["messages"]))
        k = k["properties"]["rewrites"]["minItems"] if k else int(several[1]) if several else 1
        message: dict[str, Any] = {"role": "assistant"}
        finish = "stop"
        rewrites = [RULES[(body.get("seed", 0) + n) % len(RULES)].format(text) for n in range(k)]
        if trouble == "wrong count":
            rewrites = rewrites[:1]
        elif trouble == "copies":
            rewrites = [text.upper()] * k
        elif trouble == "empty":
            rewrites = [" "] * k
        elif trouble == "German":
            rewrites = [GERMAN.format(n) for n in range(k)]
        elif trouble == "without tags":
            rewrites = [re.sub("<[^<>]*>", "", rewrite) for rewrite in rewrites]
        elif trouble == "the prompt":
            rewrites = [body["messages"][-1]["content"].splitlines()[0] + " " + str(n) for n in range(k)]
        elif trouble == "explains":
            rewrites = [f"Here are some rewritten versions of it: {text}"] * k
        elif trouble in ODD:
            rewrites[0] = f"{rewrites[0]} {ODD[trouble]}"
        elif trouble == "the key":
            rewrites = [f"{rewrite} {headers.get('authorization')}" for rewrite in rewrites]
        message["content"] = json.dumps({"rewrites": rewrites}) if several else rewrites[0]
        if trouble == "prose":
            message["content"] = "\n".join(f"{n}. {one}" for n, one in enumerate(rewrites, 1))
        elif trouble == "refuses":
            message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        elif trouble in ("cut short", "cut within"):
            message["content"], finish = message["content"][: 20 if trouble == "cut short" else -5], "length"
        read, written = len(str(body["messages"]).split()), len(str(message["content"]).split())
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": f"{body['model']}-2026",
            "system_fingerprint": self.fingerprint,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
        }


class JudgeServer(ChatServer):
    """Judges by a fixed rule (:func:`judgement`), in its own words or in those of a trouble such as ``says {}!``."""

    def completion(self, body: dict[str, Any], trouble: str | None, headers: dict[str, str]) -> dict[str, Any]:
        done = super().completion(body, trouble, headers)
        message = done["choices"][0]["message"]
        if message["content"] is not None:
            question = next((one["content"] for one in reversed(body["messages"]) if "> " in one["content"]), "")
            said = "Score: {}" if "from 0 to 100" in question else MISTAKES
            said = trouble.removeprefix("says ") if trouble and trouble.startswith("says ") else said
            references = re.findall(r"^reference \d+> (.*)$", question, re.MULTILINE)
            message["content"] = said.format(judgement(text_of(body), references))
        return done


MISTAKES = '"word" major, is another one\n"words" minor'


def judgement(output: str, references: list[str]) -> int:
    """Share of the words of an output that a reference has, of 100; without references that of words with an e."""
    words, known = output.split(), {word for one in references for word in one.split()}
    return round(100 * sum(word in known or (not known and "e" in word) for word in words) / max(len(words), 1))


def text_of(body: dict[str, Any]) -> str:
    """The text that is to be rewritten or judged: what the first question quotes last, as itself or as translation."""
    question = next(message["content"] for message in body["messages"] if message["role"] == "user")
    return str((re.findall(r"^(?:translation)?> (.*)$", question, re.MULTILINE)[-1:] or [""])[0])


def _send(handler: BaseHTTPRequestHandler, status: int, content: bytes, more: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **(more or {}),
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
