"""Round trips by two tiny models of random weights: lists through lists, probabilities added up."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from heard import Heard
from tiny_hf_folders import FAMILIES
from tiny_seq2seq import TEXT, token_logprobs, write_bart, write_m2m, write_t5

from polyref import load_paraphraser
from polyref.errors import ModelError, UsageError
from polyref.paraphrase import DiverseBeam, Hypothesis, NBest, SearchOptions, SearchParaphraser
from polyref.paraphrase.roundtrip import RoundTrip, merged, pivots
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


def test_a_model_of_several_languages_goes_both_ways(folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = write_m2m(tmp_path / "m2m")
    trip = load_paraphraser(f"roundtrip:{folder}@de", lang="en")
    assert isinstance(trip, RoundTrip) and trip.there.model is trip.back.model
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    (way,) = trip.there(TEXT[0], k=1).hypotheses
    (end,) = trip(TEXT[0], k=1).hypotheses
    total = 0.0
    for half, text, reads, writes, tokens in (
        (trip.there, TEXT[0], "en", "de", way.tokens),
        (trip.back, way.text, "de", "en", end.tokens),
    ):
        tokenizer.src_lang = reads
        assert half.codec.encode(text) == tokenizer(text)["input_ids"]
        assert tokens[0] == tokenizer.get_lang_id(writes)
        total += token_logprobs(model, half.codec.encode(text), list(tokens))[1:].sum()
    assert (end.score or 0) * (len(end.tokens) - 1) == pytest.approx(total, abs=1e-3)
    # What is read is in the signature: two ways through one model are two generators.
    assert "|lang:de|source:en" in trip.there.signature or "|source:en|lang:de" in trip.there.signature
    assert trip.signature != load_paraphraser(f"roundtrip:{folder}@fr", lang="en").signature
    # Either half may be one of several languages.
    first = load_paraphraser(f"roundtrip:{folder}@de,{folders[1]}", lang="en")
    second = load_paraphraser(f"roundtrip:{folders[0]},{folder}@de", lang="en")
    assert isinstance(first, RoundTrip) and isinstance(second, RoundTrip)
    assert first.there.signature == trip.there.signature and second.back.signature == trip.back.signature
    assert [one.text for one in first(TEXT[0], k=2).hypotheses] and [
        one.text for one in second(TEXT[0], k=2).hypotheses
    ]


def _pieces() -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=out, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    return out.getvalue()


@pytest.mark.parametrize(("name", "there", "back"), [("nllb", "deu_Latn", "eng_Latn"), ("mbart50", "de_DE", "en_XX")])
def test_each_way_is_the_list_of_transformers(name: str, there: str, back: str, tmp_path: Path) -> None:
    folder = FAMILIES[name](tmp_path / name, _pieces()).folder
    trip = load_paraphraser(f"roundtrip:{folder}@de", lang="en")
    assert isinstance(trip, RoundTrip)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    options = SearchOptions(semantics="hf", beam=4, max_len_a=0, max_len_b=20)
    for half, reads, writes in ((trip.there, back, there), (trip.back, there, back)):
        tokenizer.src_lang = reads
        asked, tag = tokenizer(TEXT[0], return_tensors="pt"), tokenizer.convert_tokens_to_ids(writes)
        made = model.generate(
            **asked, forced_bos_token_id=tag, num_beams=4, num_return_sequences=4, max_new_tokens=21, do_sample=False
        )
        found = half(TEXT[0], k=4, decoding=options).hypotheses
        assert [one.text for one in found] == [text.strip() for text in tokenizer.batch_decode(made, True)]


def test_languages_that_are_named_before_the_source(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """MADLAD's way: the tag of what is to be written stands before what is read."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[1])
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[1])
    tokenizer.add_tokens(["<2en>", "<2de>", "<2zh_Latn>", "<2url>"])
    torch.manual_seed(6)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    folder = tmp_path / "madlad"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    trip = load_paraphraser(f"roundtrip:{folder}@de", lang="en")
    assert isinstance(trip, RoundTrip) and trip.languages == ("de", "en", "zh_Latn")
    assert trip.there.codec.encode(TEXT[0]) == tokenizer(f"<2de> {TEXT[0]}")["input_ids"]
    assert trip.back.codec.encode(TEXT[0]) == tokenizer(f"<2en> {TEXT[0]}")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(trip.there.codec.encode(TEXT[0]))[0] == "<2de>"
    (way,) = trip.there(TEXT[0], k=1).hypotheses
    asked = tokenizer(f"<2de> {TEXT[0]}", return_tensors="pt")
    expected = model.eval().generate(**asked, num_beams=4, max_new_tokens=21)[0]
    options = SearchOptions(semantics="hf", beam=4, max_len_a=0, max_len_b=20)
    (found,) = trip.there(TEXT[0], k=1, decoding=options).hypotheses
    assert found.text == tokenizer.decode(expected, skip_special_tokens=True) and way.text
    assert len(trip(TEXT[1], k=2).hypotheses) == 2


def test_what_does_not_fit_is_refused(trip: RoundTrip, folders: tuple[Path, Path], tmp_path: Path) -> None:
    for argument in ("", "one", "one,", "a,b,c"):
        with pytest.raises(UsageError, match=f"roundtrip:{argument} names no two models"):
            load_paraphraser(f"roundtrip:{argument}")
    with pytest.raises(ModelError, match="nosuch"):
        load_paraphraser(f"roundtrip:{folders[0]},{tmp_path / 'nosuch'}")
    with pytest.raises(UsageError, match="a round trip adds up probabilities"):
        trip(TEXT[0], decoding=SearchOptions(beam=9))
    several = write_m2m(tmp_path / "m2m")
    with pytest.raises(UsageError, match="no language is named"):
        load_paraphraser(f"roundtrip:{several},{folders[1]}")
    with pytest.raises(UsageError, match="has to be told which language it reads"):
        load_paraphraser(f"roundtrip:{folders[0]},{several}", lang="en")
    with pytest.raises(UsageError, match="names a language, but the model has no tags of languages"):
        load_paraphraser(f"roundtrip:{folders[0]}@de,{folders[1]}")
    with pytest.raises(UsageError, match="language 'xx' is unknown to the model"):
        load_paraphraser(f"roundtrip:{several}@xx", lang="en")


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
