"""fairseq checkpoints as Hugging Face directories: Transformers' own classes load them and score equally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import convert_model
import numpy as np
import pytest
import torch
from convert_model import Conversion, convert_to_huggingface
from tiny_models import DIM, TEXT, scored, settings, state, symbols, write

from polyref.errors import ModelError, UsageError
from polyref.models.checkpoints.seq2seq import Seq2Seq, load_checkpoint, load_fairseq
from polyref.paraphrase import load_paraphraser
from polyref.paraphrase.search import SearchOptions, search

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("quiet_transformers")
TAG = 4
POST = {"encoder_normalize_before": False, "decoder_normalize_before": False}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}
#: Settings of the checkpoint, and the class that computes the same.
CHECKPOINTS: dict[str, tuple[dict[str, Any], str]] = {
    "pre": ({}, "M2M100"),
    "pre-swish": ({"activation_fn": "swish", "no_scale_embedding": True}, "M2M100"),
    "pre-separate": ({"share_all_embeddings": False}, "M2M100"),
    "pre-decoder-shared": ({"share_all_embeddings": False, "share_decoder_input_output_embed": True}, "M2M100"),
    "post": ({**POST}, "FSMT"),
    "post-separate": ({**POST, "share_all_embeddings": False, "activation_fn": "gelu_accurate"}, "FSMT"),
    "pre-learned": ({**LEARNED}, "Blenderbot"),
    "pre-no-positions": ({"no_token_positional_embeddings": True}, "Blenderbot"),
    "pre-embedding-norm": ({"layernorm_embedding": True}, "MBart"),
    "post-embedding-norm": ({**POST, "layernorm_embedding": True, "activation_fn": "gelu"}, "Bart"),
    "post-learned": ({**POST, **LEARNED, "layernorm_embedding": True}, "Bart"),
}


def random_checkpoint(directory: Path, spm: bytes, changes: dict[str, Any], layout: str = "args") -> Path:
    options = settings(max_target_positions=40, **changes)
    weights = state(
        len(symbols(spm)) + 4,
        positions=40 if changes.get("encoder_learned_pos") else 0,
        shared=options.share_all_embeddings,
        norms=options.encoder_normalize_before,
    )
    if changes.get("share_decoder_input_output_embed"):
        del weights["decoder.output_projection.weight"]
    if changes.get("no_token_positional_embeddings"):
        for side in ("encoder", "decoder"):
            del weights[f"{side}.embed_positions._float_tensor"]
    if changes.get("layernorm_embedding"):
        for side in ("encoder", "decoder"):
            weights[f"{side}.layernorm_embedding.weight"] = torch.linspace(0.5, 1.5, DIM)
            weights[f"{side}.layernorm_embedding.bias"] = torch.linspace(-0.5, 0.5, DIM)
    stored = {"args": options} if layout == "args" else {"args": None, "cfg": {"model": options, "task": {}}}
    return write(directory, spm, stored, weights)


def transformers_scores(model: Any, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray]:
    """Log-probabilities of all pairs as one padded batch through the model's own forward."""

    def padded(rows: list[list[int]]) -> torch.Tensor:
        longest = max(map(len, rows))
        return torch.tensor([row + [1] * (longest - len(row)) for row in rows])

    ids = padded(sources)
    with torch.inference_mode():
        logits = model(
            input_ids=ids,
            attention_mask=(ids != 1).long(),
            decoder_input_ids=padded([[2, *target[:-1]] for target in targets]),
            use_cache=False,
        ).logits
    found = torch.log_softmax(logits, -1)
    return [found[i, range(len(target)), target].numpy() for i, target in enumerate(targets)]


