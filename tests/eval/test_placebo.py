"""The placebo: as many references of like length, for another sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import UsageError
from polyref.eval.experiments.placebo import placebo
from polyref.references import ReferenceSet


def _set(counts: list[int], words: list[int]) -> ReferenceSet:
    """Segment i has ``counts[i]`` paraphrases of ``words[i]`` words, each of which says which segment it is of."""
    return ReferenceSet.from_texts(
        [[f"human {i}"] for i in range(len(counts))],
        paraphrases=[[f"{i}/{r}" + " word" * words[i] for r in range(count)] for i, count in enumerate(counts)],
    )


def _owner(text: str) -> int:
    return int(text.split("/")[0])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40)), min_size=2, max_size=40), st.integers(0, 5))
def test_every_reference_is_another_segments(shapes: list[tuple[int, int]], seed: int) -> None:
    references = _set([count for count, _ in shapes], [words for _, words in shapes])
    if sum(count > 0 for count, _ in shapes) < 2:
        with pytest.raises(UsageError, match="a placebo exchanges"):
            placebo(references, seed)
        return
    found = placebo(references, seed)
    for place, (before, after) in enumerate(zip(references, found, strict=True)):
        assert after.originals == before.originals and after.id == before.id
        there = sum(count for count, _ in shapes) - len(before.extras)
        wanted = before.extras[:there]
        assert [(ref.rank, ref.kind) for ref in after.extras] == [(ref.rank, ref.kind) for ref in wanted]
        assert len({ref.text for ref in after.extras}) == len(after.extras)
        assert all(_owner(ref.text) != place for ref in after.extras)


def test_lengths_are_alike() -> None:
    words = [i // 4 for i in range(200)]
    found = placebo(_set([3] * 200, words), 1)
    distances = [abs(words[_owner(ref.text)] - words[place]) for place, one in enumerate(found) for ref in one.extras]
    assert max(distances) <= 4


def test_lengths_are_alike_in_a_script_without_spaces() -> None:
    lengths = [1 + i * 7 % 200 for i in range(200)]
    texts = [chr(0x4E00 + i) * length for i, length in enumerate(lengths)]
    references = ReferenceSet.from_texts([[f"{i}"] for i in range(200)], paraphrases=[[text] for text in texts])
    found = placebo(references, 1)
    distances = [abs(len(one.extras[0].text) - length) for one, length in zip(found, lengths, strict=True)]
    assert max(distances) < 10


def test_no_paraphrase_comes_twice_and_none_is_missing_where_others_have_enough() -> None:
    same = [["copy one", "copy two"]] * 10
    longer = [[f"longer text {i} {r}" for r in range(2)] for i in range(10)]
    references = ReferenceSet.from_texts([["human"]] * 20, paraphrases=[*same, *longer])
    for segment, before in zip(placebo(references, 1), references, strict=True):
        texts = {ref.text for ref in segment.extras}
        assert len(texts) == len(segment.extras) == 2
        assert texts.isdisjoint(ref.text for ref in before.refs)


def test_a_segment_takes_all_from_one_neighbour_where_that_has_enough() -> None:
    found = placebo(_set([4] * 30, [7] * 30), 2)
    assert all(len({_owner(ref.text) for ref in segment.extras}) == 1 for segment in found)


def test_seeds() -> None:
    references = _set([2] * 50, list(range(50)))
    assert placebo(references, 3) == placebo(references, 3)
    assert placebo(references, 3) != placebo(references, 4)
    assert placebo(references, 3).meta["placebo"] == {"seed": 3}


@pytest.mark.slow
def test_the_command_says_what_is_left_beyond_a_placebo(minimal: Path, polyref: Any) -> None:
    refs = minimal / "paraphrases/de-en.refA.jsonl"
    run = ["evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-k", "0", "1", "2",
           "--refs", refs, "-n", "50"]  # fmt: skip
    plain = polyref(*run, "--json").json()["rows"]
    rows = polyref(*run, "--placebo", "3", "--json").json()["rows"]
    assert all("control" not in row for row in plain)
    kinds = {kind: [row for row in rows if row["control"] == kind] for kind in ("real", "placebo", "real - placebo")}
    # What is concluded takes the placebo into account, and nothing else does.
    told = {"control", "claim", "verdict", "withheld"}
    assert [{key: value for key, value in row.items() if key not in told} for row in kinds["real"]] == [
        {key: value for key, value in row.items() if key not in told} for row in plain
    ]
    for real, difference in zip((row for row in kinds["real"] if row["k"]), kinds["real - placebo"], strict=True):
        claim = min(real["gain"], difference["value"]) if real["verdict"] else None
        assert difference["claim"] == real["claim"] == claim
        assert difference["verdict"] == real["verdict"] != "gains"
    added = [row for row in kinds["real"] if row["k"]]
    for real, fake, difference in zip(added, kinds["placebo"], kinds["real - placebo"], strict=True):
        assert all(row[key] == real[key] for row in (fake, difference) for key in ("level", "k", "statistic"))
        assert difference["value"] == pytest.approx(real["value"] - fake["value"], abs=1e-12)
        assert difference["ci"][0] <= difference["value"] <= difference["ci"][1]
    printed = polyref(*run, "--placebo", "3").out
    assert "Against the placebo: Kendall's" in printed and "real - placebo" in printed
    assert "|placebo:3|" in polyref(*run, "--placebo", "3", "-v").out
    assert "placebo:" not in polyref(*run).out and "Against the placebo" not in polyref(*run).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "bleu"], "--placebo without added references"),
        (["-m", "length-src", "--refs", "REFS"], "no use: every metric here is a score file"),
    ],
)
def test_nothing_to_exchange(options: list[str], message: str, minimal: Path, polyref: Any) -> None:
    given = [str(minimal / "paraphrases/de-en.refA.jsonl") if one == "REFS" else one for one in options]
    run = ["evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "--placebo", "2", *given]
    outcome = polyref(*run)
    assert outcome.code == 2 and message in outcome.err
