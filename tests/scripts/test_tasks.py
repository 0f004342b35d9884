"""The evidence on several tasks: rows of ``polyref evaluate``, and looks at test sets from a commit alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import polyref

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MINIMAL = REPOSITORY / "tests" / "eval" / "minimal"
LISTS = MINIMAL / "paraphrases" / "de-en.refA.jsonl"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (REPOSITORY / "scripts" / "bench", REPOSITORY / "scripts" / "bench" / "quality"):
        monkeypatch.syspath_prepend(folder)


@pytest.mark.slow
def test_rows_are_those_of_evaluate(tmp_path: Path) -> None:
    from raw_tables import read, update
    from tasks import COLUMNS, KEY, Run, measured

    lists = str(LISTS.relative_to(MINIMAL.parent))
    run = Run("small", "minimal", "de-en", "refA", {"llm": lists}, (0, 1), metrics=("chrf",), placebos=2)
    update(tmp_path / "tasks.csv", COLUMNS, KEY, measured(run, MINIMAL.parent))
    rows = read(tmp_path / "tasks.csv")
    table = polyref.evaluate(
        MINIMAL, "de-en", references={"llm": LISTS}, ref="refA", gold="mqm", metrics="chrf", ks=[0, 1],
        statistics=["acc23", "pairwise-accuracy"], placebo=2,
    ).rows  # fmt: skip
    shown = {
        (row["metric"], row["statistic"]): row for row in rows if row["k"] == "1" and row["level"] in ("seg", "sys")
    }
    for name in ("kendall-without-ties", "acc23", "pearson", "pairwise-accuracy"):
        real, beyond, length = (
            next(row for row in table if (row["statistic"], row["k"], row["control"]) == (name, 1, control))
            for control in ("real", "real - placebo", "length")
        )
        row = shown["chrf", name]
        assert row["gain"] == f"{real['gain']:.4f}"
        assert row["beyond"] == f"{beyond['value']:.4f}"
        assert (row["claim"], row["verdict"]) == (f"{real['claim']:.4f}", real["verdict"])
        assert (shown[length["metric"], name]["gain"], shown[length["metric"], name]["verdict"]) == (
            f"{length['gain']:.4f}",
            "",
        )
    costs = {row["statistic"]: int(row["value"]) for row in rows if row["level"] == "cost"}
    texts = [segment.extras[0].text for segment in polyref.ReferenceSet.load(LISTS)]
    assert costs["characters"] == sum(map(len, texts))
    assert len(texts) < costs["tokens"] < costs["characters"]


def test_scores_that_a_set_has_are_rows_without_references(tmp_path: Path) -> None:
    from raw_tables import read, update
    from tasks import COLUMNS, KEY, Run, measured

    run = Run("stored", "minimal", "de-en", "refA", {}, (0,), metrics=("stored:length",), placebos=0)
    for _ in range(2):  # the second replaces the rows of the first
        update(tmp_path / "tasks.csv", COLUMNS, KEY, measured(run, MINIMAL.parent))
    rows = read(tmp_path / "tasks.csv")
    assert [row["statistic"] for row in rows if row["level"] == "seg"] == ["kendall-without-ties", "acc23"]
    table = polyref.evaluate(MINIMAL, "de-en", ref="refA", gold="mqm", metrics="stored:length").rows
    [pearson] = [row["value"] for row in table if row["statistic"] == "pearson"]
    assert [row["value"] for row in rows if row["statistic"] == "pearson"] == [f"{pearson:.4f}"]
    assert {(row["k"], row["references"], row["gain"], row["verdict"]) for row in rows} == {("", "", "", "")}


def test_a_look_at_a_test_set_is_from_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tasks

    monkeypatch.setattr(sys, "argv", ["tasks.py", "--data", str(tmp_path), "--out", str(tmp_path), "--test"])
    monkeypatch.setattr("looks.commit", lambda: "abc1234+")
    with pytest.raises(SystemExit, match="commit first"):
        tasks.main()
    assert not list(tmp_path.iterdir())


def test_a_test_set_is_asked_for() -> None:
    from tasks import wanted

    from polyref.errors import UsageError

    assert {run.name for run in wanted(None, test=False)} == {"wmt22-de"}
    assert all(run.test for run in wanted(["wmt23-he", "summeval"], test=True))
    for names, test in ((["wmt23-he"], False), (["wmt22-de"], True)):
        with pytest.raises(UsageError, match="--test"):
            wanted(names, test=test)


def test_the_ledger_says_what_was_looked_at(tmp_path: Path) -> None:
    from looks import LOOK
    from raw_tables import read
    from tasks import RUNS, note_look

    for run in RUNS:
        note_look(tmp_path / "ledger.csv", run, "abc1234", "again: why")
    rows = read(tmp_path / "ledger.csv")
    assert tuple(rows[0]) == LOOK
    found = {row["references"]: row for row in rows}["llm; segments 50; again: why"]
    assert (found["set"], found["ks"], found["placebos"]) == ("wmt22.mqm zh-en refA mqm", "0 10", "1")
    assert {row["commit"] for row in rows} == {"abc1234"}
