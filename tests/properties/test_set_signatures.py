"""Augmented sets that differ never share what their headers say, nor lists of the shipped model a key in the cache."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from random_settings import Told, some, tried, values

from polyref.augment.filters import PRESETS
from polyref.augment.in_memory import AugmentOptions, augment
from polyref.cache import Cache
from polyref.errors import PolyrefError
from polyref.metrics.signature import provenance
from polyref.paraphrase import DiverseBeam, SearchOptions, load_paraphraser
from polyref.paraphrase.loading import LoadingOptions, options_of

TEXTS: Final = [["The old ferry left the harbour on time. Nobody saw it."], ["We bought 12 apples, didn't we?"]]
#: They move the last digits of sums at most, or nothing.
ARITHMETIC: Final = {"threads", "memory", "jobs", "device"}
#: What the shipped model has no use for.
ELSEWHERE: Final = {"prefix", "lang", "source_lang", "rewriting", "backend"}
#: What is given apart from :class:`AugmentOptions`, or is tested by itself.
APART: Final = {"pair", "candidates", "peers", "loading", "engine", "lang", "source_lang", "force", "seed"}
HAND: Final = {
    "k": st.integers(1, 3),
    "filters": st.sampled_from(PRESETS),
    "select": st.sampled_from(["rank", "mmr", "mmr:0.5", "mmr:0.7", "mmr:0.7000001", "mmr:1"]),
    "sentences": st.sampled_from(["long", "all", "whole"]),
}


def _small(name: str, one: Any) -> st.SearchStrategy[Any]:
    """Beams and lengths that do not take long."""
    by_hand = {
        "beam": st.sampled_from([1, 2, 4, 5]),
        "groups": st.sampled_from([1, 2]),
        "max_len_b": st.sampled_from([3, 9, 30, 200]),
        "early_stopping": st.sampled_from([None, True, False, "never"]),
        "closeness": st.sampled_from([None, 0, 1, 2, 3]),
        "strength": st.sampled_from([None, 0.0, 0.2, 0.5, 0.50000001, 1.0]),
        "seed": st.sampled_from([0, 1, -1, 10**20]),
    }
    return by_hand[name] if name in by_hand else values(one)


def decodings() -> st.SearchStrategy[Any]:
    short = {name: _small(name, one) for name, one in options_of(DiverseBeam).items()}
    whole = {name: _small(name, one) for name, one in options_of(SearchOptions).items() if name != "fixed"}
    short["strength"] = st.sampled_from([None, 0.0, 0.2, 0.5, 0.50000001, 1.0])
    whole["strength"] = st.sampled_from([0.0, 0.2, 0.5, 0.50000001, 1.0])
    return (
        st.none()
        | some(short, 3).map(lambda given: DiverseBeam(**given))
        | some(whole, 4).map(lambda given: SearchOptions(**{"beam": 2, **given}))
    )


@pytest.mark.slow
def test_sets_that_differ_are_signed_differently(tmp_path: Path) -> None:
    assert {one.name for one in fields(AugmentOptions)} <= HAND.keys() | APART
    loaded = {
        name: values(one) for name, one in options_of(LoadingOptions).items() if name not in ARITHMETIC | ELSEWHERE
    }
    kept_in = Cache(tmp_path)
    headers, signatures, lists = Told(), Told(), Told()

    @lru_cache(maxsize=12)  # all of them would take gigabytes
    def paraphraser(given: frozenset[tuple[str, Any]]) -> Any:
        return load_paraphraser(threads=1, cache=False, **dict(given))

    def key_of(model: Any, loading: dict[str, Any], decoding: Any, text: str) -> bytes:
        """The key alone: what is searched for is not read from the cache."""
        model.use_cache(kept_in, repr((loading.get("prism_a", 0.0), loading.get("prism_b", 4.0))))
        found: bytes = model._kept_lists(4, decoding)._key(text)
        model._cache = None
        return found

    @tried()
    @given(some(loaded, 1), some(HAND, 3), decodings())
    def check(loading: dict[str, Any], own: dict[str, Any], decoding: Any) -> None:
        told = (loading, own, decoding)
        try:
            model = paraphraser(frozenset(loading.items()))
            found = augment(TEXTS, model, decoding=decoding, lang="en", **{"k": 2, **own})
            settled = model.settle(decoding, 4)
        except (PolyrefError, ValueError) as error:
            event(f"{type(error).__name__}: {str(error)[:60]}")
            assume(False)
        texts = repr(found.segments)
        header = json.dumps(found.meta, sort_keys=True)
        headers.add(header, texts, told)
        signatures.add((found.meta["k"], *provenance(found.meta)), texts, told)
        text = TEXTS[1][0]
        searched = repr([(one.text, one.score) for one in model(text, 4, decoding=decoding).hypotheses])
        lists.add(key_of(model, loading, settled, text), searched, told)

    check()
    assert len(headers) > 20
