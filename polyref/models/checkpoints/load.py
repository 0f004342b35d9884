"""Load an encoder-decoder checkpoint of either kind: fairseq or Hugging Face."""

from __future__ import annotations

from pathlib import Path

import torch

from polyref.models.checkpoints import huggingface
from polyref.models.checkpoints.base import Seq2Seq
from polyref.models.checkpoints.fairseq import is_fairseq_directory, load_fairseq
from polyref.models.checkpoints.files import hash_model, read_config
from polyref.models.checkpoints.hub import locate
from polyref.models.checkpoints.tokenizer import load_codec


def load_checkpoint(
    name: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Seq2Seq:
    """Load a fairseq or Hugging Face directory, or a model of the Hugging Face hub by its name."""
    directory = locate(name)
    if is_fairseq_directory(directory):
        return load_fairseq(directory, device=device, dtype=dtype)
    network = huggingface.load_network(directory, device=device, dtype=dtype)
    codec = load_codec(directory, network)
    family = str(read_config(directory).get("model_type"))
    label = str(name) if not Path(name).is_dir() else directory.resolve().name
    return Seq2Seq(network, codec, family, label, hash_model(directory), directory)
