"""What ``polyref evaluate`` reads, and what it says where something is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.scores import metric_name

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIMAL, tmp_path / "minimal"))


def test_a_metric_that_reads_sources_the_set_lacks(polyref: Callable[..., Any], minimal: Path) -> None:
    (minimal / "darr/de-en.tsv").unlink()
    (minimal / "sources/de-en.txt").unlink()
    base = ("evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "-m", "bleu")
    assert polyref(*base).code == 0
    run = polyref(*base, "laser-lm-src")
    assert run.code == 1
    assert "minimal: no sources for de-en, which LASER+LM-src reads (add sources/de-en.txt, or give --refs" in run.err
    assert "--source" not in run.err


def test_names_of_metrics_are_in_any_case_and_those_of_score_files_are_not(minimal: Path) -> None:
    texts = EvalSet(minimal, "de-en")
    assert [metric_name(name, [texts]) for name in ("BLEU", "chrF++", "bleu", "Adequacy-2", "stored:BLEU")] == [
        "bleu", "chrf++", "bleu", "Adequacy-2", "stored:BLEU"]  # fmt: skip
    (minimal / "darr/de-en.tsv").unlink()
    shutil.rmtree(minimal / "references")
    scores = EvalSet(minimal, "de-en")
    assert metric_name("BLEU", [scores]) == "BLEU"
    assert metric_name("BLEU", [scores, texts]) == "bleu"
