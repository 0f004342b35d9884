"""Small encoders with random weights, the same bytes wherever they are made: a BERT and a RoBERTa."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

WIDTH, INNER, HEADS, LAYERS = 32, 48, 4, 3
LONGEST = 24
TEXT = (
    "the a an old new bridge was is are closed open for repair ##s ##ed on monday she he bought apple at "
    "market nobody know ##s why light went out rain expected in north - east with wind of 40 km / h it ' "
    "small step & big change , but yes no . ! ? cat sat mat dog never ##ly very good bad "
)


def bert(folder: Path, heads: int = HEADS) -> Path:
    """An uncased BERT that reads 24 tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = list(dict.fromkeys([*specials, *TEXT.split(), *letters, *(f"##{letter}" for letter in letters)]))
    sizes = {"vocab_size": len(words), "type_vocab_size": 2, "pad_token_id": 0, "num_attention_heads": heads}
    _write(folder, "bert", "BertModel", sizes, LONGEST)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    options = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": LONGEST}
    (folder / "tokenizer_config.json").write_text(json.dumps({**options, **dict(zip(names, specials))}), "utf-8")
    return folder


def roberta(folder: Path) -> Path:
    """A cased RoBERTa with a byte-level vocabulary: a word's pieces depend on the space before it."""
    merges = ["Ġ t", "h e", "Ġt he", "i n", "Ġ b", "r i", "o n", "Ġ a", "Ġ c", "a t"]
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        *_byte_letters(),
        *(merge.replace(" ", "") for merge in merges),
        "<mask>",
    ]
    sizes = {"vocab_size": len(pieces), "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    _write(folder, "roberta", "RobertaModel", sizes, 82)
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    options = {"tokenizer_class": "RobertaTokenizer", "model_max_length": 80}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")
    return folder


def gpt(folder: Path) -> str:
    """A causal language model with the byte-level vocabulary; 0 starts a text and 2 ends it."""
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    tokenizer = AutoTokenizer.from_pretrained(roberta(folder / "vocabulary"))
    torch.manual_seed(2)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "bos_token_id": 0, "eos_token_id": 2}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def forward_pass(gpt: str, text: str) -> Any:
    """Log-probabilities of a text's tokens and its end, from a plain forward pass."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt), AutoTokenizer.from_pretrained(gpt)
    ids = torch.tensor([[0, *tokenizer(text, add_special_tokens=False)["input_ids"], 2]])
    with torch.inference_mode():
        predicted = torch.log_softmax(model(ids).logits[0, :-1], -1)
    return predicted[range(ids.shape[1] - 1), ids[0, 1:]]


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in byte-level vocabularies (GPT-2)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + n) for n in range(len(hidden))]


def _write(folder: Path, family: str, architecture: str, sizes: dict[str, Any], positions: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": family,
        "architectures": [architecture],
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": positions,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        **sizes,
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    drawn = np.random.default_rng(3)

    def random(*shape: int, around: float = 0.0) -> np.ndarray:
        return (around + drawn.standard_normal(shape) * 0.3).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": random(sizes["vocab_size"], WIDTH),
        "embeddings.position_embeddings.weight": random(positions, WIDTH),
        "embeddings.token_type_embeddings.weight": random(sizes["type_vocab_size"], WIDTH),
        "embeddings.LayerNorm.weight": random(WIDTH, around=1.0),
        "embeddings.LayerNorm.bias": random(WIDTH),
        "pooler.dense.weight": random(WIDTH, WIDTH),
        "pooler.dense.bias": random(WIDTH),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for part, rows, columns in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            tensors[f"{at}{part}.weight"] = random(rows, columns)
            tensors[f"{at}{part}.bias"] = random(rows)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors[f"{at}{part}.weight"] = random(WIDTH, around=1.0)
            tensors[f"{at}{part}.bias"] = random(WIDTH)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
