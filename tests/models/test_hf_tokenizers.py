"""Texts in and out of Hugging Face models of every family, with real tokenisers trained here and random weights."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from tiny_hf_folders import FAMILIES, MULTILINGUAL, Family
from tiny_models import TEXT

from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints.text import HuggingFaceCodec, language_codes, load_tokenizer
from polyref.models.networks.hugging_face import HuggingFaceModel
from polyref.models.scorers import HuggingFaceScorer, load_scorer
from polyref.paraphrase import SearchOptions, load_paraphraser

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.usefixtures("quiet_transformers")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Family]:
    """Each family once, on first use."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=out, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    made: dict[str, Family] = {}

    def get(name: str) -> Family:
        if name not in made:
            torch.manual_seed(11)
            made[name] = FAMILIES[name](tmp_path_factory.mktemp("families") / name, out.getvalue())
        return made[name]

    return get


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("name", FAMILIES)
def test_texts_go_in_and_out_as_transformers_does_it(saved: Callable[[str], Family], name: str) -> None:
    family = saved(name)
    text = TEXT[0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(family.folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(family.folder).eval()
    paraphraser = load_paraphraser(family.folder, lang="en" if family.code else None)
    assert (family.code in paraphraser.languages) if family.code else not paraphraser.languages
    if family.code:
        tokenizer.src_lang = family.code
    inputs = tokenizer([text], return_tensors="pt")
    assert paraphraser.codec.encode(text) == inputs["input_ids"][0].tolist()  # type: ignore[attr-defined]
    options = SearchOptions(semantics="hf", beam=4, max_len_b=10, early_stopping="never")
    (found,) = paraphraser.paraphrase([text], 4, decoding=options)
    tagged: dict[str, Any] = {}
    if family.tag is not None:
        tagged = {"decoder_start_token_id" if family.starts else "forced_bos_token_id": family.tag}
    with torch.inference_mode():
        rows = model.generate(
            inputs["input_ids"], attention_mask=inputs["attention_mask"], num_beams=4, num_return_sequences=4,
            max_length=12, min_length=2, early_stopping="never", do_sample=False, **tagged,
        )  # fmt: skip
    tags = set(language_codes(tokenizer).values())
    for hypothesis, row in zip(found.hypotheses, rows.tolist(), strict=True):
        assert list(hypothesis.tokens) == row[1 : 1 + len(hypothesis.tokens)]
        kept = [token for token in row if token not in tags]
        assert hypothesis.text == tokenizer.decode(kept, skip_special_tokens=True).strip()
    # A target text gives back itself, without tag and end of sentence.
    codec = paraphraser.codec.codec  # type: ignore[attr-defined]
    target = codec.encode_target(TEXT[1], "en" if family.code else None)
    assert codec.decode(target) == TEXT[1]
    assert family.tag not in target and target[-1] == model.config.eos_token_id
    assert paraphraser.codec.encode(text) == inputs["input_ids"][0].tolist()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", MULTILINGUAL)
def test_languages_by_any_code_and_no_others(saved: Callable[[str], Family], name: str) -> None:
    family = saved(name)
    tagged = {load_paraphraser(family.folder, lang=lang).prefix == [family.tag] for lang in ("en", "eng", family.code)}
    assert tagged == {not family.starts}
    with pytest.raises(UsageError, match=rf"'xx' is unknown to the model, expected one of .*\b{family.code}\b"):
        load_paraphraser(family.folder, lang="xx")
    with pytest.raises(UsageError, match=r"no language is named, expected one of"):
        load_paraphraser(family.folder)


@pytest.mark.parametrize("lean", [True, False])
def test_the_first_mbart_is_scored_as_transformers_counts_its_loss(saved: Callable[[str], Family], lean: bool) -> None:
    family = saved("mbart")
    tokenizer = load_tokenizer(family.folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(family.folder).eval()
    scorer = load_scorer(family.folder)
    if not lean:
        about = {"name": "m", "digest": scorer.digest, "dtype": "float32", "marks_sources": True}
        scorer = HuggingFaceScorer(HuggingFaceModel(model), HuggingFaceCodec(tokenizer), None, **about)
    for lang in ("en_XX", "de_DE"):
        tokenizer.src_lang, tokenizer.tgt_lang = "en_XX", lang
        jobs = [(scorer.source(text, "en_XX"), scorer.target(text, lang)) for text in TEXT]
        for text, job, row in zip(TEXT, jobs, scorer.score(jobs, lang), strict=True):
            inputs = tokenizer(text, text_target=text, return_tensors="pt")
            with torch.inference_mode():
                found = model(**inputs)
            logs = found.logits[0].log_softmax(1).gather(1, inputs["labels"][0, :, None])[:, 0]
            assert float(-logs.mean()) == pytest.approx(float(found.loss), abs=1e-4)
            # The last label is the tag: no part of the text.
            assert row.tolist() == pytest.approx(logs[:-1].tolist(), abs=1e-4)
            again = scorer.dropout_scores(job, lang, samples=2, rate=0.0, seed=1)
            assert again[1].tolist() == pytest.approx(row.tolist(), abs=1e-4)
    # Without a tag before it, a text has one more place.
    assert len(scorer.target(" ".join(TEXT * 20), "en_XX")) == scorer.max_target


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_language_of_a_model_without_codes(saved: Callable[[str], Family]) -> None:
    for name in ("marian", "bart", "t5"):
        codec = load_paraphraser(saved(name).folder).codec.codec  # type: ignore[attr-defined]
        assert codec.languages == () and codec.prefix(None) == []
        with pytest.raises(UsageError, match="'en' was named, but the model has no language codes"):
            codec.prefix("en")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_copy_penalty_where_pieces_show_word_starts(saved: Callable[[str], Family], name: str) -> None:
    family = saved(name)
    lang = "en" if family.code else None
    if name == "bart":
        with pytest.raises(UsageError, match="`prism_a` needs a SentencePiece vocabulary"):
            load_paraphraser(family.folder, lang=lang, prism_a=0.5)
        return
    options = SearchOptions(beam=4, max_len_b=10)
    plain = load_paraphraser(family.folder, lang=lang)
    penalised = load_paraphraser(family.folder, lang=lang, prism_a=5.0, prism_b=2.0)
    assert penalised.signature == f"{plain.signature}|rules:copy(a=5,b=2)"

    def copied(paraphraser: Any) -> int:
        symbols = dict(enumerate(paraphraser.codec.codec.symbols()))
        count = 0
        for text, found in zip(TEXT, paraphraser.paraphrase(TEXT, 4, decoding=options)):
            words = tuple(f"▁{word}" for word in text.split())
            starts = [symbols.get(token, "") for hypothesis in found.hypotheses for token in hypothesis.tokens]
            count += sum(start.startswith("▁") and any(word.startswith(start) for word in words) for start in starts)
        return count

    assert copied(penalised) < copied(plain)


def test_tokenisers_that_cannot_be_loaded_are_one_error(saved: Callable[[str], Family], tmp_path: Path) -> None:
    for file in saved("t5").folder.iterdir():
        if not file.name.startswith(("tokenizer", "special")):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "spiece.model").write_bytes(b"no model")
    with pytest.raises(ModelError, match="no tokeniser that can be loaded"):
        load_paraphraser(tmp_path)


@pytest.mark.parametrize("name", ["bart", "marian"])
def test_networks_without_their_tokeniser_are_refused(
    saved: Callable[[str], Family], tmp_path: Path, name: str
) -> None:
    """Transformers makes a tokeniser of special tokens alone, or none: every text would be the same."""
    for file in ("config.json", "generation_config.json", "model.safetensors"):
        (tmp_path / file).write_bytes((saved(name).folder / file).read_bytes())
    with pytest.raises(ModelError, match=r"no vocabulary|no tokeniser that can be loaded"):
        load_paraphraser(tmp_path)
