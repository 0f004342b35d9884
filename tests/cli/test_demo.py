"""``polyref demo``: its texts, its files, its numbers. One test runs it as a new user does, by its default."""

from __future__ import annotations

import html
import json
import re
import runpy
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from polyref.cli.demo import EXAMPLES, KS, screen
from polyref.paraphrase.loading import DEFAULT_MODELS
from polyref.references import Reference, ReferenceSet, Segment

RULES = runpy.run_path(str(Path(__file__).parent.parent / "shared" / "rule_paraphraser.py"))
SYSTEMS = ("sysA.en", "sysB.en")
TEXTS = {name: (files("polyref") / "examples" / name).read_text("utf-8").split("\n")[:-1] for name in EXAMPLES}


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    paraphraser = RULES["RuleParaphraser"]()

    def load(name: str, **options: Any) -> Any:
        assert name in DEFAULT_MODELS
        return paraphraser

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)


def test_the_example_texts() -> None:
    refs, good, bad = TEXTS["refs.en"], TEXTS["sysA.en"], TEXTS["sysB.en"]
    assert len(refs) == len(good) == len(bad) == 12
    for row in zip(refs, good, bad, strict=True):
        assert len(set(row)) == 3
        assert all(line == line.strip() and line for line in row)


def test_files_and_scores(polyref: Callable[..., Any], rules: None, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    result = polyref("demo", "-o", folder)
    assert result.code == 0, result.err
    names = {path.name for path in folder.iterdir()}
    assert names == {*EXAMPLES, "refs.polyref.jsonl", "dropped.jsonl", "scores.json"}
    for name in EXAMPLES:
        assert (folder / name).read_text("utf-8").split("\n")[:-1] == TEXTS[name]
        assert str(folder / name) in result.out + result.err or name == "README.md"
    assert "BLEU  parBLEU k=3  chrF++  parCHRF++ k=3" in result.out

    rows = json.loads((folder / "scores.json").read_text())["rows"]
    assert [(row["system"], row["metric"], row["k"]) for row in rows] == [
        (system, metric, k) for metric in ("bleu", "chrf++") for k in KS for system in SYSTEMS
    ]
    for row in rows[:2]:
        assert row["score"] == pytest.approx(sacrebleu.corpus_bleu(TEXTS[row["system"]], [TEXTS["refs.en"]]).score)
    assert len(ReferenceSet.load(folder / "refs.polyref.jsonl")) == 12


def test_the_commands_that_it_shows_are_those_that_it_runs(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = polyref("demo", "--model", "lexical").err.splitlines()
    commands = [line.removeprefix("$ polyref ").split() for line in shown if line.startswith("$ polyref ")]
    assert [command[0] for command in commands] == ["augment", "score"]
    first = {path.name: path.read_bytes() for path in (tmp_path / "polyref-demo").iterdir()}
    for command in commands:
        assert polyref(*command, "--force").code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "polyref-demo").iterdir()} == first


