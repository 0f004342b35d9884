"""Several generators in one run: how their candidates are merged, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_paraphraser import RULES, RuleParaphraser

from polyref.augment.pipeline import OVERGENERATE
from polyref.augment.select import Candidate, Rank
from polyref.augment.sources import Merge
from polyref.errors import UsageError
from polyref.references import ReferenceSet


def _passed(*counts: int) -> list[Candidate]:
    """So many candidates of every source, each worse than the one before."""
    return [Candidate(f"{s}{n}", 0, n, -float(n + s), source=s) for s, count in enumerate(counts) for n in range(count)]


def _order(merge: Merge, passed: Sequence[Candidate], k: int) -> str:
    return " ".join(one.text for one in Rank().order(merge.arranged(passed), [], k))


def test_sources_take_turns_in_proportion_to_their_shares() -> None:
    assert _order(Merge(), _passed(3, 3), 5) == "00 10 01 11 02"
    assert _order(Merge(shares=(2, 1)), _passed(4, 4), 8) == "00 10 01 02 11 03 12 13"
    # What one cannot give, the others do: after everything that is within a share.
    assert _order(Merge(shares=(3, 3)), _passed(1, 5), 6) == "00 10 11 12 13 14"
    assert _order(Merge("score"), _passed(3, 2), 5) == "00 01 10 02 11"
    assert _order(Merge("score", (1, 2)), _passed(3, 2), 5) == "00 10 11 01 02"


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=4),
    st.lists(st.integers(1, 5), min_size=4, max_size=4),
    st.sampled_from(["rank", "score"]),
)
def test_shares_are_kept_where_there_is_enough(counts: list[int], numbers: list[int], by: str) -> None:
    shares = tuple(numbers[: len(counts)])
    merge = Merge(by, shares)
    chosen = Rank().order(merge.arranged(_passed(*counts)), [], sum(shares))
    found = [sum(one.source == s for one in chosen) for s in range(len(counts))]
    assert sum(found) == min(sum(shares), sum(counts))
    assert all(have >= min(share, count) for have, share, count in zip(found, shares, counts, strict=True))
    # Within a source, better ranks come first; the first k of a longer choice are the choice of k.
    for source in range(len(counts)):
        ranks = [one.rank for one in chosen if one.source == source]
        assert ranks == sorted(ranks)
    assert Rank().order(merge.arranged(_passed(*counts)), [], 2) == chosen[:2]


def test_settings_are_checked() -> None:
    for arguments, message in (
        (("best",), "`merge` is 'best', expected one of rank, score"),
        (("rank", (5, 0)), "`share` is 5,0, expected whole numbers from 1"),
    ):
        with pytest.raises(UsageError, match=message):
            Merge(*arguments)  # type: ignore[arg-type]


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

    monkeypatch.setattr("polyref.cli.augment.load_paraphraser", load)
    return loaded


def test_each_reference_names_its_own_generator(
    polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path
) -> None:
    refs, plain, out = tmp_path / "refs", tmp_path / "plain", tmp_path / "out.jsonl"
    refs.write_text("Ann paid.\nThe dog barked.\n")
    plain.write_text("It was Ann who paid.\nA dog was barking.\n")
    command = ("augment", refs, "--model", "a", "b", "--candidates", plain, "--share", "3,2,1", "-o", out)
    result = polyref(*command, "--filter", "none", "--json", "--quiet")
    assert result.code == 0, result.err
    found = ReferenceSet.load(out)
    assert [(ref.generator, ref.rank) for ref in found[0].extras] == [
        ("a", 2),
        ("a", 3),
        ("plain", 0),
        ("a", 5),
    ]
    assert {name: model.asked for name, model in models.items()} == {"a": OVERGENERATE * 3, "b": OVERGENERATE * 2}
    sha = found.meta["lists"][0]["sha256"][:12]
    assert found.meta["generator"] == f"a|sha:1 + b|sha:1 + plain|sha:{sha}"
    assert found.meta["decoding"] == "rules + rules + given"
    assert (found.meta["k"], found.meta["share"], found.meta["merge"]) == (6, [3, 2, 1], "rank")
    signature = result.json()["signature"]
    assert signature.startswith(found.meta["generator"] + "|rules + rules + given|k:6|share:3,2,1|merge:rank|filters:")
    # The same in the signature of scores.
    scored = polyref("score", out, "-i", plain, "-k", "5", "--json").json()
    assert f"gen:a/sha:1 + b/sha:1 + plain/sha:{sha}|dec:rules + rules + given" in scored["rows"][0]["signature"]
    assert len(RULES) > 6


def test_files_may_come_last(polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path) -> None:
    for name in ("refs", "other"):
        (tmp_path / name).write_text("Ann paid.\n")
    refs, other, out = tmp_path / "refs", tmp_path / "other", tmp_path / "out.jsonl"
    assert polyref("augment", "--model", "a", "-k", "2", "-o", out, refs, other).code == 0
    assert list(models) == ["a"] and len(ReferenceSet.load(out)[0].originals) == 2
    assert polyref("augment", "--model", "a", "--model", "b", "-o", out, refs).code == 0
    assert polyref("augment", refs, "--model", "c", "d", "-o", out).code == 0
    assert list(models) == ["a", "b", "c", "d"]


def test_a_second_run_keeps_what_the_first_one_said(
    polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path
) -> None:
    (tmp_path / "refs").write_text("Ann paid.\n")
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    polyref("augment", tmp_path / "refs", "--model", "a", "b", "--share", "2,2", "-o", one, "--filter", "none")
    polyref("augment", one, "--model", "c", "-k", "4", "-o", two, "--filter", "none")
    meta = ReferenceSet.load(two).meta
    assert meta["generator"] == ["a|sha:1 + b|sha:1", "c|sha:1"]
    assert (meta["share"], meta["merge"]) == ([[2, 2], None], ["rank", None])


def test_bad_usage(polyref: Callable[..., Any], models: dict[str, Named], tmp_path: Path) -> None:
    refs = tmp_path / "refs"
    refs.write_text("Ann paid.\n")
    for options, message in (
        (["--model", "a", "b", "--share", "1,2,3"], "--share has 3 numbers, but candidates come from 2 sources"),
        (["--share", "1,2"], "--share has 2 numbers, but candidates come from 1 source"),
        (["--model", "a", "b", "--share", "5,x"], "--share is 5,x, expected whole numbers, such as 5,5"),
        (["--model", "a", "b", "--share", "5,0"], "--share is 5,0, expected whole numbers from 1"),
        (["--model", "a", "b", "--share", "5,5", "-k", "9"], "-k is 9, but --share 5,5 adds up to 10"),
        (["--model", "a", "b", "--merge", "best"], "'best' is not one of"),
    ):
        result = polyref("augment", refs, *options)
        assert (result.code, result.out) == (2, "") and message in result.err and "Traceback" not in result.err
    assert not models
