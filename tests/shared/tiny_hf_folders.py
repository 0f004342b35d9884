"""Tiny models of random weights with real tokenisers, trained here, as Hugging Face folders of seven families."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import tokenizers
import transformers
from tiny_models import TEXT

SHAPE = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "init_std": 0.5,
}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


@dataclass(frozen=True)
class Family:
    """A saved model.

    Attributes:
        folder: Where it lies.
        code: What its tokeniser calls English; None for models without language codes.
        tag: Id of that code's token.
        starts: Whether the tag is the decoder's first input.
    """

    folder: Path
    code: str | None = None
    tag: int | None = None
    starts: bool = False


def unigram(spm: bytes) -> list[tuple[str, float]]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    return [(processor.IdToPiece(i), processor.GetScore(i)) for i in range(processor.GetPieceSize())]


def pieces(spm: bytes) -> dict[str, int]:
    words = [piece for piece, _ in unigram(spm)[3:]]
    return {piece: number for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}


def bpe(spm: bytes) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-pair vocabulary of ▁-marked pieces, and its merges."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=80, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False
    )
    trained.train_from_iterator(TEXT, trainer)
    model = json.loads(trained.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def m2m100(folder: Path, spm: bytes) -> Family:
    folder.mkdir()
    (folder / "raw.model").write_bytes(spm)
    (folder / "raw.json").write_text(json.dumps(pieces(spm)), "utf-8")
    tokenizer = transformers.M2M100Tokenizer(str(folder / "raw.json"), str(folder / "raw.model"))
    tokenizer.save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=tokenizer.encoder_size + 110, **SHAPE, **SPECIAL)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder, "en", tokenizer.get_lang_id("en"))


def nllb(folder: Path, spm: bytes) -> Family:
    vocab, merges = bpe(spm)
    tokenizer = transformers.NllbTokenizer(vocab=vocab, merges=merges)
    tokenizer.save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=len(tokenizer), scale_embedding=True, **SHAPE, **SPECIAL)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder, "eng_Latn", tokenizer.convert_tokens_to_ids("eng_Latn"))


def mbart50(folder: Path, spm: bytes) -> Family:
    tokenizer = transformers.MBart50Tokenizer(vocab=unigram(spm))
    tokenizer.save_pretrained(folder)
    config = transformers.MBartConfig(vocab_size=len(tokenizer), forced_eos_token_id=None, **SHAPE, **SPECIAL)
    transformers.MBartForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder, "en_XX", tokenizer.convert_tokens_to_ids("en_XX"))


def mbart(folder: Path, spm: bytes) -> Family:
    tokenizer = transformers.MBartTokenizer(vocab=unigram(spm))
    tokenizer.save_pretrained(folder)
    config = transformers.MBartConfig(vocab_size=len(tokenizer), forced_eos_token_id=None, **SHAPE, **SPECIAL)
    transformers.MBartForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder, "en_XX", tokenizer.convert_tokens_to_ids("en_XX"), starts=True)


def marian(folder: Path, spm: bytes) -> Family:
    folder.mkdir()
    (folder / "source.spm").write_bytes(spm)
    (folder / "target.spm").write_bytes(spm)
    words = [piece for piece, _ in unigram(spm)[3:]]
    vocab = {piece: number for number, piece in enumerate(["</s>", "<unk>", *words, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}), "utf-8")
    pad = vocab["<pad>"]
    special = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "bos_token_id": 0}
    config = transformers.MarianConfig(vocab_size=len(vocab), forced_eos_token_id=None, **SHAPE, **special)
    transformers.MarianMTModel(config).save_pretrained(folder)
    return Family(folder)


def bart(folder: Path, spm: bytes) -> Family:
    trained = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(TEXT, vocab_size=300, special_tokens=special, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    tokenizer = transformers.BartTokenizer(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]])
    tokenizer.save_pretrained(folder)
    config = transformers.BartConfig(vocab_size=len(tokenizer), forced_eos_token_id=None, **SHAPE, **SPECIAL)
    transformers.BartForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder)


def t5(folder: Path, spm: bytes) -> Family:
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *unigram(spm)[3:]]
    vocab += [(f"<extra_id_{number}>", 0.0) for number in range(9, -1, -1)]
    tokenizer = transformers.T5Tokenizer(vocab=vocab, extra_ids=10)
    tokenizer.save_pretrained(folder)
    config = transformers.T5Config(
        vocab_size=len(vocab), d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, decoder_start_token_id=0,
        initializer_factor=4.0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return Family(folder)


FAMILIES: dict[str, Callable[[Path, bytes], Family]] = {
    f.__name__: f for f in (m2m100, nllb, mbart50, mbart, marian, bart, t5)
}
MULTILINGUAL = ("m2m100", "nllb", "mbart50", "mbart")
