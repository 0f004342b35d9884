"""Commands that share one cache at the same time, and are killed at random: what they write stays the same."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLACES = ("harbour", "station", "market", "mill", "garden", "bridge", "castle")
LINES = [f"The {PLACES[n % 7]} opens at {n % 9 + 2} and has room for {n + 20} people." for n in range(24)]
PROGRAM = [sys.executable, "-m", "polyref"]


def commands(folder: Path, made: str) -> list[list[str]]:
    """Two augmentations that have texts in common, and a metric of these texts."""
    first, second, system = (str(folder / name) for name in ("first.en", "second.en", "sys.en"))
    return [
        [*PROGRAM, "augment", first, "-k", "2", "--threads", "1", "--quiet", "-o", str(folder / f"first{made}")],
        [*PROGRAM, "augment", second, "-k", "2", "--threads", "1", "--quiet", "-o", str(folder / f"second{made}")],
        [*PROGRAM, "score", first, "-i", system, "-m", "bertscore", "--threads", "1", "--sentence", "--json", "--quiet",
         "-o", str(folder / f"scores{made}")],
    ]  # fmt: skip


def begun(folder: Path, made: str, *options: str) -> list[subprocess.Popen[bytes]]:
    environment = {**os.environ, "POLYREF_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return [subprocess.Popen([*command, *options], env=environment) for command in commands(folder, made)]


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    assert [process.wait(600) for process in processes] == [0, 0, 0]


def test_commands_killed_at_random_leave_a_cache_that_is_right(tmp_path: Path) -> None:
    (tmp_path / "first.en").write_text("".join(f"{line}\n" for line in LINES[:16]), "utf-8")
    (tmp_path / "second.en").write_text("".join(f"{line}\n" for line in LINES[8:]), "utf-8")
    (tmp_path / "sys.en").write_text("".join(f"{line}\n" for line in LINES[1:17]), "utf-8")
    start = time.monotonic()
    ended(begun(tmp_path, ".plain", "--no-cache"))
    whole = time.monotonic() - start
    assert not (tmp_path / "cache").exists()
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"moments are drawn with seed {seed}")
    draw = random.Random(seed)
    for _ in range(2):
        running = begun(tmp_path, ".killed")
        start = time.monotonic()
        for process, moment in zip(running, sorted(draw.uniform(0.3, 1) * whole for _ in running), strict=True):
            time.sleep(max(0.0, start + moment - time.monotonic()))
            process.kill()
        for process in running:
            process.wait()
        for path in tmp_path.glob("*.killed*"):  # what was finished would be taken up
            path.unlink()
    ended(begun(tmp_path, ".again"))
    ended(begun(tmp_path, ".read"))
    for name in ("first", "second", "scores"):
        plain = (tmp_path / f"{name}.plain").read_bytes()
        assert (tmp_path / f"{name}.again").read_bytes() == plain
        assert (tmp_path / f"{name}.read").read_bytes() == plain
    base = sqlite3.connect(tmp_path / "cache" / "cache.sqlite", timeout=1)
    assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    base.execute("BEGIN IMMEDIATE")  # nobody holds a lock
    base.close()
