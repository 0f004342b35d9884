"""Any Hugging Face encoder-decoder through its own forward, as a step-wise model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyref.errors import ModelError
from polyref.models.networks.attention import padded
from polyref.models.opening import LONGEST_SOURCE, unused_positions


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

    Families that :mod:`polyref.models.checkpoints.seq2seq` loads are faster that way: here the cross-attention keys are
    kept once a beam, as the model's own cache holds them.

    Attributes:
        ends: All tokens that end a sentence, ``eos`` first.
        max_source: Most encoder positions; ``longest`` where the configuration does not say.
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
        ids = padded(sources, self.pad).to(self.device)
        mask = padded([[1] * len(source) for source in sources], 0).to(self.device)
        encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask, return_dict=True)
        return self.begin(encoded, mask)

    def begin(self, encoded: Any, mask: Tensor | None, every: int = 1) -> HuggingFaceState:
        """The state before the first step, of every ``every``-th row: what is repeated for n beams is kept once."""
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        states = encoded.last_hidden_state[::every]
        return HuggingFaceState(states, None if mask is None else mask[::every], cache, type(encoded))

    def step(self, state: HuggingFaceState, tokens: Tensor) -> Tensor:
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


@dataclass
class CausalState:
    """The cache of all rows, the mask ``[S * W, L]`` of what they have read, the last tokens of the prompts ``[S]``.

    ``last`` is None once it has been read, and ``width`` is W.
    """

    cache: Any
    mask: Tensor
    last: Tensor | None
    width: int = 1


class CausalModel:
    r"""A ``PreTrainedModel`` for text generation as a ``StepModel``: its sources are prompts.

    All tokens that end a line are one event here, the end of sentence: its probability is the sum of theirs. A
    hypothesis is therefore one line, whichever token ends it. The first of the ``ends`` stands for all. ``closing``
    are tokens with a line end that is not their beginning, such as ``.\n``: nothing but the end follows them.
    ``longest`` is the most positions where the configuration does not say.
    """

    normalized = True

    def __init__(
        self, model: Any, *, ends: Sequence[int], pad: int, unk: int, longest: int, closing: Sequence[int] = ()
    ) -> None:
        self.model = model
        self.device = model.device
        config = model.config.get_text_config()
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.eos, *others = ends
        self._others = torch.tensor(others, dtype=torch.int64, device=self.device)
        self._closing = torch.tensor(closing, dtype=torch.int64, device=self.device)
        self.pad, self.unk = pad, unk
        self.start = self.eos  # never read: the first step reads the prompt's last token
        positions = int(getattr(config, "max_position_embeddings", None) or longest)
        self.max_target = min(positions // 2, longest)
        self.max_source = min(positions - self.max_target, longest)
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", 1)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        # Keys and values of a position, in float32 at most.
        self._position_bytes = int(8 * config.num_hidden_layers * heads * size)

    def row_bytes(self, length: int) -> int:
        """About the memory of a hypothesis of that many tokens with its prompt: cache and scores."""
        return int(2 * length * self._position_bytes + 12 * self.vocab_size)

    def encode(self, sources: Sequence[Sequence[int]]) -> CausalState:
        """Read the prompts but for their last tokens; shorter ones are padded on the left."""
        # Filled up at the end, and turned round.
        ids = padded([source[::-1] for source in sources], self.pad).flip(1).to(self.device)
        mask = padded([[1] * len(source) for source in sources], 0).flip(1).to(self.device)
        state = CausalState(None, mask[:, :-1], ids[:, -1])
        if ids.shape[1] > 1:
            self._feed(state, ids[:, :-1])
        return state

    def step(self, state: CausalState, tokens: Tensor) -> Tensor:
        sentences, width = tokens.shape
        closed = torch.isin(tokens.flatten(), self._closing) & (state.last is None)
        if state.last is not None:
            tokens, state.last = state.last[:, None], None
        state.mask = torch.cat((state.mask, state.mask.new_ones(len(state.mask), 1)), dim=1)
        found = self._feed(state, tokens.reshape(-1, 1)).float().log_softmax(dim=-1)
        if len(self._others):
            found[:, self.eos] = torch.cat((found[:, self.eos, None], found[:, self._others]), dim=1).logsumexp(dim=1)
            found[:, self._others] = float("-inf")
        found[closed] = float("-inf")
        found[closed, self.eos] = 0.0
        return found.view(sentences, width, -1)

    def _feed(self, state: CausalState, tokens: Tensor) -> Tensor:
        """Logits ``[S * W, V]`` after the last of some tokens ``[S * W, T]``, which the mask already holds."""
        given: dict[str, Any] = {"attention_mask": state.mask, "past_key_values": state.cache}
        if self._takes_positions:
            given["position_ids"] = (state.mask.cumsum(dim=1) - 1).clamp_min(0)[:, -tokens.shape[1] :]
        out = self.model(input_ids=tokens, use_cache=True, return_dict=True, **given)
        state.cache = getattr(out, "past_key_values", None)
        if not hasattr(state.cache, "reorder_cache"):
            raise ModelError(f"{type(self.model).__name__} keeps a state that a beam search cannot take apart")
        logits: Tensor = out.logits[:, -1]
        return logits

    def reorder(self, state: CausalState, sentences: Tensor, parents: Tensor) -> None:
        rows = (sentences[:, None] * state.width + parents).flatten()
        state.cache.reorder_cache(rows)
        state.mask = state.mask[rows]
        state.width = parents.shape[1]
