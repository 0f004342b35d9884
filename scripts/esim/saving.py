"""Writing an ESIM model: what ``polyref.metrics.esim.network`` reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from safetensors.torch import save

from polyref.errors import DataError
from polyref.metrics.esim.card import CONFIG, FORMAT, WEIGHTS, EsimCard, read_card
from polyref.metrics.esim.network import EsimNetwork
from polyref.models.encoders import Encoder
from polyref.publishing import published_folder
from polyref.store import file_sha256

PAGE: Final = "MODEL_CARD.md"
#: All that a model folder holds.
FILES: Final = frozenset({CONFIG, WEIGHTS, PAGE})


def save_model(
    folder: Path,
    network: EsimNetwork,
    *,
    name: str,
    encoder: Encoder,
    load_name: str,
    layers: tuple[int, ...],
    longest: int,
    lowercase: bool,
    facts: Mapping[str, Any],
    page: Callable[[EsimCard], str] | None = None,
) -> EsimCard:
    """Write a model, whole or not at all. The same arguments give the same bytes.

    Args:
        folder: The model's folder. An older model in it is replaced; anything else is not.
        network: The trained part.
        name: What it is called.
        encoder: The frozen encoder.
        load_name: What :func:`load_encoder` takes to find it.
        layers: Its layers that are mixed.
        longest: Most tokens of a text.
        lowercase: Whether texts are lowercased.
        facts: The rest of the card: ``data`` (a list of objects with ``name``), ``validation`` and what else should
            be known.
        page: Makes the page for people.

    Raises:
        DataError: The folder cannot be written, or holds something other than a model.
    """
    if folder.is_dir() and (others := sorted({entry.name for entry in folder.iterdir()} - FILES)):
        raise DataError(f"holds {others[0]}, which is no part of a model", file=folder, remedy="name another folder")
    target = folder.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with published_folder(target) as fresh:
            weights = {key: weight.detach().half().contiguous() for key, weight in network.state_dict().items()}
            (fresh / WEIGHTS).write_bytes(save(weights))
            card = {
                "polyref_esim": FORMAT,
                "name": name,
                "encoder": {"load": load_name, "name": encoder.name, "sha256": encoder.digest},
                "layers": list(layers),
                "width": network.config.width,
                "hidden": network.config.hidden,
                "longest": longest,
                "lowercase": lowercase,
                "parameters": sum(weight.numel() for weight in network.parameters()),
                "sha256": file_sha256(fresh / WEIGHTS),
                **facts,
            }
            _write(fresh / CONFIG, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
            if page is not None:
                _write(fresh / PAGE, page(read_card(fresh)))
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=folder) from None
    return read_card(folder)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
