"""A real server: ``transformers serve`` with a tiny chat model, over real HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny_chat import WORDS, chat_model

pytestmark = pytest.mark.slow
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
COUNT = 24


@dataclass
class Served:
    url: str
    model: str
    log: Path

    def asked(self) -> int:
        """Requests that it has answered."""
        return self.log.read_text("utf-8", "replace").count('/v1/chat/completions HTTP/1.1" 200')


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("fastapi")
    pytest.importorskip("accelerate")
    folder = tmp_path_factory.mktemp("serve")
    model = chat_model(folder / "tiny")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model), "--device", "cpu"]
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=stream, stderr=stream, env=ENVIRONMENT
        )
    try:
        end = time.monotonic() + 300
        while True:
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.5)
        yield Served(f"http://127.0.0.1:{port}/v1", str(model), log)
    finally:
        process.terminate()
        process.wait(60)


def _command(served: Served, folder: Path, *more: str) -> list[str]:
    (folder / "refs").write_text("".join(f"The ferry number {n} has not come back.\n" for n in range(COUNT)))
    return [
        *("augment", str(folder / "refs"), "--lang", "en", "-o", str(folder / "out"), "-k", "1"),
        *("--model", f"openai:{served.model}", "--base-url", served.url, "--answer-form", "samples"),
        *("--max-tokens", "40", "--filter", "none", "--json", "--concurrency", "3", *more),
    ]


def _records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "out.answers"
    lines = path.read_text("utf-8").split("\n")[1:-1] if path.is_file() else []
    return [json.loads(line.partition(" ")[2]) for line in lines]


def test_it_rewrites_and_is_asked_nothing_twice(served: Served, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    command = _command(served, tmp_path)
    before = served.asked()
    done = polyref(*command)
    assert done.code == 0, done.err
    records = _records(tmp_path)
    assert len({record["key"] for record in records}) == len(records) == served.asked() - before

    lines = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    made = [ref["text"] for line in lines[1:] for ref in line["refs"][1:]]
    row = done.json()["rows"][0]
    assert len(made) == row["kept"] > 0
    assert {word for text in made for word in text.split()} <= set(WORDS)
    assert len(made) + sum(row.get("failed", {}).values()) >= COUNT
    generator = lines[0]["meta"]["generator"]
    # This server says no fingerprint; it names the revision of the model.
    assert "tiny@main|prompt:faithful-1:" in generator and "fingerprint" not in generator
    assert all(record["answer"]["prompt_tokens"] > 50 for record in records)

    first = (tmp_path / "out").read_bytes()
    again = polyref(*command)
    assert again.code == 0 and again.json()["rows"][0]["requests"]["requests"] == 0
    assert (tmp_path / "out").read_bytes() == first


def test_lists_that_are_none_are_recorded_as_failed(
    served: Served, tmp_path: Path, polyref: Callable[..., Any]
) -> None:
    """It ignores the form that is asked for, and a model of random weights writes no JSON."""
    command = [*_command(served, tmp_path), "--answer-form", "list"]
    (tmp_path / "refs").write_text("The ferry has not come back.\n")
    done = polyref(*command)
    assert done.code == 0, done.err
    (reason,) = done.json()["rows"][0]["failed"]
    assert reason in ("no JSON list", "empty", "cut short")


def test_what_it_refuses_is_said_at_once(served: Served, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    command = _command(served, tmp_path)
    done = polyref(*(f"openai:{tmp_path}" if part.startswith("openai:") else part for part in command))
    assert done.code == 1
    assert "the first request got no answer: request not accepted (400)" in done.err and "pinned" in done.err
    assert not (tmp_path / "out").exists()
