"""Any Hugging Face encoder-decoder through its own forward, as a step-wise model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyref.errors import ModelError
from polyref.models.checkpoints.files import unused_positions
from polyref.models.find import LONGEST_SOURCE


@dataclass
class HuggingFaceState:
    """Encoder states ``[S, L, d]``, their mask ``[S, L]`` (None: no padding), the cache of all rows, the width W.

    ``kind`` is the class that the encoder gives its states in: some decoders ask for more than the states.
    """

    encoded: Tensor
    mask: Tensor | None
    cache: Any
    kind: type[Any]
    width: int = 1


class HuggingFaceModel:
    """A ``PreTrainedModel`` with an encoder and a decoder (T5 and so on) as a ``StepModel``.

    Families that :mod:`polyref.models.checkpoints.fairseq` loads are faster that way: here the cross-attention keys are
    kept once a beam, as the model's own cache holds them.

    Args:
        model: The model, in evaluation mode.
        longest: Most positions, where the configuration does not say.

    Attributes:
        ends: All tokens that end a sentence, ``eos`` first.
        max_source: Most encoder positions.
    """

    normalized = False

    def __init__(self, model: Any, *, longest: int = LONGEST_SOURCE) -> None:
        if not getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(f"{type(model).__name__} is no encoder-decoder")
        _check_experts(model.config)
        self.model = model
        self.device = model.device
        settings = model.generation_config
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.ends = token_ids(_setting(model, settings, "eos_token_id"))
        self.eos = self.ends[0]
        # Without a start of its own, a decoder begins as a text does: so does Transformers.
        self.start = token_ids(_setting(model, settings, "decoder_start_token_id", "bos_token_id"))[0]
        pad = getattr(settings, "pad_token_id", None)
        self.pad = self.eos if pad is None else token_ids(pad)[0]
        unk = getattr(model.config, "unk_token_id", None)
        self.unk = self.pad if unk is None else int(unk)
        self.max_source = _positions(model.config, "encoder") or longest
        self.max_target = _positions(model.config, "decoder") or longest

    def encode(self, sources: Sequence[Sequence[int]]) -> HuggingFaceState:
        """See :class:`~polyref.paraphrase.search.StepModel`."""
        length = max(len(source) for source in sources)
        ids = torch.full((len(sources), length), self.pad, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = torch.as_tensor(source)
            mask[row, : len(source)] = 1
        mask = mask.to(self.device)
        encoded = self.model.get_encoder()(input_ids=ids.to(self.device), attention_mask=mask, return_dict=True)
        return self.begin(encoded, mask)

    def begin(self, encoded: Any, mask: Tensor | None, every: int = 1) -> HuggingFaceState:
        """The state before the first step.

        Args:
            encoded: What the encoder gave.
            mask: Mask of its states; None for no padding.
            every: Take every n-th row: what is repeated for n beams is kept once.
        """
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        states = encoded.last_hidden_state[::every]
        return HuggingFaceState(states, None if mask is None else mask[::every], cache, type(encoded))

    def step(self, state: HuggingFaceState, tokens: Tensor) -> Tensor:
        """See :class:`~polyref.paraphrase.search.StepModel`; returns logits."""
        sentences, width = tokens.shape
        return self.feed(state, tokens.reshape(-1, 1))[:, -1].view(sentences, width, -1)

    def feed(self, state: HuggingFaceState, tokens: Tensor) -> Tensor:
        """Logits ``[S * W, T, V]`` after feeding T tokens a row ``[S * W, T]``."""
        encoded, mask = state.encoded, state.mask
        if state.width > 1:
            encoded = encoded.repeat_interleave(state.width, dim=0)
            mask = None if mask is None else mask.repeat_interleave(state.width, dim=0)
        out = self.model(
            attention_mask=mask,
            encoder_outputs=state.kind(last_hidden_state=encoded),
            decoder_input_ids=tokens,
            past_key_values=state.cache,
            use_cache=True,
            return_dict=True,
        )
        state.cache = out.past_key_values
        logits: Tensor = out.logits
        return logits.float()

    def reorder(self, state: HuggingFaceState, sentences: Tensor, parents: Tensor) -> None:
        """See :class:`~polyref.paraphrase.search.StepModel`."""
        rows = (sentences[:, None] * state.width + parents).flatten()
        state.cache.reorder_cache(rows)
        if len(sentences) < len(state.encoded):
            state.encoded = state.encoded[sentences]
            state.mask = None if state.mask is None else state.mask[sentences]
        state.width = parents.shape[1]


def _setting(model: Any, settings: Any, *names: str) -> Any:
    """The first of the names that the generation settings, or the configuration, have a value for."""
    for name in names:
        for place in (settings, model.config):
            if (value := getattr(place, name, None)) is not None:
                return value
    raise ModelError(f"the model's configuration has no {names[0]}")


def token_ids(tokens: Any) -> tuple[int, ...]:
    """One token or several, as Transformers keeps them: a number, a list or a tensor."""
    if isinstance(tokens, Tensor):
        tokens = tokens.flatten().tolist()
    return tuple(map(int, tokens)) if isinstance(tokens, (list, tuple)) else (int(tokens),)


def _positions(config: Any, side: str) -> int | None:
    """Most positions of the encoder or the decoder; None where there is no limit."""
    part: Any = getattr(config, side, None)
    if hasattr(part, "get_text_config"):  # two networks in one model, each with a configuration of its own
        config = part.get_text_config()
    names = (f"max_{side}_position_embeddings", "max_position_embeddings")
    unused = unused_positions(getattr(config, "model_type", None), getattr(config, "pad_token_id", None))
    return next((int(value) - unused for name in names if (value := getattr(config, name, None))), None)


def _check_experts(config: Any) -> None:
    """Refuse experts that take a share of a batch's tokens, or are chosen by chance (settings of NLLB-MoE)."""
    for name, usual in (("moe_eval_capacity_token_fraction", 1.0), ("second_expert_policy", "all")):
        if (value := getattr(config, name, usual)) != usual:
            raise ModelError(
                f"the model has {name} {value}, expected {usual}: else a text's lists depend on its batch or on chance"
            )
