"""Every system against the human references and the outputs of the other systems: scores of segments alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import sacrebleu

import polyref
from polyref.errors import DataError, UsageError
from polyref.metrics.api import NEAR_COPY, leave_one_out
from polyref.metrics.registry import get_metric
from polyref.references import Reference, ReferenceSet, Segment

REFERENCES = ["The ferry leaves at 9:15.", "Bring a coat, please.", "No one was hurt in the fire that night."]
SYSTEMS = {
    "A": ["The boat departs at 9:15.", "Please bring a coat with you.", "Nobody was injured in the blaze."],
    "B": ["Ferry goes 9.15", "bring a coat please", "The fire that night left no one hurt or dead."],
    # Its second output is A's but for a mark, its third one a near copy of B's.
    "C": ["A ferry leaves at 9:15 sharp.", "Please bring a coat with you!", "The fire that night left no one hurt."],
    "D": ["", "Take your coat along.", "Nobody was hurt."],
}
#: What each system is compared with, but for the human reference: B's second output copies that.
OTHERS = {
    "A": ["B1 C1", "D2", "B3 C3 D3"],
    "B": ["A1 C1", "A2 D2", "A3 D3"],
    "C": ["A1 B1", "D2", "A3 D3"],
    "D": ["A1 B1 C1", "A2", "A3 B3 C3"],
}


def _texts(named: str) -> list[str]:
    return [SYSTEMS[one[0]][int(one[1:]) - 1] for one in named.split()]


@pytest.fixture
def human() -> ReferenceSet:
    return ReferenceSet.from_texts([[text] for text in REFERENCES])


def test_references_are_the_other_outputs_but_for_copies(human: ReferenceSet) -> None:
    found = leave_one_out(SYSTEMS, human)
    for name, expected in OTHERS.items():
        assert [[ref.text for ref in segment.extras] for segment in found[name]] == [_texts(one) for one in expected]
        assert [segment.originals for segment in found[name]] == [segment.originals for segment in human]
    assert {(ref.kind, ref.generator) for segment in found["A"] for ref in segment.extras} == {
        ("pseudo", "B"), ("pseudo", "C"), ("pseudo", "D")
    }  # fmt: skip


def test_near_copies_share_most_words_in_any_order() -> None:
    words = [f"w{number}" for number in range(25)]
    others = {f"{changed}": [" ".join(["x"] * changed + words[changed:][::-1])] for changed in (3, 4)}
    found = leave_one_out({"S": [" ".join(words)], **others}, ReferenceSet.from_texts([["z"]]))
    # 22 of 25 words are .88; 21 are less.
    assert NEAR_COPY == 22 / 25
    assert [ref.generator for ref in found["S"][0].extras] == ["4"]


def test_scores_are_those_of_sacrebleu_with_one_reference_after_another(human: ReferenceSet) -> None:
    table = polyref.score(SYSTEMS, human, ["bleu(combine=mean)", "chrf(combine=mean)"], peers="leave-one-out")
    references = {
        (name, f"{n + 1}"): [REFERENCES[n], *_texts(one)] for name in OTHERS for n, one in enumerate(OTHERS[name])
    }
    one_by_one: dict[str, Any] = {
        "bleu(combine=mean)": sacrebleu.BLEU(effective_order=True),
        "chrf(combine=mean)": sacrebleu.CHRF(),
    }
    assert len(table.rows) == 2 * len(references)
    for row in table.rows:
        output = SYSTEMS[row["system"]][int(row["segment"]) - 1]
        refs = references[row["system"], row["segment"]]
        expected = fmean(one_by_one[row["metric"]].sentence_score(output, [ref]).score for ref in refs)
        assert row["score"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "metric", ["bleu(combine=expected, alpha=0.5)", "chrf++(combine=blend)", "ter(combine=mean)", "bleu(combine=blend)"]
)
def test_scores_are_those_of_every_system_with_a_set_of_its_own(human: ReferenceSet, metric: str) -> None:
    table = polyref.score(SYSTEMS, human, metric, peers="leave-one-out")
    for name, others in OTHERS.items():
        segments = [
            Segment(one.id, (*one.refs, *(Reference(text, "pseudo") for text in _texts(named))))
            for one, named in zip(human, others, strict=True)
        ]
        alone = polyref.score({name: SYSTEMS[name]}, ReferenceSet(tuple(segments)), metric, 3).segment
        here = [row for row in table.rows if row["system"] == name]
        assert [row["score"] for row in here] == [row["score"] for row in alone.rows]


def test_a_clone_changes_nothing_for_its_twin(human: ReferenceSet) -> None:
    clones = {**SYSTEMS, "E": [text.upper() for text in SYSTEMS["A"]], "F": [f"{text} Yes" for text in SYSTEMS["A"]]}
    found = leave_one_out(clones, human)
    assert {ref.generator for segment in found["A"] for ref in segment.extras} == {"B", "C", "D"}
    rows = polyref.score({**SYSTEMS, "E": SYSTEMS["A"]}, human, "chrf(combine=mean)", peers="leave-one-out").rows
    without = polyref.score(SYSTEMS, human, "chrf(combine=mean)", peers="leave-one-out").rows
    scores = {(row["system"], row["segment"]): row["score"] for row in rows}
    # A third system counts one of the twins alone, and the twins do not count each other.
    assert all(scores[row["system"], row["segment"]] == row["score"] for row in without)
    assert all(scores["A", n] == scores["E", n] < 80 for n in "123")


def test_there_are_scores_of_segments_alone_which_say_what_they_are(human: ReferenceSet) -> None:
    table = polyref.score(SYSTEMS, human, "bleu(combine=mean)", peers="leave-one-out")
    assert table.rows == table.segment.rows and {row["segment"] for row in table.rows} == {"1", "2", "3"}
    assert all(math.isnan(value) for value in table.results[0].scores.system)
    assert table.notes[0] == (
        "`peers` leave-one-out measures how far outputs agree with those of the other systems (consensus): it ranks no "
        "systems"
    )
    for signature in (table.signature, table.rows[0]["signature"]):
        assert "|gen:4 systems/sha:" in signature and "|peers:leave-one-out|filters:near-copy:0.88|" in signature
    assert "|k:3|available:1..3|refs:2..4|" in table.rows[0]["signature"]
    # Other outputs are other references.
    other = {**SYSTEMS, "D": ["", "Take your coat.", "Nobody was hurt."]}
    assert polyref.score(other, human, "bleu(combine=mean)", peers="leave-one-out").signature != table.signature


def test_segments_without_a_human_reference() -> None:
    human = ReferenceSet.from_texts([[], *([text] for text in REFERENCES[1:])])
    same = {"A": ["One.", "a", "b"], "B": ["one", "c", "d"], "C": ["ONE!", "e", "f"]}
    table = polyref.score(same, human, "bleu(combine=mean)", peers="leave-one-out", allow_missing=True)
    assert [row["score"] is None for row in table.rows] == [True, False, False] * 3
    assert table.notes[1:] == ("1 of 3 segments have no reference with `ks` 2 and are left out",)
    assert "(1 segments have no added one)" in str(table)
    with pytest.raises(DataError, match="segment 1 has no reference"):
        polyref.score(same, human, "bleu(combine=mean)", peers="leave-one-out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"peers": "pool.en"}, "`peers` is 'pool.en', expected leave-one-out"),
        ({"systems": {"A": REFERENCES, "B": REFERENCES}}, "needs 3 systems or more, but there are 2"),
        ({"systems": REFERENCES}, "needs 3 systems or more, but there are 1"),
        ({"ks": 2}, "`ks` is of no use"),
        ({"test": "paired_ar"}, "nothing for `paired_ar` to test"),
        ({"metrics": "bleu"}, "but bleu combines them by max .set `combine` to one of mean, expected, blend"),
        ({"metrics": get_metric("ter")}, "combines them by max .set `combine` to one of mean, blend"),
        (
            {"references": ReferenceSet.from_texts([[text] for text in REFERENCES], paraphrases=[["a"], ["b"], ["c"]])},
            "`references` has added ones already",
        ),
    ],
)
def test_what_it_is_not_for_is_refused(given: dict[str, Any], message: str) -> None:
    usual = {
        "systems": SYSTEMS, "references": REFERENCES, "metrics": "bleu(combine=mean)", "peers": "leave-one-out"
    }  # fmt: skip
    with pytest.raises(UsageError, match=message) as refused:
        polyref.score(**{**usual, **given})
    assert "\n" not in str(refused.value)


def test_systems_of_other_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="D has 2 segments, but the references have 3"):
        polyref.score({**SYSTEMS, "D": ["a", "b"]}, REFERENCES, "bleu(combine=mean)", peers="leave-one-out")


def test_the_command(polyref: Callable[..., Any], tmp_path: Path) -> None:
    for name, texts in {"refs": REFERENCES, **SYSTEMS}.items():
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    refs, *systems = (tmp_path / name for name in ("refs", *SYSTEMS))

    def run(*options: str | Path, names: list[Path] = systems) -> Any:
        return polyref("score", refs, "-i", *names, "--peers", "leave-one-out", *options)

    found = run("--sentence", "--combine", "mean", "--json")
    assert found.code == 0 and "leave-one-out measures how far outputs agree" in found.err
    assert [(row["system"], row["segment"]) for row in found.json()["rows"]] == [
        (name, str(n)) for name in SYSTEMS for n in (1, 2, 3)
    ]
    for options, message in (
        (("--combine", "mean"), "--peers gives scores of segments alone, and ranks no systems (add --sentence)"),
        (("--sentence",), "but bleu combines them by max (set --combine to one of mean, expected, blend)"),
        (("--sentence", "--combine", "mean", "-k", "1"), "takes all other systems as references: -k is of no use"),
        (("--sentence", "--combine", "mean", "--paired-ar"), "--paired-ar has no use with --sentence"),
        (("--sentence", "--combine", "mean", "--confidence"), "--confidence has no use with --sentence"),
        (("--sentence", "--combine", "expected", "-m", "ter"), "ter: --combine is 'expected', expected one of"),
        (("--sentence", "-m", "prism-src"), "but prism-src does not combine any"),
    ):
        refused = run(*options)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1) and message in refused.err
    few = run("--sentence", "--combine", "mean", names=systems[:2])
    assert few.code == 2 and "needs 3 systems or more, but there are 2" in few.err
