"""Round trips by two tiny models of random weights: lists through lists, probabilities added up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from heard import Heard
from tiny_seq2seq import TEXT, token_logprobs, write_bart, write_m2m, write_t5

from polyref import load_paraphraser
from polyref.errors import ModelError, UsageError
from polyref.paraphrase import DiverseBeam, Hypothesis, NBest, SearchOptions, SearchParaphraser
from polyref.paraphrase.backends.roundtrip import RoundTrip, merged, pivots
from polyref.progress import listening

K = 7


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("roundtrip")
    return write_bart(folder / "bart"), write_t5(folder / "t5")


@pytest.fixture(scope="module")
def trip(folders: tuple[Path, Path]) -> RoundTrip:
    made = load_paraphraser(f"roundtrip:{folders[0]},{folders[1]}")
    assert isinstance(made, RoundTrip)
    return made


def test_the_number_of_translations_is_the_square_root() -> None:
    assert [pivots(k) for k in (1, 2, 4, 5, 9, 10, 20)] == [1, 2, 2, 3, 3, 4, 5]


@pytest.mark.slow
def test_lists_go_through_lists(trip: RoundTrip) -> None:
    """The same from the two generators themselves, by plain sums."""
    found = trip([TEXT[0], "", TEXT[1]], k=K)
    assert [one.text for one in found] == [TEXT[0], "", TEXT[1]] and found[1].hypotheses == ()
    for nbest in (found[0], found[2]):
        ways: dict[str, list[float]] = {}
        longest: dict[str, int] = {}
        for translation in trip.there(nbest.text, k=3).hypotheses:
            for one in trip.back(translation.text, k=K).hypotheses:
                there = (translation.score or 0) * len(translation.tokens)
                ways.setdefault(one.text, []).append(there + (one.score or 0) * len(one.tokens))
                longest[one.text] = max(longest.get(one.text, 0), len(one.tokens))
        expected = {text: math.log(sum(map(math.exp, totals))) / longest[text] for text, totals in ways.items()}
        best = sorted(expected, key=lambda text: -expected[text])[:K]
        assert [one.text for one in nbest.hypotheses] == best and len(best) == K
        assert [one.score for one in nbest.hypotheses] == pytest.approx([expected[text] for text in best], abs=1e-4)


@pytest.mark.slow
def test_texts_are_counted_once(trip: RoundTrip) -> None:
    heard = Heard()
    with listening(heard):
        list(trip.paraphrase([TEXT[0], TEXT[1]], K, progress=True))
    assert heard.pieces == [("round trips", "sentences", 2, 0, [1, 1])]


def test_totals_are_log_probabilities(trip: RoundTrip, folders: tuple[Path, Path]) -> None:
    """What is added up is what Transformers gives for the tokens."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[1]).eval()
    source = trip.back.codec.encode(TEXT[2])
    for one in trip.back(TEXT[2], k=4).hypotheses:
        total = token_logprobs(model, source, list(one.tokens)).sum()
        assert (one.score or 0) * len(one.tokens) == pytest.approx(total, abs=1e-3)


def test_ways_to_one_text_are_added_up() -> None:
    there = [Hypothesis("p", math.log(0.5) / 2, (1, 2)), Hypothesis("q", math.log(0.25) / 2, (3, 4))]
    lists = [
        NBest("p", (Hypothesis("a", math.log(0.4) / 2, (5, 6)), Hypothesis("b", math.log(0.3) / 2, (7, 8)))),
        NBest("q", (Hypothesis("b", math.log(0.8) / 2, (7, 8)), Hypothesis("c", math.log(0.1), (9,)))),
    ]
    assert [(one.text, one.score) for one in merged(there, lists, 3)] == [
        ("b", pytest.approx(math.log(0.5 * 0.3 + 0.25 * 0.8) / 2, abs=1e-5)),
        ("a", pytest.approx(math.log(0.5 * 0.4) / 2, abs=1e-5)),
        ("c", pytest.approx(math.log(0.25 * 0.1), abs=1e-5)),
    ]
    assert [one.text for one in merged(there[::-1], lists[::-1], 2)] == ["b", "a"]


