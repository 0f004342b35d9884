"""Sets that polyref 0.1.0 wrote, with options that have gone since as well: read, scored and saved as then.

``data/sets-0.1.0`` holds them with the outputs of two systems, all invented, and the scores that 0.1.0 gave.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import polyref
from polyref.augment import augment
from polyref.references import ReferenceSet

FOLDER = Path(__file__).parent / "data" / "sets-0.1.0"
COMBINATIONS = dict.fromkeys(("bleu", "chrf++"), ("max", "mean", "expected", "blend")) | {
    "ter": ("max", "mean", "blend")
}
METRICS = [f"{name}(combine={how})" for name, every in COMBINATIONS.items() for how in every]
SETS = sorted(FOLDER.glob("*.jsonl"))


def scores(path: Path) -> dict[str, list[float]]:
    """Of one set: metric, k and system -> the score of the system, then, of k = 3, those of its segments."""
    prefix = "paragraphs" if path.stem == "paragraphs" else "system"
    systems = {name: (FOLDER / f"{prefix}{name}.txt").read_text("utf-8").splitlines() for name in "AB"}
    table = polyref.score(systems, ReferenceSet.load(path), METRICS, ks=[0, 1, 3])
    found: dict[str, list[float]] = {}
    for row in (*table.rows, *(row for row in table.segment.rows if row["k"] == 3)):
        found.setdefault(f"{row['metric']} k={row['k']} {row['system']}", []).append(row["score"])
    return found


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_a_set_of_0_1_0_is_read_and_scores_the_same(path: Path) -> None:
    expected = json.loads((FOLDER / "scores.json").read_text("utf-8"))[path.stem]
    assert len(expected) == len(METRICS) * 3 * 2
    assert scores(path) == expected


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_a_set_of_0_1_0_is_saved_as_it_was(path: Path, tmp_path: Path) -> None:
    ReferenceSet.load(path).save(tmp_path / "saved.jsonl")
    assert (tmp_path / "saved.jsonl").read_bytes() == path.read_bytes()


def test_candidates_that_a_set_kept_are_reported_where_a_form_cannot_hold_them(tmp_path: Path) -> None:
    refset = ReferenceSet.load(FOLDER / "keep-dropped.jsonl")
    assert all(segment.extra["candidates"] for segment in refset)
    assert any(loss.startswith("other keys (6 segments)") for loss in refset.export(tmp_path / "set.tsv"))


@pytest.mark.parametrize(
    ("name", "said"), [("keep-dropped", {"candidates": True}), ("score-share", {"share": [2, 1], "merge": "score"})]
)
def test_a_second_run_keeps_what_the_header_of_0_1_0_said(name: str, said: dict[str, object]) -> None:
    before = ReferenceSet.load(FOLDER / f"{name}.jsonl")
    made = augment(before, "lexical", 1, filters="none")
    assert {key: made.meta[key] for key in said} == {key: [value, None] for key, value in said.items()}
    assert [segment.extra for segment in made] == [segment.extra for segment in before]