@pytest.mark.slow
def test_again_and_as_json(
    polyref: Callable[..., Any], rules: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    polyref("demo")
    first = {path.name: path.read_bytes() for path in (tmp_path / "polyref-demo").iterdir()}
    result = polyref("demo", "--json")
    assert result.code == 0
    assert result.json() == json.loads(first["scores.json"])
    assert {path.name: path.read_bytes() for path in (tmp_path / "polyref-demo").iterdir()} == first


@pytest.mark.parametrize("name", [*EXAMPLES, "refs.polyref.jsonl", "dropped.jsonl", "scores.json", "refs.html"])
def test_files_of_others_stay(polyref: Callable[..., Any], rules: None, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine\n")
    result = polyref("demo", "-o", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert f"{tmp_path / name} is there and not of this demo" in result.err
    assert result.err.count("\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine\n"}


@pytest.mark.slow
def test_results_of_others_beside_the_examples_stay(polyref: Callable[..., Any], rules: None, tmp_path: Path) -> None:
    assert polyref("demo", "-o", tmp_path).code == 0
    made = (tmp_path / "refs.polyref.jsonl").read_text("utf-8")
    for name, text in (
        ("refs.polyref.jsonl", made.replace('"k": 3', '"k": 10', 1)),
        ("scores.json", '{"signature": null, "rows": []}'),
    ):
        before = (tmp_path / name).read_text("utf-8")
        (tmp_path / name).write_text(text, "utf-8")
        result = polyref("demo", "-o", tmp_path)
        assert result.code == 2 and f"{name} is there and not of this demo" in result.err
        assert (tmp_path / name).read_text("utf-8") == text
        (tmp_path / name).write_text(before, "utf-8")
    (tmp_path / "sysB.en").unlink()
    assert polyref("demo", "-o", tmp_path).code == 2


@pytest.mark.slow
@pytest.mark.parametrize("there_is_a_browser", [True, False])
def test_the_page(
    polyref: Callable[..., Any], rules: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_is_a_browser: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or there_is_a_browser)
    result = polyref("demo", "-o", tmp_path / "a demo", "--open")
    assert result.code == 0, result.err
    page = tmp_path / "a demo" / "refs.html"
    assert opened == [page.as_uri()]
    shown = html.unescape(page.read_text("utf-8"))
    assert any(line in shown for line in TEXTS["refs.en"])
    assert (f"the page is {page}" in result.err) is not there_is_a_browser
    assert polyref("demo", "-o", tmp_path / "a demo").code == 0


def test_folders_that_cannot_be_made(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "under"):
        result = polyref("demo", "-o", folder)
        assert (result.code, result.out) == (1, "")
        assert "cannot be made" in result.err and result.err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_three_references_with_paraphrases_are_shown() -> None:
    def segment(number: int) -> Segment:
        added = Reference(f"paraphrase {number}", kind="paraphrase", of=0)
        return Segment(str(number), (Reference(f"text {number}"), added)[: 1 + number % 2])

    segments = ReferenceSet(tuple(map(segment, range(8))))
    rows = [{"system": system, "metric": "bleu", "name": "BLEU", "k": k, "score": 1} for system in SYSTEMS for k in KS]
    shown = screen(segments, [["a"] * 8, ["b"] * 8], rows, ("copy", "names", "copy"))
    assert shown.startswith("8 references and 4 paraphrases (3 more were dropped: copy 2, names 1). Three of")
    assert re.findall(r"^reference   (.*)$", shown, re.M) == ["text 1", "text 3", "text 5"]
    assert re.findall(r"^paraphrase  (.*)$", shown, re.M) == ["paraphrase 1", "paraphrase 3", "paraphrase 5"]
    shown = screen(ReferenceSet(segments.segments[:2]), [["a"] * 2, ["b"] * 2], rows, ())
    assert shown.startswith("2 references and 1 paraphrase. One of the references:\n")


@pytest.mark.slow
def test_as_a_new_user(polyref: Callable[..., Any], tmp_path: Path) -> None:
    result = polyref("demo", "-o", tmp_path / "demo")
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "demo" / "scores.json").read_text("utf-8"))["rows"]
    scores = {(row["system"], row["metric"], row["k"]): row["score"] for row in rows}
    for system in SYSTEMS:
        output = TEXTS[system]
        assert scores[system, "bleu", 0] == sacrebleu.corpus_bleu(output, [TEXTS["refs.en"]]).score
        assert scores[system, "chrf++", 0] == sacrebleu.corpus_chrf(output, [TEXTS["refs.en"]], word_order=2).score
    # The paraphrases help the right system alone, by far more than rounding on another machine could change.
    for metric in ("bleu", "chrf++"):
        assert scores["sysB.en", metric, 0] > scores["sysA.en", metric, 0] + 2
        assert scores["sysA.en", metric, 3] > scores["sysA.en", metric, 0] + 4
        assert scores["sysB.en", metric, 3] < scores["sysB.en", metric, 0] + 1
    assert "With one reference, the wrong system leads by" in result.out
    assert "It still leads, by" in result.out
    assert "no evidence" in result.out
    lines = (result.err + result.out).split("\n")[:-1]
    assert len(lines) <= 30
    assert max(map(len, result.out.split("\n"))) <= 100 + 3 * len(str(tmp_path / "demo"))
    for word in re.findall(r"^reference   (.*)$", result.out, re.M):
        assert word in TEXTS["refs.en"]
    made = ReferenceSet.load(tmp_path / "demo" / "refs.polyref.jsonl")
    shown = re.findall(r"^paraphrase  (.*)$", result.out, re.M)
    assert len(shown) == 3
    assert set(shown) <= {ref.text for segment in made for ref in segment.extras}
    # Neither system was written off the paraphrases.
    for segment, *outputs in zip(made, TEXTS["sysA.en"], TEXTS["sysB.en"], strict=True):
        assert segment.extras
        assert not {ref.text for ref in segment.extras} & set(outputs)
    # What it says to try next are commands that there are.
    for command in re.findall(r"^  polyref (.*)$", result.out, re.M):
        paths = {"YOUR-REFERENCES": "refs.en", "YOUR-OUTPUTS": "sysA.en", "refs.polyref.jsonl": "mine.jsonl"}
        words = [str(tmp_path / "demo" / paths[word]) if word in paths else word for word in command.split()]
        assert polyref(*words).code == 0