def test_tags_are_given_and_not_counted() -> None:
    there = [Hypothesis("p", math.log(0.5) / 2, (90, 1, 2))]
    lists = [NBest("p", (Hypothesis("a", math.log(0.4), (91, 92, 5)),))]
    (found,) = merged(there, lists, 1, (1, 2))
    assert found.score == pytest.approx(math.log(0.5 * 0.4), abs=1e-5)


def test_a_way_through_tags_has_the_probability_of_transformers(folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = write_m2m(tmp_path / "m2m")
    there = load_paraphraser(folder, lang="de")
    back = load_paraphraser(folder, lang="en")
    assert isinstance(there, SearchParaphraser) and isinstance(back, SearchParaphraser)
    trip = RoundTrip(there, back)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    (way,) = there(TEXT[0], k=1).hypotheses
    found = trip(TEXT[0], k=1).hypotheses[0]
    expected = 0.0
    for paraphraser, text, tokens in ((there, TEXT[0], way.tokens), (back, way.text, found.tokens)):
        expected += token_logprobs(model, paraphraser.codec.encode(text), list(tokens))[1:].sum()
    assert (found.score or 0) * (len(found.tokens) - 1) == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
def test_a_text_gets_the_same_alone_and_among_others(trip: RoundTrip) -> None:
    together = trip(TEXT, k=3)
    assert [one.paraphrases for one in together] == [trip(text, k=3).paraphrases for text in TEXT]


def test_the_signature_names_both_ways(trip: RoundTrip) -> None:
    assert trip.name == "roundtrip:bart,t5"
    assert trip.signature == f"roundtrip|{trip.there.signature}|{trip.back.signature}"
    described = trip.describe_decoding(DiverseBeam(groups=1), 10)
    assert described == "roundtrip(dbs(beam=4,groups=1,strength=0.5),dbs(beam=10,groups=1,strength=0.5))"


def test_what_does_not_fit_is_refused(trip: RoundTrip, folders: tuple[Path, Path], tmp_path: Path) -> None:
    for argument in ("", "one", "one,", "a,b,c"):
        with pytest.raises(UsageError, match=f"roundtrip:{argument} names no two models"):
            load_paraphraser(f"roundtrip:{argument}")
    with pytest.raises(ModelError, match="nosuch"):
        load_paraphraser(f"roundtrip:{folders[0]},{tmp_path / 'nosuch'}")
    with pytest.raises(UsageError, match="a round trip adds up probabilities"):
        trip(TEXT[0], decoding=SearchOptions(beam=9))
    with pytest.raises(UsageError, match="no language is named"):
        load_paraphraser(f"roundtrip:{write_m2m(tmp_path / 'm2m')},{folders[1]}")


@pytest.mark.slow
def test_it_is_a_generator_like_any_other(
    folders: tuple[Path, Path], tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text("".join(f"{text}\n" for text in TEXT))
    command = ["augment", "refs", "-k", 2, "--model", f"roundtrip:{folders[0]},{folders[1]}", "--filter", "none"]
    assert polyref(*command, "-o", "out").code == 0
    assert polyref(*command, "-o", "again", "--jobs", 2).code == 0
    assert Path("out").read_bytes() == Path("again").read_bytes()
    header, *lines = [json.loads(line) for line in Path("out").read_text().splitlines()]
    assert header["meta"]["decoding"].startswith("roundtrip(dbs(") and header["meta"]["generator"].startswith(
        "roundtrip|"
    )
    added = [ref for line in lines for ref in line["refs"][1:]]
    assert len(added) == 2 * len(TEXT) and all(ref["logprob"] <= 0 for ref in added)
    assert {ref["generator"] for ref in added} == {"roundtrip:bart,t5"}
