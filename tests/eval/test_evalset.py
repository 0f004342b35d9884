from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet, pairs_in
from polyref.eval.data.reference_sets import reference_set
from polyref.eval.data.releases import open_release


def test_layout(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    assert list(evalset.output_files) == ["Alpha", "Beta.1", "Gamma-2", "refB"]
    assert list(evalset.reference_files) == ["refA", "refB"]
    assert evalset.golds() == ["darr", "mqm", "wmt-z"]
    assert (evalset.segments, evalset.has_texts) == (5, True)
    assert evalset.reference("refB")[2] is None
    assert evalset.documents is not None
    assert evalset.documents[3] == ("talk", "weather")
    assert evalset.source is not None
    assert len(evalset.source) == 5
    assert [evalset.is_human(name) for name in evalset.output_files] == [False, False, False, True]
    assert pairs_in(minimal) == ["de-en"]


@pytest.mark.parametrize("name", ["Human-A.0", "HUMAN", "human_b", "refC", "ref", "Human.0"])
def test_human_names(minimal: Path, name: str) -> None:
    assert EvalSet(minimal, "de-en").is_human(name)


@pytest.mark.parametrize("name", ["HumanLike", "reference-free", "Online-A", "refiner"])
def test_machine_names(minimal: Path, name: str) -> None:
    assert not EvalSet(minimal, "de-en").is_human(name)


def test_mqm(minimal: Path) -> None:
    gold = EvalSet(minimal, "de-en").gold("mqm")
    assert gold.system == {"Alpha": -0.4, "Beta.1": -0.8, "Gamma-2": -4.0}
    assert list(gold.segment) == ["Alpha", "Beta.1", "Gamma-2"]
    assert math.isnan(gold.segment["Gamma-2"][1])
    assert gold.segment["Gamma-2"][4] == -6
    everyone = EvalSet(minimal, "de-en").gold("mqm", include_human=True)
    assert everyone.system["refB"] == 0
    assert list(everyone.segment) == ["Alpha", "Beta.1", "Gamma-2", "refB"]


def test_relative_rankings_take_the_system_scores_of_direct_assessment(minimal: Path) -> None:
    gold = EvalSet(minimal, "de-en").gold("darr")
    assert gold.pairs is not None
    assert gold.pairs.systems == ("Alpha", "Beta.1", "Gamma-2")
    assert gold.pairs.segment.tolist() == [0, 0, 1, 2, 3, 4, 4]
    assert gold.pairs.better.tolist() == [1, 0, 0, 0, 0, 1, 0]
    assert (gold.name, gold.system_name) == ("darr", "wmt-z")
    assert gold.system["Gamma-2"] == -0.5
    assert EvalSet(minimal, "de-en").gold("darr", system_gold="mqm").system["Gamma-2"] == -4.0
    with pytest.raises(UsageError, match="no system-level judgement 'nothing'"):
        EvalSet(minimal, "de-en").gold("darr", system_gold="nothing")


def test_pairs_of_human_translations_are_left_out(minimal: Path) -> None:
    path = minimal / "darr/de-en.tsv"
    path.write_text(path.read_text() + "3\trefB\tBeta.1\n")
    assert len(EvalSet(minimal, "de-en").gold("darr").pairs or ()) == 7
    everyone = EvalSet(minimal, "de-en").gold("darr", include_human=True).pairs
    assert everyone is not None
    assert (len(everyone), everyone.systems[everyone.better[-1]]) == (8, "refB")


def test_a_system_without_judgement_is_reported_not_zero(minimal: Path) -> None:
    path = minimal / "human-scores/de-en.wmt-z.sys.score"
    path.write_text("Alpha\t0.3\nBeta.1\tNone\n")
    gold = EvalSet(minimal, "de-en").gold("wmt-z")
    assert gold.system == {"Alpha": 0.3}
    assert gold.unjudged == ("Beta.1", "Gamma-2")


def test_unknown_texts_where_there_are_rankings(minimal: Path) -> None:
    (minimal / "system-outputs/de-en/Alpha.txt").write_text("a\n\nc\nd\ne\n")
    (minimal / "sources/de-en.txt").write_text("a\nb\nc\n\ne\n")
    evalset = EvalSet(minimal, "de-en")
    outputs = evalset.outputs(["Alpha", "Beta.1"])
    assert evalset.known(outputs).tolist() == [[True, False, True, False, True], [True, True, True, False, True]]
    (minimal / "darr/de-en.tsv").unlink()
    # Without rankings an empty output is what the system gave.
    assert EvalSet(minimal, "de-en").known(outputs).all()


def test_references_are_segment_major(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    texts = evalset.references(["refB", "refA"])
    assert texts[0] == ["The dog sleeps.", "The dog is asleep."]
    assert texts[2] == [None, "We bought 3 apples."]
    with pytest.raises(DataError, match=r"refB\.txt:3: the segment has no reference"):
        evalset.references(["refB"])


def test_choosing_references(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    with pytest.raises(UsageError, match=r"several references: refA, refB \(choose with `ref`\)"):
        evalset.choose_references(None)
    with pytest.raises(UsageError, match="no reference 'refC' for de-en, there are: refA, refB"):
        evalset.choose_references(["refC"])
    with pytest.raises(UsageError, match="twice"):
        evalset.choose_references(["refA", "refA"])
    (minimal / "references/de-en.refB.txt").unlink()
    assert EvalSet(minimal, "de-en").choose_references(None) == ("refA",)


def test_stored_scores(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    length = evalset.stored("length")
    assert length.system["Beta.1"] == 4.0
    assert length.segment["Gamma-2"].tolist() == [2, 4, 5, 3, 5]
    # A dash in the metric's name: the last one separates it from the references.
    assert evalset.stored("Adequacy-2", ["refB"]).system["Beta.1"] == 0.85
    assert evalset.stored("Adequacy-2", ["refB"]).segment == {}
    # A metric that reads no reference has the same scores whatever the references.
    assert evalset.stored("length", ["refA", "refB"]).reference == "src"
    with pytest.raises(UsageError, match="several references: refA, refB"):
        evalset.stored("Adequacy-2")
    with pytest.raises(UsageError, match="there are in metric-scores: Adequacy-2, length"):
        evalset.stored("BLEU")


def test_jsonl_texts(minimal: Path) -> None:
    path = minimal / "system-outputs/de-en/Alpha.txt"
    texts = path.read_text().splitlines()
    path.unlink()
    other = path.with_suffix(".jsonl")
    other.write_text("".join(json.dumps({"hypothesis": text}) + "\n" for text in texts))
    assert EvalSet(minimal, "de-en").outputs(["Alpha"]) == [texts]
    other.write_text('{"hypothesis": 3}\n')
    with pytest.raises(DataError, match=r"Alpha\.jsonl:1: expected an object with the text 'hypothesis'"):
        EvalSet(minimal, "de-en").outputs(["Alpha"])


def test_windows_line_ends_and_trailing_spaces(minimal: Path) -> None:
    for path in minimal.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    evalset = EvalSet(minimal, "de-en")
    assert evalset.reference("refB")[2] is None
    assert evalset.gold("mqm").system["Beta.1"] == -0.8
    assert len(evalset.gold("darr").pairs or ()) == 7


def test_augmented_references(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    augmented = reference_set(evalset, ["refB", "refA"], minimal / "paraphrases/de-en.refA.jsonl")
    assert [ref.text for ref in augmented[0].originals] == ["The dog sleeps.", "The dog is asleep."]
    assert [ref.text for ref in augmented[0].extras] == ["The dog sleeps.", "A dog is sleeping."]
    # The paraphrases were made from refA, which is second here (and alone in segment 3).
    assert [ref.of for ref in augmented[0].extras] == [1, 1]
    assert [ref.of for ref in augmented[2].extras] == [0, 0]
    assert augmented.counts() == (3, 4)


def test_normal_form(minimal: Path) -> None:
    lines = [{"polyref": 1, "meta": {"generator": "hand"}}]
    for index, text in enumerate(EvalSet(minimal, "de-en").reference("refA")):
        refs = [{"text": text, "kind": "human"}, {"text": f"extra {index}", "kind": "paraphrase", "of": 0}]
        lines.append({"id": str(index + 1), "refs": refs})
    path = minimal / "refs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    augmented = reference_set(EvalSet(minimal, "de-en"), ["refA"], path)
    assert [segment.extras[0].text for segment in augmented] == [f"extra {i}" for i in range(5)]
    assert augmented.meta["generator"] == "hand"


def test_paraphrases_of_other_references_are_refused(minimal: Path) -> None:
    evalset = EvalSet(minimal, "de-en")
    path = minimal / "paraphrases/de-en.refA.jsonl"
    with pytest.raises(DataError, match=r"segment 1: its reference 'The dog is asleep.' is not in refB"):
        (minimal / "references/de-en.refB.txt").write_text("a\nb\nc\nd\ne\n")
        reference_set(evalset, ["refB"], path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    with pytest.raises(DataError, match=r"has 4 segments, but .*refA\.txt has 5"):
        reference_set(evalset, ["refA"], path)
    with pytest.raises(DataError, match="holds no added reference"):
        reference_set(evalset, ["refA"], minimal / "references/de-en.refA.txt")


def test_no_directory_no_pair(minimal: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        EvalSet(minimal / "nowhere", "de-en")
    with pytest.raises(DataError, match="nothing for the pair 'fr-en'; pairs found: de-en"):
        EvalSet(minimal, "fr-en")
    with pytest.raises(DataError, match=r"'de-en'; pairs found: none \(expected an mt-metrics-eval layout\)"):
        EvalSet(minimal / "references", "de-en")


def test_a_link_that_leads_to_itself_is_no_directory(tmp_path: Path) -> None:
    link = tmp_path / "set"
    link.symlink_to(link)
    with pytest.raises(DataError, match="set: no such directory"):
        open_release(link, "de-en")


def test_scores_are_where_the_file_says(minimal: Path) -> None:
    # A file whose systems are in another order than the outputs must still give each its own scores.
    path = minimal / "human-scores/de-en.mqm.seg.score"
    lines = path.read_text().splitlines(keepends=True)
    before = EvalSet(minimal, "de-en").gold("mqm").segment
    path.write_text("".join(lines[10:] + lines[:10]))
    after = EvalSet(minimal, "de-en").gold("mqm").segment
    for system, scores in before.items():
        assert np.array_equal(after[system], scores, equal_nan=True)
