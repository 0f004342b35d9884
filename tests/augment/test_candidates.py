"""Lists of candidates that were made elsewhere: matched, filtered, selected and recorded without a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rule_paraphraser import RULES, RuleParaphraser

from polyref.augment import augment
from polyref.augment.pipeline import OVERGENERATE
from polyref.errors import DataError, UsageError
from polyref.references import ReferenceSet

TEXTS = ["Ann paid 5 euros.", "", "The dog barked.", "It rained all night."]


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    path = tmp_path / "refs.en"
    path.write_text("\n".join(TEXTS) + "\n", "utf-8")
    return path


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any, **options: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)


def nbest(path: Path, texts: Sequence[str] = TEXTS, k: int = 8) -> Path:
    """What ``polyref paraphrase`` writes."""
    lists = RuleParaphraser().paraphrase([text or "..." for text in texts], k)
    rows = [
        {
            "id": number,
            "text": text,
            "paraphrases": [{"text": one.text, "score": one.score} for one in found.hypotheses if text],
        }
        for number, (text, found) in enumerate(zip(texts, lists, strict=True), 1)
    ]
    return lines(path, rows)


def lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_an_nbest_list_gives_what_its_generator_would(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    k = 4
    made = tmp_path / "made.jsonl"
    result = polyref(
        "augment", refs, "-k", str(k), "--candidates", nbest(tmp_path / "n.jsonl", k=OVERGENERATE * k), "-o", made
    )
    assert result.code == 0, result.err
    direct = augment(ReferenceSet.load(refs), RuleParaphraser(), k)
    found = ReferenceSet.load(made)
    assert [[(ref.text, ref.kind, ref.of, ref.rank, ref.logprob) for ref in segment.refs] for segment in found] == [
        [(ref.text, ref.kind, ref.of, ref.rank, ref.logprob) for ref in segment.refs] for segment in direct
    ]
    assert {ref.generator for segment in found for ref in segment.extras} == {"n.jsonl"}
    digest = sha256((tmp_path / "n.jsonl").read_bytes()).hexdigest()
    assert found.meta["generator"] == f"n.jsonl|sha:{digest[:12]}"
    assert found.meta["lists"] == [{"name": "n.jsonl", "sha256": digest}]
    assert found.meta["inputs"] == direct.meta["inputs"] or found.meta["inputs"][0]["name"] == "refs.en"


def test_lists_too_short_for_k_are_named_as_the_reason(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    """A list as long as references are wanted, of which the filter takes some away."""
    short, long = nbest(tmp_path / "short.jsonl", k=4), nbest(tmp_path / "long.jsonl", k=8)
    command = ["augment", refs, "-k", "4", "-o", tmp_path / "out.jsonl", "--lang", "en", "--candidates"]
    told = polyref(*command, short)
    assert "of 4 segments got fewer than 4\npolyref: the lists hold 4 candidates a segment at most" in told.err
    assert "longer lists may give more (polyref paraphrase -k 8)" in told.err
    (tmp_path / "out.jsonl").unlink()
    assert "the lists hold" not in polyref(*command, long).err
    (tmp_path / "out.jsonl").unlink()
    copies = lines(tmp_path / "copies.jsonl", [{"text": text, "paraphrases": [{"text": text}]} for text in TEXTS])
    told = polyref(*command, copies)
    assert "3 of 4 segments got fewer than 4, 3 of them none\n" in told.err
    assert told.err.count("none") == 1, "no warning for each"


def test_no_torch_is_loaded(refs: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from polyref.cli.main import cli; import contextlib\n"
        "with contextlib.suppress(SystemExit): cli(sys.argv[1:])\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules, 'loaded'\n"
    )
    arguments = ["augment", refs, "--candidates", nbest(tmp_path / "n.jsonl"), "-o", tmp_path / "out.jsonl", "--quiet"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(ReferenceSet.load(tmp_path / "out.jsonl")[0].extras) > 2


def test_a_set_keeps_the_names_and_scores_it_has(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    row = {"text": "Ann paid 5 euros.", "kind": "human"}
    made = {"text": "5 euros is what Ann paid.", "kind": "paraphrase", "of": 0, "rank": 7, "logprob": -0.12345678}
    file = lines(
        tmp_path / "other.jsonl",
        [
            {"polyref": 1, "meta": {"generator": "llm|sha:1", "decoding": "prompt 3"}},
            {"id": "1", "refs": [row, {**made, "generator": "llm"}, {"text": "Ann gave 5 euros.", "kind": "pseudo"}]},
            {"id": "2", "refs": [{"text": "  "}]},
            {"id": "3", "refs": [{"text": "The  dog barked. "}]},
            {"id": "4", "refs": []},
        ],
    )
    polyref("augment", refs, "--lang", "en", "--candidates", file, "-o", tmp_path / "out.jsonl", "--filter", "none")
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    # Scores are kept to four digits, as those of models are.
    assert [(ref.text, ref.kind, ref.of, ref.rank, ref.logprob, ref.generator) for ref in found[0].extras] == [
        ("Ann gave 5 euros.", "pseudo", None, None, None, "other.jsonl"),
        ("5 euros is what Ann paid.", "paraphrase", 0, 7, -0.1235, "llm"),
    ]
    assert not any(segment.extras for segment in found.segments[1:])
    assert found.meta["lists"][0]["meta"] == {"generator": "llm|sha:1", "decoding": "prompt 3"}


def test_the_simple_form_and_plain_files(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    simple = lines(
        tmp_path / "simple.jsonl", [{"reference": text, "paraphrases": [f"Truly: {text}"]} for text in TEXTS]
    )
    for rank, word in enumerate(("First", "Second")):
        (tmp_path / f"plain{rank}").write_text("".join(f"{word}: {text}\n" if text else "\n" for text in TEXTS))
    plain = [tmp_path / "plain0", tmp_path / "plain1"]
    polyref("augment", refs, "--lang", "en", "--candidates", *plain, "-o", tmp_path / "a.jsonl")
    found = ReferenceSet.load(tmp_path / "a.jsonl")
    assert [(ref.text, ref.rank, ref.logprob, ref.generator) for ref in found[2].extras] == [
        ("First: The dog barked.", 0, None, "plain0"),
        ("Second: The dog barked.", 1, None, "plain1"),
    ]
    # Plain files are one list; every other file is a list of its own, and lists take turns.
    polyref("augment", refs, "--lang", "en", "--candidates", plain[0], simple, plain[1], "-o", tmp_path / "b.jsonl")
    found = ReferenceSet.load(tmp_path / "b.jsonl")
    assert [ref.text.split(":")[0] for ref in found[2].extras] == ["First", "Truly", "Second"]
    assert [item["name"] for item in found.meta["lists"]] == ["plain0", "plain1", "simple.jsonl"]
    assert found.meta["generator"].count(" + ") == 1 and found.meta["decoding"] == "given + given"


def test_lists_take_turns_whatever_their_scores(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    def scored(name: str, values: dict[str, float | None]) -> Path:
        found = [{"text": f"{word}: {TEXTS[0]}", "score": value} for word, value in values.items()]
        rest = [{"text": text, "paraphrases": []} for text in TEXTS[1:]]
        return lines(tmp_path / name, [{"text": TEXTS[0], "paraphrases": found}, *rest])

    one = scored("one", {"Good": -0.1, "Poor": -3.0})
    two = scored("two", {"Fair": -0.5, "Unknown": None, "Weak": -2.0})
    polyref("augment", refs, "--lang", "en", "--candidates", one, two, "-o", tmp_path / "out.jsonl")
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [ref.text.split(":")[0] for ref in found[0].extras] == ["Good", "Fair", "Poor", "Unknown", "Weak"]
    assert found.meta["merge"] == "rank"


def test_ids_may_come_in_any_order_and_leave_segments_out(
    polyref: Callable[..., Any], refs: Path, tmp_path: Path
) -> None:
    file = lines(
        tmp_path / "n.jsonl",
        [
            {"id": 4, "text": TEXTS[3], "paraphrases": [{"text": "All night it rained."}]},
            {"id": 1, "text": TEXTS[0], "paraphrases": [{"text": "5 euros were paid by Ann."}]},
        ],
    )
    assert (
        polyref(
            "augment", refs, "--lang", "en", "--candidates", file, "-o", tmp_path / "out.jsonl", "--filter", "none"
        ).code
        == 0
    )
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [[ref.text for ref in segment.extras] for segment in found] == [
        ["5 euros were paid by Ann."],
        [],
        [],
        ["All night it rained."],
    ]


def test_ids_count_although_they_are_those_of_lines(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    rows = [{"id": n, "paraphrases": [f"Candidate of {n}."]} for n in (1, 2)]
    file = lines(tmp_path / "n.jsonl", rows)
    turned = [{"id": n, "refs": [{"text": "A text."}]} for n in ("2", "1")]
    for references, expected in (
        (lines(tmp_path / "turned.jsonl", turned), [["Candidate of 2."], ["Candidate of 1."]]),
        (refs, [["Candidate of 1."], [], [], []]),  # the second text is empty
    ):
        out = tmp_path / "out.jsonl"
        result = polyref("augment", references, "--lang", "en", "--candidates", file, "-o", out, "--filter", "none")
        assert result.code == 0, result.err
        found = ReferenceSet.load(out)
        assert [[ref.text for ref in segment.extras] for segment in found] == expected
        out.unlink()


def test_lines_count_where_candidates_have_no_ids(polyref: Callable[..., Any], tmp_path: Path) -> None:
    refs = lines(tmp_path / "refs.jsonl", [{"id": n, "refs": [{"text": "A text."}]} for n in ("2", "1")])
    simple = lines(tmp_path / "n.jsonl", [{"paraphrases": [f"Candidate of line {n}."]} for n in (1, 2)])
    (tmp_path / "plain").write_text("Candidate of line 1.\nCandidate of line 2.\n")
    for file in (simple, tmp_path / "plain"):
        polyref("augment", refs, "--lang", "en", "--candidates", file, "-o", tmp_path / "out.jsonl", "--filter", "none")
        found = ReferenceSet.load(tmp_path / "out.jsonl")
        assert [segment.extras[0].text for segment in found] == ["Candidate of line 1.", "Candidate of line 2."]


def test_lines_count_where_only_the_references_have_ids(polyref: Callable[..., Any], tmp_path: Path) -> None:
    refs = lines(tmp_path / "refs.jsonl", [{"id": f"doc:{n}", "refs": [{"text": t}]} for n, t in enumerate(TEXTS)])
    assert (
        polyref(
            "augment", refs, "--lang", "en", "--candidates", nbest(tmp_path / "n"), "-o", tmp_path / "out.jsonl"
        ).code
        == 0
    )
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [segment.id for segment in found] == ["doc:0", "doc:1", "doc:2", "doc:3"]
    assert found[2].extras[0].text == "Plainly: The dog barked."


def test_a_second_reference_gets_its_own_candidates(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    others = ["5 euros were paid.", "More.", "A dog was barking.", "There was rain."]
    (tmp_path / "other.en").write_text("\n".join(others) + "\n")
    file = nbest(tmp_path / "n.jsonl", others, k=3)
    polyref("augment", refs, tmp_path / "other.en", "--lang", "en", "--candidates", file, "-o", tmp_path / "out.jsonl")
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [[(ref.text, ref.of) for ref in segment.extras] for segment in found] == [
        [(f"Plainly: {text}", 1)] for text in others
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"text": text, "paraphrases": []} for text in [TEXTS[0], "", "The cat barked.", TEXTS[3]]],
            "n.jsonl:3: the text is 'The cat barked.', but segment 3 is 'The dog barked.'",
        ),
        (
            [{"text": text, "paraphrases": []} for text in [*TEXTS[1:], TEXTS[0]]],
            "n.jsonl:1: the text is '', but segment 1 is 'Ann paid 5 euros.'",
        ),
        (
            [{"polyref": 1}, *({"refs": [{"text": text}]} for text in [*TEXTS[:3], "It rained."])],
            "n.jsonl:5: the text is 'It rained.', but segment 4 is 'It rained all night.'",
        ),
        (
            [{"id": n, "text": (TEXTS * 3)[n - 1], "paraphrases": []} for n in (2, 3, 9)],
            "n.jsonl:3: there is no segment '9' among the references",
        ),
        (
            [{"id": n, "text": TEXTS[n % 4], "paraphrases": []} for n in (2, 3)],
            "n.jsonl:1: the text is 'The dog barked.', but segment 2 is ''",
        ),
        (
            [{"text": text, "paraphrases": []} for text in TEXTS[:3]],
            "n.jsonl: has 3 segments, but the references have 4",
        ),
        (
            [{"text": text, "paraphrases": []} for text in TEXTS],
            "n.jsonl: holds no candidates for these references",
        ),
        (
            [{"text": text, "paraphrases": [{"text": "x", "score": "high"}]} for text in TEXTS],
            'n.jsonl:1: paraphrases[0]: "score" is "high", expected a finite number',
        ),
    ],
    ids=["text", "shifted", "header", "id", "id and text", "short", "none", "broken"],
)
def test_a_wrong_alignment_is_refused(
    polyref: Callable[..., Any], refs: Path, tmp_path: Path, rows: list[Any], message: str
) -> None:
    result = polyref(
        "augment", refs, "--lang", "en", "--candidates", lines(tmp_path / "n.jsonl", rows), "-o", tmp_path / "out.jsonl"
    )
    assert (result.code, result.out) == (1, "")
    assert message in result.err and result.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.jsonl", "refs.en"]


def test_bad_usage(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    file = nbest(tmp_path / "n.jsonl")
    for options, message in (
        (["--candidates", file, "--beam", "4"], "--beam has no use: --candidates loads no generator"),
        (["--candidates", file, "--threads", "1"], "--threads has no use"),
        (["--candidates", file, "-o", file], "is also an input"),
        (["-", "--candidates", "-"], "named twice"),
        (["--candidates", file, "-k", "0"], "-k is 0"),
    ):
        result = polyref("augment", refs, "--lang", "en", *options)
        assert (result.code, result.out) == (2, "") and message in result.err and result.err.count("\n") == 1


def test_pipes_and_other_folders(polyref: Callable[..., Any], refs: Path, tmp_path: Path) -> None:
    file = nbest(tmp_path / "n.jsonl")
    whole = polyref("augment", refs, "--lang", "en", "--candidates", file).out
    (tmp_path / "deep").mkdir()
    os.mkfifo(tmp_path / "deep" / "n.jsonl")
    with subprocess.Popen(["cp", file, tmp_path / "deep" / "n.jsonl"]):
        assert polyref("augment", refs, "--lang", "en", "--candidates", tmp_path / "deep" / "n.jsonl").out == whole


def test_a_generator_beside_a_list(
    polyref: Callable[..., Any], refs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", lambda name, **options: RuleParaphraser())
    (tmp_path / "plain").write_text("Ann gave 5 euros.\n\nThe dog was barking.\nAll night it rained.\n")
    result = polyref(
        *(
            "augment",
            refs,
            "--candidates",
            tmp_path / "plain",
            "--model",
            "rules",
            "-k",
            "3",
            "-o",
            tmp_path / "out.jsonl",
        ),
        *("--filter", "none"),
    )
    assert result.code == 0, result.err
    found = ReferenceSet.load(tmp_path / "out.jsonl")
    assert [(ref.generator, ref.rank) for ref in found[0].extras] == [("rules", 2), ("plain", 0), ("rules", 3)]
    assert found.meta["generator"].startswith("rules|sha:0 + plain|sha:")
    assert found.meta["decoding"] == f"rules({len(RULES)}) + given"


@pytest.mark.parametrize("form", ["path", "paths", "set", "texts", "lists", "columns"])
def test_lists_are_taken_from_python(refs: Path, tmp_path: Path, form: str) -> None:
    texts = [["Ann gave 5 euros.", None, "5 euros Ann paid."], [], ["A dog barked."], ["All night it rained."]]
    rows = [{"paraphrases": [text for text in row if text]} for row in texts]
    path = lines(tmp_path / "n.jsonl", rows)
    given: Any = {
        "path": path,
        "paths": [str(path)],
        "set": ReferenceSet.load(path),
        "texts": texts,
        "lists": [texts],
        "columns": np.array([np.array(row, object) for row in texts], object),
    }[form]
    found = augment(TEXTS, k=3, candidates=given, filters="none", lang="en")
    expected = augment(ReferenceSet.load(refs), k=3, candidates=path, filters="none", lang="en")
    assert found.texts() == expected.texts() == [
        [TEXTS[0], "Ann gave 5 euros.", "5 euros Ann paid."], [""], [TEXTS[2], "A dog barked."],
        [TEXTS[3], "All night it rained."],
    ]  # fmt: skip
    name = "n.jsonl" if "path" in form else "candidates[0]"
    assert {ref.generator for segment in found for ref in segment.extras} == {name}
    assert found.meta["generator"].startswith(f"{name}|sha:") and found.meta["decoding"] == "given"
    assert found.meta["inputs"][0]["name"] == "memory"


def test_lists_from_python_take_turns_with_generators() -> None:
    texts = [["Ann gave 5 euros."], [], ["The dog was barking."], ["All night it rained."]]
    found = augment(TEXTS, RuleParaphraser(), 3, candidates=[texts, texts[::-1]], filters="none", lang="en")
    assert [ref.generator for ref in found[0].extras] == ["rules", "candidates[0]", "candidates[1]"]
    assert found[0].extras[2].text == "All night it rained."


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (5, UsageError, "`candidates` is of type int"),
        ([TEXTS, 5], UsageError, r"`candidates`\[0\]\[0\] is 'Ann paid 5 euros.', expected the list of that segment's"),
        ([[["a"]], 5], UsageError, r"`candidates`\[1\] is of type int"),
        ([["a", 5], ["b"], [], []], UsageError, r"`candidates`\[0\]\[0\] is 'a', expected the list"),
        ([["a"]], DataError, r"candidates\[0\]: has 1 segments, but the references have 4"),
        ([[], [], [], []], DataError, r"candidates\[0\]: holds no candidates"),
        ("nowhere", DataError, "nowhere: no such file"),
    ],
    ids=["number", "one-text", "second", "odd-text", "short", "none", "no-file"],
)
def test_what_are_no_lists_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        augment(TEXTS, candidates=given, lang="en")
