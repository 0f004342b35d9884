"""Tiny decoder-only models with a vocabulary of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.4}


def bytewise(folder: Path, *merged: tuple[str, str]) -> Any:
    """A tokeniser of bytes, as GPT-2's, which merges nothing else: it has a token for the line end."""
    known = [*sorted(ByteLevel.alphabet()), *map("".join, merged), "<|end|>"]
    tokenizer = Tokenizer(BPE({letter: number for number, letter in enumerate(known)}, list(merged)))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.save_pretrained(folder)
    return fast


def save(family: str, folder: Path, *merged: tuple[str, str]) -> Path:
    torch.manual_seed(1)
    tokenizer = bytewise(folder, *merged)
    shape: dict[str, Any] = {**SHAPE, "vocab_size": len(tokenizer), "eos_token_id": len(tokenizer) - 1}
    if family in ("llama", "opt"):
        shape |= {"max_position_embeddings": 400, "pad_token_id": None, "bos_token_id": None}
    shape |= {"intermediate_size": 24} if family == "llama" else {"ffn_dim": 24, "init_std": 0.4}
    if family == "opt":
        shape["word_embed_proj_dim"] = 16
    config = transformers.AutoConfig.for_model(family, **shape)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder
