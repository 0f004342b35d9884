"""Several generators in one run: how their candidates are merged, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_paraphraser import RULES, RuleParaphraser

from polyref.augment.candidates import Candidate, Rank, in_turn
from polyref.augment.pipeline import OVERGENERATE
from polyref.references import ReferenceSet


def _passed(*counts: int) -> list[Candidate]:
    """So many candidates of every source, each worse than the one before."""
    return [Candidate(f"{s}{n}", 0, n, -float(n + s), source=s) for s, count in enumerate(counts) for n in range(count)]


def test_sources_take_turns() -> None:
    def order(*counts: int) -> str:
        return " ".join(one.text for one in Rank().order(in_turn(_passed(*counts)), [], 5))

    assert order(3, 3) == "00 10 01 11 02"
    # What one cannot give, the others do.
    assert order(1, 5) == "00 10 11 12 13"


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(1, 12))
def test_turns_are_kept_where_there_is_enough(counts: list[int], k: int) -> None:
    chosen = Rank().order(in_turn(_passed(*counts)), [], k)
    found = [sum(one.source == s for one in chosen) for s in range(len(counts))]
    assert sum(found) == min(k, sum(counts))
    assert all(have >= min(k // len(counts), count) for have, count in zip(found, counts, strict=True))
    # Within a source, better ranks come first; the first k of a longer choice are the choice of k.
    for source in range(len(counts)):
        ranks = [one.rank for one in chosen if one.source == source]
        assert ranks == sorted(ranks)
    assert Rank().order(in_turn(_passed(*counts)), [], 1) == chosen[:1]


class Named(RuleParaphraser):
    """Rules under another name, that notes what it is asked for."""

    procedure = "rules"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.signature, self.asked = name, f"{name}|sha:1", 0

    def generate(self, texts: Any, k: int, **options: Any) -> Any:
        self.asked = k
        return super().generate(texts, k, **options)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, Named]:
    loaded: dict[str, Named] = {}

    def load(name: str, **options: Any) -> Named:
        return loaded.setdefault(name, Named(name))

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)
    return loaded


def test_each_reference_names_its_own_generator(
    polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path
) -> None:
    refs, plain, out = tmp_path / "refs", tmp_path / "plain", tmp_path / "out.jsonl"
    refs.write_text("Ann paid.\nThe dog barked.\n")
    plain.write_text("It was Ann who paid.\nA dog was barking.\n")
    command = ("augment", refs, "--lang", "en", "--model", "a", "b", "--candidates", plain, "-k", "6", "-o", out)
    result = polyref(*command, "--filter", "none", "--json", "--quiet")
    assert result.code == 0, result.err
    found = ReferenceSet.load(out)
    # What b says, a has said before.
    ranks = [(ref.generator, ref.rank) for ref in found[0].extras]
    assert ranks == [("a", 2), ("plain", 0), ("a", 3), ("a", 5), ("a", 6), ("a", 7)]
    assert {name: model.asked for name, model in models.items()} == {"a": OVERGENERATE * 6, "b": OVERGENERATE * 6}
    sha = found.meta["lists"][0]["sha256"][:12]
    assert found.meta["generator"] == f"a|sha:1 + b|sha:1 + plain|sha:{sha}"
    assert found.meta["decoding"] == "rules + rules + given"
    assert (found.meta["k"], found.meta["merge"]) == (6, "rank")
    signature = result.json()["signature"]
    assert signature.startswith(found.meta["generator"] + "|rules + rules + given|k:6|merge:rank|filters:")
    # The same in the signature of scores.
    scored = polyref("score", out, "-i", plain, "-k", "5", "--json").json()
    assert f"gen:a/sha:1 + b/sha:1 + plain/sha:{sha}|dec:rules + rules + given" in scored["rows"][0]["signature"]
    assert len(RULES) > 6


def test_files_may_come_last(polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path) -> None:
    for name in ("refs", "other"):
        (tmp_path / name).write_text("Ann paid.\n")
    refs, other, out = tmp_path / "refs", tmp_path / "other", tmp_path / "out.jsonl"
    assert polyref("augment", "--model", "a", "-k", "2", "-o", out, "--lang", "en", refs, other).code == 0
    assert list(models) == ["a"] and len(ReferenceSet.load(out)[0].originals) == 2
    assert polyref("augment", "--model", "a", "--model", "b", "-o", out, "--lang", "en", refs).code == 0
    assert polyref("augment", refs, "--model", "c", "d", "-o", out, "--lang", "en").code == 0
    assert list(models) == ["a", "b", "c", "d"]


def test_a_second_run_keeps_what_the_first_one_said(
    polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path
) -> None:
    (tmp_path / "refs").write_text("Ann paid.\n")
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    polyref("augment", tmp_path / "refs", "--model", "a", "b", "-k", "4", "-o", one, "--filter", "none", "--lang", "en")
    polyref("augment", one, "--model", "c", "-k", "4", "-o", two, "--filter", "none")
    meta = ReferenceSet.load(two).meta
    assert meta["generator"] == ["a|sha:1 + b|sha:1", "c|sha:1"]
    assert meta["merge"] == ["rank", None]
