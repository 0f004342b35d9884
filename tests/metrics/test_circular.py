"""Copies of outputs among added references: what is counted, what is circular, and what the scores say of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import polyref
from polyref.cli import scored_files
from polyref.metrics.copies import Copies, count_copies, without_circular
from polyref.references import Reference, ReferenceSet, Segment

TEXT = "the old mill by a river was closed for one long winter and nobody saw it open again until spring came"
WORDS = TEXT.split()
SIZE = 60


def _sentences(seed: int, words: int = 12) -> list[str]:
    """Texts that are never equal by chance."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(SIZE)]


HUMAN = _sentences(0)
SYSTEMS = {f"sys{number}": _sentences(number) for number in range(1, 5)}


def _set(added: Sequence[Sequence[str]], kind: str = "paraphrase", human: Sequence[str] = HUMAN) -> ReferenceSet:
    return ReferenceSet(
        tuple(
            Segment(str(place), (Reference(text), *(Reference(one, kind, added=kind == "human") for one in more)))
            for place, (text, more) in enumerate(zip(human, added, strict=True), 1)
        )
    )


def _circular(references: ReferenceSet, k: int = 9) -> list[str]:
    return [one.system for one in count_copies(references, SYSTEMS, [k]) if one.circular]


def _rows(texts: Sequence[str]) -> list[list[str]]:
    return [[text] for text in texts]


@pytest.mark.parametrize("kind", ["paraphrase", "human", "postedit", "pseudo"])
def test_outputs_of_one_system_are_circular_references(kind: str) -> None:
    references = ReferenceSet(
        tuple(
            Segment(segment.id, (segment.refs[0], Reference(segment.refs[1].text, kind, added=True)))
            for segment in _set(_rows(SYSTEMS["sys2"]))
        )
    )
    (found,) = [one for one in count_copies(references, SYSTEMS, [0, 1]) if one.circular]
    assert (found.system, found.k, found.exact, found.near, found.segments, found.references) == (
        "sys2", 1, SIZE, 0, SIZE, SIZE,
    )  # fmt: skip
    assert found.examples == ("1", "2", "3") and found.p < 1e-16
    assert found.bleu == pytest.approx(100) and found.bleu_of_others is not None and found.bleu_of_others < 60
    assert "sys2 (exact copies of its outputs: 60 of 60 added references" in str(found)


def test_a_part_of_every_system_is_circular_and_other_texts_are_not() -> None:
    mixed = [[SYSTEMS[f"sys{1 + place % 4}"][place]] for place in range(SIZE)]
    assert _circular(_set(mixed)) == [*SYSTEMS]
    assert _circular(_set(_rows(_sentences(9)))) == []
    assert _circular(_set(mixed), k=0) == []


def test_outputs_that_are_often_equal_to_the_human_reference_may_be_equal_to_others() -> None:
    # Half of the outputs are the human reference: half of the added texts may be equal to an output.
    half = [text if place % 2 else HUMAN[place] for place, text in enumerate(SYSTEMS["sys1"])]
    added = [[SYSTEMS["sys1"][place] if place % 4 == 1 else text] for place, text in enumerate(_sentences(9))]
    fair, unfair = (count_copies(_set(added), {"one": outputs}, [1])[0] for outputs in (half, SYSTEMS["sys1"]))
    assert (fair.exact, unfair.exact) == (15, 15)
    assert fair.expected > 0.5 and unfair.expected < 0.06
    assert not fair.circular and unfair.circular


