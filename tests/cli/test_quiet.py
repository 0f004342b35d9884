"""-q means one thing everywhere: no bars, no summary, no notes; -qq: no warnings either. The result stays."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.cli.main import main

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
PARAPHRASES = MINIMAL / "paraphrases" / "de-en.refA.jsonl"
LEXICAL = "lexical:table.tsv"
#: Command -> a call of it that has something to warn of, and what a summary or a note says, if it has one.
CALLS: dict[str, tuple[list[Any], str]] = {
    "paraphrase": (["paraphrase", "some.en", "-k", "1", "--model", LEXICAL, "--sentences", "all"], ""),
    "augment": (["augment", "some.en", "-k", "1", "--model", LEXICAL, "--filter", "none"], "candidates  count"),
    "score": (["score", "some.en", "-i", "some.en"], "polyref: note: some.en equals the reference"),
    "evaluate": (
        ["evaluate", MINIMAL, "-l", "de-en", "--ref", "refA", "--refs", PARAPHRASES, "--gold", "mqm", "-m", "bleu",
         "-k", "5", "-n", "10"],
        "polyref: note: made by people, left out: refB",
    ),
    "submit": (
        ["submit", MINIMAL, "-l", "de-en", "--ref", "refA", "--refs", PARAPHRASES, "-m", "bleu", "-k", "5", "--year",
         "2023", "--name", "x", "--testset", "t", "-o", "submission"],
        "de-en, 4 systems, 5 segments",
    ),
}  # fmt: skip


class Terminal(io.StringIO):
    """Standard error as people see it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some.en").write_text("a big dog barks\n\n", "utf-8")
    Path("table.tsv").write_text("big\tlarge\t0.5\n", "utf-8")
    Path("set.jsonl").write_text(json.dumps({"reference": "a", "paraphrases": ["b"]}) + "\n", "utf-8")


@pytest.mark.parametrize("command", CALLS)
def test_quiet_keeps_warnings_and_twice_does_not(polyref: Callable[..., Any], command: str) -> None:
    call, said = CALLS[command]
    plain, quiet, silent = polyref(*call), polyref(*call, "-q"), polyref(*call, "-qq")
    assert plain.code == quiet.code == silent.code == 0, plain.err
    assert plain.out == quiet.out == silent.out
    assert said in plain.err
    warnings = [line for line in plain.err.splitlines() if line.startswith("polyref: warning: ")]
    assert warnings, plain.err
    assert quiet.err.splitlines() == warnings
    assert silent.err == ""


@pytest.mark.parametrize("command", [*CALLS, "inspect"])
def test_quiet_shows_no_bar(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    call = CALLS[command][0] if command in CALLS else ["inspect", "set.jsonl"]

    def bars(*options: str) -> bool:
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as stop:
            patch.setattr(sys, "stderr", screen := Terminal())
            main([*map(str, call), *options])
        assert not stop.value.code, screen.getvalue()
        return "%|" in screen.getvalue()

    assert (bars(), bars("-q")) == (command != "paraphrase", False)  # a table of substitutions needs no time
