"""``load_paraphraser`` on small real models of every kind; the shipped kind and fairseq's are tested elsewhere too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import write

from polyref.errors import ModelError, UsageError
from polyref.models.opening import SHIPPED
from polyref.paraphrase import DiverseBeam, SearchOptions, SearchParaphraser, load_paraphraser

transformers = pytest.importorskip("transformers")
WORDS = ["the", "river", "runs", "behind", "an", "old", "mill", "."]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    vocabulary = {token: number for number, token in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    words = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny-t5"
    torch.manual_seed(7)
    config = transformers.T5Config(
        vocab_size=11, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, initializer_factor=4.0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_the_language_of_a_call_is_the_models_own_or_refused(tmp_path: Path, spm: bytes, t5: Path) -> None:
    """The tiny model has the tags <en> and <de>."""
    directory = write(tmp_path / "m", spm)
    german = load_paraphraser(directory, lang="deu")
    plain = list(german.paraphrase(["the old mill"], 2))
    for code in ("de", "deu_Latn"):
        assert list(german.paraphrase(["the old mill"], 2, lang=code)) == plain
    with pytest.raises(UsageError, match=r"the language is 'en', but m was loaded to write 'deu' .*lang='en'"):
        german.paraphrase(["the old mill"], 2, lang="en")
    with pytest.raises(UsageError, match="'xx' is unknown to the model, expected one of de, en"):
        german.paraphrase(["the old mill"], 2, lang="xx")
    prefixed = load_paraphraser(directory, prefix="<en>")
    assert list(prefixed.paraphrase(["the old mill"], 1, lang="en"))
    with pytest.raises(UsageError, match="'de' is unknown to the model, expected one of en"):
        load_paraphraser("shipped").paraphrase(["A cat sat."], 1, lang="de")
    assert list(load_paraphraser(t5).paraphrase(["the river"], 1, lang="en"))


def test_other_encoder_decoders_run_through_their_own_forward(t5: Path, tokenizer: Any) -> None:
    paraphraser = load_paraphraser(t5)
    assert paraphraser.name == "tiny-t5"
    text = "the old mill runs ."
    options = SearchOptions(semantics="hf", beam=3, max_len_b=8, early_stopping="never")
    (found,) = paraphraser.paraphrase([text], 3, decoding=options)
    model = transformers.T5ForConditionalGeneration.from_pretrained(t5).eval()
    with torch.inference_mode():
        wanted = model.generate(
            torch.tensor([tokenizer(text)["input_ids"]]), num_beams=3, num_return_sequences=3, max_length=10,
            early_stopping="never", do_sample=False,
        )  # fmt: skip
    expected = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in wanted]
    assert [hypothesis.text for hypothesis in found.hypotheses] == expected


def test_signature_follows_the_weights_and_the_decoding(t5: Path) -> None:
    paraphraser = load_paraphraser(t5)
    assert paraphraser.signature == load_paraphraser(t5).signature
    assert paraphraser.describe(DiverseBeam(), 4).endswith("|dbs(beam=4,groups=2,strength=0.5)")
    assert paraphraser.describe(SearchOptions(beam=3, semantics="hf"), 3).endswith(
        "|search(beam=3,groups=1,semantics=hf)"
    )


def test_the_signature_names_the_language_and_the_prefix(tmp_path: Path, spm: bytes) -> None:
    folder = write(tmp_path / "m", spm)
    loaded = [{"lang": "de"}, {"lang": "en"}, {"prefix": "<de>"}, {"prefix": "<en>"}, {"prefix": "<en>", "lang": "de"}]
    signatures = [load_paraphraser(folder, **options).signature for options in loaded]
    assert len(set(signatures)) == len(loaded)
    assert load_paraphraser(folder, lang="deu").signature == signatures[0]


def test_signatures_show_every_digit() -> None:
    described = [DiverseBeam(strength=strength).resolve(4).describe() for strength in (0.5, 0.12345678, 0.12345679)]
    assert described[0].endswith("strength=0.5)") and len(set(described)) == len(described)


def test_a_long_neighbour_changes_no_list(tmp_path: Path, spm: bytes) -> None:
    """Also where a paraphrase of the longest source could have more tokens than the model writes."""
    paraphraser = load_paraphraser(write(tmp_path / "m", spm), lang="en", cache=False)
    short, long = "the river", " ".join(["the river and the mill"] * 6)
    assert isinstance(paraphraser, SearchParaphraser)
    assert len(paraphraser.codec.encode(long)) * 1.5 + 10 > paraphraser.model.max_target
    assert paraphraser([short, long], 4)[0] == paraphraser(short, 4)


def test_a_prefix_is_a_token_of_the_vocabulary(t5: Path) -> None:
    (found,) = load_paraphraser(t5, prefix="mill").paraphrase(["the river ."], 2, decoding=DiverseBeam(4, 2))
    assert all(hypothesis.text.startswith("mill") for hypothesis in found.hypotheses)
    with pytest.raises(UsageError, match="expected a token of the model's vocabulary"):
        load_paraphraser(t5, prefix="ferry")


def test_models_that_are_no_encoder_decoder_are_refused(tmp_path: Path, tokenizer: Any) -> None:
    config = transformers.GPT2Config(vocab_size=11, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no encoder-decoder that Transformers can load"):
        load_paraphraser(tmp_path)


def test_names_that_are_nothing_are_refused_without_asking_the_network() -> None:
    with pytest.raises(ModelError, match="no such model folder"):
        load_paraphraser("nothing-of-that-name")


def test_a_model_loaded_in_inference_mode_works_outside_of_it() -> None:
    with torch.inference_mode():
        loaded = load_paraphraser()
    texts = ["Nobody was hurt in the accident."]
    (found,), (expected,) = loaded.paraphrase(texts, 3), load_paraphraser().paraphrase(texts, 3)
    assert found == expected


def test_closeness_is_for_models_with_control_tokens(t5: Path) -> None:
    with pytest.raises(UsageError, match="tiny-t5 has no control tokens"):
        load_paraphraser(t5).paraphrase(["the river ."], 2, decoding=DiverseBeam(closeness=2))


@pytest.mark.slow
def test_generators_are_reached_by_name_too(t5: Path, tmp_path: Path) -> None:
    assert load_paraphraser(f"checkpoint:{t5}").signature == load_paraphraser(t5).signature
    shipped = load_paraphraser()
    for name in ("shipped:", "shipped:shipped/en", f"shipped:{SHIPPED / 'en'}", SHIPPED / "en"):
        assert load_paraphraser(name).signature == shipped.signature
    with pytest.raises(ModelError, match="no model of the shipped kind"):
        load_paraphraser(f"shipped:{t5}")
    with pytest.raises(ModelError, match="fairseq runs fairseq checkpoints and nothing else"):
        load_paraphraser(f"fairseq:{tmp_path}")
    # A folder may have the name of a generator that needs an argument.
    (tmp_path / "checkpoint").symlink_to(t5)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert load_paraphraser("checkpoint").signature == load_paraphraser(t5).signature
