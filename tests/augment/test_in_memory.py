"""Augmenting in one call: from plain lists, by a model's name, with a bar."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from rule_paraphraser import RuleParaphraser

from polyref.augment import augment
from polyref.augment.candidates import SHARD_SEGMENTS
from polyref.errors import ModelError, UsageError
from polyref.paraphrase.rewriting import RewritingOptions
from polyref.references import ReferenceSet


def test_plain_lists_are_references() -> None:
    whole = augment(ReferenceSet.from_texts([["Ann paid."], ["Bob left."]]), RuleParaphraser(), 2)
    assert augment(["Ann paid.", "Bob left."], RuleParaphraser(), 2) == whole
    assert augment([["Ann paid."], ["Bob left."]], RuleParaphraser(), 2) == whole
    assert [ref.text for ref in augment([["Ann paid.", "Ann has paid."]], RuleParaphraser(), 2)[0].originals] == [
        "Ann paid.",
        "Ann has paid.",
    ]


@pytest.mark.parametrize("references", ["Ann paid.", [["Ann paid."], "Bob left."], ["Ann paid.", 5]])
def test_what_are_no_references_is_refused(references: Any) -> None:
    paraphraser = RuleParaphraser()
    with pytest.raises(UsageError, match="`references`"):
        augment(references, paraphraser, 2)
    assert paraphraser.calls == []


@pytest.mark.slow
def test_a_model_is_taken_by_its_name() -> None:
    made = augment(["The ferry left the harbour on time."], "shipped", 2)
    assert made.meta["generator"].startswith("polyref-en|sha:")
    assert made.meta["decoding"].startswith("dbs(beam=8,groups=2,")
    assert made[0].extras and all(ref.logprob is not None for ref in made[0].extras)
    with pytest.raises(ModelError, match="no such model folder"):
        augment(["Ann paid."], "nothing-of-that-name", 2, lang="en")
    with pytest.raises(UsageError, match="polyref-en writes en, not 'de'"):
        augment(["Ann hat bezahlt."], "shipped", 2, lang="de", filters="none")


def test_the_bar_counts_segments(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Sentence {number} is here." for number in range(SHARD_SEGMENTS + 3)]
    quiet = augment(texts, RuleParaphraser(), 1)
    assert augment(texts, RuleParaphraser(), 1, progress=True) == quiet
    assert capfd.readouterr().err == ""  # where nobody sees it, a bar is only noise
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert augment(texts, RuleParaphraser(), 1, progress=True) == quiet
    assert f"augmenting:   0%|          | 0/{len(texts)}" in capfd.readouterr().err


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Every call of ``load_paraphraser``; what is loaded are rules."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def load(name: str, **options: Any) -> RuleParaphraser:
        calls.append((name, options))
        return RuleParaphraser()

    monkeypatch.setattr("polyref.paraphrase.loading.load_paraphraser", load)
    return calls


def test_models_by_name_are_loaded_with_the_options_they_have_a_use_for(
    loaded: list[tuple[str, dict[str, Any]]],
) -> None:
    made = augment(["Ann paid."], ["shipped", "lexical"], 2, lang="en", threads=2, jobs=1, cache=False)
    assert [name for name, _ in loaded] == ["shipped", "lexical"] and len(made[0].extras) == 2
    assert {name: loaded[0][1][name] for name in ("threads", "jobs", "cache")} == {
        "threads": 2,
        "jobs": 1,
        "cache": False,
    }
    assert "threads" not in loaded[1][1]
    with pytest.raises(UsageError, match="`threads` is given, but no model is loaded by name"):
        augment(["Ann paid."], RuleParaphraser(), 2, threads=2)


def test_language_models_by_name_are_shown_the_neighbours(loaded: list[tuple[str, dict[str, Any]]]) -> None:
    how = RewritingOptions(base_url="http://localhost:8000/v1", context=1)
    made = augment(["Ann paid.", "Bob left."], ["openai:x", "shipped"], 1, lang="en", rewriting=how)
    assert [options.get("rewriting") for _, options in loaded] == [how, None]
    assert [getattr(segment.originals[0].text, "after", ()) for segment in made] == [("Bob left.",), ()]
    with pytest.raises(UsageError, match="`rewriting` is given, but no language model by name"):
        augment(["Ann paid."], "shipped", 1, rewriting=how)
