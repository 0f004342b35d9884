"""``polyref inspect`` as people use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SET = "\n".join(
    json.dumps(line)
    for line in (
        {"polyref": 1, "meta": {"generator": "maker", "k": 2}},
        {"id": "1", "refs": [{"text": "It rained."}, {"text": "Rain fell.", "kind": "paraphrase", "of": 0}]},
        {"id": "2", "refs": [{"text": "No one came."}]},
    )
)


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    path = tmp_path / "refs.polyref.jsonl"
    path.write_text(SET + "\n")
    return path


def test_a_screen_of_text(polyref: Callable[..., Any], refs: Path) -> None:
    result = polyref("inspect", refs)
    assert result.code == 0, result.err
    assert result.out.startswith("refs.polyref.jsonl: 2 segments: 2 human, 1 paraphrase references\n")
    assert "{+Rain fell+}" in result.out
    assert len(result.out.splitlines()) < 40


def test_a_page_beside_the_text_or_instead_of_it(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert polyref("inspect", refs, "-o", page).out.startswith(refs.name)
    assert page.read_text().startswith("<!doctype html>")
    assert polyref("inspect", refs, "-o", "-").out == page.read_text()


def test_json(polyref: Callable[..., Any], refs: Path) -> None:
    result = polyref("inspect", refs, "--json", "-n", "1").json()
    assert result["signature"].startswith("inspection|seed:1|tok:13a|polyref:")
    (row,) = result["rows"]
    assert row["segments"] == 2 and len(row["examples"]) == 1 and row["refusals"] is None


def test_plain_text_files_and_their_refused_candidates(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("It rained.\nNo one came.\n")
    (tmp_path / "b.en").write_text("Rain fell.\nNobody came.\n")
    (tmp_path / "dropped.jsonl").write_text('{"id": "1", "of": 0, "rank": 0, "text": "It", "reason": "length"}\n')
    result = polyref("inspect", tmp_path / "a.en", tmp_path / "b.en", "--dropped", tmp_path / "dropped.jsonl")
    assert "4 human references" in result.out and "refused   1 candidate: length 1" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "{refs}"], "is also an input"),
        (["--dropped", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--json", "-o", "-"], "both print on stdout"),
        (["--dropped", "{refs}"], "refs.polyref.jsonl:1: no "),
    ],
    ids=str,
)
def test_mistakes_are_one_line(polyref: Callable[..., Any], refs: Path, arguments: list[str], message: str) -> None:
    result = polyref("inspect", refs, *(argument.format(refs=refs) for argument in arguments))
    assert result.code in (1, 2) and not result.out
    assert message in result.err and len(result.err.splitlines()) == 1
