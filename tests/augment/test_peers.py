"""Outputs of a fixed pool of systems as pseudo-references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyref.references import ReferenceSet


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any, **options: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two references a segment, and three systems."""
    texts = {
        "refA": ["Ann paid 5 euros.", "The dog barked.", ""],
        "refB": ["5 euros were paid by Ann.", "A dog was barking.", "Hello."],
        "one": ["Ann payed 6 euros.", "the dog barked", "Hi."],
        "two": ["It was Ann who had to pay all of it.", "A dog was barking!", "Good day."],
        "three": ["ann payed 6 euros", "", "Hello!"],
    }
    for name, found in texts.items():
        (tmp_path / name).write_text("\n".join(found) + "\n")
    return [tmp_path / name for name in texts]


def test_outputs_are_added_but_for_copies(polyref: Callable[..., Any], files: list[Path], tmp_path: Path) -> None:
    ref, other, *systems = files
    out = tmp_path / "out.jsonl"
    result = polyref("augment", ref, other, "--peers", *systems, "-o", out, "--dropped", tmp_path / "dropped")
    assert result.code == 0, result.err
    found = ReferenceSet.load(out)
    assert [[(one.text, one.kind, one.generator) for one in segment.extras] for segment in found] == [
        # Wrong ones too: what the systems wrote is what is added.
        [
            ("Ann payed 6 euros.", "pseudo", "one"),
            ("It was Ann who had to pay all of it.", "pseudo", "two"),
        ],
        [],
        [("Hi.", "pseudo", "one"), ("Good day.", "pseudo", "two")],
    ]
    assert {(one.of, one.rank, one.logprob) for segment in found for one in segment.extras} == {(None, None, None)}
    reasons = [(row["id"], row["reason"]) for row in map(json.loads, (tmp_path / "dropped").read_text().splitlines())]
    assert reasons == [("1", "duplicate"), ("2", "copy"), ("2", "copy"), ("3", "copy")]
    assert (found.meta["k"], found.meta["decoding"]) == (3, "peers")
    assert found.meta["filters"].startswith("good-writer(for peers):")
    assert [item["name"] for item in found.meta["lists"]] == ["one", "two", "three"]
    assert found.meta["generator"].startswith("one|sha:")
    # Scores say so.
    scored = polyref("score", out, "-i", systems[0], "--json").json()
    assert "|dec:peers|" in scored["rows"][-1]["signature"]


def test_fewer_of_them_a_filter_and_a_set_that_has_paraphrases(
    polyref: Callable[..., Any], files: list[Path], tmp_path: Path
) -> None:
    ref, other, *systems = files
    made, out = tmp_path / "made.jsonl", tmp_path / "out.jsonl"
    polyref("augment", ref, "--candidates", other, "-o", made, "--filter", "none", "--lang", "en")
    polyref("augment", made, "--peers", *systems, "-k", "1", "--filter", "small-model", "-o", out)
    found = ReferenceSet.load(out)
    # 6 euros are not 5.
    assert [[one.text for one in segment.extras] for segment in found] == [
        ["5 euros were paid by Ann."],
        ["A dog was barking."],
        [],
    ]
    polyref("augment", made, "--peers", *systems, "-k", "1", "-o", out)
    found = ReferenceSet.load(out)
    assert [[(one.kind, one.generator) for one in segment.extras] for segment in found] == [
        [("paraphrase", "refB"), ("pseudo", "one")],
        [("paraphrase", "refB")],
        [],
    ]
    assert found.meta["decoding"] == ["given", "peers"] and found.meta["k"] == [10, 1]
    # Only peers count, where a view asks for them.
    assert [len(segment.extras) for segment in found.take(5, kinds=["pseudo"])] == [1, 0, 0]


def test_bad_usage(polyref: Callable[..., Any], files: list[Path], tmp_path: Path) -> None:
    ref, other, one, *_ = files
    (tmp_path / "short").write_text("a\n")
    (tmp_path / "set.jsonl").write_text('{"id": "1", "refs": [{"text": "Ann paid."}]}\n')
    for options, code, message in (
        (["--peers", "leave-one-out"], 2, "measures consensus among the systems compared, and does not rank them"),
        (["--peers", "leave-one-out"], 2, "polyref score --sentence --peers leave-one-out is for segments alone"),
        (["--peers", one, "--candidates", other], 2, "--peers and --candidates exclude each other"),
        (["--peers", one, "--model", "shipped"], 2, "--model has no use: --peers loads no generator"),
        (["--peers", one, "-o", one], 2, "is also an input"),
        (["--peers", tmp_path / "set.jsonl"], 2, "expected plain text: one output of a system a line"),
        (["--peers", tmp_path / "short"], 1, "short: has 1 segments, but the references have 3"),
    ):
        result = polyref("augment", ref, "--lang", "en", *options)
        assert (result.code, result.out) == (code, "") and message in result.err and result.err.count("\n") == 1
