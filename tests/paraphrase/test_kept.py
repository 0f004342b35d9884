"""N-best lists from the cache: the same as computed ones, in any neighbourhood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_seq2seq

from polyref.cache import Cache
from polyref.paraphrase import DiverseBeam, Paraphraser, SearchOptions, load_paraphraser

TEXTS = ["The ferry left on time.", "", "Nobody saw the mill that day.", "We bought 12 apples."]


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
