"""ESIM models on the disk: a folder with weights, their card and a page for people.

    model.safetensors   the trained weights in float16; computed in float32
    config.json         {"polyref_esim": 1, "name", "encoder": {"load", "name", "sha256"}, "layers", "width", "hidden",
                         "longest", "lowercase", "data": [...], "validation": {...}, ...}
    MODEL_CARD.md       the same for people

The encoder is no part of it: it is loaded by name, and refused where its hash is another than in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load

from polyref.errors import ModelError
from polyref.json_files import Record
from polyref.metrics.embedding.encoders.load import load_encoder
from polyref.metrics.esim.network import EsimConfig, EsimNetwork
from polyref.metrics.esim.texts import Reader
from polyref.models.checkpoints.weights import check_numbers
from polyref.models.device import own_device, torch_device
from polyref.store import file_sha256

FORMAT: Final = 1
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
#: Models that come with polyref: name -> folder.
SHIPPED: Final = Path(__file__).resolve().parent / "shipped"


@dataclass(frozen=True)
class EsimCard:
    """What a model is, without its weights.

    Attributes:
        folder: Where it is.
        name: Its name in signatures.
        encoder: ``load`` (what :func:`load_encoder` takes), ``name`` and ``sha256`` of the encoder.
        layers: The encoder's layers that are mixed.
        config: Sizes of the network.
        longest: Most tokens of a text.
        lowercase: Whether texts are lowercased.
        data: Names of what it was trained on.
    """

    folder: Path
    name: str
    encoder: Mapping[str, str]
    layers: tuple[int, ...]
    config: EsimConfig
    longest: int
    lowercase: bool
    data: tuple[str, ...]

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the weights' file, read once."""
        return file_sha256(self.folder / WEIGHTS)


def find_model(name: str) -> Path:
    """The folder of a model: one that comes with polyref, by its name, or any folder.

    Raises:
        ModelError: There is none.
    """
    shipped = sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))
    folder = SHIPPED / name if name in shipped else Path(name)
    if not (folder / CONFIG).is_file():
        raise ModelError(
            f"no ESIM model there (no {CONFIG})",
            file=name,
            remedy=f"give the folder of an ESIM model, or one of {', '.join(shipped) or 'none'}",
        )
    return folder


def read_card(folder: Path) -> EsimCard:
    """Read what a model says of itself.

    Raises:
        ModelError: A file is missing or not of this kind.
    """
    path = folder / CONFIG
    found = Record.read(path)
    if found.needed("polyref_esim", found.whole) != FORMAT:
        found.fail(f"model format {found.values['polyref_esim']}, expected {FORMAT}", "update polyref")
    encoder = found.needed("encoder", found.child)
    layers = found.each("layers", Record.whole)
    size = partial(found.whole, least=1)
    width, hidden, longest = (found.needed(key, size) for key in ("width", "hidden", "longest"))
    card = EsimCard(
        folder,
        found.needed("name", found.text),
        {key: encoder.needed(key, encoder.text) for key in ("load", "name", "sha256")},
        tuple(layers),
        EsimConfig(width, len(layers), hidden),
        longest,
        found.needed("lowercase", found.flag),
        tuple(data.needed("name", data.text) for data in found.each("data", Record.child)),
    )
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"no {WEIGHTS} in the model folder", file=folder)
    return card


def load_network(card: EsimCard, device: str = "cpu") -> EsimNetwork:
    """The trained part, in float32 and inference mode.

    Raises:
        ModelError: The weights cannot be read or do not fit the card.
    """
    path = card.folder / WEIGHTS
    # Before the memory is taken: an LSTM in two directions, of two bytes a weight.
    least = 2 * 8 * card.config.hidden * (card.config.width + card.config.hidden)
    if (found := path.stat().st_size) < least:
        raise ModelError(f"no weights that fit {CONFIG}: {found} bytes, expected at least {least}", file=path)
    network = EsimNetwork(card.config)
    try:
        weights = load(path.read_bytes())
        network.load_state_dict({name: weight.float() for name, weight in weights.items()})
        check_numbers(network.named_parameters(), path)
    except (SafetensorError, OSError, RuntimeError) as error:
        # PyTorch names the class first, then, line by line, what does not fit.
        reason = next((line.strip() for line in str(error).splitlines() if not line.endswith(":")), str(error))
        raise ModelError(f"no weights that fit {CONFIG}: {reason}", file=path) from None
    return network.to(torch_device(own_device(device))).eval().requires_grad_(False)


def load_reader(card: EsimCard, encoder: str | None = None, device: str = "cpu") -> Reader:
    """The encoder that a model was trained with.

    Args:
        card: The model.
        encoder: Where the encoder is now; None takes what the card says.
        device: A torch device.

    Raises:
        ModelError: The encoder is not there, or not the one of the training: scores would mean nothing.
    """
    name = encoder or card.encoder["load"]
    found = load_encoder(name, device)
    if found.digest != card.encoder["sha256"]:
        raise ModelError(
            f"was trained on the encoder {card.encoder['name']} ({card.encoder['sha256'][:12]}), "
            f"but {name} is {found.name} ({found.digest[:12]})",
            file=card.folder,
            remedy="give the encoder of the training (--esim-encoder), or train anew: "
            "scripts/esim/train.py in the repository",
        )
    return Reader(found, card.layers, lowercase=card.lowercase, longest=card.longest)
