"""The README is a test: its commands run as they stand, and CI runs exactly its test command."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return [block.strip() for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)]


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.S | re.M)
    assert match, f"README has no section {title!r}"
    return match[1]


USE = [shlex.split(line) for block in blocks("sh", section("Use")) for line in block.split("\n")]

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
    """A folder with the files the README names, made from the sentences above."""
    root = tmp_path

    def write(name: str, lines: list[str]) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("\n".join(lines) + "\n", "utf-8")

    write("refs.en", REFERENCES)
    write("sysA.en", GOOD)
    write("sysB.en", BAD)
    write("wmt21.news/references/zh-en.refA.txt", REFERENCES)
    write("wmt21.news/sources/zh-en.txt", ["一", "二", "三", "四"])
    write("wmt21.news/documents/zh-en.docs", ["news doc"] * 4)
    scores = {"A": [-0.5, -0.1, 0.0, -1.0], "B": [-3.0, -5.0, -4.5, -2.0], "C": [-6.0, -1.5, -7.0, -3.5]}
    for name, lines in {"A": GOOD, "B": BAD, "C": [line[: len(line) // 2] for line in BAD]}.items():
        write(f"wmt21.news/system-outputs/zh-en/{name}.txt", lines)
    write("wmt21.news/human-scores/zh-en.mqm.seg.score", [f"{s}\t{v}" for s, row in scores.items() for v in row])
    write("wmt21.news/human-scores/zh-en.mqm.sys.score", [f"{s}\t{sum(row) / 4}" for s, row in scores.items()])
    return root


@pytest.fixture
def server() -> Iterator[str]:
    """Where the server of a language model is; the README's address is that of the reader's own."""
    with ChatServer().running() as url:
        yield url


def _typed(command: list[str], server: str) -> list[str]:
    assert command[0] == "polyref"
    return [server if word == "http://localhost:8000/v1" else word for word in command[1:]]


@pytest.mark.slow
def test_commands_run_and_speak_json(
    polyref: Callable[..., Any], workplace: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """One test, as the commands are one session: a later one reads what an earlier one wrote."""
    monkeypatch.chdir(workplace)
    for command in USE:
        result = polyref(*_typed(command, server))
        assert result.code == 0, f"{shlex.join(command)}: {result.err}"
        _check(command, workplace, result.out)

    assert "With `--json`, every command but `convert` prints one object" in " ".join(README.split())
    for command in USE:
        words = _typed(command, server)
        if words[0] == "convert":
            continue
        if "-o" in words and words[0] != "augment":
            assert words[-2] == "-o"
            words = words[:-2]
        if "-w" in words:  # digits for people
            words = words[: words.index("-w")] + words[words.index("-w") + 2 :]
        result = polyref(*words, "--json")
        assert result.code == 0, f"{shlex.join(command)} --json: {result.err}"
        assert {"signature", "rows"} <= set(result.json()) <= {"signature", "rows", "circular"}


def _check(command: list[str], workplace: Path, printed: str) -> None:
    if command[1] == "convert":
        assert (workplace / "refs.reference.en").read_text("utf-8").splitlines() == REFERENCES
        added = [path.read_text("utf-8").splitlines() for path in workplace.glob("refs.paraphrase*.en")]
        assert len(added) > 1 and {len(texts) for texts in added} == {len(REFERENCES)}
    elif "-o" in command:
        made = workplace / command[command.index("-o") + 1]
        if made.is_dir():
            assert "<svg" in (made / "index.html").read_text("utf-8")
        elif made.suffix == ".html":
            page = made.read_text("utf-8")
            assert page.startswith("<!doctype html>") and REFERENCES[0] in page
        else:
            assert json.loads(made.read_text("utf-8").split("\n")[0])
    else:
        assert re.search(r"BLEU|BERTScore k=10|Prism-ref", printed), shlex.join(command)


@pytest.mark.slow
def test_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    paraphrases, header, _, first, *_ = capsys.readouterr().out.splitlines()
    assert 1 <= len(ast.literal_eval(paraphrases)) <= 3
    names = ["system", "BLEU", "parBLEU k=5", "bleu(combine=expected)", "bleu(combine=expected) k=5"]
    assert re.split(r"\s{2,}", header.strip()) == names
    assert first.startswith("A ")


def test_documents_and_files_it_names_exist() -> None:
    root = Path(__file__).resolve().parent.parent
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_ci_runs_the_test_command_of_the_readme() -> None:
    root = Path(__file__).resolve().parent.parent
    script = (root / ".ci" / "run").read_text("utf-8")
    assert "<!-- test -->" in script
    (command,) = re.findall(r"<!-- test -->\n```sh\n(.*?)\n```", README, re.S)
    assert command.endswith("-m pytest -n 2")  # all tests, on two processes
    assert "-c constraints.txt" in command
