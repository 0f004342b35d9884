"""The README is a test: its commands run as they stand, and CI runs exactly its test command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return [block.strip() for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)]


#: Blocks of commands, each with the output that is shown below it; set-up is tested where packages are built.
SESSION = re.findall(r"^```sh\n((?:printf|polyref).*?)^```\n(?:\n```text\n(.*?)^```)?", README, re.S | re.M)

REFERENCES = [
    "The museum is closed on Mondays and costs 12 euros.",
    "He did not want to comment on the report.",
    "The storm destroyed the roof of the old school.",
    "Our train leaves at 8:15 from platform 4.",
]
GOOD = [
    "The museum does not open on Mondays and costs 12 euros.",
    "He refused to comment on the report.",
    "The roof of the old school was destroyed by the storm.",
    "Our train departs at 8:15 from platform 4.",
]
BAD = [
    "The museum is closed on Monday and cost 12 euro.",
    "He did want to comment the report.",
    "The storm destroyed the old roof.",
    "Our train leaves at 8:50 from platform.",
]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with the files the README takes as given, made from the sentences above."""
    root = tmp_path

    def write(name: str, lines: list[str]) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("\n".join(lines) + "\n", "utf-8")

    write("mine.tsv", ["english\tdeutsch", *(f"{text}\tSatz {n}" for n, text in enumerate(REFERENCES))])
    write("wmt22.mqm/references/zh-en.refA.txt", REFERENCES)
    write("wmt22.mqm/sources/zh-en.txt", ["一", "二", "三", "四"])
    write("wmt22.mqm/documents/zh-en.docs", ["news doc"] * 4)
    scores = {"A": [-0.5, -0.1, 0.0, -1.0], "B": [-3.0, -5.0, -4.5, -2.0], "C": [-6.0, -1.5, -7.0, -3.5]}
    for name, lines in {"A": GOOD, "B": BAD, "C": [line[: len(line) // 2] for line in BAD]}.items():
        write(f"wmt22.mqm/system-outputs/zh-en/{name}.txt", lines)
    write("wmt22.mqm/human-scores/zh-en.mqm.seg.score", [f"{s}\t{v}" for s, row in scores.items() for v in row])
    write("wmt22.mqm/human-scores/zh-en.mqm.sys.score", [f"{s}\t{sum(row) / 4}" for s, row in scores.items()])
    lists = [{"reference": text, "paraphrases": [good]} for text, good in zip(REFERENCES, GOOD, strict=True)]
    write("zh-en.refA.jsonl", [json.dumps(row) for row in lists])
    return root


@pytest.fixture
def server() -> Iterator[str]:
    """Where the server of a language model is; the README's address is that of the reader's own."""
    with ChatServer().running() as url:
        yield url


@pytest.mark.slow
def test_commands_run_and_print_what_is_shown(
    polyref: Callable[..., Any], workplace: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """One test, as the commands are one session: a later one reads what an earlier one wrote."""
    monkeypatch.chdir(workplace)
    ran = set()
    for commands, shown in SESSION:
        printed = ""
        for line in commands.strip().split("\n"):
            words = [server if word == "http://localhost:8000/v1" else word for word in shlex.split(line)]
            if words[0] != "polyref":
                subprocess.run(["bash", "-euc", line], check=True)
                continue
            result = polyref(*words[1:])
            assert result.code == 0, f"{line}: {result.err}"
            printed += result.out
            ran.add(words[1])
            _check_json(polyref, words[1:])
        assert printed.startswith(shown)
    assert ran == {"augment", "score", "convert", "evaluate"}
    assert sum(bool(shown) for _, shown in SESSION) >= 1
    converted = (workplace / "refs.jsonl").read_text("utf-8")
    assert [row["refs"][0]["text"] for row in map(json.loads, converted.splitlines()[1:])] == REFERENCES
    assert "Satz 3" in converted


def _check_json(polyref: Callable[..., Any], words: list[str]) -> None:
    """With ``--json``, every command but ``convert`` prints one object."""
    if words[0] != "convert":
        result = polyref(*words, "--json")
        assert result.code == 0, result.err
        assert {"signature", "rows"} <= set(result.json()) <= {"signature", "rows", "circular"}


@pytest.mark.slow
def test_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    header, _, first, *_ = capsys.readouterr().out.splitlines()
    names = re.sub(r" \([\d.]+ on average\)", "", header.strip())
    assert re.split(r"\s{2,}", names) == ["system", "BLEU", "parBLEU k=5", "chrF++", "parCHRF++ k=5"]
    name, *scores = first.split()
    assert name == "right"
    assert float(scores[1]) > float(scores[0])


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_documents_and_files_it_names_exist() -> None:
    root = Path(__file__).resolve().parent.parent
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_ci_runs_the_test_command_of_the_readme() -> None:
    root = Path(__file__).resolve().parent.parent
    for file in (".ci/run", ".github/workflows/ci.yml"):
        assert "scripts/readme_command test" in (root / file).read_text("utf-8"), file
    done = subprocess.run([root / "scripts" / "readme_command", "test"], capture_output=True, text=True, check=True)
    command = done.stdout.strip()
    assert f"<!-- test -->\n```sh\n{command}\n```" in README
    assert command.endswith("-m pytest -n 2 --dist worksteal")  # all tests, on two processes
    assert "-c constraints.txt" in command
