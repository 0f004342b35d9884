"""What an ESIM model says of itself, and the encoder it was trained with. Nothing here loads torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from polyref.errors import ModelError
from polyref.json_files import Record
from polyref.models.encoders import Encoder, load_encoder
from polyref.store import file_sha256

#: Most tokens of a text that ESIM reads, without special ones (Mathur et al. 2019).
LONGEST = 100
FORMAT: Final = 1
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
#: Models that come with polyref: name -> folder.
SHIPPED: Final = Path(__file__).resolve().parent / "shipped"


@dataclass(frozen=True)
class EsimConfig:
    """Sizes of the network: d of the encoder's vectors, how many layers are mixed, h of an LSTM in one direction."""

    width: int
    layers: int
    hidden: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class EsimCard:
    """What a model is, without its weights.

    Attributes:
        encoder: ``load`` (what :func:`load_encoder` takes), ``name`` and ``sha256`` of the encoder.
        layers: The encoder's layers that are mixed.
        longest: Most tokens of a text.
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
    """The folder of a model: one that comes with polyref, by its name, or any folder."""
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
    """What a model says of itself."""
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


def open_encoder(card: EsimCard, encoder: str | None = None, device: str = "cpu") -> Encoder:
    """The encoder that a model was trained with, or where it is now: with another one, scores would mean nothing."""
    name = encoder or card.encoder["load"]
    try:
        found = load_encoder(name, device, fetch=encoder is not None)
    except ModelError as error:
        if encoder is not None:
            raise
        remedy = "say where its encoder is, or name it to fetch it: --esim-encoder"
        said = f"its encoder {name} cannot be opened, and nothing is fetched unasked: {error.message}"
        raise ModelError(said, file=card.folder, remedy=remedy) from None
    if found.digest != card.encoder["sha256"]:
        raise ModelError(
            f"was trained on the encoder {card.encoder['name']} ({card.encoder['sha256'][:12]}), "
            f"but {name} is {found.name} ({found.digest[:12]})",
            file=card.folder,
            remedy="give the encoder of the training (--esim-encoder), or train anew: "
            "scripts/esim/train.py in the repository",
        )
    return found