def same_scores_and_lists(original: Seq2Seq, folder: Path, texts: list[str], beam: int = 4) -> Any:
    """Scores of n-best lists, and the lists themselves; returns the model of Transformers."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert model.dtype == torch.float32
    tokenizer = load_paraphraser(folder, prefix="<en>").codec.codec._tokenizer  # type: ignore[attr-defined]
    sources = [original.codec.encode(text) for text in texts]
    assert tokenizer(texts)["input_ids"] == sources
    options = SearchOptions(semantics="hf", beam=beam, max_len_b=12, early_stopping="never")
    lists = search(original.network, sources, options, [[TAG]] * len(sources))
    pairs = [(source, list(c.tokens)) for source, found in zip(sources, lists) for c in found]
    ours = scored(original, [s for s, _ in pairs], [t for _, t in pairs])
    theirs = transformers_scores(model, [s for s, _ in pairs], [t for _, t in pairs])
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(other, mine, rtol=0, atol=1e-5)
    for source, found in zip(sources, lists):
        with torch.inference_mode():
            out = model.generate(
                torch.tensor([source]),
                num_beams=beam,
                num_return_sequences=beam,
                max_length=14,
                min_length=2,
                early_stopping="never",
                forced_bos_token_id=TAG,
                return_dict_in_generate=True,
                output_scores=True,
            )
        assert [c.score for c in found] == pytest.approx(out.sequences_scores.tolist(), abs=1e-5)
        for candidate, row in zip(found, out.sequences.tolist()):
            assert list(candidate.tokens) == row[1 : 1 + len(candidate.tokens)]
            assert set(row[1 + len(candidate.tokens) :]) <= {1}
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_kind_of_checkpoint_scores_and_searches_equally(tmp_path: Path, spm: bytes, name: str) -> None:
    changes, expected = CHECKPOINTS[name]
    source = random_checkpoint(tmp_path / "f", spm, changes, "cfg" if "separate" in name else "args")
    done = convert_to_huggingface(source, tmp_path / "hf")
    assert done.architecture == f"{expected}ForConditionalGeneration"
    assert done.difference is not None and done.difference < 1e-5
    original = load_fairseq(source)
    model = same_scores_and_lists(original, tmp_path / "hf", [TEXT[0], "the 鷺 waits", ""])
    assert type(model).__name__ == done.architecture
    # polyref's own network reads the directory back, too.
    again = load_checkpoint(tmp_path / "hf")
    assert again.family == done.architecture.removesuffix("ForConditionalGeneration").lower().replace("m2m", "m2m_")
    (expected_scores,) = scored(original, [[6, 9, 12, 2]], [[4, 8, 10, 2]])
    (scores,) = scored(again, [[6, 9, 12, 2]], [[4, 8, 10, 2]])
    np.testing.assert_allclose(scores, expected_scores, rtol=0, atol=1e-5)
    assert again.codec.languages == original.codec.languages == ("de", "en")
    assert again.codec.prefix("eng") == [TAG]


@pytest.mark.data
@pytest.mark.parametrize(("name", "expected"), [("pre", "M2M100"), ("post", "FSMT")])
def test_trained_checkpoints_score_and_search_equally(
    golden: Path, models: dict[str, Seq2Seq], tmp_path: Path, name: str, expected: str
) -> None:
    done = convert_to_huggingface(models[name].path, tmp_path / "hf")
    assert done.architecture == f"{expected}ForConditionalGeneration"
    texts = (golden / "sents.txt").read_text("utf-8").splitlines()
    same_scores_and_lists(models[name], tmp_path / "hf", texts[:4] + texts[-2:])


@pytest.mark.slow
@pytest.mark.parametrize(("more_source", "expected"), [(0, "M2M100"), (7, "Blenderbot")])
def test_vocabularies_of_their_own(tmp_path: Path, spm: bytes, more_source: int, expected: str) -> None:
    """Two dictionaries of different sizes and orders: one table is filled up with tokens that never come."""
    names = symbols(spm)
    directory = write(tmp_path / "f", spm)
    left, right = names[2:] + [f"extra{i}" for i in range(more_source)], [*names[:2], *reversed(names[2:]), "rest"]
    for file, words in (("dict.src.txt", left), ("dict.tgt.txt", right)):
        (directory / file).write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
    weights = state(len(right) + 4, shared=False)
    weights["encoder.embed_tokens.weight"] = torch.randn(len(left) + 4, DIM, generator=torch.manual_seed(4))
    options = settings(share_all_embeddings=False, max_target_positions=40)
    torch.save({"args": options, "model": weights}, directory / "checkpoint.pt")
    done = convert_to_huggingface(directory, tmp_path / "hf")
    assert done.architecture == f"{expected}ForConditionalGeneration"
    original = load_fairseq(directory)
    same_scores_and_lists(original, tmp_path / "hf", TEXT[:2])
    again = load_checkpoint(tmp_path / "hf")
    assert again.codec.prefix("de") == original.codec.prefix("de")
    tokens = original.codec.encode_target(TEXT[1])
    assert again.codec.encode_target(TEXT[1]) == tokens
    assert again.codec.decode([TAG, *tokens]) == TEXT[1]
    assert again.codec.token("rest") == len(right) + 3 and again.codec.token("extra0") is None


@pytest.mark.slow
def test_prism_is_converted_with_its_languages(tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same code; what is special is which of the tags are languages, and that the source carries none."""
    from polyref.models.checkpoints import seq2seq as checkpoints

    source = random_checkpoint(tmp_path / "f", spm, {"arch": "transformer_wmt_en_de_big"})
    monkeypatch.setattr(checkpoints, "PRISM_MD5", checkpoints._md5(source))
    monkeypatch.setattr(checkpoints, "PRISM_LANGUAGES", ("en", "fr"))
    convert_to_huggingface(source, tmp_path / "hf")
    stored = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text("utf-8"))
    assert stored["language_tags"] == {"en": 4}
    loaded = load_checkpoint(tmp_path / "hf")
    assert loaded.codec.languages == ("en",)
    assert loaded.codec.encode(TEXT[0], "en") == load_fairseq(source).codec.encode(TEXT[0], "en")
    with pytest.raises(UsageError, match="'de' is unknown to the model, expected one of en"):
        loaded.codec.prefix("de")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*sacremoses")  # said where it is not installed
