"""The examples in docs/how-to/augment.md and docs/reference/file-formats.md run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment import filter_chain
from polyref.references import ReferenceSet

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
GUIDE = (DOCS / "how-to" / "augment.md").read_text("utf-8")
FILTERS = (DOCS / "reference" / "filters.md").read_text("utf-8")
FORMATS = (DOCS / "reference" / "file-formats.md").read_text("utf-8")


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    paraphraser = RuleParaphraser()
    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", lambda *args, **options: paraphraser)
    monkeypatch.setattr("polyref.paraphrase.load_paraphraser", lambda *args, **options: paraphraser)
    monkeypatch.chdir(tmp_path)
    for name in ("refs.en", "refA.en", "refB.en"):
        (tmp_path / name).write_text("Ann paid.\nThe dog barked.\n")
    return tmp_path


def test_python_examples(folder: Path) -> None:
    first, asking, second = _blocks(GUIDE, "python")
    names: dict[str, Any] = {}
    exec(first, names)
    assert ReferenceSet.load("refs.polyref.jsonl") == names["augmented"]
    exec(asking, names)
    (example,) = (json.loads(line) for line in _blocks(GUIDE, "json"))
    assert names["reason"] == example["reason"] == "numbers"
    names["paraphraser"] = RuleParaphraser()
    exec(second, names)
    assert names["augmented"].meta["filters"] == f"{filter_chain().name}+no-shouting"


@pytest.mark.slow
def test_the_filter_file(folder: Path) -> None:
    example, judged = _blocks(GUIDE, "toml")
    (folder / "mine.toml").write_text(example)
    chain = filter_chain("mine.toml")
    assert chain.reasons[-2:] == ("omission0.34", "backward@0.25") and "echo" not in chain.reasons
    # The model that the page names is on the hub.
    (folder / "fluency.toml").write_text(judged.replace("HuggingFaceTB/SmolLM2-135M-Instruct", "shipped"))
    assert filter_chain("fluency.toml").reasons == (*filter_chain().reasons, "fluency>=-6")
    for name in ("good-writer", "small-model", "strict"):
        printed = [reason for reason in filter_chain(name).reasons if reason[-1].isdigit() or "-" in reason]
        assert printed and all(f"`{reason}`" in FILTERS for reason in printed)
    listed = set(re.findall(r"^\| `([\w-]+)` \|", FILTERS, re.MULTILINE))
    every = {reason for name in ("good-writer", "small-model") for reason in filter_chain(name).reasons}
    assert {reason.rstrip("0123456789.-") for reason in every} <= listed


def test_commands(polyref: Callable[..., Any], folder: Path) -> None:
    lines = [line for block in _blocks(GUIDE, "sh") for line in block.split("\n")]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("polyref augment")]
    assert len(commands) == 8
    rows = [{"text": text, "paraphrases": [{"text": f"So: {text}"}]} for text in ("Ann paid.", "The dog barked.")]
    (folder / "nbest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "made.jsonl").write_text('{"id": "1", "lang": "en", "refs": [{"text": "Ann paid."}]}\n')
    for command in commands:
        result = polyref(*command[1:])
        assert result.code == 0, result.err


def test_the_commands_with_peers(polyref: Callable[..., Any], folder: Path) -> None:
    page = (DOCS / "how-to" / "use-peers.md").read_text("utf-8")
    for name in ("pool1.en", "pool2.en", "sysA.en", "sysB.en"):
        (folder / name).write_text(f"Ann has paid {name} .\nA dog barked.\n")
    for line in _blocks(page, "sh")[0].splitlines():
        result = polyref(*shlex.split(line)[1:])
        assert result.code == 0, result.err
    assert [ref.kind for ref in ReferenceSet.load("refs.peers.jsonl")[0].refs] == ["human", "pseudo", "pseudo"]


def test_the_formats(tmp_path: Path) -> None:
    (normal,) = _blocks(FORMATS, "json")
    (tmp_path / "a.jsonl").write_text(normal)
    refset = ReferenceSet.load(tmp_path / "a.jsonl")
    assert [ref.kind for ref in refset[0].refs] == ["human", "paraphrase"]
    (simple,) = (text for text in re.findall(r"`(\{.*?\})`", FORMATS) if "paraphrases" in text)
    (tmp_path / "b.jsonl").write_text(json.dumps(json.loads(simple)) + "\n")
    assert len(ReferenceSet.load(tmp_path / "b.jsonl")[0].extras) == 2
