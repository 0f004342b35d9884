"""The commands of the tutorial and the programs of the page for Python run as they stand, and print what is shown."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from shown import assert_part

from polyref.references import ReferenceSet

HERE = Path(__file__).resolve().parent
BLOCKS = r"^```(\w+)\n(.*?)^```"
TUTORIAL = re.findall(BLOCKS, (HERE.parent / "docs/tutorial.md").read_text("utf-8"), re.S | re.M)
PYTHON = re.findall(BLOCKS, (HERE.parent / "docs/how-to/write-python.md").read_text("utf-8"), re.S | re.M)
#: Each program, and what is shown below it.
PROGRAMS = [
    (text, shown if kind == "text" else "")
    for (language, text), (kind, shown) in pairwise([*PYTHON, ("", "")])
    if language == "python"
]


@pytest.mark.slow
def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    """One session of the shell; installing is tested where packages are built."""
    shutil.copytree(HERE / "eval/minimal", tmp_path / "tests/eval/minimal")
    commands = [text for language, text in TUTORIAL if language == "sh"][1:]
    script = "\n".join(f"{text}echo '=== {number}'" for number, text in enumerate(commands))
    start = 'set -eo pipefail\npolyref() { "$PYTHON" -m polyref "$@"; }\n'
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(HERE.parent), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-c", start + script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    printed = iter(re.split(r"^=== \d+\n", done.stdout, flags=re.M))
    compared = 0
    for language, text in TUTORIAL[2:]:
        if language == "sh":
            last = next(printed)
        elif '"polyref"' in text:
            _check_beginning(text, tmp_path / "polyref-demo/my-refs.polyref.jsonl")
            compared += 1
        else:
            assert_part(text, last)
            compared += 1
    assert compared >= 7
    assert (tmp_path / "report/index.html").is_file()


def _check_beginning(text: str, file: Path) -> None:
    """The lines shown are those of the file, with fields and list items left out."""
    for shown, line in zip(text.splitlines(), file.read_text("utf-8").splitlines(), strict=False):
        _within(json.loads(shown), json.loads(line))


def _within(shown: Any, held: Any) -> None:
    if isinstance(shown, dict):
        for key, value in shown.items():
            _within(value, held[key])
    elif isinstance(shown, list):
        for value, other in zip(shown, held, strict=False):
            _within(value, other)
    else:
        assert shown == (pytest.approx(held, abs=2e-3) if isinstance(held, float) else held)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the evaluation set that the page names, small."""
    root = Path(shutil.copytree(HERE / "eval/minimal", tmp_path / "wmt21.news"))
    for path in sorted(root.rglob("*de-en*"), reverse=True):
        path.rename(path.with_name(path.name.replace("de-en", "zh-en")))
    (root / "paraphrases/zh-en.refA.jsonl").rename(tmp_path / "zh-en.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_programs_print_what_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, (program, shown) in enumerate(PROGRAMS, 1):
        exec(compile(program, f"write-python.md, program {number}", "exec"), {})
        printed = capsys.readouterr().out
        if shown:
            assert_part(shown, printed)
    assert [bool(shown) for _, shown in PROGRAMS] == [True, True, True, False, False]
    assert ReferenceSet.load("refs.polyref.jsonl").take(0).texts()[0] == ["Prices rose again last month."]
    assert (folder / "report/index.html").is_file()
