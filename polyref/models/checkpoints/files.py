"""Files of a Hugging Face directory: its configuration, and hashes of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from polyref.errors import ModelError
from polyref.json_files import Record


def read_config(directory: str | Path) -> dict[str, Any]:
    """The ``config.json`` of a Hugging Face directory."""
    path = Path(directory) / "config.json"
    record = Record.read(path, "a Hugging Face model is a directory with this file")
    record.text("model_type")
    return record.values


#: Families that count positions from the padding token on, as RoBERTa does.
# fmt: off
_FROM_PADDING: Final = frozenset({
    "camembert", "data2vec-text", "ibert", "lilt", "longformer", "luke", "markuplm", "mpnet", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
})
# fmt: on


def unused_positions(family: object, padding: object) -> int:
    """How many of a model's positions no token of a text has: those up to the padding token's in RoBERTa's kind.

    Args:
        family: The model type.
        padding: Id of the padding token. Where there is none, it is 1, as in these families; MPNet has no other.
    """
    if family not in _FROM_PADDING:
        return 0
    return 2 if family == "mpnet" or not isinstance(padding, int) else padding + 1


def most_positions(directory: str | Path, config: Mapping[str, Any]) -> int | None:
    """Most tokens that a configuration has positions for, special ones included; None where it names no limit."""
    path = Path(directory) / "config.json"
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(positions, int | None):
        raise ModelError(f"the longest input is {positions!r}, expected a whole number", file=path)
    padding = config.get("pad_token_id")
    if not isinstance(padding, int | None):
        raise ModelError(f"pad_token_id is {padding!r}, expected a whole number", file=path)
    if positions is None or positions < 1:
        return None
    return positions - unused_positions(config.get("model_type"), padding)


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
