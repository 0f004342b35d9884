"""Runs that are killed with SIGKILL and repeated: same bytes, and nothing finished is generated again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from polyref.augment.candidates import SHARD_SEGMENTS
from polyref.augment.writer import journal_path

PROGRAM = Path(__file__).parent.parent / "shared" / "rule_paraphraser.py"
COUNT = 3 * SHARD_SEGMENTS + 10


def _references(folder: Path) -> Path:
    path = folder / "refs.en"
    # Empty lines and repeats on purpose: what is resumed must be counted in segments, not in texts.
    lines = ["" if n % 7 == 0 else f"Sentence {n // 2} is here." for n in range(COUNT)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _command(log: Path, stop_after: int, *args: object) -> list[str]:
    return [sys.executable, str(PROGRAM), str(log), str(stop_after), "augment", *map(str, args)]


def _killed_after(log: Path, texts: int, *args: object) -> None:
    """Run until so many texts were given to the paraphraser, then kill -9."""
    done = len(_lines(log)) + texts
    process = subprocess.Popen(_command(log, texts, *args), stderr=subprocess.DEVNULL)
    while len(_lines(log)) < done:
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def _lines(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


def _finish(log: Path, *args: object) -> str:
    done = subprocess.run(_command(log, 0, *args), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
def test_kill_and_repeat(tmp_path: Path) -> None:
    refs, whole, out = _references(tmp_path), tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    whole_log, log = tmp_path / "whole.log", tmp_path / "log"
    _finish(whole_log, refs, "-k", 3, "-o", whole)
    texts = len(_lines(whole_log))

    # Once in the first shard, before anything is finished; once in the second; once in the third.
    _killed_after(log, 20, refs, "-k", 3, "-o", out)
    _killed_after(log, 70, refs, "-k", 3, "-o", out)
    assert not out.exists()
    assert journal_path(out).exists()
    _killed_after(log, 80, refs, "-k", 3, "-o", out)
    stderr = _finish(log, refs, "-k", 3, "-o", out)

    assert f"{2 * SHARD_SEGMENTS} segments are finished" in stderr
    assert out.read_bytes() == whole.read_bytes()
    assert not journal_path(out).exists()
    shard = [sum(1 for n in range(a, a + SHARD_SEGMENTS) if n % 7) for a in (0, SHARD_SEGMENTS, 2 * SHARD_SEGMENTS)]
    # Killed in shard 1 (20 texts), in shard 2 (70 less shard 1), in shard 3 (80 less shard 2): only these are repeated.
    assert len(_lines(log)) == texts + 20 + (70 - shard[0]) + (80 - shard[1])
    # The summary covers the whole run, not only its last part.
    assert _summary(stderr) == _summary(_finish(tmp_path / "again.log", refs, "-k", 3, "-o", whole))


def _summary(stderr: str) -> str:
    return stderr[stderr.index("candidates ") :]


@pytest.mark.slow
def test_dropped_candidates_survive_a_kill(tmp_path: Path) -> None:
    refs, log = _references(tmp_path), tmp_path / "log"
    whole, notes, again = (tmp_path / f"{name}.jsonl" for name in ("whole", "notes", "again"))
    stderr = _finish(log, refs, "-k", 3, "-o", whole, "--dropped", notes)
    _killed_after(log, 100, refs, "-k", 3, "-o", tmp_path / "out.jsonl", "--dropped", again)
    assert not again.exists()
    assert "segments are finished" in _finish(log, refs, "-k", 3, "-o", tmp_path / "out.jsonl", "--dropped", again)
    assert again.read_bytes() == notes.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.jsonl",
        "log",
        "notes.jsonl",
        "out.jsonl",
        "refs.en",
        "whole.jsonl",
    ]
    # Every candidate that the summary counts is there.
    counted = {line.split()[1]: int(line.split()[2]) for line in stderr.split("\n") if line.startswith("dropped: ")}
    reasons = Counter(json.loads(line)["reason"] for line in notes.read_text().splitlines())
    assert reasons == {reason: count for reason, count in counted.items() if count}


@pytest.mark.slow
def test_kill_between_the_result_and_the_removal_of_the_journal(tmp_path: Path) -> None:
    refs, out, log = _references(tmp_path), tmp_path / "out.jsonl", tmp_path / "log"
    _killed_after(log, 100, refs, "-k", 2, "-o", out)
    journal = journal_path(out).read_bytes()
    _finish(log, refs, "-k", 2, "-o", out)
    first = out.read_bytes()
    journal_path(out).write_bytes(journal)
    _finish(log, refs, "-k", 2, "-o", out)
    assert out.read_bytes() == first


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ["-k", 4],
        ["-k", 3, "--filter", "none"],
        ["-k", 3, "--seed", 1],
        ["-k", 3, "--lang", "de"],
        ["-k", 3, "--memory", 64],
        ["-k", 3, "--dropped", "/dev/null"],
    ],
)
def test_other_settings_do_not_mix_with_unfinished_work(tmp_path: Path, change: list[object]) -> None:
    refs, out, log = _references(tmp_path), tmp_path / "out.jsonl", tmp_path / "log"
    _killed_after(log, 70, refs, "-k", 3, "-o", out)
    journal = journal_path(out).read_bytes()
    done = subprocess.run(_command(log, 0, refs, *change, "-o", out), capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{journal_path(out)}: holds unfinished work with other settings: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
    assert journal_path(out).read_bytes() == journal


@pytest.mark.slow
def test_a_changed_input_does_not_mix_with_unfinished_work(tmp_path: Path) -> None:
    refs, out, log = _references(tmp_path), tmp_path / "out.jsonl", tmp_path / "log"
    _killed_after(log, 70, refs, "-k", 3, "-o", out)
    refs.write_text(refs.read_text().replace("Sentence", "Line"))
    done = subprocess.run(_command(log, 0, refs, "-k", 3, "-o", out), capture_output=True, text=True)
    assert done.returncode == 1
    assert "other settings: inputs was" in done.stderr


@pytest.mark.slow
def test_two_runs_at_once(tmp_path: Path) -> None:
    refs, out, log = _references(tmp_path), tmp_path / "out.jsonl", tmp_path / "log"
    process = subprocess.Popen(_command(log, 70, refs, "-k", 3, "-o", out), stderr=subprocess.DEVNULL)
    try:
        while len(_lines(log)) < 70:
            assert process.poll() is None
            time.sleep(0.02)
        done = subprocess.run(_command(tmp_path / "b", 0, refs, "-k", 3, "-o", out), capture_output=True, text=True)
    finally:
        process.kill()
        process.wait()
    assert (done.returncode, "is in use" in done.stderr) == (1, True)
