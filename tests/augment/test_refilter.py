"""Candidates that are kept in the set with their reasons, and sets that are filtered again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kills import run_program
from rule_paraphraser import RULES, RuleParaphraser

from polyref.augment.sources import SHARD_SEGMENTS
from polyref.references import ReferenceSet

TEXTS = ["Ann paid 5 euros.", "", "The dog barked.", " ".join(["word"] * 50) + "."]


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    """A set with a second human reference and with paraphrases of its own."""
    path = tmp_path / "refs.jsonl"
    own = {"text": "A dog was barking.", "kind": "paraphrase", "of": 0, "generator": "other"}
    rows: list[Any] = [{"polyref": 1, "meta": {"licence": "CC0"}}]
    rows += [{"id": f"s{n}", "refs": [{"text": text}], "genre": "news"} for n, text in enumerate(TEXTS)]
    rows[1]["refs"].append({"text": "5 euros were paid."})
    rows[3]["refs"].append(own)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models that are loaded."""
    loaded: list[str] = []

    def load(name: str, **options: Any) -> RuleParaphraser:
        loaded.append(name)
        return RuleParaphraser()

    monkeypatch.setattr("polyref.cli.augment.load_paraphraser", load)
    return loaded


def test_what_was_not_added_is_kept_with_its_reason(
    polyref: Callable[..., Any], rules: list[str], refs: Path, tmp_path: Path
) -> None:
    polyref("augment", refs, "-k", "2", "-o", tmp_path / "plain.jsonl")
    result = polyref("augment", refs, "-k", "2", "-o", tmp_path / "kept.jsonl", "--keep-dropped")
    assert result.code == 0, result.err
    kept, plain = ReferenceSet.load(tmp_path / "kept.jsonl"), ReferenceSet.load(tmp_path / "plain.jsonl")
    # Whoever reads the set sees the same references.
    assert [segment.refs for segment in kept] == [segment.refs for segment in plain]
    assert kept.meta["candidates"] is True and "candidates" not in plain.meta
    found = kept[2].extra["candidates"]
    assert kept[2].extra["genre"] == "news"
    assert [(one["text"], one.get("reason")) for one in found] == [
        ("The dog barked.", "copy"),
        ("THE DOG BARKED. !", "copy"),
        ("Plainly: The dog barked.", None),
        ("Clearly: The dog barked.", None),
    ]
    assert found[2] == {
        "text": "Plainly: The dog barked.",
        "of": 0,
        "rank": 2,
        "logprob": -0.3704,
        "generator": "rules",
        "group": 2,
    }
    # Of two references all eight are there, also what nobody would have looked at: k were found before.
    first = kept[0].extra["candidates"]
    assert [one["of"] for one in first] == [0, 1] * 4
    assert [one["reason"] for one in first if one["rank"] == 3] == ["surplus", "surplus"]
    assert "truncated" in kept[3].extra["candidates"][0] and kept[1].extra["candidates"] == []


