"""Advice on how references combine: it is what the evidence says, and one line where it has a use."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.metrics.table import FINDINGS, advice

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = {"bleu": "parBLEU", "chrf++": "parCHRF++"}
LLM = "openai|gpt|temperature:1"


def _sure(*, of: str, references: str, level: str) -> set[tuple[str, int, str, str]]:
    """Metric, k, the better use and the worse one, of every pair with the maximum that differs surely."""
    with (ROOT / "docs/benchmarks/evidence.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if (row["set"], row["references"], row["level"]) == (
            of, references, level) and row["statistic"] not in ("kendall-tau-b", "acc23")]  # fmt: skip
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        found.setdefault((row["metric"], row["use"], row["k"], row["statistic"]), {})[row["row"]] = row
    sure, compared = set(), 0
    for (metric, use, k, _), one in found.items():
        if use == "max" or k == "0":
            continue
        pair = [one["over-max"], one["difference-over-max"]]
        compared += 1
        p = pair[0]["p"]
        if all(float(row["low"]) > 0 for row in pair) and float(p or 0) <= 0.05:
            sure.add((NAMES[metric], int(k), use, "max"))
        elif all(float(row["high"]) < 0 for row in pair) and float(p or 1) >= 0.95:
            sure.add((NAMES[metric], int(k), "max", use))
    assert compared >= 18
    return sure


def test_the_findings_are_those_of_the_evidence() -> None:
    sure = _sure(of="wmt22-de", references="llm", level="sys")
    # With one reference, the best of those that are better than the maximum.
    sure -= {("parCHRF++", 1, "mean", "max"), ("parCHRF++", 1, "blend", "max")}
    assert sure == {(one.metric, one.least, one.better, use) for one in FINDINGS for use in one.than}


@pytest.mark.parametrize(
    ("of", "references", "level"),
    [("wmt22-de", "llm", "seg"), ("development", "shipped-int8", "seg"), ("development", "shipped-int8", "sys")],
    ids=["llm-segments", "shipped-segments", "shipped-systems"],
)
def test_nothing_else_is_sure(of: str, references: str, level: str) -> None:
    assert _sure(of=of, references=references, level=level) == set()


def _signature(name: str = "parBLEU", combine: str = "mean", k: int = 10, made_by: str = "openai/gpt") -> str:
    return f"{name}|nrefs:11|combine:{combine}|k:{k}|refs:11|gen:{made_by}|bs:1000|polyref:1"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "`combine` max (parBLEU k=10)"),
        ({"k": 50}, "`combine` max (parBLEU k=50)"),
        ({"made_by": "chat/a/dtype:bfloat16"}, "`combine` max (parBLEU k=10)"),
        ({"name": "parCHRF++", "k": 1, "combine": "max"}, "`combine` expected (parCHRF++ k=1)"),
        ({"k": 9}, None),
        ({"combine": "max"}, None),
        ({"name": "parCHRF"}, None),
        ({"name": "parCHRF++"}, None),
        ({"name": "parCHRF++", "k": 2, "combine": "max"}, None),
        ({"made_by": "polyref-en/sha:1"}, None),
        ({"made_by": "openai/gpt + polyref-en/sha:1"}, None),
        ({"made_by": "openais.jsonl/sha:1"}, None),
    ],
    ids=["usual", "more", "chat", "one", "few", "maximum", "chrf", "mean-chrf", "two", "shipped", "mixed", "lists"],
)
def test_what_it_names(given: dict[str, Any], named: str | None) -> None:
    found = advice([_signature(**given)])
    assert found is None if named is None else found is not None and named in found


def test_columns_share_a_line() -> None:
    found = advice([_signature(), _signature("parCHRF++", "max", 1), _signature("parCHRF++", "blend"), "BLEU|k:0"])
    assert found is not None and "\n" not in found
    assert "max (parBLEU k=10, parCHRF++ k=10); `combine` expected (parCHRF++ k=1)" in found


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    refs = [{"text": "A cat sat on the mat.", "kind": "human"}]
    refs += [{"text": f"A cat sat on mat {n}.", "kind": "paraphrase", "of": 0} for n in range(10)]
    lines = [{"polyref": 1, "meta": {"generator": LLM}}, {"id": "1", "refs": refs}]
    (tmp_path / "refs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (tmp_path / "a.en").write_text("A cat sat on a mat.\n", "utf-8")
    return [str(tmp_path / "refs.jsonl"), "-i", str(tmp_path / "a.en"), "-m", "bleu", "chrf++"]


def test_scores_are_printed_with_one_line(polyref: Callable[..., Any], files: list[str]) -> None:
    said = polyref("score", *files, "--combine", "blend", "-k", "0", "1", "10")
    assert "--combine max (parBLEU k=10, parCHRF++ k=10)" in said.err
    assert said.err.count("language model") == 1
    quiet = polyref("score", *files, "--combine", "blend", "-k", "0", "1", "10", "-q")
    assert (quiet.out, quiet.err) == (said.out, "")
    assert "language model" not in polyref("score", *files, "-k", "0", "10").err
    assert "language model" not in polyref("score", *files, "--combine", "blend", "-k", "10", "--sentence").err


def test_evaluations_say_it_too(polyref: Callable[..., Any], tmp_path: Path) -> None:
    data = ROOT / "tests/eval/minimal"
    lists = [json.loads(line) for line in (data / "paraphrases/de-en.refA.jsonl").read_text("utf-8").splitlines()]
    with (tmp_path / "made.jsonl").open("w", encoding="utf-8") as stream:
        stream.write(json.dumps({"polyref": 1, "meta": {"generator": LLM}}) + "\n")
        for number, one in enumerate(lists, 1):
            refs = [{"text": one["reference"], "kind": "human"}]
            refs += [{"text": text, "kind": "paraphrase", "of": 0} for text in one["paraphrases"]]
            stream.write(json.dumps({"id": str(number), "refs": refs}) + "\n")
    asked = ("evaluate", data, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "-m", "chrf++", "--refs")
    found = polyref(*asked, tmp_path / "made.jsonl", "-k", "0", "1")
    assert found.code == 0, found.err
    assert found.err.count("--combine expected (parCHRF++ k=1)") == 1
    assert "language model" not in polyref(*asked, tmp_path / "made.jsonl", "-k", "0", "1", "-q").err
    assert "language model" not in polyref(*asked, data / "paraphrases/de-en.refA.jsonl", "-k", "0", "1").err
