"""The scripts that train ESIM and compute baselines of BERTScore: what they write is what polyref reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_encoders
from bertscore_baseline import compute_baseline
from esim_fixtures import rankings, write_rows

from polyref.metrics.embedding.bertscore import read_baseline
from polyref.metrics.esim.card import read_card
from polyref.metrics.esim.network import load_network
from polyref.models.encoders import load_encoder

SCRIPTS = Path(__file__).parents[2] / "scripts"
pytestmark = pytest.mark.slow


def run(script: str, *words: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPTS / script, *map(str, words)], capture_output=True, text=True)


def test_train_esim(tmp_path: Path) -> None:
    encoder = tiny_encoders.bert(tmp_path / "bert")
    data = write_rows(tmp_path / "rankings.jsonl", rankings(10))
    options = ("--encoder", encoder, "--layers", "1,2", "--hidden", "4", "--epochs", "1", "--threads", "1")
    done = run("esim/train.py", data, "-o", tmp_path / "model", *options)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'model'}\n"), done.stderr
    assert load_network(read_card(tmp_path / "model")).config.layers == 2
    assert json.loads((tmp_path / "model" / "config.json").read_text("utf-8"))["layers"] == [1, 2]
    wrong = run("esim/train.py", data, "-o", tmp_path / "other", "--dropout", "1")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1) and "--dropout is 1.0" in wrong.stderr


def test_baseline(tmp_path: Path) -> None:
    model = str(tiny_encoders.bert(tmp_path / "bert"))
    texts = ["the cat", "a dog never was good", "", "the old bridge", "yes", "no", "word " * 40]
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    done = run("bertscore_baseline.py", "--model", model, "--texts", tmp_path / "texts", "-o", tmp_path / "b.tsv")
    assert done.returncode == 0 and "2 pairs, bert (" in done.stderr, done.stderr
    expected = compute_baseline(load_encoder(model), texts[:-1], pairs=10000, seed=12345)
    for layer in range(4):
        assert read_baseline(tmp_path / "b.tsv", layer).values == pytest.approx(expected[layer], abs=1e-8)