def test_text_of_a_tag_is_text(tmp_path: Path, spm: bytes) -> None:
    source = random_checkpoint(tmp_path / "f", spm, {})
    convert_to_huggingface(source, tmp_path / "hf", check=False)
    text = "the <en> mill </s>"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = tokenizer(text)["input_ids"]
    assert ids == load_fairseq(source).codec.encode(text)
    assert TAG not in ids and ids.count(2) == 1
    assert tokenizer.decode([TAG, *tokenizer(TEXT[0])["input_ids"]], skip_special_tokens=True) == TEXT[0]
    assert tokenizer.convert_tokens_to_ids("<en>") == TAG


def test_what_no_class_computes_is_refused_and_nothing_is_written(tmp_path: Path, spm: bytes) -> None:
    vocab = len(symbols(spm)) + 4
    without = {
        k: v for k, v in state(vocab).items() if k not in ("encoder.layer_norm.weight", "encoder.layer_norm.bias")
    }
    neither = {k: v for k, v in state(vocab).items() if not k.split(".")[1].startswith("layer_norm")}
    one_norm = {**state(vocab), "encoder.layernorm_embedding.weight": torch.ones(DIM)}
    one_norm["encoder.layernorm_embedding.bias"] = torch.zeros(DIM)
    learned = state(vocab, positions=30, norms=False)
    mixed = state(vocab)
    mixed["encoder.embed_positions.weight"] = torch.zeros(32, DIM)
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"encoder_normalize_before": False}, state(vocab), "one of encoder and decoder is pre-norm"),
        ({}, without, "only one of encoder and decoder has a final norm"),
        ({}, neither, "pre-norm without a final norm"),
        ({**POST}, state(vocab), "post-norm with a final norm"),
        ({}, one_norm, "only one of encoder and decoder has a norm of the embeddings"),
        ({**POST, **LEARNED}, learned, "post-norm layers without a norm of the embeddings and without sinusoidal"),
        ({"encoder_learned_pos": True}, mixed, "positions of different kinds"),
    ]
    for number, (changes, weights, message) in enumerate(cases):
        directory = write(tmp_path / f"f{number}", spm, {"args": settings(**changes)}, weights)
        with pytest.raises(ModelError, match=rf"f{number}/checkpoint\.pt: .*{message}"):
            convert_to_huggingface(directory, tmp_path / "hf")
    assert {path.name for path in tmp_path.iterdir()} == {f"f{number}" for number in range(len(cases))}


def test_a_difference_is_found_and_nothing_is_written(
    tmp_path: Path, spm: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_checkpoint(tmp_path / "f", spm, {})
    real = convert_model.rename

    def wrong(*args: Any) -> Any:
        config, tensors = real(*args)
        tensors["model.decoder.layers.1.fc1.bias"][0] += 3
        return config, tensors

    monkeypatch.setattr(convert_model, "rename", wrong)
    with pytest.raises(ModelError, match="log-probabilities of the converted model differ by"):
        convert_to_huggingface(source, tmp_path / "hf")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_only_fairseq_directories_and_new_targets(tmp_path: Path, spm: bytes) -> None:
    source = random_checkpoint(tmp_path / "f", spm, {})
    with pytest.raises(UsageError, match="exists"):
        convert_to_huggingface(source, source)
    with pytest.raises(UsageError, match="no directory"):
        convert_to_huggingface(source, tmp_path / "no" / "hf")
    with pytest.raises(ModelError, match=r"no checkpoint\.pt"):
        convert_to_huggingface(tmp_path, tmp_path / "hf")
    done = convert_to_huggingface(source, tmp_path / "hf", check=False)
    assert isinstance(done, Conversion) and done.difference is None
    assert {path.name for path in (tmp_path / "hf").iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
        "tokenizer_config.json", "vocab.json",
    }  # fmt: skip


def test_the_script_says_what_it_wrote(tmp_path: Path, spm: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = random_checkpoint(tmp_path / "f", spm, {}), tmp_path / "hf"
    convert_model.main([str(source), str(target), "--no-check"])
    assert capsys.readouterr().out.startswith(f"{target}: M2M100ForConditionalGeneration, ")
    with pytest.raises(SystemExit) as stopped:
        convert_model.main([str(source), str(target)])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and "exists" in said and said.count("\n") == 1
