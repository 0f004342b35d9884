"""ROUGE against what rouge-score 0.1.2 gave for made-up texts, and against rouge-score itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyref import ReferenceSet, score
from polyref.errors import UsageError
from polyref.metrics import registry
from polyref.metrics.ngram import rouge

DATA = Path(__file__).parents[1] / "data" / "learned"


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    pytest.importorskip("rouge_score", reason="rouge-score is not installed: pip install rouge-score")
    return [*_lines("inputs.jsonl"), *_lines("inputs_rouge.jsonl")]


@pytest.mark.parametrize("kind", rouge.TYPES)
@pytest.mark.parametrize("stemmer", [False, True])
def test_scores_are_those_of_rouge_score(rows: list[dict[str, Any]], kind: str, stemmer: bool) -> None:
    golden = {(row["id"], row["ref"]): row["stem" if stemmer else "plain"][kind] for row in _lines("rouge.jsonl")[1:]}
    metric = registry.get_metric("rouge", type=kind, stemmer=stemmer)
    refset = ReferenceSet.from_texts([row["refs"] for row in rows])
    stats = metric.statistics({"A": [row["hyp"] for row in rows]}, refset)
    expected = np.array([golden[row["id"], "multi"] for row in rows])
    np.testing.assert_allclose(stats.at(0)[0, :, :3], expected, rtol=0, atol=1e-12)
    scores = metric.aggregate(stats, k=0)
    np.testing.assert_allclose(scores.segment[0], expected[:, 2], rtol=0, atol=1e-12)
    assert scores.system[0] == pytest.approx(expected[:, 2].mean(), abs=1e-12)
    # Every number of references at once: the best of those there are.
    for k in (1, 3):
        one = score([row["hyp"] for row in rows[:20]], [row["refs"][:k] for row in rows[:20]], metric)
        singles = [[golden[row["id"], r][2] for r in range(len(row["refs"][:k]))] for row in rows[:20]]
        np.testing.assert_allclose(one.results[0].scores.segment[0], [max(own) for own in singles], rtol=0, atol=1e-12)


def test_a_mean_over_references_is_a_choice(rows: list[dict[str, Any]]) -> None:
    row = next(row for row in rows if len(row["refs"]) > 2)
    table = score([row["hyp"]], [row["refs"]], "rouge(type=rouge1, combine=mean)")
    golden = {line["ref"]: line["plain"]["rouge1"][2] for line in _lines("rouge.jsonl")[1:] if line["id"] == row["id"]}
    assert table.rows[0]["score"] == pytest.approx(np.mean([golden[r] for r in range(len(row["refs"]))]), abs=1e-12)
    signature = table.rows[0]["signature"]
    assert "ROUGE-1|combine:mean|weights:uniform|type:rouge1|stemmer:none|rouge-score:" in signature


def test_without_rouge_score_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rouge, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="rouge needs rouge-score, which is not installed"):
        registry.get_metric("rouge")
