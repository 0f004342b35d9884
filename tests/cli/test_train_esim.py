from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from esim_fixtures import judgements, rankings, write_rows
from tiny_encoders import bert

Polyref = Callable[..., Any]
SMALL = ("--hidden", "8", "--epochs", "4", "--rate", "0.003", "--threads", "1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of the test's own."""
    from polyref.cache import default_cache

    monkeypatch.setenv("POLYREF_CACHE", str(tmp_path / "cache"))
    default_cache.cache_clear()
    yield
    default_cache().close()
    default_cache.cache_clear()


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return bert(tmp_path / "bert")


@pytest.mark.slow
def test_trains_and_scores(polyref: Polyref, encoder: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rankings.jsonl", rankings(20))
    valid = write_rows(tmp_path / "valid.jsonl", rankings(10, seed=2))
    model = tmp_path / "my-esim"
    done = polyref(
        "train", "esim", data, "--valid", valid, "-o", model, "--encoder", encoder, "--layers", "1,2", *SMALL
    )
    assert done.code == 0, done.err
    assert done.out == f"{model}\n"
    assert "polyref: validation: " in done.err
    assert "kendall" in done.err
    card = json.loads((model / "config.json").read_text("utf-8"))
    assert card["layers"] == [1, 2]
    assert card["validation"]["data"][0]["name"] == "valid.jsonl"
    assert "my-esim: an ESIM model" in (model / "MODEL_CARD.md").read_text("utf-8")

    refs = tmp_path / "refs.jsonl"
    refs.write_text(json.dumps({"id": "1", "reference": "the cat sat", "paraphrases": ["a cat sat"]}) + "\n", "utf-8")
    (tmp_path / "sys").write_text("the old cat\n", encoding="utf-8")
    scored = polyref(
        "score", refs, "-i", tmp_path / "sys", "-m", "esim", "--esim-model", model, "-k", "0", "1", "--json"
    )
    assert scored.code == 0, scored.err
    rows = scored.json()["rows"]
    assert [row["name"] for row in rows] == ["ESIM", "parESIM"]
    assert "model:my-esim" in rows[1]["signature"]
    assert "data:rankings" in rows[1]["signature"]
    other = tmp_path / "other"
    bert(other)
    (other / "vocab.txt").write_text((other / "vocab.txt").read_text("utf-8") + "extra\n", encoding="utf-8")
    refused = polyref(
        "score", refs, "-i", tmp_path / "sys", "-m", "esim", "--esim-model", model, "--esim-encoder", other
    )
    assert refused.code == 1
    assert "was trained on the encoder bert" in refused.err
    assert polyref("score", refs, "-i", tmp_path / "sys", "-m", "bleu", "--esim-model", model).code == 2


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(polyref: Polyref, encoder: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "judged.jsonl", judgements(15))
    options = [data, "--encoder", encoder, *SMALL[:2], "--epochs", "12", "--patience", "12", *SMALL[4:], "--name", "x"]
    model, partial = tmp_path / "model", tmp_path / "model.partial"
    command = [sys.executable, "-m", "polyref", "train", "esim", *map(str, options), "-o", str(model), "--quiet"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        while not partial.exists() and child.poll() is None:
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    assert partial.exists()
    assert not model.exists()
    assert polyref("train", "esim", *options, "-o", model).code == 0
    assert not partial.exists()
    assert polyref("train", "esim", *options, "-o", tmp_path / "whole").code == 0
    for name in ("model.safetensors", "config.json", "MODEL_CARD.md"):
        assert (model / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_faults_are_one_line(polyref: Polyref, encoder: Path, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "judged.jsonl", judgements(4))
    for arguments, code, complaint in (
        ([tmp_path / "none.jsonl"], 1, "no such file"),
        ([data, "--layers", "1;2"], 2, "expected numbers with commas"),
        ([data, "--dropout", "1"], 2, "--dropout is 1.0"),
        ([data, "--hold-out", "0"], 2, "share to hold out is 0.0"),
    ):
        done = polyref("train", "esim", *arguments, "--encoder", encoder, "-o", tmp_path / "model")
        assert (done.code, done.err.count("\n")) == (code, 1)
        assert complaint in done.err
    assert "esim" in polyref("train", "--help").out
