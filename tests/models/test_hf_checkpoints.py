"""Hugging Face directories of the family: equal to Transformers' own forward, on random weights made here."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from polyref.errors import ModelError
from polyref.models.checkpoints.seq2seq import load_checkpoint, load_family
from polyref.models.networks.transformer import Transformer
from polyref.paraphrase.search import SearchOptions, search

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 48,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "init_std": 0.3,
}
MODELS = {
    "bart": ("Bart", {}),
    "bart-scaled": ("Bart", {"scale_embedding": True, "activation_function": "relu"}),
    "mbart": ("MBart", {"scale_embedding": True}),
    "m2m": ("M2M100", {"scale_embedding": True, "activation_function": "relu"}),
    "marian": (
        "Marian",
        {"pad_token_id": 59, "decoder_start_token_id": 59, "scale_embedding": True, "activation_function": "swish"},
    ),
    "marian-separate": (
        "Marian",
        {
            "pad_token_id": 59,
            "decoder_start_token_id": 59,
            "share_encoder_decoder_embeddings": False,
            "decoder_vocab_size": 64,
        },
    ),
    "bart-untied": ("Bart", {"tie_word_embeddings": False}),
}


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    family, changes = MODELS[request.param]
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**{**SHAPE, **changes})
    name = "MarianMTModel" if family == "Marian" else f"{family}ForConditionalGeneration"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # Marian's sinusoids are parameters that are not saved
                parameter.add_(torch.randn_like(parameter) * 0.1)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    directory = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(directory)
    return model, directory


SOURCES = [[7, 9, 30, 14, 2], [5, 2], [2], [8] * 20 + [2]]
TARGETS = [[4, 7, 33], [5, 9, 2], [40, 41, 42], [6, 6, 6]]


def forward(model: Any, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    with torch.inference_mode():
        return torch.cat(
            [
                model(
                    input_ids=torch.tensor([source]),
                    attention_mask=torch.ones(1, len(source), dtype=torch.int64),
                    decoder_input_ids=torch.tensor([[model.config.decoder_start_token_id, *target]]),
                ).logits
                for source, target in zip(sources, targets)
            ]
        )


def test_logits_equal_transformers(saved: tuple[Any, Path]) -> None:
    model, directory = saved
    network = load_family(directory)
    expected = forward(model, SOURCES, TARGETS)
    inputs = torch.tensor([[network.start, *target] for target in TARGETS])
    with torch.inference_mode():
        states, bias = network.encode_states(SOURCES)
        whole = network.project(network.decode(states, bias, inputs))
        state = network.encode(SOURCES)
        stepped = torch.stack([network.step(state, inputs[:, t : t + 1])[:, 0] for t in range(inputs.shape[1])], dim=1)
    torch.testing.assert_close(whole, expected, atol=3e-5, rtol=1e-5)
    torch.testing.assert_close(stepped, expected, atol=3e-5, rtol=1e-5)
    if not model.config.tie_word_embeddings:
        return  # it carries a third embedding that it never uses
    distinct = {p.data_ptr(): p.numel() for n, p in model.named_parameters() if "embed_positions" not in n}
    assert network.parameters == sum(distinct.values())


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True, "never"])
@pytest.mark.parametrize(("lenpen", "forced"), [(0.0, False), (1.0, True), (-0.5, False)])
def test_beam_search_equals_transformers(
    saved: tuple[Any, Path], early: bool | str, lenpen: float, forced: bool
) -> None:
    model, directory = saved
    network = load_family(directory)
    options = SearchOptions(
        semantics="hf",
        beam=4,
        max_len_b=10,
        min_len=3,
        lenpen=lenpen,
        no_repeat_ngram=3,
        early_stopping=early,  # type: ignore[arg-type]
        forced_eos=forced,
    )
    model.generation_config.forced_eos_token_id = 2 if forced else None
    lists = search(network, SOURCES, options)
    # In float64: two roundings would differ by more than one does.
    exact = copy.deepcopy(model).double()
    for source, found in zip(SOURCES, lists):
        with torch.inference_mode():
            expected = exact.generate(
                torch.tensor([source]),
                attention_mask=torch.ones(1, len(source), dtype=torch.int64),
                generation_config=transformers.GenerationConfig(
                    num_beams=4,
                    num_return_sequences=4,
                    max_length=12,
                    min_length=4,
                    length_penalty=lenpen,
                    no_repeat_ngram_size=3,
                    early_stopping=early,
                    eos_token_id=2,
                    pad_token_id=network.pad,
                    decoder_start_token_id=network.start,
                    return_dict_in_generate=True,
                    output_scores=True,
                ),
            )
        assert [c.score for c in found] == pytest.approx(expected.sequences_scores.tolist(), abs=2e-5, rel=1e-6)
        for candidate, sequence in zip(found, expected.sequences.tolist()):
            assert list(candidate.tokens) == sequence[1 : 1 + len(candidate.tokens)]
            assert set(sequence[1 + len(candidate.tokens) :]) <= {network.pad}


@pytest.mark.slow
def test_other_layouts_of_the_same_weights(saved: tuple[Any, Path], tmp_path: Path) -> None:
    model, directory = saved
    expected = _steps(load_family(directory))
    model.save_pretrained(tmp_path / "sharded", max_shard_size="5KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert torch.equal(_steps(load_family(tmp_path / "sharded")), expected)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text((directory / "config.json").read_text())
    torch.save(model.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    assert torch.equal(_steps(load_family(tmp_path / "old")), expected)


def _steps(network: Transformer) -> Tensor:
    with torch.inference_mode():
        return network.step(network.encode(SOURCES), torch.full((len(SOURCES), 1), network.start))


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_what_cannot_be_loaded_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model folder"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"neither checkpoint\.pt .* nor config\.json"):
        load_checkpoint(tmp_path)
    config = tmp_path / "config.json"
    config.write_text("{")
    with pytest.raises(ModelError, match=r"config\.json:1: not valid JSON"):
        load_checkpoint(tmp_path)
    config.write_text(json.dumps({**SHAPE, "model_type": "bart", "activation_function": "gelu"}))
    with pytest.raises(ModelError, match=r"no weights, expected model\.safetensors"):
        load_checkpoint(tmp_path)
    torch.save({"x": Trap(tmp_path / "sprung")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="more than weights, nothing was run"):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "sprung").exists()
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match=r"model\.safetensors: no weights that can be read"):
        load_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"model.shared.weight": torch.zeros(60, 16)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no learned encoder positions"):
        load_checkpoint(tmp_path)
    config.write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ModelError, match="model type is 't5', expected one of bart, mbart, marian, m2m_100"):
        load_checkpoint(tmp_path)
