"""A Hugging Face decoder-only language model, as a step-wise model that continues prompts by one line."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyref.errors import ModelError


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
    hypothesis is therefore one line, whichever token ends it.

    Args:
        model: The model, in evaluation mode.
        ends: Tokens that end a line or a text; the first one stands for all.
        pad: A token that is never written.
        unk: The unknown token.
        closing: Tokens with a line end that is not their beginning, such as ``.\n``: nothing but the end follows them.
        longest: Most positions, where the configuration does not say.

    Attributes:
        max_source: Most tokens of a prompt.
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
        length = max(len(source) for source in sources)
        ids = torch.full((len(sources), length), self.pad, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, source in enumerate(sources):
            ids[row, length - len(source) :] = torch.as_tensor(source)
            mask[row, length - len(source) :] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        state = CausalState(None, mask[:, :-1], ids[:, -1])
        if length > 1:
            self._feed(state, ids[:, :-1])
        return state

    def step(self, state: CausalState, tokens: Tensor) -> Tensor:
        """See :class:`~polyref.paraphrase.search.StepModel`; returns log-probabilities."""
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
        """See :class:`~polyref.paraphrase.search.StepModel`."""
        rows = (sentences[:, None] * state.width + parents).flatten()
        state.cache.reorder_cache(rows)
        state.mask = state.mask[rows]
        state.width = parents.shape[1]
