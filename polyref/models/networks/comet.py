"""COMET's networks: an encoder of Transformers, a mix of its layers, and a head, as unbabel-comet 2.2 computes them.

Texts are batched with others of exactly their length: there is no padding, and what a text gives depends on it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor, nn

from polyref.errors import ModelError
from polyref.models.checkpoints.comet import Checkpoint, Input, Row
from polyref.models.device import torch_device
from polyref.models.encoders import use_products
from polyref.models.networks.matmul import Product
from polyref.models.opening import check_numbers
from polyref.progress import tell

#: Most tokens of a batch, and pairs that a head scores in one go.
_BATCH: Final = 2048
_PAIRS: Final = 1024


class CometModel(Checkpoint):
    """A checkpoint whose network is built when it computes for the first time."""

    def __init__(self, model: str, encoder: str | None, device: str, dtype: str, *, fetch: bool) -> None:
        """As :func:`load_comet`."""
        self._device, self._dtype = torch_device(device), getattr(torch, dtype)
        super().__init__(model, encoder, fetch=fetch)

    def _part(self, prefix: str, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Some of the weights, which are not held here any more."""
        names = [name for name in self._weights if name.startswith(prefix)]
        found = {name: self._weights.pop(name).to(dtype) for name in names}
        check_numbers(found.items(), self._file)
        return {name.removeprefix(prefix): value for name, value in found.items()}

    @cached_property
    def _encoder(self) -> nn.Module:
        model = self._bare
        model.load_state_dict(self._part("encoder.model.", self._dtype), assign=True)
        # Not stored: the places of tokens, and their types where nobody names them.
        for module in model.modules():
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_meta:
                    numbers = torch.arange(buffer.shape[-1]) if name == "position_ids" else torch.zeros(1)
                    setattr(module, name, numbers.expand(buffer.shape).to(buffer.dtype))
        model = model.requires_grad_(False).to(self._device)
        use_products(model)
        return model

    @cached_property
    def _mix(self) -> Tensor:
        """Weights of layers, their common factor included."""
        part = self._part("layerwise_attention.")
        raw = torch.cat([part[f"scalar_parameters.{n}"] for n in range(self._config.num_hidden_layers + 1)])
        return part["gamma"] * (sparsemax(raw) if self.settings.sparse else raw.softmax(0))

    @cached_property
    def _head(self) -> list[Product | nn.Module]:
        part = self._part("estimator.ff.")
        activation = getattr(nn, self.settings.activation)()
        found: list[Product | nn.Module] = []
        for n in range(len(self.settings.hidden) + 1):
            found += [activation] if n else []
            found.append(_product(part, f"{3 * n}.", self._device))
        return [*found, *([getattr(nn, self.settings.final)()] if self.settings.final else [])]

    @cached_property
    def _labeller(self) -> Product:
        return _product(self._part("hidden2tag."), "", self._device)

    @torch.inference_mode()
    def compute(self, inputs: Sequence[Input]) -> Iterator[tuple[Input, Row]]:
        """What distinct inputs give, the longest first.

        Of regression, a vector, shape (width,). Else a score, and behind it the probabilities of the labels of every
        token of the output, row by row.
        """
        by_length: dict[int, list[Input]] = {}
        for one in inputs:
            by_length.setdefault(len(one.ids), []).append(one)
        for length in sorted(by_length, reverse=True):
            size = max(1, _BATCH // length)
            for start in range(0, len(by_length[length]), size):
                batch = by_length[length][start : start + size]
                rows = self._rows(batch)
                for one, row in zip(batch, rows, strict=True):
                    if not np.isfinite(row).all():
                        raise ModelError(
                            f"{self.name} gives numbers that are not finite for {len(one.ids)} tokens",
                            remedy="is the model damaged? With half precision, try float32",
                        )
                yield from zip(batch, rows, strict=True)
                tell(len(batch))

    def _rows(self, batch: Sequence[Input]) -> list[Row]:
        ids = torch.tensor([one.ids for one in batch], device=self._device)
        states = self._states(ids, torch.tensor([one.output for one in batch]))
        settings = self.settings
        mixed = self._mixed(states) if settings.layer is None else states[settings.layer].float()
        if not settings.joint:
            return list(self._pooled(ids, mixed, states).cpu().numpy())
        scores = self._headed(mixed[:, 0]).cpu().numpy()
        if settings.words is None:
            return list(scores[:, None])
        labels = self._labeller(states[settings.words].float()).softmax(2).cpu().numpy()
        return [
            np.concatenate([score[None], rows[: one.labelled].ravel()])
            for score, rows, one in zip(scores, labels, batch, strict=True)
        ]

    def _states(self, ids: Tensor, outputs: Tensor) -> Sequence[Tensor]:
        """The states of all layers, embeddings first."""
        types = torch.zeros_like(ids)
        if self._family.types and self.settings.joint:
            types = (torch.arange(ids.shape[1]) >= outputs[:, None]).long().to(ids.device)
        found = self._encoder(ids, attention_mask=torch.ones_like(ids), token_type_ids=types, output_hidden_states=True)
        return cast("Sequence[Tensor]", found.hidden_states)

    def _mixed(self, states: Sequence[Tensor]) -> Tensor:
        mixed = torch.zeros_like(states[0], dtype=torch.float32)
        for weight, state in zip(self._mix.tolist(), states, strict=True):
            if weight:
                layer = state.float()
                if self.settings.norm:  # one mean and one variance for all of a text
                    middle = layer.mean((1, 2), keepdim=True)
                    layer = (layer - middle) / (layer.var((1, 2), correction=0, keepdim=True) + 1e-12).sqrt()
                mixed += weight * layer
        return mixed

    def _pooled(self, ids: Tensor, mixed: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Vectors of texts. A padding token that a text spells out adds nothing, but is counted."""
        padding = (ids == self._padding)[..., None]
        if self.settings.pool == "max":
            return mixed.masked_fill(padding, -torch.inf).amax(1)
        if self.settings.pool == "avg":
            return mixed.masked_fill(padding, 0.0).sum(1) / ids.shape[1]
        return (states[-1].float() if self.settings.pool == "default" else mixed)[:, 0]

    def _headed(self, features: Tensor) -> Tensor:
        """Scores (N,) of features (N, F)."""
        for step in self._head:
            features = step(features)
        return features[:, 0]

    @torch.inference_mode()
    def compared(self, outputs: Row, sources: Row, references: Row | None) -> Row:
        """Scores of P outputs from vectors (P, width) of the texts; shape (P,)."""
        scores = []
        for start in range(0, len(outputs), _PAIRS):
            here = slice(start, start + _PAIRS)
            output, source, *rest = (
                torch.from_numpy(rows[here]).to(self._device)
                for rows in (outputs, sources, references)
                if rows is not None
            )
            by_source = [output * source, (output - source).abs()]
            if rest:
                (reference,) = rest
                parts = [output, reference, output * reference, (output - reference).abs(), *by_source]
            else:
                parts = [output, source, *by_source]
            scores.append(self._headed(torch.cat(parts, 1)).cpu().numpy())
        return np.concatenate(scores) if scores else np.zeros(0, dtype=np.float32)


def sparsemax(values: Tensor) -> Tensor:
    """The point of the simplex that is closest to some numbers (Martins & Astudillo 2016, arXiv:1602.02068)."""
    ordered = values.sort(descending=True).values
    sums = ordered.cumsum(0) - 1
    kept = int((torch.arange(1, len(values) + 1) * ordered > sums).sum())
    return (values - sums[kept - 1] / kept).clamp(min=0)


def _product(weights: Mapping[str, Tensor], name: str, device: torch.device) -> Product:
    return Product(weights[f"{name}weight"].to(device), weights[f"{name}bias"].to(device))


@lru_cache(maxsize=2)
def load_comet(
    model: str, encoder: str | None = None, device: str = "cpu", dtype: str = "float32", *, fetch: bool = True
) -> CometModel:
    """Open a checkpoint.

    Args:
        model: A name of the hub, a folder, or the file of the weights.
        encoder: Folder, or name of the hub, of the encoder's configuration and tokeniser; None: where the checkpoint
            says, from the working directory, from the folders around the checkpoint, or on the hub.
        device: A torch device.
        dtype: What the encoder computes in; layers are mixed, and heads computed, in float32.
        fetch: Whether the hub is asked for what is not on this machine.

    Raises:
        ModelError: There is none, or it is no checkpoint that is known, complete and plain.
    """
    return CometModel(model, encoder, device, dtype, fetch=fetch)
