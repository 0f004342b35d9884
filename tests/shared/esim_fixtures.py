"""A small ESIM with random weights on a small encoder, and made-up judgements that can be learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from esim.network import initialise
from esim.saving import save_model
from tiny_encoders import bert

from polyref.metrics.esim.card import EsimConfig
from polyref.metrics.esim.network import EsimNetwork
from polyref.models.encoders import load_encoder

TEXT = "the old new bridge closed open monday she bought apple market nobody light went out rain wind cat"
WORDS = TEXT.split()
WRONG = ("dog", "never", "bad", "yes")
LAYERS = (1, 3)


def network(width: int = 32, layers: int = 2, hidden: int = 8, seed: int = 4) -> EsimNetwork:
    """Untrained, but with nothing left at zero or one."""
    import torch

    made = EsimNetwork(EsimConfig(width, layers, hidden))
    initialise(made, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return made.eval().requires_grad_(False)


def write_model(folder: Path, encoder: Path) -> Path:
    """A model folder in ``folder``, over the encoder made in ``encoder``."""
    bert(encoder)
    save_model(
        folder,
        network(),
        name="tiny",
        encoder=load_encoder(str(encoder)),
        load_name=str(encoder),
        layers=LAYERS,
        longest=10,
        lowercase=False,
        facts={"data": [{"name": "made-up"}, {"name": "more"}]},
    )
    return folder


def judgements(count: int, seed: int = 1, outputs: int = 4) -> list[dict[str, Any]]:
    """Outputs in which some words of their reference are replaced by wrong ones; the score is the share kept."""
    drawn = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        words = [WORDS[i] for i in drawn.integers(len(WORDS), size=6)]
        for lost in drawn.permutation(7)[:outputs]:
            broken = set(drawn.permutation(6)[:lost].tolist())
            output = [WRONG[drawn.integers(4)] if i in broken else word for i, word in enumerate(words)]
            rows.append({"ref": " ".join(words), "sys": " ".join(output), "score": 1 - float(lost) / 6})
    return rows


def rankings(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """All pairs of the outputs of each reference."""
    rows = judgements(count, seed)
    return [
        {"ref": one["ref"], "better": one["sys"], "worse": other["sys"]}
        for one in rows
        for other in rows
        if one["ref"] == other["ref"] and one["score"] > other["score"] and one["sys"] != other["sys"]
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
