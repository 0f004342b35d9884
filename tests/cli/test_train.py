from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_encoders

from polyref.cli.training.train import TRAININGS
from polyref.metrics.embedding.baseline import compute_baseline, read_baseline
from polyref.metrics.embedding.encoders.load import load_encoder

TEXTS = ["the cat", "a dog never was good", "", "the old bridge", "yes", "no", "she bought 40 apples", "word " * 40]


def test_help_names_every_training(polyref: Callable[..., Any]) -> None:
    done = polyref("train", "--help")
    assert done.code == 0 and all(name in done.out for name in TRAININGS)
    assert polyref("train", "nonsense").code == 2


@pytest.mark.slow
def test_baseline(polyref: Callable[..., Any], tmp_path: Path) -> None:
    model = str(tiny_encoders.bert(tmp_path / "bert"))
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n")
    options = ["--model", model, "--texts", tmp_path / "texts", "--pairs", "3", "--seed", "4"]
    done = polyref("train", "baseline", *options, "-o", tmp_path / "b.tsv")
    assert done.code == 0 and "polyref: 3 pairs, bert (" in done.err
    expected = compute_baseline(load_encoder(model), TEXTS[:-1], pairs=3, seed=4)
    for layer in range(4):
        assert read_baseline(tmp_path / "b.tsv", layer).values == pytest.approx(expected[layer], abs=1e-8)
    assert polyref("train", "baseline", *options).out == (tmp_path / "b.tsv").read_text()
    other = polyref("train", "baseline", *options[:-1], "5").out
    assert other != (tmp_path / "b.tsv").read_text()


@pytest.mark.slow
def test_a_baseline_rescales_scores(polyref: Callable[..., Any], tmp_path: Path) -> None:
    model = str(tiny_encoders.bert(tmp_path / "bert"))
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n")
    polyref("train", "baseline", "--model", model, "--texts", tmp_path / "texts", "-o", tmp_path / "b.tsv")
    (tmp_path / "refs").write_text("the cat sat\n")
    (tmp_path / "sys").write_text("a cat\n")
    options = ["--bertscore-model", model, "--bertscore-layer", "3", "--no-cache", "--json"]
    inputs = ["score", tmp_path / "refs", "-i", tmp_path / "sys", "-m", "bertscore", *options]
    plain = polyref(*inputs).json()["rows"][0]
    scaled = polyref(*inputs, "--bertscore-rescale", tmp_path / "b.tsv").json()["rows"][0]
    base = read_baseline(tmp_path / "b.tsv", 3).values[2]
    assert scaled["score"] == pytest.approx((plain["score"] - base) / (1 - base), abs=1e-6)
    assert "|rescale:no|" in plain["signature"] and "|rescale:no|" not in scaled["signature"]


def test_faults(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("one text of several words\n")
    done = polyref("train", "baseline", "--texts", tmp_path / "texts", "-o", tmp_path / "b.tsv")
    assert done.code == 1 and "1 different texts, expected two or more" in done.err
    done = polyref("train", "baseline", "--texts", tmp_path / "texts", "--words", "2")
    assert done.code == 2 and "no text has 2 words or fewer" in done.err
    done = polyref("train", "baseline", "--texts", tmp_path / "texts", "--model", "nowhere")
    assert done.code == 1 and "no such encoder" in done.err
    assert not (tmp_path / "b.tsv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]
