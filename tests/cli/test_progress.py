"""Progress is heard of all long work, bars are for terminals, and long work is announced."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref.cli import printing
from polyref.progress import Advance, listening, work

MINIMAL = Path(__file__).resolve().parents[1] / "eval/minimal"


def test_everything_that_is_done_is_heard() -> None:
    heard: list[list[Any]] = []

    @contextmanager
    def listener(what: str, unit: str, total: int) -> Iterator[Advance]:
        piece = [what, unit, total, 0]
        heard.append(piece)

        def advance(more: int) -> None:
            piece[3] += more

        yield advance

    with listening(listener):
        polyref.evaluate(MINIMAL, "de-en", ref="refA", gold="mqm", metrics=["bleu", "ter"], resamples=10)
        polyref.score(["a b"], ["a c"], "prism")
        for test in ("paired_ar", "confidence"):
            polyref.score({"A": ["a b"], "B": ["a"]}, ["a c"], "chrf", test=test, trials=9)
    polyref.score(["a b"], ["a c"])  # nobody listens any more
    pieces = [tuple(piece[:3]) for piece in heard]
    assert pieces.count(("counting n-grams", "segments", 5)) == 2
    assert ("resampling", "numbers", 2 * 5) in pieces
    assert {("permuting", "trials", 9), ("resampling", "samples", 9)} <= set(pieces)
    assert any(what == "scoring" and unit == "texts" for what, unit, _ in pieces)
    assert all(done == total > 0 for *_, total, done in heard)


def test_without_a_listener_nothing_happens(capfd: pytest.CaptureFixture[str]) -> None:
    with work("anything", "texts", 3) as advance:
        advance(3)
    with listening(printing.bars), listening(None), work("anything", "texts", 3) as advance:
        advance(3)
    assert capfd.readouterr() == ("", "")


def test_long_work_is_announced_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(printing, "MEASURED", 0.0)
    with listening(printing.bars), work("encoding", "texts", 2) as advance:
        advance(1)
        advance(1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(printing, "LONG", 0.0)
    with listening(printing.bars), work("encoding", "texts", 10**9) as advance:
        advance(7)
        advance(1)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("polyref: warning: ") == 1
    assert "encoding: 1000000000 texts will take up to " in captured.err and "by the first 7" in captured.err
    assert [printing._duration(seconds) for seconds in (200, 5000, 9000)] == ["3 minutes", "83 minutes", "2.5 hours"]


@pytest.mark.slow
def test_threads_are_announced_to_libraries() -> None:
    code = (
        "import sys; from polyref.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code\n"
        "import torch; print(torch.get_num_threads())"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    base = ["evaluate", str(MINIMAL), "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-n", "0"]
    for threads in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", code, *base, "--threads", threads], env=environment,
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert done.stdout.splitlines()[-1] == threads
