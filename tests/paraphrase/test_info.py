"""What models are, against what was put into them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from convert_model import convert_to_huggingface
from tiny_models import DIM, LAYERS, settings, state, symbols, write

from polyref.errors import ModelError
from polyref.models.checkpoints.seq2seq import load_fairseq
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.info import model_info


def test_a_fairseq_directory(tmp_path: Path, spm: bytes) -> None:
    folder = write(tmp_path / "m", spm)
    info = model_info(folder)
    network = load_fairseq(folder).network
    vocabulary = len(symbols(spm)) + 4
    assert (info.name, info.kind, info.family, info.stored) == ("m", "fairseq", "transformer", "float32")
    assert (info.layers, info.dim) == ((LAYERS, LAYERS), DIM)
    assert info.parameters == network.parameters
    assert info.bytes == (folder / "checkpoint.pt").stat().st_size
    assert info.languages == ("de", "en")
    assert info.source_vocabulary == info.target_vocabulary == vocabulary
    assert (info.max_source, info.max_target) == (40, 30)
    paraphraser = load_paraphraser(folder, lang="en")
    assert paraphraser.signature == f"{info.signature}|lang:en"
    assert paraphraser.describe(None, 10) == f"{info.signature}|lang:en|{info.decoding}"


def test_half_precision_and_tables_of_their_own(tmp_path: Path, spm: bytes) -> None:
    weights = {k: v.half() for k, v in state(len(symbols(spm)) + 4, shared=False).items()}
    folder = write(tmp_path / "m", spm, {"args": settings(share_all_embeddings=False)}, weights)
    info = model_info(folder)
    assert info.stored == "float16"
    assert info.parameters == load_fairseq(folder).network.parameters
    shared = model_info(write(tmp_path / "shared", spm))
    assert info.parameters == shared.parameters + 2 * DIM * (len(symbols(spm)) + 4)


def test_hugging_face_directories_of_both_ways(tmp_path: Path, spm: bytes) -> None:
    transformers = pytest.importorskip("transformers")
    fairseq = model_info(write(tmp_path / "m", spm))
    convert_to_huggingface(tmp_path / "m", tmp_path / "hf", check=False)
    info = model_info(tmp_path / "hf")
    assert (info.kind, info.family, info.name) == ("huggingface", "m2m_100", "hf")
    assert (info.parameters, info.languages, info.layers) == (fairseq.parameters, fairseq.languages, fairseq.layers)
    assert f"{info.signature}|lang:en" == load_paraphraser(tmp_path / "hf", lang="en").signature
    # Any other encoder-decoder: T5, with the same tokeniser.
    torch.manual_seed(7)
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_decoder_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    t5 = transformers.T5ForConditionalGeneration(config)
    transformers.utils.logging.disable_progress_bar()
    t5.save_pretrained(tmp_path / "t5")
    transformers.utils.logging.enable_progress_bar()
    for file in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        (tmp_path / "t5" / file).write_bytes((tmp_path / "hf" / file).read_bytes())
    info = model_info(tmp_path / "t5")
    assert (info.family, info.layers, info.dim, info.source_vocabulary) == ("t5", (1, 2), 16, 64)
    assert info.parameters == sum(p.numel() for p in t5.parameters())
    assert info.max_source is None


@pytest.mark.slow
def test_the_shipped_model() -> None:
    info = model_info()
    assert (info.name, info.languages, info.stored) == ("polyref-en", ("en",), "int8+float16")
    assert info.precision == "int8" and "|dtype:int8|" in info.signature
    assert info.signature == load_paraphraser().signature
    assert info.signature.split("|")[1] == f"sha:{info.hash}"


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model folder"):
        model_info("nothing-of-that-name")
    with pytest.raises(ModelError, match="neither"):
        model_info(tmp_path)


@pytest.mark.parametrize("family", ["gpt2", "strange", None])
def test_what_is_no_encoder_decoder(tmp_path: Path, family: str | None) -> None:
    """Whatever its configuration promises: code of a model is not run."""
    config = {"model_type": family, "auto_map": {"AutoModelForSeq2SeqLM": "theirs.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "theirs.py").write_text("raise SystemExit('it ran')")
    refused = f"model type is {family!r}, no encoder-decoder .*never run"
    with pytest.raises(ModelError, match=refused):
        model_info(tmp_path)


def test_settings_of_hugging_face_that_make_no_model(tmp_path: Path, spm: bytes) -> None:
    convert_to_huggingface(write(tmp_path / "m", spm), tmp_path / "hf", check=False)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    for change, message in (
        ({"encoder_attention_heads": 3}, "3 encoder heads do not divide"),
        ({"decoder_layers": "two"}, "settings and weights that make no model: .*'two'"),
        ({"decoder_layers": 7}, "the model has no weight"),
    ):
        (tmp_path / "hf" / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ModelError, match=message):
            load_paraphraser(tmp_path / "hf", lang="en")
    (tmp_path / "hf" / "config.json").write_text(json.dumps({**config, "encoder_attention_heads": 3}))
    with pytest.raises(ModelError, match="3 encoder heads do not divide"):
        model_info(tmp_path / "hf")
