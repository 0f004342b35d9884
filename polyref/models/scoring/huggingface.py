"""Forced scoring with Transformers' own networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyref.models.checkpoints.vocabulary import TextCodec
from polyref.models.find import LONGEST_SOURCE
from polyref.models.networks.huggingface import HuggingFaceModel
from polyref.models.scoring.base import Tokens
from polyref.models.scoring.batched import _BATCH, _LOGITS, Row, _BatchedScorer, _padded, _picked
from polyref.models.scoring.pointer import _packed
from polyref.models.scoring.segmentations import Segmenter


class HuggingFaceScorer(_BatchedScorer):
    """Any other encoder-decoder (T5 and so on), through Transformers' own forward."""

    def __init__(self, model: HuggingFaceModel, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        width = int(getattr(model.model.config, "d_model", None) or model.model.config.hidden_size)
        limits = (min(model.max_source, LONGEST_SOURCE), min(model.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=width, **about)
        self._model = model
        # What the encoder gives: some decoders ask for more of it than the states.
        self._kind: type[Any] = dict
        # Here the logits of all positions of a batch are held at once.
        self._positions = min(_BATCH, max(4 * _LOGITS // model.vocab_size, 1))
        _packed(model.model)

    @property
    def _pad(self) -> int:
        return self._model.pad

    def _mask(self, lengths: Tensor) -> Tensor:
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        return mask.to(device=self._model.device, dtype=torch.int64)

    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        encoder = self._model.model.get_encoder()
        ids, mask = sources.to(self._model.device), self._mask(lengths)
        encoded = encoder(input_ids=ids, attention_mask=mask, return_dict=True)
        self._kind = type(encoded)
        states: Tensor = encoded.last_hidden_state
        return states

    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        wanted = wanted.to(self._model.device)
        first = self._model.start if start is None else start
        inputs = torch.cat((torch.full_like(wanted[:, :1], first), wanted[:, :-1]), dim=1)
        logits = self._model.model(
            attention_mask=self._mask(lengths),
            encoder_outputs=self._kind(last_hidden_state=memory),
            decoder_input_ids=inputs,
            use_cache=False,
            return_dict=True,
        ).logits
        real = real.to(self._model.device)
        return _picked(logits[real], lambda rows: rows, wanted[real])

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        model = self._model.model
        for module in model.modules():
            # Modules hold rates as nn.Dropout or, where they call the function, as a number.
            if isinstance(module, torch.nn.Dropout):
                module.p = rate
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = rate
        sources = _padded([source], self._pad).expand(samples, -1)
        wanted = _padded([target], self._pad).expand(samples, -1)
        lengths = torch.full((samples,), len(source))
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            model.train()
            try:
                memory = self._encode(sources, lengths)
                real = torch.ones_like(wanted, dtype=torch.bool)
                scores = self._decode(sources, lengths, memory, wanted, real, start)
            finally:
                model.eval()
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)