def test_what_people_and_peers_write_may_be_equal_as_often_as_two_outputs_are() -> None:
    # Every two systems share a third of their outputs, and the added texts share it as well.
    common = _sentences(7)
    systems = {
        name: [common[place] if place % 3 == 0 else text for place, text in enumerate(texts)]
        for name, texts in SYSTEMS.items()
    }
    added = _rows([common[place] if place % 3 == 0 else text for place, text in enumerate(_sentences(9))])
    for kind, expected in (("paraphrase", 4), ("human", 0), ("pseudo", 0)):
        found = count_copies(_set(added, kind), systems, [1])
        assert [one.exact for one in found] == [SIZE // 3] * 4
        assert sum(one.circular for one in found) == expected, kind


def test_two_of_one_kind_do_not_hide_each_other() -> None:
    twins = {"one": SYSTEMS["sys1"], "two": SYSTEMS["sys1"]}
    for kind in ("human", "pseudo"):
        assert all(one.circular for one in count_copies(_set(_rows(SYSTEMS["sys1"]), kind), twins, [1])), kind


def test_short_texts_and_copies_of_the_human_reference_do_not_count() -> None:
    short = _sentences(3, words=5)
    (found,) = count_copies(_set(_rows(short)), {"one": short}, [1])
    assert (found.segments, found.exact, found.circular) == (0, 0, False)
    (found,) = count_copies(_set(_rows(HUMAN)), {"one": HUMAN}, [1])
    assert (found.segments, found.exact, found.circular) == (0, 0, False)


def test_case_and_punctuation_do_not_count_and_near_copies_are_told_apart() -> None:
    text = "Nobody saw the old mill by the river again, until spring came - and the ice had gone for good."
    twenty = " ".join(f"w{number}" for number in range(20))
    for output, added, exact, near in (
        (text, text.upper().replace(",", "").replace("-", "–"), 1, 0),
        (twenty, twenty.replace("w3", "x"), 0, 1),  # 19 of 20 words
        (twenty, twenty.replace("w3 w4 w5", "x y z"), 0, 0),  # 17 of 20
        (twenty, f"{twenty} a b c d", 0, 1),  # 40 of 44
        (twenty, f"{twenty} a b c d e", 0, 0),  # 40 of 45
        ("我们昨天去了北京的长城", "我们昨天去了北京的长城。", 1, 0),
        ("我们昨天去了北京的长城", "我们昨天去看北京的长城", 0, 1),
        ("我们昨天去了北京的长城\udcff", "我们昨天去了北京的长城\udcff", 1, 0),
        (f"{twenty} \udcff", f"{twenty} \udcff", 1, 0),
        ("Größer als fünf Äpfel sind sie nicht", "größer als fünf äpfel sind sie nicht!", 1, 0),
    ):
        references = ReferenceSet.from_texts([["another text altogether"]], paraphrases=[[added]])
        (found,) = count_copies(references, {"one": [output]}, [1])
        assert (found.exact, found.near) == (exact, near), added


def test_every_k_counts_its_own_references() -> None:
    others = _sentences(9)
    references = _set([[other, copy] for other, copy in zip(others, SYSTEMS["sys1"], strict=True)])
    found = {one.k: one for one in count_copies(references, SYSTEMS, [0, 1, 2]) if one.system == "sys1"}
    assert [(k, one.exact, one.circular) for k, one in found.items()] == [(1, 0, False), (2, SIZE, True)]


def test_copies_are_left_out_with_the_system_that_was_copied() -> None:
    # What is equal to sys1 because sys2 is, is no copy of sys1.
    systems = {**SYSTEMS, "sys1": [*SYSTEMS["sys2"][:20], *SYSTEMS["sys1"][20:]]}
    others = _sentences(9)
    references = _set([[copy, other] for other, copy in zip(others, SYSTEMS["sys2"], strict=True)])
    assert sum(one.circular for one in count_copies(references, systems, [2])) == 2
    kept, copied = without_circular(references, systems, [2])
    assert copied == ["sys2"]
    assert [[ref.text for ref in segment.extras] for segment in kept] == _rows(others)
    assert [segment.originals for segment in kept] == [segment.originals for segment in references]


def test_what_is_measured_again_has_no_copies_of_any_output() -> None:
    """A few copies of other systems, fewer than the test can tell, and of outputs too short to count, go as well."""
    others = _sentences(9)
    systems = {name: [*texts[:-1], "short one"] for name, texts in SYSTEMS.items()}
    texts = [[copy, other] for other, copy in zip(others, systems["sys2"], strict=True)]
    texts[0][1], texts[1][1] = systems["sys1"][0], f"{systems['sys1'][1]} indeed"
    references = _set(texts)
    assert [one.system for one in count_copies(references, systems, [2]) if one.circular] == ["sys2"]
    kept, copied = without_circular(references, systems, [2])
    assert copied == ["sys2"]
    left = [[ref.text for ref in segment.extras] for segment in kept]
    assert left == [[], [], *([other] for other in others[2:])]
    # Where nothing is circular, nothing is left out.
    fair = _set([[systems["sys1"][0]], *([other] for other in others[1:])])
    assert without_circular(fair, systems, [1]) == (fair, [])


def test_outputs_with_a_word_more_are_circular_references() -> None:
    changed = [f"{text} indeed" for text in SYSTEMS["sys2"]]
    assert _circular(_set(_rows(changed))) == ["sys2"]
    # Of a third of the segments they may be chance.
    others = _sentences(9)
    assert _circular(_set(_rows([*changed[:20], *others[20:]]))) == []
    # Near copies of a human reference that the output is near to are no news of the output.
    human = [" ".join(text.split()[1:]) for text in SYSTEMS["sys2"]]
    assert _circular(_set(_rows(changed), human=human)) == []
    kept, copied = without_circular(
        _set([[text, more] for text, more in zip(changed, others, strict=True)]), SYSTEMS, [2]
    )
    assert copied == ["sys2"] and [[ref.text for ref in segment.extras] for segment in kept] == _rows(others)


def test_score_says_so() -> None:
    found = polyref.score(SYSTEMS, _set(_rows(SYSTEMS["sys2"])), "bleu")
    (warning,) = [text for kind, text in found.messages if kind == "warning"]
    assert warning.startswith("circular references: ") and "sys2 (exact copies" in warning and "sys1" not in warning
    assert [row["system"] for row in found.circular if row["circular"]] == ["sys2"]
    clean = polyref.score(SYSTEMS, _set(_rows(_sentences(9))), "bleu")
    assert not [*clean.messages] and not any(row["circular"] for row in clean.circular)
    assert polyref.score(SYSTEMS, HUMAN, "bleu").circular == []
    # Peers are outputs, and are left out where they are copies.
    assert polyref.score(SYSTEMS, HUMAN, "bleu(combine=mean)", peers="leave-one-out").circular == []


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rows = [{"reference": text, "paraphrases": [copy]} for text, copy in zip(HUMAN, SYSTEMS["sys1"], strict=True)]
    (tmp_path / "refs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, texts in SYSTEMS.items():
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    return [str(tmp_path / "refs.jsonl"), "-i", str(tmp_path / "sys1"), str(tmp_path / "sys2")]


@pytest.mark.parametrize("ks", [(), ("-k", "1"), ("-k", "0", "1", "7")])
def test_large_sets_are_counted_alike(
    files: list[str], ks: tuple[str, ...], polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = polyref("score", *files, *ks, "--json")
    monkeypatch.setattr(scored_files, "LARGE", 0)
    monkeypatch.setattr(scored_files, "SEGMENTS", 7)
    large = polyref("score", *files, *ks, "--json")
    assert (small.out, small.err) == (large.out, large.err)
    assert "polyref: warning: circular references: " in large.err and "sys1 (exact copies" in large.err
    told = json.loads(large.out)["circular"]
    assert [one["system"] for one in told if one["circular"]] == ["sys1"] * len({*ks} & {"1", "7"} or {"1"})


@pytest.mark.parametrize(("expected", "shown"), [(1.0, "100 %"), (0.996, "100 %"), (0.5, "50 %"), (0.00123, "0.12 %")])
def test_shares_are_written_without_exponents(expected: float, shown: str) -> None:
    assert f"at most {shown} by chance" in str(Copies("A", 1, 10, 10, 0, 0, expected, 1.0, False, ()))
