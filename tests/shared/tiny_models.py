"""Tiny fairseq directories with random weights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from polyref.models.checkpoints.seq2seq import Seq2Seq
from polyref.models.forced import Rows
from polyref.models.scorers import LeanScorer

DIM, HEADS, FFN, LAYERS = 16, 2, 24, 2
SYMBOLS = ["<en>", "<de>"]

TEXT = """the small river runs behind the old mill
a grey heron stands in the shallow water and waits
nobody has seen the ferry since early this morning
two children throw bread to the ducks near the bridge
when the wind turns the boats swing round on their ropes
""".splitlines()


def symbols(spm: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    return SYMBOLS + [processor.IdToPiece(i) for i in range(3, processor.GetPieceSize())]


def state(vocab: int, *, positions: int = 0, shared: bool = True, norms: bool = True) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.4

    found = {"encoder.embed_tokens.weight": random(vocab, DIM)}
    found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"] if shared else random(vocab, DIM)
    for side in ("encoder", "decoder"):
        found[f"{side}.version"] = torch.tensor([3.0])
        if positions:
            found[f"{side}.embed_positions.weight"] = random(positions + 2, DIM)
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        blocks = ["self_attn"] + (["encoder_attn"] if side == "decoder" else [])
        for layer in range(LAYERS):
            at = f"{side}.layers.{layer}."
            for block in blocks:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    found[f"{at}{block}.{part}.weight"] = random(DIM, DIM)
                    found[f"{at}{block}.{part}.bias"] = random(DIM)
            for name, shape in (("fc1", (FFN, DIM)), ("fc2", (DIM, FFN))):
                found[f"{at}{name}.weight"] = random(*shape)
                found[f"{at}{name}.bias"] = random(shape[0])
            for name in [f"{block}_layer_norm" for block in blocks] + ["final_layer_norm"]:
                found[f"{at}{name}.weight"] = 1 + random(DIM)
                found[f"{at}{name}.bias"] = random(DIM)
        if norms:
            found[f"{side}.layer_norm.weight"] = 1 + random(DIM)
            found[f"{side}.layer_norm.bias"] = random(DIM)
    if not shared:
        found["decoder.output_projection.weight"] = random(vocab, DIM)
    return found


def settings(**changes: Any) -> argparse.Namespace:
    values = {
        "arch": "transformer",
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "share_all_embeddings": True,
        "activation_fn": "relu",
        "max_source_positions": 40,
        "max_target_positions": 30,
        "source_lang": "src",
        "target_lang": "tgt",
    }
    return argparse.Namespace(**{**values, **changes})


def write(
    directory: Path, spm: bytes, stored: dict[str, Any] | None = None, weights: dict[str, Tensor] | None = None
) -> Path:
    directory.mkdir(exist_ok=True)
    names = symbols(spm)
    for file in ("dict.src.txt", "dict.tgt.txt"):
        (directory / file).write_text("".join(f"{name} 1\n" for name in names), encoding="utf-8")
    (directory / "spm.model").write_bytes(spm)
    weights = state(len(names) + 4) if weights is None else weights
    torch.save({"args": settings(), "model": weights, **(stored or {})}, directory / "checkpoint.pt")
    return directory


def scored(model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Rows:
    """Log-probabilities of the targets' tokens, tags among them."""
    scorer = LeanScorer(model.network, model.codec, None, name="m", digest="", dtype="float32")
    return scorer.compute((list(map(tuple, sources)), list(map(tuple, targets)), None))
