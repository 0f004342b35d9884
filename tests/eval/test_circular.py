"""References that are copies of the judged outputs: no verdict in ``evaluate``; ``submit`` and ``inspect`` say so."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref import evaluate
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.releases import open_sets
from polyref.eval.inspection.inspection import inspect
from polyref.eval.submit import Submission, submit
from polyref.metrics.copies import count_copies
from polyref.references import ReferenceSet

TEXT = "the old mill by a river was closed for one long winter and nobody saw it open again until spring came"
WORDS = TEXT.split()
SIZE = 80
NAMES = [f"sys{number}" for number in range(1, 7)]
ASKED: dict[str, Any] = {"pairs": "de-en", "gold": "mqm", "ks": [0, 1], "metrics": "bleu", "resamples": 20}


def _changed(text: str, share: float, draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) if draw.random() < share else word for word in text.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of six systems, each further from the human reference than the one before, judged by how far it is."""
    draw = random.Random(4)
    human = [" ".join(draw.choices(WORDS, k=14)) for _ in range(SIZE)]
    systems = {name: [_changed(text, 0.2 + 0.1 * n, draw) for text in human] for n, name in enumerate(NAMES)}
    marks = [f"{name} {-2.0 * n - 8.0 * draw.random():.2f}\n" for n, name in enumerate(NAMES) for _ in range(SIZE)]
    added = [[_changed(text, 0.3, draw) for _ in range(2)] for text in human]
    root = tmp_path / "made"
    for file, lines in {
        "sources/de-en.txt": human,
        "references/de-en.refA.txt": human,
        **{f"system-outputs/de-en/{name}.txt": texts for name, texts in systems.items()},
    }.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    scores = root / "human-scores"
    scores.mkdir()
    (scores / "de-en.mqm.seg.score").write_text("".join(marks))
    lists = {
        "list": added,
        "one": [[text] for text in systems["sys2"]],
        "both": [[text, *more] for text, more in zip(systems["sys2"], added, strict=True)],
    }
    for name, rows in lists.items():
        lines = [json.dumps({"reference": text, "paraphrases": more}) for text, more in zip(human, rows, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return root


def test_verdicts_are_withheld_and_the_rest_is_measured_again(folder: Path, tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    found = evaluate(
        folder, references=tmp_path / "both.jsonl", placebo=1, say=lambda *told: said.append(told), **ASKED
    )
    first, again = found.evaluations
    assert any(kind == "warning" and "sys2 (exact copies" in text for kind, text in said)
    assert any("sys2 (exact copies" in note for note in first.notes)
    added = [row for row in found.rows if row["k"] == 1 and row["generator"] is None and row["control"] != "placebo"]
    assert {row["verdict"] for row in added} == {"withheld", None}
    assert {row["withheld"] for row in added if row["verdict"]} == {"added references are copies of outputs of sys2"}
    # The human references alone are not concerned.
    assert "withheld" not in {row["verdict"] for row in found.rows if not row["k"]}
    assert again.generator == "without copies" and "sys2" not in again.gold.systems | {*again.outputs}
    assert not again.doubts and len(again.gold.systems) == len(NAMES) - 1
    clean = evaluate(folder, references=tmp_path / "list.jsonl", exclude="sys2", placebo=1, **ASKED)
    real = [[row["value"] for row in rows if row["control"] == "real"] for rows in (again.row_values(), clean.rows)]
    assert real[0] == real[1]
    assert "without copies" in found.text() and "added references are copies of outputs of sys2\n" in found.text()
    circular = [one for one in found.circular if one["circular"]]
    assert [(one["system"], one["exact"], one["generator"]) for one in circular] == [("sys2", SIZE, None)]
    found.report(tmp_path / "report")
    assert "sys2 (exact copies" in (tmp_path / "report" / "index.html").read_text()


def test_nothing_is_left_without_the_copies(folder: Path, tmp_path: Path) -> None:
    outputs = folder / "system-outputs" / "de-en" / "sys2.txt"
    for references in (tmp_path / "one.jsonl", str(outputs), ReferenceSet.load(tmp_path / "one.jsonl")):
        said: list[str] = []
        found = evaluate(folder, references=references, say=lambda *told: said.append(told[1]), **ASKED)  # noqa: B023
        assert len(found.evaluations) == 1
        assert any(text.startswith("nothing to compare is left without copies of outputs of sys2") for text in said)
        assert "withheld" in {row["verdict"] for row in found.rows if row["k"]}


def test_one_segment_that_is_left_has_no_placebo(folder: Path, tmp_path: Path) -> None:
    first, *rest = (tmp_path / "one.jsonl").read_text().splitlines(keepends=True)
    row = json.loads(first)
    row["paraphrases"].append("something else altogether that no system wrote")
    (tmp_path / "one.jsonl").write_text("".join([json.dumps(row) + "\n", *rest]))
    said: list[str] = []
    table = evaluate(
        folder, references=tmp_path / "one.jsonl", placebo=1, say=lambda kind, text: said.append(text), **ASKED
    )
    assert len(table.evaluations) == 1
    assert any(text.startswith("nothing to compare is left without copies of outputs of sys2") for text in said)


def test_other_references_have_their_verdicts(folder: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    asked = ["evaluate", folder, "-l", "de-en", "--gold", "mqm", "-m", "bleu", "-n", "20", "-k", "0", "1", "--json"]
    clean = polyref(*asked, "--refs", tmp_path / "list.jsonl")
    assert "circular" not in clean.err
    assert {row["verdict"] for row in clean.json()["rows"]} & {"gains", "unclear", "worse"}
    assert not any(one["circular"] for one in clean.json()["circular"])
    copied = polyref(*asked, "--refs", tmp_path / "both.jsonl")
    assert copied.code == 0 and "polyref: warning: circular references: " in copied.err
    assert sum(one["circular"] for one in copied.json()["circular"]) == 1
    # With peers, outputs are meant to be references.
    assert polyref(*asked[:-4], "--peers", "leave-one-out", "--combine", "mean", "--json").json().keys() == {
        "signature", "rows",
    }  # fmt: skip


def test_submit_says_so(folder: Path, tmp_path: Path) -> None:
    for name, expected in (("both", ["sys2"]), ("list", [])):
        said: list[tuple[str, str]] = []
        submit(
            folder,
            "de-en",
            tmp_path / name,
            Submission(2023, "mine", "made", references=tmp_path / f"{name}.jsonl"),
            say=lambda *told: said.append(told),  # noqa: B023
        )
        assert [kind for kind, text in said if "circular references" in text] == ["warning"] * len(expected)
        written = json.loads((tmp_path / name / "mine.provenance.json").read_text())
        told = written["pairs"]["de-en"]["circular"]
        assert len(told) == len(NAMES) and [one["system"] for one in told if one["circular"]] == expected


def test_inspect_says_so(folder: Path, tmp_path: Path, polyref: Callable[..., Any]) -> None:
    outputs = [folder / "system-outputs" / "de-en" / f"{name}.txt" for name in ("sys1", "sys2")]
    page = tmp_path / "page.html"
    shown = polyref("inspect", tmp_path / "both.jsonl", "-i", *outputs, "-o", page)
    assert shown.code == 0, shown.err
    for text in (shown.out, page.read_text()):
        flat = " ".join(text.split())
        assert "sys2.txt (exact copies of its outputs: 80 of 237 added references" in flat
        assert "circular: more copies than by chance" in flat
    (row,) = polyref("inspect", tmp_path / "both.jsonl", "-i", *outputs, "--json").json()["rows"]
    assert [one["circular"] for one in row["circular"]] == [False, True]
    assert "circular" not in polyref("inspect", tmp_path / "both.jsonl").out
    wrong = tmp_path / "short.txt"
    wrong.write_text("one line\n")
    assert polyref("inspect", tmp_path / "both.jsonl", "-i", wrong).code == 1


def _real(data: Path, name: str, pair: str) -> tuple[EvalSet, dict[str, list[str]]]:
    (evalset,) = open_sets([data / name], [pair], None, False)
    assert isinstance(evalset, EvalSet)
    systems = [one for one in evalset.output_files if not evalset.is_human(one)]
    return evalset, dict(zip(systems, evalset.outputs(systems), strict=True))


def _best(evalset: EvalSet, outputs: dict[str, list[str]]) -> list[list[str]]:
    """Of every segment the output judged best; nothing where none is judged."""
    gold = evalset.gold("mqm")
    names = [name for name in outputs if name in gold.segment]
    marks = np.stack([gold.segment[name] for name in names])
    judged = ~np.isnan(marks).all(axis=0)
    best = np.where(np.isnan(marks), -np.inf, marks).argmax(axis=0)
    return [[outputs[names[at]][n]] if there else [] for n, (at, there) in enumerate(zip(best, judged, strict=True))]


def _flagged(evalset: EvalSet, outputs: dict[str, list[str]], added: Any, human: str = "refA") -> list[str]:
    references = reference_set(evalset, [human], added)
    return [one.system for one in count_copies(references, outputs, [10]) if one.circular]


def _given(texts: Sequence[Sequence[str]]) -> ReferenceSet:
    return ReferenceSet.from_texts([[]] * len(texts), paraphrases=texts)


@pytest.mark.parametrize(("name", "pair"), [("wmt22.mqm", "zh-en"), ("wmt22.mqm", "en-de"), ("wmt23.mqm", "he-en")])
def test_real_outputs_are_flagged(data_dir: Path, tmp_path: Path, name: str, pair: str) -> None:
    evalset, outputs = _real(data_dir, name, pair)
    best = _best(evalset, outputs)
    assert _flagged(evalset, outputs, _given(best))
    plain = tmp_path / "best.txt"
    plain.write_text("".join(f"{''.join(texts)}\n" for texts in best), "utf-8")
    assert _flagged(evalset, outputs, str(plain))
    for system in list(outputs)[::5]:
        assert system in _flagged(evalset, outputs, _given([[text] for text in outputs[system]]))


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("wmt22.mqm", "zh-en"),
        ("wmt22.mqm", "en-de"),
        ("wmt23.mqm", "he-en"),
        ("wmt21.news", "zh-en"),
        ("bio21.mqm", "de-en"),
        ("bio21.mqm", "es-en"),
        ("bio21.mqm", "ru-en"),
    ],
)
def test_real_references_of_people_are_not_flagged(data_dir: Path, name: str, pair: str) -> None:
    evalset, outputs = _real(data_dir, name, pair)
    assert _flagged(evalset, outputs, "ref:refB") == []
    # ONLINE-B writes 589 sentences of refA of Hebrew word for word, four times as often as any other pair of texts.
    expected = ["ONLINE-B"] if name == "wmt23.mqm" else []
    assert _flagged(evalset, outputs, "ref:refA", "refB") == expected


@pytest.mark.parametrize("pair", ["zh-en", "en-de"])
def test_real_lists_of_a_language_model_are_not_flagged(data_dir: Path, pair: str) -> None:
    evalset, outputs = _real(data_dir, "wmt22.mqm", pair)
    assert _flagged(evalset, outputs, data_dir / "wmt22" / "paraphrases" / f"{pair}.refA.jsonl") == []


@pytest.mark.parametrize(("name", "lists"), [("summeval", "llm"), ("summeval", "people"), ("dailydialog", "people")])
def test_real_summaries_and_replies_are_not_flagged(data_dir: Path, name: str, lists: str) -> None:
    evalset, outputs = _real(data_dir, name, "en-en")
    assert _flagged(evalset, outputs, data_dir / name / f"{lists}.jsonl") == []


def test_a_real_run_withholds_its_verdicts(data_dir: Path) -> None:
    _, outputs = _real(data_dir, "wmt22.mqm", "en-de")
    copied = _given([[text] for text in outputs["Online-A"]])
    found = evaluate(
        data_dir / "wmt22.mqm", "en-de", ref="refA", references=copied, ks=[0, 1], metrics="bleu", resamples=0
    )
    rows = [row for row in found.rows if row["k"] == 1 and row["generator"] is None and row["verdict"]]
    assert rows and {row["verdict"] for row in rows} == {"withheld"}
    assert inspect(copied, systems=outputs).copies


def test_segments_that_are_left_without_reference_are_told_of(folder: Path, tmp_path: Path) -> None:
    rows = [json.loads(line)["paraphrases"] for line in (tmp_path / "both.jsonl").read_text().splitlines()]
    # In the last ten segments the copied system's output is the only one.
    kept = [texts if number < SIZE - 10 else texts[:1] for number, texts in enumerate(rows)]
    added = ReferenceSet.from_texts([[] for _ in kept], paraphrases=kept)
    # With a human reference in every segment, the rest is measured.
    assert len(evaluate(folder, references=added, **ASKED).evaluations) == 2
    for human in (True, False):
        said: list[tuple[str, str]] = []
        if not human:
            (folder / "references" / "de-en.refA.txt").unlink()
        asked = ASKED | {"originals": "replaced" if human else "kept", "ks": [0, 1] if human else [1, 3]}
        found = evaluate(folder, references=added, say=lambda *told: said.append(told), **asked)  # noqa: B023
        assert len(found.evaluations) == 1 and "withheld" in {row["verdict"] for row in found.rows}
        assert [text for kind, text in said if kind == "note" and "without copies" in text] == [
            f"nothing is evaluated without copies of outputs of sys2: 10 of {SIZE} segments have no reference left "
            "without them"
        ]
