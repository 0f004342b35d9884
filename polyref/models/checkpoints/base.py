"""What a loaded encoder-decoder checkpoint is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polyref.models.checkpoints.vocabulary import TextCodec
from polyref.models.networks.transformer import Transformer


@dataclass(frozen=True)
class Seq2Seq:
    """A loaded model.

    Attributes:
        network: Ready for :func:`polyref.paraphrase.search.search` and forced scoring.
        codec: Text to ids and back.
        family: ``fairseq`` or the Hugging Face model type.
        name: ``prism-m39v1`` where it is recognised, else the directory's name.
        fingerprint: SHA-256 of the model's files, in hexadecimal.
        path: Where it was loaded from.
    """

    network: Transformer
    codec: TextCodec
    family: str
    name: str
    fingerprint: str
    path: Path