SETTINGS = {
    "filter": ["--filter", "none"],
    "k": ["-k", "1"],
    "mmr": ["--select", "mmr:0.2"],
    "lang": ["--lang", "de"],
    "length": ["--filter", "length.toml"],
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("first", [[], ["--select", "mmr", "--filter", "none"]], ids=["default", "mmr"])
@pytest.mark.parametrize("keep", [[], ["--keep-dropped"]], ids=["", "kept"])
def test_filtered_again_is_as_filtered_so_at_first(
    polyref: Callable[..., Any],
    rules: list[str],
    refs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: list[str],
    first: list[str],
    keep: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("length.toml").write_text("[length]\nlow = 1.05\nhigh = 3.0\n")
    polyref("augment", refs, "-k", "3", "--seed", "7", *first, "--keep-dropped", "-o", "made.jsonl")
    assert rules == ["shipped"]
    result = polyref(
        *("augment", "made.jsonl", "--refilter", *settings, *keep, "-o", "again.jsonl", "--dropped", "again.dropped")
    )
    assert result.code == 0, result.err
    assert rules == ["shipped"]
    if "-k" in settings:
        # Another k asks a generator for another number of candidates; a list gives what it has.
        assert [len(segment.extras) for segment in ReferenceSet.load("again.jsonl")] == [1, 0, 2, 0]
        return
    wanted = polyref(
        *("augment", refs, "-k", "3", "--seed", "7", *settings, *keep, "-o", "at-first.jsonl"),
        *("--dropped", "at-first.dropped"),
    )
    assert Path("again.dropped").read_bytes() == Path("at-first.dropped").read_bytes()
    assert result.err.replace("again", "") == wanted.err.replace("at-first", "")
    assert Path("again.jsonl").read_bytes() == Path("at-first.jsonl").read_bytes()


def test_several_lists_are_merged_again(polyref: Callable[..., Any], rules: list[str], tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("Ann paid.\nThe dog barked.\n")
    for name, word in (("a", "Truly"), ("b", "Surely")):
        (tmp_path / name).write_text(f"{word}: Ann paid.\n{word}: the dog barked, all night.\n")
    command = ("augment", tmp_path / "refs", "--model", "one", "two", "--candidates", tmp_path / "a", tmp_path / "b")
    shares = ("--share", "2,1,1")
    assert polyref(*command, *shares, "--keep-dropped", "-o", tmp_path / "made.jsonl", "--filter", "strict").code == 0
    polyref("augment", tmp_path / "made.jsonl", "--refilter", "--filter", "none", "-o", tmp_path / "again.jsonl")
    polyref(*command, *shares, "-o", tmp_path / "at-first.jsonl", "--filter", "none")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "at-first.jsonl").read_bytes()
    assert ReferenceSet.load(tmp_path / "again.jsonl").meta["share"] == [2, 1, 1]


def test_sets_that_cannot_be_filtered_again(
    polyref: Callable[..., Any], rules: list[str], refs: Path, tmp_path: Path
) -> None:
    made, more, out = tmp_path / "made.jsonl", tmp_path / "more.jsonl", tmp_path / "out.jsonl"
    polyref("augment", refs, "-k", "2", "-o", made, "--keep-dropped")
    polyref("augment", made, "-k", "2", "-o", more, "--keep-dropped", "--filter", "none")
    # Nothing of the first run is lost.
    assert len(ReferenceSet.load(more)[2].extra["candidates"]) == 8
    broken = tmp_path / "broken.jsonl"
    broken.write_text(made.read_text().replace('"of": 0, "rank": 0', '"of": 9, "rank": 0'))
    for arguments, code, message in (
        ([refs], 2, f"{refs} keeps no candidates that could be filtered again (make it with --keep-dropped"),
        ([more], 2, "was made in 2 runs"),
        ([made, "--model", "x"], 2, "--model is of no use: --refilter loads no generator"),
        ([made, "--seed", "3"], 2, "--seed is of no use: --refilter loads no generator"),
        ([made, "--candidates", refs], 2, "--refilter and --candidates exclude each other"),
        ([made, "--share", "1,1"], 2, "--share is of no use"),
        ([broken], 1, "broken.jsonl: segment s0 keeps a candidate that is not understood"),
    ):
        result = polyref("augment", *arguments, "--refilter", "-o", out)
        assert (result.code, result.out) == (code, "") and message in result.err and result.err.count("\n") == 1
    assert len(rules) == 2 and not out.exists()


def test_a_view_can_be_filtered_again(
    polyref: Callable[..., Any], rules: list[str], refs: Path, tmp_path: Path
) -> None:
    made, view = tmp_path / "made.jsonl", tmp_path / "view.jsonl"
    polyref("augment", refs, "-k", "3", "-o", made, "--keep-dropped")
    ReferenceSet.load(made).take(2).save(view)
    for file in (made, view):
        polyref("augment", file, "--refilter", "-o", tmp_path / f"again-{file.name}", "--filter", "none")
    first, second = (tmp_path / f"again-{file.name}" for file in (made, view))
    assert first.read_bytes() == second.read_bytes()
    assert len(RULES) > 3


@pytest.mark.slow
def test_kills_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "refs.en").write_text("".join(f"Sentence {n} is here.\n" for n in range(2 * SHARD_SEGMENTS + 5)))
    (tmp_path / "list").write_text("".join(f"Truly: sentence {n} is here.\n" for n in range(2 * SHARD_SEGMENTS + 5)))
    program = """
from pathlib import Path
from kills import survives
from polyref.cli.main import cli
from polyref.augment.sources import Source
Source.shard = 64
def polyref(*arguments):
    cli(["augment", *arguments, "--quiet"], standalone_mode=False)
polyref("refs.en", "--candidates", "list", "--keep-dropped", "-o", "made.jsonl")
work = lambda: polyref("made.jsonl", "--refilter", "--filter", "none", "--keep-dropped", "-o", "place/out.jsonl")
print(survives(work, lambda: None, Path("place"), [{"out.jsonl"}]))
"""
    assert int(run_program(program, tmp_path).split()[-1]) > 8
