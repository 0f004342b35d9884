"""From a name to a folder: a folder of this machine, or a model of the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from polyref.errors import ModelError
from polyref.models.checkpoints.fairseq import is_fairseq_directory

# `owner/model`, or one of the old names without owner that bert_score knows (`roberta-large`).
_HUB_NAME: Final = re.compile(
    r"[\w-][\w.-]*/[\w.-]+|(albert|bert|distilbert|distilroberta|roberta|t5|xlm|xlnet)-[\w-]+"
)


def locate(name: str | Path) -> Path:
    """The directory of a model, downloaded first if ``name`` is one of the Hugging Face hub."""
    directory = Path(name)
    if is_fairseq_directory(directory):
        return directory
    if not directory.is_dir():
        if directory.exists() or str(name).startswith((".", "/", "~")) or str(name).count("/") > 1:
            raise ModelError("no such model directory", file=name)
        if not _HUB_NAME.fullmatch(str(name)):
            raise ModelError("no such model folder", file=name, remedy="give a folder, or a hub name owner/model")
        return _download(str(name))
    if not (directory / "config.json").is_file():
        raise ModelError("no model: neither checkpoint.pt (fairseq) nor config.json (Hugging Face)", file=directory)
    return directory


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(
            name, allow_patterns=["*.json", "*.safetensors", "*.bin", "*.model", "*.spm", "*.txt"]
        )
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ModelError(
            f"{name!r} is no directory here, and the Hugging Face hub did not give it: {reason}",
            remedy="name a directory, or check the name and the network",
        ) from None
    return Path(found)
