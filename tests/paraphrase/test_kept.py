"""N-best lists from the cache: the same as computed ones, in any neighbourhood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_seq2seq
import torch

from polyref.cache import Cache
from polyref.paraphrase import DiverseBeam, Paraphraser, SearchOptions, load_paraphraser
from polyref.paraphrase.search import Candidate
from polyref.paraphrase.search.huggingface import SavedGeneration
from polyref.paraphrase.search_paraphraser import SearchParaphraser

TEXTS = ["She said that the ferry left on time.", "", "Nobody saw the mill that day.", "We bought 12 apples."]


def counted(paraphraser: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each search is given from now on."""
    searches: list[int] = []
    own = type(paraphraser)._search

    def search(self: Any, sources: Any, *rest: Any) -> Any:
        searches.append(len(sources))
        return own(self, sources, *rest)

    monkeypatch.setattr(type(paraphraser), "_search", search)
    return searches


@pytest.fixture(scope="module")
def shipped() -> Paraphraser:
    return load_paraphraser(threads=1, cache=False)


def test_shipped_lists_are_kept_one_by_one(shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = shipped(TEXTS, 2)
    searches = counted(shipped, monkeypatch)
    cache = Cache(tmp_path)
    monkeypatch.setattr(shipped, "_cache", None)
    shipped.use_cache(cache)
    assert shipped(TEXTS[:1], 2) == expected[:1] and searches == [1]
    assert shipped(TEXTS, 2) == expected and sum(searches) == 3, "the first text is read, two are searched for"
    assert shipped(TEXTS[::-1], 2) == expected[::-1] and sum(searches) == 3
    assert any(one.tokens for one in expected[0].hypotheses), "token ids are kept too"
    # Another number, another decoding and another way of loading are other lists.
    shipped(TEXTS[:1], 1)
    shipped(TEXTS[:1], 2, decoding=DiverseBeam(strength=0.7))
    shipped.use_cache(cache, "other options")
    shipped(TEXTS[:1], 2)
    assert sum(searches) == 6
    cache.close()
    assert shipped(TEXTS, 2) == expected, "a cache that cannot be used is left out"


@pytest.mark.slow
def test_lists_of_other_networks_are_kept_by_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paraphraser: Any = load_paraphraser(tiny_seq2seq.write_t5(tmp_path / "t5"), cache=False)
    texts = ["the river", "the mill was old", "the river was old"]
    decoding = SearchOptions(beam=3)
    expected = paraphraser(texts, 3, decoding=decoding)
    paraphraser.use_cache(Cache(tmp_path / "cache"))
    searches = counted(paraphraser, monkeypatch)
    assert paraphraser(texts, 3, decoding=decoding) == expected and searches == [3]
    assert paraphraser(texts, 3, decoding=decoding) == expected and searches == [3]
    paraphraser(texts[:2], 3, decoding=decoding)
    assert searches == [3, 2], "two of three are another batch"


class _Network:
    """What the search is told of a network."""

    start, eos, max_target, device = 2, 2, 20, torch.device("cpu")


class _Letters:
    def encode(self, text: str) -> list[int]:
        return [*map(ord, text), 2]

    def decode(self, tokens: Any) -> str:
        return "".join(map(chr, tokens))


class _Searching(SearchParaphraser):
    """It finds its own name, and counts how often it looks."""

    searches = 0

    def _search(self, sources: list[list[int]], decoding: Any, texts: Any) -> list[list[Candidate]]:
        self.searches += 1
        tokens = tuple(map(ord, self.name))
        zeros = (0.0,) * len(tokens)
        return [[Candidate(tokens, 0.0, 0.0, zeros, zeros, 0, True)] for _ in sources]


def searching(cache: Cache, **changes: Any) -> _Searching:
    facts: dict[str, Any] = {"name": "m", "digest": "0", "max_source": 9, "lang": "en"}
    made = _Searching(_Network(), _Letters(), **{**facts, **changes})  # type: ignore[arg-type]
    made.use_cache(cache)
    return made


def test_lists_of_another_model_are_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for _ in range(2):
        for name in ("m", "n"):
            assert [one.text for one in searching(cache, name=name)("Hi.", 1).hypotheses] == [name]


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "1"},
        {"name": "n"},
        {"lang": "de"},
        {"languages": ("de", "en")},
        {"prefix": (5,)},
        {"max_source": 8},
        {"min_score": -9.0},
        {"room": (2.0, 10)},
    ],
)
def test_what_kept_lists_depend_on(change: dict[str, Any], tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for expected in (1, 0):
        first = searching(cache)
        first("Hi.", 1)
        assert first.searches == expected
    other = searching(cache, **change)
    other("Hi.", 1)
    assert other.searches == 1


def test_lists_of_other_languages_of_a_model_are_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for lang, prefix, expected in (("de", 5, 1), ("en", 5, 1), ("en", 6, 1), ("de", 5, 0)):
        made = searching(cache, languages=("de", "en"), lang=lang, prefix=(prefix,))
        made("Hi.", 1)
        assert made.searches == expected


def test_kept_lists_depend_on_what_the_model_says_of_generation(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for penalty, expected in ((1.5, 1), (2.5, 1), (1.5, 0)):
        made = searching(cache, saved=SavedGeneration({"repetition_penalty": penalty}, ends=(2,)))
        made("Hi.", 1, decoding=SearchOptions(semantics="hf"))
        assert made.searches == expected


@pytest.mark.parametrize("network", [{"start": 3}, {"max_target": 19}])
def test_kept_lists_depend_on_the_network(
    network: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = searching(Cache(tmp_path))
    made("Hi.", 1)
    for name, value in network.items():
        monkeypatch.setattr(made.model, name, value)
    made("Hi.", 1)
    assert made.searches == 2


def test_kept_lists_depend_on_what_moves_the_last_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = searching(Cache(tmp_path))
    for threads, expected in ((1, 1), (2, 2), (1, 2)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        made("Hi.", 1)
        assert made.searches == expected
