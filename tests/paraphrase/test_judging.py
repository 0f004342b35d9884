"""The shipped model's own judgement of what it writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import polyref.models
from polyref.errors import ModelError, UsageError
from polyref.models.scorers import load_scorer
from polyref.paraphrase import DiverseBeam, SearchOptions, load_paraphraser
from polyref.paraphrase.search_paraphraser import DIGITS
from polyref.paraphrase.shipped import equivalences

SHIPPED = Path(polyref.models.__file__).parent / "shipped" / "en"
TEXTS = [
    "The bakery on Mill Street said that it had sold 340 loaves before 9:30 this morning.",
    "She asked the committee to look at the plans again, because it was not happy with them.",
    "Nobody was hurt.",
    "",
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def searching(folder: Path, search: Any) -> Path:
    """The model with another ``search`` in its configuration."""
    told = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(told | {"search": search}), "utf-8")
    return folder


def test_a_list_is_what_the_search_finds_judged_and_sorted(copy: Path) -> None:
    model = load_paraphraser("shipped", threads=1, cache=False)
    plain = load_paraphraser(searching(copy, None), threads=1, cache=False)
    found = plain.paraphrase(TEXTS, 8, decoding=DiverseBeam(beam=8, closeness=3))
    scorer, refused = load_scorer("shipped"), 0
    offered = list(model.paraphrase(TEXTS, 8))
    for text, raw, given in zip(TEXTS, found, offered, strict=True):
        pairs = [(text, one.text) for one in raw.hypotheses if one.text != text]
        value = dict(zip(pairs, (round(one, DIGITS) for one in equivalences(scorer, pairs)), strict=True))
        right = sorted((pair for pair in pairs if value[pair] >= 0), key=lambda pair: -value[pair])
        assert given.paraphrases == [other for _, other in right]
        refused += len(pairs) - len(right)
    # Some are refused and some are not, or nothing was judged.
    assert refused and sum(len(one.hypotheses) for one in offered)
    # k is a maximum: it changes neither the search nor the order.
    fewer = model.paraphrase(TEXTS, 1)
    assert [one.paraphrases for one in fewer] == [one.paraphrases[:1] for one in offered]
    # Neighbours change nothing, and options of a search of one's own leave the list as it is.
    assert [next(iter(model.paraphrase([text], 8))).paraphrases for text in TEXTS] == [
        one.paraphrases for one in offered
    ]
    own = SearchOptions(beam=4)
    assert [one.paraphrases for one in model.paraphrase(TEXTS, 4, decoding=own)] == [
        one.paraphrases for one in plain.paraphrase(TEXTS, 4, decoding=own)
    ]


def test_the_text_without_its_odd_spaces_is_a_copy() -> None:
    model = load_paraphraser("shipped", threads=1, cache=False)
    text = TEXTS[1]
    spaced = " " + text.replace(" look ", "  look\u00a0") + " "
    assert model(text, 3).paraphrases == model(spaced, 3).paraphrases != []


def test_texts_without_end_take_no_memory() -> None:
    model: Any = load_paraphraser("shipped", threads=1, cache=False)
    assert model(TEXTS[1], 3).paraphrases and not model._scorer.known


def test_the_threshold_is_the_models_and_stands_in_the_signature(copy: Path) -> None:
    shipped = load_paraphraser("shipped", threads=1, cache=False)
    nothing = searching(copy, {"closeness": 3, "beam": 2, "equivalence": 1000.0})
    strict = load_paraphraser(nothing, threads=1, cache=False)
    assert [one.hypotheses for one in strict.paraphrase(TEXTS, 2)] == [()] * len(TEXTS)
    assert shipped.signature.endswith("|equivalence>=0") and strict.signature.endswith("|equivalence>=1000")


@pytest.mark.parametrize(
    ("asked", "beam", "groups"),
    [
        (None, 8, 2),
        (DiverseBeam(), 8, 2),
        (DiverseBeam(groups=4), 8, 4),
        (DiverseBeam(groups=3), 9, 3),
        (DiverseBeam(beam=6), 6, 2),
        (DiverseBeam(beam=6, groups=3), 6, 3),
    ],
)
def test_the_beam_is_the_models_own_unless_one_is_named(asked: DiverseBeam | None, beam: int, groups: int) -> None:
    model = load_paraphraser("shipped", threads=1, cache=False)
    for k in (1, 10):
        assert model.describe_decoding(asked, k).startswith(f"dbs(beam={beam},groups={groups},")
    with pytest.raises(UsageError, match="`groups` is 0, expected 1 or more"):
        model.describe_decoding(DiverseBeam(groups=0), 1)


@pytest.mark.parametrize(
    "search",
    [
        5,
        {},
        {"closeness": 4, "beam": 8, "equivalence": 0},
        {"closeness": 3, "beam": 0, "equivalence": 0},
        {"closeness": 3, "beam": 8, "equivalence": "0"},
        {"closeness": 3, "beam": 8, "equivalence": float("nan")},
        {"closeness": 3, "beam": 8, "equivalence": 0, "more": 1},
    ],
)
def test_what_a_search_cannot_be_is_refused(copy: Path, search: Any) -> None:
    with pytest.raises(ModelError, match=r"expected null, or .*equivalence") as caught:
        load_paraphraser(searching(copy, search), threads=1, cache=False)
    assert str(caught.value).startswith(str(copy / "config.json"))
