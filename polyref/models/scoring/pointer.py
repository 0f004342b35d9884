"""Forced scoring with networks of the shipped kind."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from polyref.models.checkpoints.pointer import PointerModel
from polyref.models.checkpoints.vocabulary import SentencePieceCodec, squeezed
from polyref.models.networks.matmul import Product, packs
from polyref.models.networks.pointer import PointerTransformer
from polyref.models.scoring.base import Tokens
from polyref.models.scoring.batched import Row, _BatchedScorer, _padded, _picked
from polyref.models.scoring.dropout import Drop, dropout
from polyref.models.scoring.segmentations import Segmenter


class _PackedLinear(torch.nn.Module):
    """A linear layer as a :class:`Product`; its weights stay readable, because some models ask for their type."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self._product = Product(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return self._product(x)


def _packed(network: torch.nn.Module) -> None:
    """Replace the linear layers of a network that is not trained any more, where products can be packed."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear and packs(child.weight):
                setattr(module, name, _PackedLinear(child))


class PointerScorer(_BatchedScorer):
    """A model of the shipped kind, at its own closeness."""

    monolingual = True
    _pad = PointerTransformer.pad

    def __init__(self, model: PointerModel, device: str) -> None:
        network = model.network.place(device)
        codec = _OneLanguage(SentencePieceCodec(model.spm, network.eos), model.language)
        super().__init__(
            codec,
            Segmenter(model.spm, lambda side, pieces: [model.spm.PieceToId(piece) for piece in pieces], squeezed),
            name=model.name,
            digest=model.digest,
            dtype="float32",
            limits=(network.config.max_source, network.config.max_target),
            width=network.config.d_model,
            note=f"closeness:{network.closeness}",
        )
        self._network: PointerTransformer = network
        self._vocabulary = Product(network.embedding.weight.detach(), None)
        _packed(network)

    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        return self._network.encode_batch(sources.to(self._network.device))

    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        return self._forward(sources, wanted, memory=memory)

    def _forward(
        self, sources: Tensor, wanted: Tensor, drop: Drop | None = None, memory: Tensor | None = None
    ) -> Tensor:
        network = self._network
        wanted = wanted.to(network.device)
        inputs = torch.cat((torch.full_like(wanted[:, :1], network.start), wanted[:, :-1]), dim=1)

        def vocabulary(hidden: Tensor, embedding: Tensor, tokens: Tensor) -> Tensor:
            return _picked(hidden, self._vocabulary, tokens)

        return network(sources.to(network.device), inputs, wanted, vocabulary, drop, memory)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        rows = _padded([source], self._pad).expand(samples, -1), _padded([target], self._pad).expand(samples, -1)
        scores = self._forward(*rows, drop=dropout(rate, seed))
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


class _OneLanguage:
    """A codec whose source and target sides are one, of a model without language tags."""

    def __init__(self, codec: SentencePieceCodec, language: str) -> None:
        self.languages = (language,)
        self._codec = codec

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        return self._codec.encode(text)

    encode_target = encode

    def prefix(self, lang: str | None) -> list[int]:
        return []
