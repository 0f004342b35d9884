"""Loading fairseq directories: layouts, what is ignored, what is refused. Models are tiny and made here."""

from __future__ import annotations

import argparse
import math
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import DIM, HEADS, LAYERS, TEXT, settings, state, symbols, write
from torch import Tensor
from torch.nn import functional

from polyref.errors import DataError, ModelError, PolyrefError, UsageError
from polyref.models import opening
from polyref.models.checkpoints import seq2seq as checkpoints
from polyref.models.checkpoints.seq2seq import load_fairseq
from polyref.models.encoders import default_layers
from polyref.models.opening import find, hash_model
from polyref.paraphrase.info import model_info
from polyref.paraphrase.search import SearchOptions, search


def logits(network: Any, source: list[int], target: list[int]) -> Tensor:
    """Logits after every target token, one step at a time."""
    with torch.inference_mode():
        begun = network.encode([source])
        return torch.stack([network.step(begun, torch.tensor([[token]]))[0, 0] for token in target])


SOURCE, TARGET = [6, 9, 12, 7, 2], [2, 4, 8, 10]


def test_both_layouts_give_the_same_network(tmp_path: Path, spm: bytes) -> None:
    old = load_fairseq(write(tmp_path / "args", spm))
    cfg = {"model": settings(), "task": {"source_lang": "src", "target_lang": "tgt"}, "common": {"seed": 1}}
    new = load_fairseq(write(tmp_path / "cfg", spm, {"args": None, "cfg": cfg}))
    plain = {"model": vars(settings()), "task": {"_name": "translation"}}
    newest = load_fairseq(write(tmp_path / "plain", spm, {"args": None, "cfg": plain}))
    expected = logits(old.network, SOURCE, TARGET)
    assert torch.equal(logits(new.network, SOURCE, TARGET), expected)
    assert torch.equal(logits(newest.network, SOURCE, TARGET), expected)
    assert (old.network.max_source, old.network.max_target) == (40, 30)
    assert old.family == "fairseq" and old.name == "args"


def test_copies_of_the_fused_path_are_ignored(tmp_path: Path, spm: bytes) -> None:
    weights = state(len(symbols(spm)) + 4)
    expected = logits(load_fairseq(write(tmp_path / "a", spm, weights=weights)).network, SOURCE, TARGET)
    for layer in range(LAYERS):
        for name in ("in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias", "fc1_weight", "fc2_bias"):
            weights[f"encoder.layers.{layer}.{name}"] = torch.zeros(3)
    weights["decoder.output_projection.weight"] = weights["decoder.embed_tokens.weight"]
    loaded = load_fairseq(write(tmp_path / "b", spm, weights=weights))
    assert torch.equal(logits(loaded.network, SOURCE, TARGET), expected)
    assert loaded.network.parameters == sum(v.numel() for k, v in state(1, norms=True).items() if "layers" in k) + sum(
        (4 * DIM, (len(symbols(spm)) + 4) * DIM)
    )


def test_projections_in_one_tensor_are_split(tmp_path: Path, spm: bytes) -> None:
    weights = state(len(symbols(spm)) + 4)
    expected = logits(load_fairseq(write(tmp_path / "a", spm, weights=weights)).network, SOURCE, TARGET)
    for name in [name for name in weights if ".q_proj." in name]:
        block, kind = name.split(".q_proj.")
        parts = [weights.pop(f"{block}.{letter}_proj.{kind}") for letter in "qkv"]
        weights[f"{block}.in_proj_{kind}"] = torch.cat(parts)
    loaded = load_fairseq(write(tmp_path / "b", spm, weights=weights))
    assert torch.equal(logits(loaded.network, SOURCE, TARGET), expected)


def test_norms_of_old_versions_are_dropped(tmp_path: Path, spm: bytes) -> None:
    weights = state(len(symbols(spm)) + 4)
    for side in ("encoder", "decoder"):
        weights[f"{side}.version"] = torch.tensor([1.0])
    old = load_fairseq(write(tmp_path / "old", spm, weights=weights))
    assert not old.network.norms
    without = {k: v for k, v in state(len(symbols(spm)) + 4).items() if ".layer_norm." not in k or "layers" in k}
    assert torch.equal(
        logits(load_fairseq(write(tmp_path / "none", spm, weights=without)).network, SOURCE, TARGET),
        logits(old.network, SOURCE, TARGET),
    )


