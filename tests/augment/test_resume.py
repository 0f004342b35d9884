"""A run that is killed with SIGKILL and repeated: same bytes, and nothing finished is generated again.

Kills at every dealing with the disk are in ``tests/cli/test_killed.py``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment.candidates import SHARD_SEGMENTS
from polyref.augment.writer import journal_path
from polyref.errors import DataError

PROGRAM = Path(__file__).parent.parent / "shared" / "rule_paraphraser.py"
COUNT = 3 * SHARD_SEGMENTS + 10
#: One generator, so that each text is seen once.
ONE = ("--model", "shipped")


def _references(folder: Path) -> Path:
    path = folder / "refs.en"
    # Empty lines and repeats on purpose: what is resumed must be counted in segments, not in texts.
    lines = ["" if n % 7 == 0 else f"Sentence {n // 2} is here." for n in range(COUNT)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Callable[[RuleParaphraser], RuleParaphraser]:
    """Put a paraphraser behind the command line of this process."""

    def put(paraphraser: RuleParaphraser) -> RuleParaphraser:
        monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", lambda *args, **options: paraphraser)
        return paraphraser

    return put


class Stopping(RuleParaphraser):
    """Fails after so many texts."""

    def _note(self, text: str) -> None:
        super()._note(text)
        if self.seen == 70:
            raise DataError("no more")


def _lines(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


@pytest.mark.slow
def test_kill_and_repeat(polyref: Callable[..., Any], rules: Callable[..., RuleParaphraser], tmp_path: Path) -> None:
    refs, log = _references(tmp_path), tmp_path / "log"
    whole, notes, out, again = (tmp_path / f"{name}.jsonl" for name in ("whole", "notes", "out", "again"))
    undisturbed = rules(RuleParaphraser())
    expected = polyref("augment", refs, *ONE, "-k", 3, "-o", whole, "--dropped", notes)
    # Every candidate that the summary counts is there.
    counted = {line.split()[1]: int(line.split()[2]) for line in expected.err.split("\n") if "dropped: " in line[:9]}
    reasons = Counter(json.loads(line)["reason"] for line in notes.read_text().splitlines())
    assert reasons == {reason: count for reason, count in counted.items() if count} and reasons

    command = ("augment", refs, *ONE, "-k", 3, "-o", out, "--dropped", again)
    start = [sys.executable, str(PROGRAM), str(log), "70"]
    process = subprocess.Popen([*start, *map(str, command)], stderr=subprocess.DEVNULL)
    try:
        while len(_lines(log)) < 70:  # in the second shard
            assert process.poll() is None, "ended before it could be killed"
            time.sleep(0.02)
        at_once = polyref(*command)
        assert (at_once.code, "is in use" in at_once.err) == (1, True)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not out.exists() and not again.exists()
    assert journal_path(out).exists()

    resumed = rules(RuleParaphraser())
    done = polyref(*command)
    assert f"{SHARD_SEGMENTS} segments are finished" in done.err
    assert (out.read_bytes(), again.read_bytes()) == (whole.read_bytes(), notes.read_bytes())
    names = {"again.jsonl", "log", "notes.jsonl", "out.jsonl", "refs.en", "whole.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == names
    # What was finished is not generated again.
    assert resumed.seen == undisturbed.seen - sum(1 for n in range(SHARD_SEGMENTS) if n % 7)
    # The summary covers the whole run, not only its last part.
    assert _summary(done.err) == _summary(expected.err)


def _summary(stderr: str) -> str:
    return stderr[stderr.index("candidates ") :].replace("again.jsonl", "notes.jsonl")


@pytest.mark.parametrize(
    "change",
    [
        ["-k", 4],
        ["-k", 3, "--filter", "none"],
        ["-k", 3, "--seed", 1],
        ["-k", 3, "--lang", "de"],
        ["-k", 3, "--memory", 64],
        ["-k", 3, "--dropped", "/dev/null"],
        ["-k", 3],
    ],
)
def test_other_settings_do_not_mix_with_unfinished_work(
    polyref: Callable[..., Any], rules: Callable[..., RuleParaphraser], tmp_path: Path, change: list[object]
) -> None:
    refs, out = _references(tmp_path), tmp_path / "out.jsonl"
    rules(Stopping())
    assert "no more" in polyref("augment", refs, *ONE, "-k", 3, "-o", out).err
    journal = journal_path(out).read_bytes()
    if change == ["-k", 3]:
        refs.write_text(refs.read_text().replace("Sentence", "Line"))
    rules(RuleParaphraser())
    done = polyref("augment", refs, *ONE, *change, "-o", out)
    assert done.code == 1
    assert f"{journal_path(out)}: holds unfinished work with other settings: " in done.err
    assert change != ["-k", 3] or "other settings: inputs was" in done.err
    assert not out.exists()
    assert journal_path(out).read_bytes() == journal
