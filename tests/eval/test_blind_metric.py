"""Verdicts on real judgements: a metric that sees nothing but lengths never gets better, a planted gain does."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref.eval.api import evaluate
from polyref.eval.data.evaluation_set import EvalSet

LENGTH = "length-characters"
EXACTNESS = Path(__file__).resolve().parents[2] / "scripts" / "bench" / "exactness"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXACTNESS)


@pytest.fixture
def blind(tmp_path: Path) -> dict[str, str]:
    """The environment in which metrics of lengths are plug-ins."""
    from length_only import installed

    return installed(tmp_path / "installed")


def _rows(environment: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "polyref", "evaluate", *arguments, "-m", LENGTH, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


@pytest.mark.parametrize(
    ("folder", "pair", "ref", "gold", "added", "over"),
    [
        ("wmt22.mqm", "zh-en", "refA", "mqm", "wmt22/paraphrases/zh-en.refA.jsonl", "both"),
        ("wmt21.news", "zh-en", "refA", "mqm", "refB", "segments"),
    ],
)
def test_nothing_is_better_for_a_metric_that_sees_lengths_alone(
    data_dir: Path, blind: dict[str, str], tmp_path: Path, folder: str, pair: str, ref: str, gold: str, added: str,
    over: str,
) -> None:  # fmt: skip
    references = data_dir / added
    if not references.is_file():  # another reference of people
        evalset = EvalSet(data_dir / folder, pair)
        references = tmp_path / "added.jsonl"
        both = zip(evalset.reference(ref), evalset.reference(added), strict=True)
        lines = [json.dumps({"reference": one, "paraphrases": [other]}) for one, other in both]
        references.write_text("\n".join(lines) + "\n")
    rows = _rows(blind, str(data_dir / folder), "-l", pair, "--ref", ref, "--gold", gold, "--refs", str(references),
                 "--placebo", "2", "-n", "200", "--over", over)  # fmt: skip
    told = [row for row in rows if row["verdict"] is not None]
    assert {row["control"] for row in told} == {"real", "real - placebo"}
    assert {"seg", "sys"} == {row["level"] for row in told}
    assert [(row["level"], row["statistic"], row["control"]) for row in told if row["verdict"] == "better"] == []
    # The control that is run with every placebo is this metric, but for ties by a last digit.
    place = itemgetter("generator", "level", "statistic", "k")
    own = {place(row): row for row in rows if row["control"] == "real" and row["k"]}
    control = [row for row in rows if row["control"] == "length"]
    assert len(control) == len(own)
    for row in control:
        real = own[place(row)]
        for key in ("value", "gain", "p"):
            assert row[key] == (real[key] if real[key] is None else pytest.approx(real[key], abs=1e-4)), key
        assert row["verdict"] is None


def test_no_kind_of_length_is_better_and_a_planted_gain_is(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script that makes the table of the docs, on one of its sets."""
    import length_only

    arguments = ["--data", str(data_dir), "--work", str(tmp_path), "--out", str(tmp_path), "--sets", "bio21.mqm ru-en"]
    monkeypatch.setattr("sys.argv", ["length_only.py", *arguments, "--added", "refB", "planted", "--placebo", "2"])
    length_only.main()
    with (tmp_path / "length_only.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["metric"], row["added"]) for row in rows] == [
        *((name, "refB") for name in length_only.METRICS), ("chrf", "planted"),
    ]  # fmt: skip
    assert [int(row["better"]) > 0 for row in rows] == [False, False, False, True]
    # Every statistic that has verdicts has one.
    assert {row["verdicts"] for row in rows} == {"10"}


def test_how_much_length_alone_gives_is_said(data_dir: Path) -> None:
    """On this set a metric that sees only lengths gains for systems from one reference by a language model."""
    table = evaluate(data_dir / "wmt22.mqm", "en-de", ref="refA", gold="mqm", ks=1, metrics="chrf", resamples=0,
                     references=data_dir / "wmt22/paraphrases/en-de.refA.jsonl", placebo=1)  # fmt: skip
    (blind,) = [row for row in table.rows if row["control"] == "length" and row["statistic"] == "pearson"]
    assert blind["gain"] == pytest.approx(0.172, abs=0.001) and blind["p"] < 0.025
    (chrf,) = [row for row in table.rows if row["control"] == "real" and row["statistic"] == "pearson" and row["k"]]
    (told,) = [remark for remark in table.evaluations[0].remarks if remark.startswith("Length alone gains as well")]
    assert told.startswith("Length alone gains as well (Pearson's r, systems, k = 1): a metric that sees only lengths ")
    assert f"gains {blind['gain']:.4f} (one-sided p = {blind['p']:.4f})" in told
    assert f"as much as all of the {chrf['gain']:.4f} of chrF" in told
    assert told in str(table)
    left = table.evaluations[0].length_left
    assert left is not None and left.median == 0 and abs(left.mean) < 0.5 and left.beyond < 0.005


