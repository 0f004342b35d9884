"""Progress is heard of all long work, bars are for terminals, and long work is announced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from heard import Heard
from rule_paraphraser import RuleParaphraser

import polyref
from polyref import load_paraphraser
from polyref.augment import augment
from polyref.augment.candidates import SHARD_SEGMENTS, Generated, Several
from polyref.augment.filters import filter_chain
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import Augmentation
from polyref.cli import printing
from polyref.progress import Part, each, listening, tell, telling, work

MINIMAL = Path(__file__).resolve().parents[1] / "eval/minimal"


@pytest.mark.slow
def test_everything_that_is_done_is_heard() -> None:
    heard = Heard()
    asked = {"ref": "refA", "gold": "mqm", "metrics": ["bleu", "ter"], "resamples": 10}
    with listening(heard):
        # Of what a cache holds, nothing would be counted.
        polyref.evaluate(MINIMAL, "de-en", options={"cache": False}, **asked)
        polyref.score(["a b"], ["a c"], "prism")
        polyref.score(["a b", "c"], ["a c", "c"], "bertscore(cache=False)")
        polyref.score(["a b", "c"], ["a c", "c"], "esim(cache=False)")
        for test in ("paired_ar", "confidence"):
            polyref.score({"A": ["a b"], "B": ["a"]}, ["a c"], "chrf", test=test, trials=9)
    polyref.score(["a b"], ["a c"])  # nobody listens any more
    assert heard.named.count(("counting n-grams", "segments", 5)) == 2
    assert ("resampling", "numbers", 2 * 5) in heard.named
    assert {("permuting", "trials", 9), ("resampling", "samples", 9)} <= set(heard.named)
    assert ("comparing", "segments", 2) in heard.named and ("comparing", "pairs", 2) in heard.named
    assert any(what == "scoring" and unit == "texts" for what, unit, _ in heard.named)
    assert not any(what in ("encoding", "matching") for what, *_ in heard.named)  # parts of the whole
    assert heard.all_done()


@pytest.mark.slow
def test_segments_are_counted_while_they_are_paraphrased() -> None:
    fish = "The shop does not sell fresh fish in winter."
    lines = [fish, "", "Prices rose by 3 percent last year.", fish, "We open on 14 March 2019."]
    heard, asked = Heard(), Heard()
    with listening(heard):
        made = augment(lines, "shipped", 2, progress=True)
        augment(lines, "shipped", 2)  # nobody asked for progress
    assert heard.named == [("augmenting", "segments", 5)] and heard.all_done()
    assert len(heard.pieces[0][-1]) > 2  # in one batch
    with listening(asked):
        list(polyref.load_paraphraser().paraphrase(lines, 4, progress=True))
    assert asked.named == [("paraphrasing", "sentences", 5)] and asked.all_done()
    assert sum(bool(segment.extras) for segment in made) == 4


def test_a_run_goes_on_from_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "refs.en"
    path.write_text("".join(f"Sentence {number} is here.\n" for number in range(2 * SHARD_SEGMENTS + 3)), "utf-8")
    work = Augmentation(Generated(RuleParaphraser(), 4), 2, filter_chain("none", "en"))
    heard = Heard()
    with Inputs([path]) as inputs, listening(heard):
        shards = work.shards(inputs.segments(), total=inputs.length, done=SHARD_SEGMENTS, progress=True)
        next(shards)
        next(shards)
        assert heard.pieces[0][:4] == ("augmenting", "segments", inputs.length, SHARD_SEGMENTS)
        assert sum(heard.pieces[0][-1]) == 2 * SHARD_SEGMENTS


def test_several_generators_share_a_segment() -> None:
    source = Several([Generated(RuleParaphraser(), 4), Generated(RuleParaphraser(), 4)])
    assert source.works == 2
    heard = Heard()
    with listening(heard), work("augmenting", "segments", 10) as advance:
        part = Part(advance, 10, works=2)
        with listening(part):
            for _ in range(2):
                with work("paraphrasing", "sentences", 3) as more:
                    more(1)
                    more(2)
            with work("scoring", "texts", 7) as more:
                more(7)
        part.end()
    assert heard.pieces == [("augmenting", "segments", 10, 0, [1, 4, 1, 4])]


@pytest.mark.slow
def test_processes_tell_how_far_they_have_come() -> None:
    lines = [f"The train from Leeds leaves at {number} o'clock." for number in range(40)]
    heard = Heard()
    with listening(heard), closing(load_paraphraser("shipped", jobs=2)) as paraphraser:
        assert len(list(paraphraser.paraphrase(lines, 5, progress=True))) == 40
    assert heard.named == [("paraphrasing", "sentences", 40)] and heard.all_done()
    assert len(heard.pieces[0][-1]) > 5  # it is one piece of work


def test_what_is_told_goes_to_the_work_in_hand() -> None:
    heard = Heard()
    tell(3)  # there is none
    with listening(heard), work("a", "b", 4) as advance, telling(advance):
        tell(1)
        with work("c", "d", 3, progress=False) as nobody:
            nobody(3)
        assert list(each("xyz", "e", "f")) == ["x", "y", "z"]
        tell(3)
    assert heard.pieces == [("a", "b", 4, 0, [1, 3]), ("e", "f", 3, 0, [1, 1, 1])]


@pytest.mark.slow
def test_a_bar_on_a_terminal_shows_at_once_and_its_clock_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with listening(printing.bars), work("augmenting", "segments", 8, 2) as advance:
        assert "augmenting:  25%|" in capsys.readouterr().err
        time.sleep(1.2)
        assert re.search(r"2/8 \[00:0[1-9]<", capsys.readouterr().err)
        advance(3)
        frame = capsys.readouterr().err
        rate = float(re.search(r"5/8 .*, +([\d.]+) segments/s", frame)[1])  # type: ignore[index]
        assert 0 < rate <= 3 / 1.2  # of the new ones
    assert capsys.readouterr().err.endswith("\r")


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
        advance(7)  # the start of processes and models is no measure
        advance(1)
        advance(1)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("polyref: warning: ") == 1
    assert "encoding: 999999992 texts will take about " in captured.err and "judging by the first 8" in captured.err
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
