"""Reading and writing models of the shipped kind: a folder with weights, vocabulary, configuration and card.

    model.safetensors   matrices as int8 with one float32 scale a row (``NAME.int8``, ``NAME.scale``), the rest float16
    spm.model           SentencePiece vocabulary
    config.json         {"polyref_model": 1, "name", "language", "network": {...}, "closeness", "shortlist", "strength",
                        "min_score", "search"}
    MODEL_CARD.md       data, provenance, figures, examples

Weights are stored in eight bits and computed in float32: rows are scaled by their largest absolute value / 127.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
from safetensors import SafetensorError
from safetensors.torch import load_file

from polyref.errors import ModelError
from polyref.models.networks.pointer import CLOSENESS_LEVELS, MASK, PointerConfig, PointerTransformer
from polyref.models.opening import check_numbers, faults_of, read_config

FORMAT = 1
#: Vocabularies, widths and positions are smaller.
_LARGEST_SIZE = 1 << 22
FILES = ("config.json", "model.safetensors", "spm.model")


@dataclass(frozen=True)
class PointerModel:
    """A loaded model, its network in float32 and inference mode.

    Attributes:
        language: ISO 639-1 code of the one language it writes.
        min_score: Candidates below this length-normalised log-probability are not offered (None: all are).
        search: What ``config.json`` says of its search, as it is; the paraphraser reads it.
        digest: First 12 hex digits of the SHA-256 over its files.
    """

    network: PointerTransformer
    spm: sentencepiece.SentencePieceProcessor
    name: str
    language: str
    strength: float
    min_score: float | None
    search: Any
    digest: str


def load_pointer(folder: Path) -> PointerModel:
    """Load a model folder; nothing in it is executed or unpickled."""
    for file in FILES:
        if not (folder / file).is_file():
            raise ModelError(f"no {file} in the model folder", file=folder, remedy=f"expected {', '.join(FILES)}")
    try:
        tensors = load_file(folder / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"not a safetensors file: {error}", file=folder / "model.safetensors") from None
    network, config = _network(folder)
    with faults_of(folder / "model.safetensors"):
        weights = {
            key.removesuffix(".int8"): value.float() * tensors[key.removesuffix(".int8") + ".scale"][:, None]
            if key.endswith(".int8")
            else value.float()
            for key, value in tensors.items()
            if not key.endswith(".scale")
        }
        check_numbers(weights.items())
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).split("\n")[1].strip() if "\n" in str(error) else str(error)
        raise ModelError(f"weights do not fit config.json: {first}", file=folder / "model.safetensors") from None
    spm = sentencepiece.SentencePieceProcessor()
    try:
        spm.Load(str(folder / "spm.model"))
    except (RuntimeError, OSError):
        raise ModelError("not a SentencePiece model", file=folder / "spm.model") from None
    if spm.get_piece_size() != network.vocab_size:
        raise ModelError(
            f"has {spm.get_piece_size()} pieces, but config.json says {network.vocab_size}", file=folder / "spm.model"
        )
    digest = hashlib.sha256()
    for file in FILES:
        digest.update((folder / file).read_bytes())
    network.eval().requires_grad_(False)
    name, language, strength, least = (config[key] for key in ("name", "language", "strength", "min_score"))
    search = config.get("search")
    return PointerModel(network, spm, name, language, strength, least, search, digest.hexdigest()[:12])


def _network(folder: Path) -> tuple[PointerTransformer, dict[str, Any]]:
    path = folder / "config.json"
    try:
        try:
            config = read_config(folder)
        except ModelError as error:
            raise ValueError(error.message) from None
        if config["polyref_model"] != FORMAT:
            raise ModelError(
                f"model format {config['polyref_model']!r}, expected {FORMAT}", file=path, remedy="update polyref"
            )
        if not 0 <= config["closeness"] < CLOSENESS_LEVELS:
            raise ModelError(f"closeness is {config['closeness']}, expected 0 to {CLOSENESS_LEVELS - 1}", file=path)
        for key, kinds in (("name", str), ("language", str), ("strength", (int, float))):
            if not isinstance(config[key], kinds) or not _finite(config[key]):
                raise ModelError(f"{key} is {config[key]!r}", file=path)
        least = config["min_score"]
        if least is not None and not (isinstance(least, int | float) and _finite(least)):
            raise ModelError(f"min_score is {least!r}, expected a number or null", file=path)
        sizes, shortlist = PointerConfig(**config["network"]), config.get("shortlist")
        _check_sizes(sizes, folder)
        if shortlist is not None and not (isinstance(shortlist, int) and MASK < shortlist <= sizes.vocab_size):
            expected = f"null, or {MASK + 1} to {sizes.vocab_size}"
            raise ModelError(f"shortlist is {shortlist!r}, expected {expected}", file=path)
        return PointerTransformer(sizes, config["closeness"], shortlist), config
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"not a model configuration: {error!r}", file=path) from None


def _finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _check_sizes(sizes: PointerConfig, folder: Path) -> None:
    """Refuse sizes that make no network, before the memory for them is taken."""
    for name, value in sizes.to_dict().items():
        if type(value) is not int or not 1 <= value <= _LARGEST_SIZE:
            raise ModelError(f"{name} is no whole number from 1 to {_LARGEST_SIZE}", file=folder / "config.json")
    if sizes.d_model % sizes.heads:
        raise ModelError(f"{sizes.heads} heads do not divide the width, {sizes.d_model}", file=folder / "config.json")
    layers = sizes.encoder_layers + sizes.decoder_layers
    least = sizes.d_model * (sizes.vocab_size + layers * (4 * sizes.d_model + 2 * sizes.ffn))  # a byte a weight
    if (found := (folder / "model.safetensors").stat().st_size) < least:
        raise ModelError(f"has {found} bytes, but config.json says at least {least}", file=folder / "model.safetensors")
