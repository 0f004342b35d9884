"""Writing the model that ``polyref.models.checkpoints.pointer`` reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from training.package import FORMAT, JudgedSearch, PointerTransformer


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as int8 ``[rows, columns]`` and float32 scales ``[rows]``."""
    scale = weight.abs().amax(1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def save_pointer(
    network: PointerTransformer,
    spm_file: Path,
    folder: Path,
    *,
    name: str,
    language: str,
    strength: float = 0.5,
    min_score: float | None = None,
    search: JudgedSearch | None = None,
) -> None:
    """Write weights, vocabulary and configuration (the card is the trainer's business)."""
    tensors: dict[str, Tensor] = {}
    for key, weight in network.state_dict().items():
        weight = weight.detach().float()
        if weight.dim() == 2:
            tensors[f"{key}.int8"], tensors[f"{key}.scale"] = quantise(weight)
        else:
            tensors[key] = weight.half()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes files private
    (folder / "spm.model").write_bytes(spm_file.read_bytes())
    config = {
        "polyref_model": FORMAT,
        "name": name,
        "language": language,
        "network": network.config.to_dict(),
        "closeness": network.closeness,
        "shortlist": network.shortlist,
        "strength": strength,
        "min_score": min_score,
        **({} if search is None else {"search": asdict(search)}),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
