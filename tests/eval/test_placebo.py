"""The placebo: as many references of like length, for another sentence."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyref.errors import UsageError
from polyref.eval.data.reference_sets import LengthLeft, length_left, placebo
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


def _drawn(segments: int, rng: random.Random, most: int = 5) -> ReferenceSet:
    """Texts of like lengths as paraphrases have them, three to ``most`` a segment; rank r begins with r."""
    typical = [max(4, int(rng.lognormvariate(4.5, 0.6))) for _ in range(segments)]
    return ReferenceSet.from_texts(
        [[f"human {i}"] for i in range(segments)],
        paraphrases=[
            [f"{r}/{i}".ljust(int(length * rng.uniform(0.85, 1.2)), "x") for r in range(rng.randint(3, most))]
            for i, length in enumerate(typical)
        ],
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_length_cannot_tell_them_apart(seed: int) -> None:
    references = _drawn(1500, random.Random(seed))
    found = placebo(references, seed)
    pairs = [
        (ref.text, other.text)
        for before, after in zip(references, found, strict=True)
        for ref, other in zip(before.extras, after.extras, strict=True)
    ]
    apart = [len(other) - len(ref) for ref, other in pairs]
    far = sum(abs(one) > max(2, 0.02 * len(ref)) for (ref, _), one in zip(pairs, apart, strict=True))
    assert far <= 0.005 * len(pairs)
    assert statistics.median(apart) == 0 and abs(statistics.mean(apart)) < 0.2
    # As many are shorter as are longer, at every rank.
    for rank in "012":
        signs = [(one > 0) - (one < 0) for (ref, _), one in zip(pairs, apart, strict=True) if ref[0] == rank]
        assert abs(sum(signs)) < 0.01 * len(signs)
    assert sum(ref[0] == other[0] for ref, other in pairs) > 0.95 * len(pairs)
    left = length_left(references, [found])
    assert left.mean == pytest.approx(statistics.mean(apart))
    assert left == LengthLeft(left.mean, 0.0, far / len(pairs))


def test_the_nearest_rank_gives_where_the_same_has_none_of_the_length() -> None:
    paraphrases = [["a" * 50, "b" * 100, "c" * 90], ["d" * 10, "e" * 20, "f" * 50], ["g" * 11, "h" * 49, "i" * 30]]
    references = ReferenceSet.from_texts([["human"]] * 3, paraphrases=paraphrases)
    for seed in range(5):
        first = placebo(references, seed)[0].extras
        assert [(ref.text, ref.rank) for ref in first] == [("h" * 49, 0), ("f" * 50, 1), ("i" * 30, 2)]


def test_copies_in_another_case_are_copies() -> None:
    paraphrases = [["The same text.", "another one it"], ["the SAME  text.", "a text of two."], ["a text of 333."] * 2]
    found = placebo(ReferenceSet.from_texts([["human"]] * 3, paraphrases=paraphrases), 1)
    for place, segment in enumerate(found):
        texts = {" ".join(ref.text.casefold().split()) for ref in segment.extras}
        own = {" ".join(text.casefold().split()) for text in paraphrases[place]}
        assert len(texts) == len(segment.extras) == 2 and texts.isdisjoint(own)


def test_many_references_take_little_time() -> None:
    references = _drawn(6000, random.Random(1))
    same = ReferenceSet.from_texts([["human"]] * 6000, paraphrases=[["one text", "another one"]] * 5999 + [["third"]])
    start = time.process_time()
    placebo(references, 1)
    # Of two texts that all have, each segment finds one other at most.
    assert max(len(segment.extras) for segment in placebo(same, 1)) <= 2
    assert time.process_time() - start < 10


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


def test_seeds() -> None:
    references = _set([2] * 50, [i // 10 for i in range(50)])
    assert placebo(references, 3) == placebo(references, 3)
    texts = [[ref.text for segment in placebo(references, seed) for ref in segment.extras] for seed in range(3, 8)]
    for one, other in itertools.combinations(texts, 2):
        assert sum(map(str.__ne__, one, other)) > len(one) / 4
    assert placebo(references, 3).meta["placebo"] == {"seed": 3}


@pytest.mark.slow
def test_the_command_says_what_is_left_beyond_a_placebo(minimal: Path, polyref: Any) -> None:
    refs = minimal / "paraphrases/de-en.refA.jsonl"
    run = ["evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-m", "bleu", "-k", "0", "1", "2",
           "--refs", refs, "-n", "50"]  # fmt: skip
    plain = polyref(*run, "--json").json()["rows"]
    rows = polyref(*run, "--placebo", "3", "--json").json()["rows"]
    assert all("control" not in row for row in plain)
    kinds = {
        kind: [row for row in rows if row["control"] == kind]
        for kind in ("real", "placebo", "real - placebo", "length")
    }
    assert sum(map(len, kinds.values())) == len(rows)
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
    for real, blind in zip(added, kinds["length"], strict=True):
        assert all(blind[key] == real[key] for key in ("level", "k", "statistic", "n", "references"))
        assert (blind["metric"], blind["verdict"], blind["ci"]) == ("length-only", None, None)
    # What is left of a difference in length stands with the placebos.
    assert len({row["length_mean"] for row in kinds["placebo"]}) == 1
    assert all(0 <= row["length_beyond"] <= 1 and "length_median" in row for row in kinds["placebo"])
    printed = polyref(*run, "--placebo", "3").out
    assert printed.count("Placebos are as long as the references they stand for: the difference is") == 1
    assert "(length alone)" in printed
    assert "Against the placebo: Kendall's" in printed and "real - placebo" in printed
    assert "|placebo:3|" in polyref(*run, "--placebo", "3", "-v").out
    alone = polyref(*run).out
    assert not any(text in alone for text in ("Against the placebo", "(length alone)", "Placebos are"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "bleu"], "--placebo without added references"),
        (["-m", "length", "--refs", "REFS"], "no use: every metric here is a score file"),
    ],
)
def test_nothing_to_exchange(options: list[str], message: str, minimal: Path, polyref: Any) -> None:
    given = [str(minimal / "paraphrases/de-en.refA.jsonl") if one == "REFS" else one for one in options]
    run = ["evaluate", minimal, "-l", "de-en", "--ref", "refA", "--gold", "mqm", "-n", "0", "--placebo", "2", *given]
    outcome = polyref(*run)
    assert outcome.code == 2 and message in outcome.err
