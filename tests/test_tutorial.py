"""The programs of the tutorial run as they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from polyref.references import ReferenceSet

HERE = Path(__file__).resolve().parent
TUTORIAL = (HERE.parent / "docs/tutorial.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.S | re.M)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the evaluation set that the tutorial names, small."""
    root = Path(shutil.copytree(HERE / "eval/minimal", tmp_path / "wmt21.news"))
    for path in sorted(root.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", "zh-en")))
    (root / "paraphrases/zh-en.refA.jsonl").rename(tmp_path / "zh-en.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(number: int) -> None:
    exec(compile(PROGRAMS[number], f"tutorial.md, program {number + 1}", "exec"), {})


def test_each_is_at_most_five_lines() -> None:
    assert len(PROGRAMS) == 5
    for program in PROGRAMS:
        lines = [line for line in program.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
        assert len(lines) <= 5


def test_scoring(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(0)
    header, _, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["system", "BLEU"]
    assert first.startswith("A ")


def test_paraphrasing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(1)
    found = capsys.readouterr().out.splitlines()
    assert len(set(found)) == 5
    assert any("month" in text for text in found)


@pytest.mark.slow
def test_augmenting(folder: Path) -> None:
    _run(2)
    made = ReferenceSet.load("refs.polyref.jsonl")
    assert made.take(0).texts() == [["Prices rose again last month."], ["No one was hurt in the fire."]]
    assert all(1 <= len(segment.extras) <= 5 for segment in made)


@pytest.mark.slow
def test_evaluating(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(3)
    assert "Pearson's r of systems" in capsys.readouterr().out
    assert (folder / "report/index.html").is_file()


def test_comparing_uses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(4)
    found = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("BLEU")}
    assert found == {"BLEU", "BLEU(combine=expected)"}
