"""The encoder of models of the shipped kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from polyref.json_files import Record
from polyref.metrics.embedding.encoders.base import Encoder, Tokens
from polyref.metrics.embedding.encoders.products import use_products
from polyref.models.checkpoints.files import hash_files, read_config
from polyref.models.device import torch_device
from polyref.values import as_texts

if TYPE_CHECKING:
    from torch import Tensor

    from polyref.models.checkpoints.pointer import PointerModel


class PointerEncoder(Encoder):
    """The encoder of a paraphraser of the shipped kind; the end of sentence is its special token.

    A layer's vectors are its block's output under the encoder's final layer normalisation: the residual stream of a
    pre-norm network grows with depth and is never read bare.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self._folder = folder
        self.device = device
        config = Record.read(folder / "config.json")
        network = config.needed("network", config.child)
        self.name = config.needed("name", config.text)
        self.layers, self.width, self.longest = (
            network.needed(key, network.whole) for key in ("encoder_layers", "d_model", "max_source")
        )
        self.languages = (config.needed("language", config.text),)

    @cached_property
    def digest(self) -> str:
        """See :class:`Encoder`. The decoding defaults in ``config.json`` change no state and are left out."""
        network = json.dumps(read_config(self._folder)["network"], sort_keys=True)
        files = hash_files([self._folder / file for file in ("model.safetensors", "spm.model")])
        return hashlib.sha256(f"{network}\0{files}".encode()).hexdigest()

    @cached_property
    def _model(self) -> PointerModel:
        from polyref.models.checkpoints.pointer import load_pointer

        model = load_pointer(self._folder)
        model.network.place(torch_device(self.device))
        use_products(model.network.encoder)
        for layer in model.network.encoder:
            attention: Any = layer.attend_self
            attention.mix = partial(_mix, attention.out)
        return model

    def tokens(self, texts: Sequence[str], longest: int | None = None) -> list[Tokens]:
        """See :class:`Encoder`."""
        model, most = self._model, min(longest or self.longest, self.longest)
        pieces = model.spm.encode([" ".join(text.split()) for text in as_texts(texts, "`texts`")])
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


def _mix(out: Callable[[Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor, _mask: Tensor) -> Tensor:
    """Attention ``[N, T, d]`` of queries, keys and values ``[N, H, T, e]`` of texts without padding.

    Each text is attended to by itself: in a batched product of small matrices, the order of the additions depends on
    how many there are.
    """
    from torch.nn.functional import scaled_dot_product_attention

    return out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