@pytest.mark.parametrize(
    ("folder", "pair", "ref", "gold", "over"),
    [
        ("wmt19", "lt-en", "ref", "darr", "segments"),
        ("wmt19", "gu-en", "ref", "darr", "both"),
        ("wmt21.news", "zh-en", "refA", "mqm", "both"),
    ],
)
def test_lengths_alone_are_better_than_no_metric_that_reads(
    data_dir: Path, blind: dict[str, str], folder: str, pair: str, ref: str, gold: str, over: str
) -> None:
    rows = _rows(blind, str(data_dir / folder), "-l", pair, "--ref", ref, "--gold", gold, "-m", "chrf", "--baseline",
                 "chrf", "-k", "0", "-n", "200", "--over", over)  # fmt: skip
    told = [row for row in rows if row["verdict"] is not None]
    assert {row["metric"] for row in told} == {LENGTH}
    assert not [row for row in told if row["verdict"] == "better"]
    assert [row for row in told if row["verdict"] == "worse"]


def test_intervals_over_segments_alone_would_mislead_about_systems(data_dir: Path, blind: dict[str, str]) -> None:
    """The same metric again: its gain for these systems is sure, but other systems would not show it."""
    arguments = (str(data_dir / "wmt22.mqm"), "-l", "zh-en", "--ref", "refA", "--gold", "mqm", "-n", "200",
                 "--refs", str(data_dir / "wmt22/paraphrases/zh-en.refA.jsonl"), "-k", "10")  # fmt: skip
    (row,) = [row for row in _rows(blind, *arguments) if row["level"] == "sys"]
    assert row["redrawn"] == "segments" and row["gain_ci"][0] > 0
    assert row["p"] > 0.05 and row["p_williams"] > 0.05 and row["verdict"] == "unclear"
    # PERM-BOTH is about these systems as well: it is no verdict.
    (both,) = [one for one in _rows(blind, *arguments, "--perm-both", "1000") if one["level"] == "sys"]
    assert both["p_perm_both"] < 0.025 and both["verdict"] == "unclear"


def test_a_planted_gain_within_segments_is_found(data_dir: Path) -> None:
    """Added references that say what people liked best: most words of the output with the highest human score.

    Whole outputs would be circular references, whose gain is not believed.
    """
    evalset = EvalSet(data_dir / "wmt21.news", "zh-en")
    gold = evalset.gold("mqm")
    names = list(gold.segment)
    outputs = evalset.outputs(names)
    human = np.stack([gold.segment[name] for name in names])
    best = np.where(np.isnan(human), -np.inf, human).argmax(axis=0)
    words = [outputs[system][segment].split() for segment, system in enumerate(best)]
    planted = [[" ".join([*(word for place, word in enumerate(one) if place % 4), "indeed"])] for one in words]
    for over in ("segments", "both"):
        table = evaluate(data_dir / "wmt21.news", "zh-en", ref="refA", gold="mqm", references=planted, metrics="chrf",
                         ks=1, placebo=2, resamples=100, over=over)  # fmt: skip
        found = {(row["statistic"], row["control"]): row["verdict"] for row in table.rows if row["level"] == "seg"}
        for statistic in ("kendall-without-ties", "acc23"):
            assert found[statistic, "real"] == found[statistic, "real - placebo"] == "better"
            assert found[statistic, "placebo"] is None


def test_a_planted_gain_of_systems_is_found(data_dir: Path, tmp_path: Path) -> None:
    """Two score files: people's scores with little noise, against people's scores with much."""
    news = tmp_path / "news"
    news.mkdir()
    for folder in (data_dir / "wmt21.news").iterdir():
        if folder.is_dir() and folder.name != "metric-scores":
            (news / folder.name).symlink_to(folder.resolve())
    stored = news / "metric-scores/zh-en"
    stored.mkdir(parents=True)
    human = EvalSet(news, "zh-en").gold("mqm").system
    noise = np.random.default_rng(3).normal(size=(2, len(human))) * np.std(list(human.values()))
    for name, drawn, scale in (("noisy", noise[0], 1.5), ("planted", noise[1], 0.1)):
        lines = [
            f"{system}\t{score + scale * more}" for (system, score), more in zip(human.items(), drawn, strict=True)
        ]
        (stored / f"{name}-refA.sys.score").write_text("\n".join(lines) + "\n")
    for over in ("segments", "both"):
        table = evaluate(
            news, "zh-en", ref="refA", gold="mqm", metrics=["noisy", "planted"], baseline="noisy", over=over
        )
        (row,) = [row for row in table.rows if row["metric"] == "planted" and row["level"] == "sys"]
        # A file has no segments to redraw.
        assert row["redrawn"] == {"segments": None, "both": "systems"}[over]
        assert row["verdict"] == "better"