def expected_logits(
    weights: dict[str, Tensor], options: argparse.Namespace, source: list[int], target: list[int]
) -> Tensor:
    """The architecture written out for one sentence, from the weights as fairseq names them."""
    pre = options.encoder_normalize_before
    scale = 1.0 if getattr(options, "no_scale_embedding", False) else math.sqrt(DIM)
    act = {"relu": functional.relu, "gelu": functional.gelu, "swish": functional.silu}[options.activation_fn]

    def norm(x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, (DIM,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    def linear(x: Tensor, name: str) -> Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def attention(x: Tensor, memory: Tensor, name: str, causal: bool = False) -> Tensor:
        q, k, v = (
            linear(y, f"{name}.{p}_proj").view(len(y), HEADS, -1).transpose(0, 1)
            for y, p in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        weight = q @ k.transpose(1, 2) / math.sqrt(DIM // HEADS)
        if causal:
            weight = weight + torch.full(weight.shape[1:], -math.inf).triu(1)
        return linear((weight.softmax(-1) @ v).transpose(0, 1).reshape(len(x), DIM), f"{name}.out_proj")

    def block(x: Tensor, name: str, run: Any) -> Tensor:
        return x + run(norm(x, name)) if pre else norm(x + run(x), name)

    def embed(side: str, tokens: list[int]) -> Tensor:
        x = weights[f"{side}.embed_tokens.weight"][tokens] * scale
        if f"{side}.embed_positions.weight" in weights:
            x = x + weights[f"{side}.embed_positions.weight"][2 : 2 + len(tokens)]
        else:
            half = DIM // 2
            angles = torch.arange(2, 2 + len(tokens))[:, None] * torch.exp(
                torch.arange(half) * -(math.log(10000) / (half - 1))
            )
            x = x + torch.cat((angles.sin(), angles.cos()), 1)
        if f"{side}.layernorm_embedding.weight" in weights:
            x = norm(x, f"{side}.layernorm_embedding")
        return x

    def run_layers(side: str, x: Tensor, memory: Tensor | None) -> Tensor:
        causal = memory is not None
        for i in range(LAYERS):
            at = f"{side}.layers.{i}."
            x = block(x, f"{at}self_attn_layer_norm", lambda y, a=at, c=causal: attention(y, y, f"{a}self_attn", c))
            if memory is not None:
                x = block(x, f"{at}encoder_attn_layer_norm", lambda y, a=at: attention(y, memory, f"{a}encoder_attn"))
            x = block(x, f"{at}final_layer_norm", lambda y, a=at: linear(act(linear(y, f"{a}fc1")), f"{a}fc2"))
        return norm(x, f"{side}.layer_norm") if f"{side}.layer_norm.weight" in weights else x

    hidden = run_layers("decoder", embed("decoder", target), run_layers("encoder", embed("encoder", source), None))
    shared = options.share_all_embeddings or getattr(options, "share_decoder_input_output_embed", False)
    return hidden @ weights["decoder.embed_tokens.weight" if shared else "decoder.output_projection.weight"].T


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder_normalize_before": False, "decoder_normalize_before": False, "activation_fn": "gelu"},
        {"share_all_embeddings": False, "activation_fn": "swish"},
        {"share_all_embeddings": False, "share_decoder_input_output_embed": True, "no_scale_embedding": True},
        {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True},
    ],
)
def test_networks_compute_what_the_architecture_says(tmp_path: Path, spm: bytes, changes: dict[str, Any]) -> None:
    options = settings(**changes)
    weights = state(
        len(symbols(spm)) + 4,
        positions=30 if changes.get("encoder_learned_pos") else 0,
        shared=options.share_all_embeddings,
        norms=options.encoder_normalize_before,
    )
    if changes.get("share_decoder_input_output_embed"):
        del weights["decoder.output_projection.weight"]
    if changes.get("layernorm_embedding"):
        for side in ("encoder", "decoder"):
            weights[f"{side}.layernorm_embedding.weight"] = torch.linspace(0.5, 1.5, DIM)
            weights[f"{side}.layernorm_embedding.bias"] = torch.linspace(-0.5, 0.5, DIM)
    network = load_fairseq(write(tmp_path / "m", spm, {"args": options}, weights)).network
    expected = expected_logits(weights, options, SOURCE, TARGET)
    torch.testing.assert_close(logits(network, SOURCE, TARGET), expected, atol=2e-5, rtol=1e-5)
    states, bias = network.encode_states([SOURCE, [5, 2]])
    both = network.project(network.decode(states, bias, torch.tensor([TARGET, TARGET])))
    torch.testing.assert_close(both[0], expected, atol=2e-5, rtol=1e-5)
    other = expected_logits(weights, options, [5, 2], TARGET)
    torch.testing.assert_close(both[1], other, atol=2e-5, rtol=1e-5)


class Trap:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("where", ["model", "args", "extra_state", "cfg"])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_malicious_pickle_is_refused_and_nothing_runs(tmp_path: Path, spm: bytes, where: str, legacy: bool) -> None:
    directory = write(tmp_path / "m", spm)
    stored: dict[str, Any] = {"args": settings(), "model": state(len(symbols(spm)) + 4), "extra_state": {}}
    trap = tmp_path / "sprung"
    stored[where] = {"x": Trap(trap)}
    torch.save(stored, directory / "checkpoint.pt", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ModelError, match=r"checkpoint\.pt: the checkpoint names (posix|nt)\.mkdir.*nothing was run"):
        load_fairseq(directory)
    assert not trap.exists()
    torch.load(directory / "checkpoint.pt", weights_only=False)
    assert trap.exists()  # the trap works where it is not refused


def test_classes_of_fairseq_are_refused_by_name(tmp_path: Path, spm: bytes) -> None:
    directory = write(tmp_path / "m", spm)
    with zipfile.ZipFile(directory / "checkpoint.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02cfairseq.meters\nAverageMeter\nq\x00)\x81q\x01.")
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    with pytest.raises(ModelError, match=r"names fairseq\.meters\.AverageMeter"):
        load_fairseq(directory)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", pickle.dumps({"model": 1}), b"PK\x03\x04broken"])
def test_broken_checkpoints_are_one_clear_error(tmp_path: Path, spm: bytes, content: bytes) -> None:
    directory = write(tmp_path / "m", spm)
    (directory / "checkpoint.pt").write_bytes(content)
    with pytest.raises(ModelError, match=r"m/checkpoint\.pt: no "):
        load_fairseq(directory)


def test_truncated_checkpoints_are_one_clear_error(tmp_path: Path, spm: bytes) -> None:
    directory = write(tmp_path / "m", spm)
    whole = (directory / "checkpoint.pt").read_bytes()
    (directory / "checkpoint.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="is it complete"):
        load_fairseq(directory)


def test_what_is_missing_or_wrong_is_named(tmp_path: Path, spm: bytes) -> None:
    with pytest.raises(ModelError, match=r"nowhere/checkpoint\.pt: no such file"):
        load_fairseq(tmp_path / "nowhere")
    vocab = len(symbols(spm)) + 4
    cases: list[tuple[dict[str, Any], dict[str, Tensor], str]] = [
        ({"args": None}, state(vocab), "no settings"),
        ({"model": [1]}, state(vocab), "no weights"),
        ({"args": settings(adaptive_softmax_cutoff="10")}, state(vocab), "adaptive softmax"),
        ({"args": settings(cross_self_attention=True)}, state(vocab), "cross_self_attention"),
        ({"args": settings(activation_fn="snake")}, state(vocab), "activation is 'snake'"),
        ({}, {**state(vocab), "decoder.gate": torch.zeros(2)}, "not understood.*decoder.gate"),
        ({}, {k: v for k, v in state(vocab).items() if "layers.1.fc1.bias" not in k}, r"no weight.*fc1\.bias"),
        ({}, {**state(vocab), "encoder.layers.0.fc2.bias": torch.zeros(5)}, r"fc2\.bias' has shape \(5,\)"),
        ({}, state(vocab + 1), r"dict\.src\.txt: \d+ tokens with the 4 special ones, but the checkpoint has"),
        ({}, {"decoder.embed_tokens.weight": torch.zeros(2, 2)}, "no encoder-decoder"),
    ]
    for number, (stored, weights, message) in enumerate(cases):
        with pytest.raises(ModelError, match=message):
            load_fairseq(write(tmp_path / f"m{number}", spm, stored, weights if "model" not in stored else None))
    for file, error in (("dict.src.txt", DataError), ("spm.model", ModelError)):
        directory = write(tmp_path / "gone", spm)
        (directory / file).unlink()
        with pytest.raises(error, match=rf"gone/{file}: no such file"):
            load_fairseq(directory)
    directory = write(tmp_path / "broken", spm)
    (directory / "spm.model").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match=r"spm\.model: no SentencePiece model"):
        load_fairseq(directory)


@pytest.mark.parametrize(
    ("line", "message"), [("alone", "expected a token"), ("x y", "expected a token"), ("<de> 5", "there twice")]
)
def test_broken_dictionaries_are_named_with_the_line(tmp_path: Path, spm: bytes, line: str, message: str) -> None:
    directory = write(tmp_path / "m", spm)
    lines = (directory / "dict.tgt.txt").read_text(encoding="utf-8").split("\n")
    lines[4] = line
    (directory / "dict.tgt.txt").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PolyrefError, match=rf"dict\.tgt\.txt:5: .*{message}"):
        load_fairseq(directory)


def test_text_goes_to_ids_and_back(tmp_path: Path, spm: bytes) -> None:
    codec = load_fairseq(write(tmp_path / "m", spm)).codec
    assert codec.languages == ("de", "en")
    for line in (TEXT[0], "the ferry waits", ""):
        ids = codec.encode(line)
        assert ids[-1] == 2 and 2 not in ids[:-1]
        assert codec.decode([4, *ids]) == line
    assert 3 in codec.encode("the 鷺 waits")
    assert codec.prefix("en") == [4] and codec.prefix("de") == [5]
    with pytest.raises(UsageError, match="'fr' is unknown to the model, expected one of de, en"):
        codec.prefix("fr")
    with pytest.raises(UsageError, match="no language is named, expected one of de, en"):
        codec.prefix(None)


def test_dictionaries_of_languages_are_in_the_fingerprint(tmp_path: Path, spm: bytes) -> None:
    directory = write(tmp_path / "m", spm)
    found = {load_fairseq(directory).fingerprint}
    for text in ("a 1\n", "b 1\n"):
        (directory / "dict.de.txt").write_text(text)
        found.add(load_fairseq(directory).fingerprint)
    assert len(found) == 3


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer.json", "source.spm", "merges.txt", "bpe.codes"])
def test_generation_settings_and_tokenisers_are_in_the_hash_of_a_folder(tmp_path: Path, name: str) -> None:
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    found = {hash_model(tmp_path)}
    for text in ("1", "2"):
        (tmp_path / name).write_text(text)
        found.add(hash_model(tmp_path))
    assert len(found) == 3


def test_prism_is_recognised_by_its_fingerprint(tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write(tmp_path / "m", spm)
    first = load_fairseq(directory)
    assert first.name == "m" and len(first.fingerprint) == 64
    monkeypatch.setattr(checkpoints, "PRISM_MD5", checkpoints._md5(directory))
    monkeypatch.setattr(checkpoints, "PRISM_LANGUAGES", ("en", "fr"))
    prism = load_fairseq(directory)
    assert prism.name == "prism-m39v1" and prism.codec.languages == ("en",)
    with pytest.raises(UsageError, match="'de' is unknown"):
        prism.codec.prefix("de")
    assert len(set(checkpoints.PRISM_LANGUAGES)) == len(checkpoints.PRISM_LANGUAGES)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["paper", "fairseq", "hf"])
def test_loaded_models_search_alone_and_in_batches(tmp_path: Path, spm: bytes, semantics: Any) -> None:
    model = load_fairseq(write(tmp_path / "m", spm))
    sources = [model.codec.encode(text) for text in (*TEXT, "", "the 鷺 waits")]
    options = SearchOptions(beam=8, groups=4, strength=0.5, max_len_a=1.2, max_len_b=4, semantics=semantics)
    prefixes = [model.codec.prefix("en")] * len(sources)
    together = search(model.network, sources, options, prefixes)
    for found, source in zip(together, sources):
        alone = search(model.network, [source], options, prefixes[:1])[0]
        assert [c.tokens for c in found] == [c.tokens for c in alone]
        assert [c.score for c in found] == pytest.approx([c.score for c in alone], abs=1e-5)
        assert all(c.tokens[0] == 4 for c in found) and 1 <= len(found) <= 8


def test_lengths_and_tokens_out_of_range(tmp_path: Path, spm: bytes) -> None:
    network = load_fairseq(write(tmp_path / "m", spm)).network
    longest = search(network, [[7] * 39 + [2]], SearchOptions(beam=4, max_len_b=200, min_len=29))[0]
    assert {len(c.tokens) for c in longest} == {30}  # the last decoder position
    with pytest.raises(UsageError, match="41 tokens, expected at most 40"):
        search(network, [[7] * 40 + [2]], SearchOptions(beam=4))
    with pytest.raises(UsageError, match="not in the vocabulary"):
        search(network, [[7, 9999, 2]], SearchOptions(beam=4))


@pytest.mark.parametrize(
    ("changes", "weights", "message"),
    [
        ({"encoder_attention_heads": "many"}, {}, "settings and weights that make no model: .*'many'"),
        ({"encoder_attention_heads": 3}, {}, "3 encoder heads do not divide the width of the model, 16"),
        ({"decoder_attention_heads": 0}, {}, "0 decoder heads do not divide the width of the model, 16"),
        ({"max_source_positions": -5}, {}, "the longest source is -5, expected 1 or more"),
        ({}, {"encoder.layers.x.fc1.weight": torch.zeros(3, 3)}, "settings and weights that make no model: .*'x'"),
        ({}, {"decoder.embed_tokens.weight": torch.zeros(3)}, r"the embeddings have shape \(3,\), expected"),
        ({}, {"encoder.version": torch.zeros(0)}, "settings and weights that make no model"),
    ],
    ids=["heads", "width", "no heads", "positions", "layer", "embedding", "version"],
)
def test_settings_and_weights_that_make_no_model_are_one_error(
    tmp_path: Path, spm: bytes, changes: dict[str, Any], weights: dict[str, Tensor], message: str
) -> None:
    stored = {**state(len(symbols(spm)) + 4), **weights}
    directory = write(tmp_path / "m", spm, {"args": settings(**changes)}, stored)
    for load in (load_fairseq, model_info):
        with pytest.raises(ModelError, match=f"m/checkpoint.pt: .*{message}"):
            load(directory)


def test_only_names_of_the_hub_are_looked_up_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")

    def download(name: str, **_: object) -> str:
        asked.append(name)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr(opening, "downloaded", opening.downloaded.__wrapped__)
    for name in ("nope", "shiped", "no model", "model.pt"):
        with pytest.raises(ModelError, match=r"no such model folder .*hub name owner/model"):
            find(name, "encoder")
    assert asked == []
    known = [*default_layers("bert_score"), "owner/some.model"]
    for name in known:
        found = find(name, "encoder")
        assert (found.name, found.folder, found.kind, found.family) == (name, tmp_path, "huggingface", "bert")
    assert asked == known


def test_what_a_model_is_wanted_for_decides_what_names_there_are(tmp_path: Path, spm: bytes) -> None:
    folder = write(tmp_path / "m", spm)
    assert find(folder, "generator").kind == "fairseq" and find("shipped/en", "encoder").kind == "shipped"
    with pytest.raises(ModelError, match="a fairseq model is no encoder"):
        find(folder, "encoder")
    with pytest.raises(ModelError, match=r"minilm: no such model folder"):
        find("minilm", "generator")
