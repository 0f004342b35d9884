"""Files of a Hugging Face directory: its configuration, and hashes of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from polyref.errors import ModelError


def read_config(directory: str | Path) -> dict[str, Any]:
    """The ``config.json`` of a Hugging Face directory."""
    path = Path(directory) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            "no such file", file=path, remedy="a Hugging Face model is a directory with this file"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"no JSON: {error}", file=path) from None
    if not isinstance(config, dict):
        raise ModelError("no JSON object", file=path)
    if not isinstance(config.get("model_type", ""), str):
        raise ModelError('"model_type" is no string', file=path)
    return config


def hash_files(files: Sequence[Path]) -> str:
    """SHA-256 over the names and contents of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


#: How the names of files end that decide what a folder computes, beside its weights: settings and tokenisers.
_READ: Final = (".json", ".txt", ".model", ".spm", ".codes", ".bpe", ".tiktoken", ".jinja")


def hash_model(folder: Path) -> str:
    """SHA-256 over the settings, the tokeniser's files and the weights of a folder as Transformers writes it."""
    kept = [file for file in folder.iterdir() if file.name.endswith(_READ) and file.is_file()]
    weights = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return hash_files(sorted([*kept, *weights], key=lambda file: file.name))
