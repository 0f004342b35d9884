"""A run against a bad server that is killed with SIGKILL and repeated: nothing is paid for twice, same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

COUNT = 100
#: Each of these happens to a tenth of the references: to half of them once, to the others for ever.
TROUBLES = ("429", "500", "half a JSON", "refuses", "slow", "wrong count", "German", "hangs up")
NEVER_ANSWERED = {"429", "500", "half a JSON", "slow", "hangs up"}
RETRIES = 2


def _trouble(text: str, attempt: int, repair: bool) -> str | None:
    if not text.startswith("Sentence number "):
        return None
    number = int(text.split()[2])
    trouble = TROUBLES[number % 10] if number % 10 < len(TROUBLES) else None
    for_ever = number // 10 % 2 == 1
    return trouble if for_ever or (attempt == 0 and not repair) else None


def _command(folder: Path, url: str) -> list[str]:
    return [
        *(sys.executable, "-m", "polyref", "augment", str(folder / "refs"), "--lang", "en", "-k", "2"),
        *("-o", str(folder / "out")),
        *("--model", "openai:tiny", "--base-url", url, "--filter", "none", "--concurrency", "16", "--json"),
        *("--retries", str(RETRIES), "--timeout", "2", "--dropped", str(folder / "dropped")),
    ]


def _folder(path: Path) -> Path:
    path.mkdir()
    (path / "refs").write_text("".join(f"Sentence number {n} was written by hand.\n" for n in range(COUNT)))
    return path


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def _kept(folder: Path) -> int:
    """Answers on the disk."""
    path = folder / "out.answers"
    lines = path.read_text().split("\n")[1:-1] if path.is_file() else []
    return sum("failure" not in json.loads(line.partition(" ")[2])["answer"] for line in lines)


def _killed_after(folder: Path, server: ChatServer, url: str, given: int) -> None:
    """Run until the server has given so many whole answers, and all of them are kept; then kill -9.

    Requests that are under way then get no answer: the server holds them until their sender is dead.
    """
    server.hold_after(given)
    process = subprocess.Popen(
        _command(folder, url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment()
    )
    while sum(server.given.values()) < given or _kept(folder) < given:
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    server.release()


@pytest.mark.slow
def test_a_kill_repeats_no_paid_call_and_changes_no_byte(tmp_path: Path, polyref: Callable[..., Any]) -> None:
    whole, killed = _folder(tmp_path / "whole"), _folder(tmp_path / "killed")

    def finished(folder: Path, url: str) -> dict[str, object]:
        done = polyref(*_command(folder, url)[3:])
        assert done.code == 0, done.err
        row: dict[str, object] = done.json()["rows"][0]
        return row

    undisturbed = ChatServer(_trouble)
    with undisturbed.running() as url:
        row = finished(whole, url)
    server = ChatServer(_trouble)
    with server.running() as url:
        _killed_after(killed, server, url, 50)
        assert not (killed / "out").exists()
        again = finished(killed, url)

    assert {name: again[name] for name in again if name != "requests"} == {
        name: row[name] for name in row if name != "requests"
    }
    for name in ("out", "dropped"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()

    # Every reference is answered, or recorded as failed; one sentence of a wrong count is an answer.
    lines = [json.loads(line) for line in (whole / "out").read_text().splitlines()[1:]]
    without = [int(line["id"]) - 1 for line in lines if len(line["refs"]) == 1]
    for_ever = [n for n in range(COUNT) if n % 10 < len(TROUBLES) and n // 10 % 2 == 1]
    assert without == [n for n in for_ever if TROUBLES[n % 10] != "wrong count"]
    assert row["failed"] == {
        "another language": 5,
        "broken answer (no whole JSON)": 5,
        "connection lost": 5,
        "rate limit": 5,
        "refused": 5,
        "server error 500": 5,
        "timeout": 5,
    }

    # No call that was answered came twice, and both servers gave the same answers.
    assert set(server.given.values()) == {1}
    assert server.given == undisturbed.given
    # What was never answered was tried as often as it may be, by both runs.
    assert max(undisturbed.attempts.values()) == RETRIES + 1
    assert max(server.attempts.values()) <= 2 * (RETRIES + 1)
    ever = {key for key, count in server.attempts.items() if not server.given[key]}
    assert len(ever) == sum(TROUBLES[n % 10] in NEVER_ANSWERED for n in for_ever)
