"""``polyref convert model`` as people use it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.data
def test_a_converted_checkpoint_gives_the_same_paraphrases(
    polyref: Callable[..., Any], data_dir: Path, tmp_path: Path
) -> None:
    golden, source, target = data_dir / "fairseq-golden", tmp_path / "fairseq", tmp_path / "hf"
    source.mkdir()
    for file in ("dict.src.txt", "dict.tgt.txt", "spm.model", "post/checkpoint.pt"):
        shutil.copy(golden / file, source)
    result = polyref("convert", "model", source, target)
    assert result.code == 0, result.err
    assert result.err == ""
    assert result.out.startswith(f"{target}: FSMTForConditionalGeneration, 87 tensors, log-probabilities within ")
    (tmp_path / "in.txt").write_text("The ferry was late again this morning.\nNobody knew why.\n", "utf-8")
    options = ("-k", "4", "--groups", "2", "--lang", "en", "--quiet", "--tokens")
    lists = [polyref("paraphrase", tmp_path / "in.txt", "--model", m, *options) for m in (source, target)]
    assert lists[0].code == lists[1].code == 0, lists[1].err
    rows = [[json.loads(line)["paraphrases"] for line in one.out.splitlines()] for one in lists]
    assert len(rows[0]) == 2
    for ours, theirs in zip(*rows, strict=True):
        assert [p["tokens"] for p in ours] == [p["tokens"] for p in theirs]
        assert [p["score"] for p in ours] == pytest.approx([p["score"] for p in theirs], abs=2e-5)
    result = polyref("convert", "model", source, tmp_path / "again", "--no-check", "--json")
    (row,) = result.json()["rows"]
    assert row["architecture"] == "FSMTForConditionalGeneration" and row["difference"] is None


def test_bad_usage_is_one_line(polyref: Callable[..., Any], tmp_path: Path) -> None:
    for source, target, code, message in (
        (tmp_path / "nothing", tmp_path / "out", 1, "no fairseq model: no checkpoint.pt"),
        (tmp_path, tmp_path, 2, "exists"),
        (tmp_path, tmp_path / "no" / "out", 2, "there is no directory"),
    ):
        result = polyref("convert", "model", source, target)
        assert (result.code, result.out) == (code, "")
        assert message in result.err and result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())
