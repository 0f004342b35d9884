"""Forced scoring: the log-probability of every token of given targets.

What Prism (Thompson & Post 2020) and BARTScore (Yuan et al. 2021) are made of. Targets are batched by length, every
distinct source is encoded once and its states are kept for later calls, and the projection onto the vocabulary is done
for real positions only, a slice at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.checkpoints.vocabulary import TextCodec
from polyref.models.find import LONGEST_SOURCE
from polyref.models.networks.transformer import Transformer
from polyref.models.scoring.base import ForcedScorer, Tokens
from polyref.models.scoring.batched import _BATCH, Row, _picked
from polyref.models.scoring.dropout import NoisyTransformer, dropout
from polyref.models.scoring.segmentations import Segmenter
from polyref.progress import tell


class LeanScorer(ForcedScorer):
    """fairseq's transformer, Marian, M2M100, NLLB, BART, mBART, on polyref's own network."""

    def __init__(self, network: Transformer, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        limits = (min(network.max_source, LONGEST_SOURCE), min(network.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=network.config.dim, **about)
        self._network = network
        self._scorer = Scorer(network, max_tokens=_BATCH, cache_bytes=1 << 29)

    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[Row]:
        # A stretch begins without states, as it does in a fresh worker: those of a batch depend on it, in last digits.
        self._scorer.forget()
        return self._scorer.score(sources, targets, start)

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        network = NoisyTransformer(self._network, dropout(rate, seed))
        states, bias = network.encode_states([source] * samples)
        tokens = torch.tensor(target, device=network.device).expand(samples, -1)
        first = network.start if start is None else start
        inputs = torch.cat((torch.full_like(tokens[:, :1], first), tokens[:, :-1]), dim=1)
        hidden = network.decode(states, bias, inputs)
        scores = _picked(hidden.flatten(0, 1), network.project, tokens.flatten())
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


#: Most logits held at once (float32: 64 MB).
_LOGITS = 1 << 24


class Scorer:
    """Token log-probabilities under one network.

    Args:
        network: The network.
        max_tokens: Most target positions of a batch, padding included (an encoder batch has as many source ones).
        cache_bytes: Most memory for kept encoder states; the longest unused go first.
        temperature: Divides the logits (> 0).

    Raises:
        UsageError: ``temperature`` or ``max_tokens`` is out of range.
    """

    def __init__(
        self,
        network: Transformer,
        *,
        max_tokens: int = 4096,
        cache_bytes: int = 1 << 28,
        temperature: float = 1.0,
    ) -> None:
        if not temperature > 0:
            raise UsageError(f"the temperature is {temperature}, expected more than 0")
        if max_tokens < 1:
            raise UsageError(f"the batch is {max_tokens} tokens, expected 1 or more")
        self._network = network
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._cache_bytes = cache_bytes
        self._held = 0
        self._states: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()
        self.encoded = 0  # sources encoded so far, for those who want to know what the cache saves

    @torch.inference_mode()
    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int | None = None
    ) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities of ``targets[i]`` given ``sources[i]``.

        Args:
            sources: Token ids, each with its end of sentence.
            targets: Token ids, each with its end of sentence (and its language tag in front, where the model has one),
                without the start token. May be empty.
            start: The decoder's first input (None: the network's own).

        Returns:
            One array a pair, as long as its target, in nats.

        Raises:
            UsageError: The lists differ in length, a target is longer than the network's positions, a source is
                empty, or a source or target holds what the network does not know.
        """
        network = self._network
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources but {len(targets)} targets")
        for index, source in enumerate(sources):
            if not len(source):
                raise UsageError(f"source {index} has no tokens, expected the end of sentence at least")
        for target in targets:
            if len(target) > network.max_target:
                raise UsageError(f"a target has {len(target)} tokens, expected at most {network.max_target}")
            if len(target) and not 0 <= min(target) <= max(target) < network.vocab_size:
                raise UsageError(f"a target token is not in the vocabulary of {network.vocab_size}")
        results = [np.empty(0, dtype=np.float32) for _ in targets]
        # Longest first: a batch that does not fit shows at once.
        order = [i for i in range(len(targets)) if len(targets[i])]
        tell(len(targets) - len(order))
        order.sort(key=lambda i: (-len(targets[i]), -len(sources[i]), tuple(sources[i])))
        first = network.start if start is None else start
        place = 0
        while place < len(order):
            size = max(self._max_tokens // len(targets[order[place]]), 1)
            batch = order[place : place + size]
            scored = self._batch([sources[i] for i in batch], [targets[i] for i in batch], first)
            for index, scores in zip(batch, scored):
                results[index] = scores
            tell(len(batch))
            place += size
        return results

    def _batch(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
    ) -> list[npt.NDArray[np.float32]]:
        network = self._network
        keys = [tuple(source) for source in sources]
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        states, bias = self._encoded(list(distinct))
        rows = torch.tensor([distinct[key] for key in keys], device=network.device)
        lengths = [len(target) for target in targets]
        wanted = torch.full((len(targets), max(lengths)), network.pad, dtype=torch.int64)
        for row, target in enumerate(targets):
            wanted[row, : len(target)] = torch.tensor(list(target))
        wanted = wanted.to(network.device)
        inputs = torch.cat((torch.full_like(wanted[:, :1], start), wanted[:, :-1]), dim=1)
        real = torch.arange(max(lengths), device=network.device) < torch.tensor(lengths, device=network.device)[:, None]
        hidden = network.decode(states, bias, inputs, rows)[real]
        flat, tokens = [], wanted[real]
        step = max(_LOGITS // network.vocab_size, 1)
        for first in range(0, len(hidden), step):
            logits = network.project(hidden[first : first + step])
            if self._temperature != 1.0:
                logits /= self._temperature
            chosen = logits.gather(1, tokens[first : first + step, None])[:, 0]
            flat.append(chosen - logits.logsumexp(dim=1))
        return list(np.split(torch.cat(flat).cpu().numpy(), np.cumsum(lengths)[:-1]))

    def _encoded(self, sources: list[tuple[int, ...]]) -> tuple[Tensor, Tensor | None]:
        """States ``[N, L, d]`` of distinct sources and their bias, from the cache where it has them."""
        network = self._network
        found: dict[tuple[int, ...], Tensor] = {}
        for key in sources:
            if key in self._states:
                self._states.move_to_end(key)
                found[key] = self._states[key]
        missing = sorted((key for key in sources if key not in found), key=len)
        while missing:
            size = max(self._max_tokens // len(missing[-1]), 1)
            part, missing = missing[-size:], missing[:-size]
            states, _ = network.encode_states(part)
            self.encoded += len(part)
            for key, state in zip(part, states):
                found[key] = state[: len(key)].clone()
                self._keep(key, found[key])
        length = max(len(key) for key in sources)
        batch = torch.nn.utils.rnn.pad_sequence([found[key] for key in sources], batch_first=True)
        if all(len(key) == length for key in sources):
            return batch, None
        mask = torch.arange(length) >= torch.tensor([len(key) for key in sources])[:, None]
        bias = torch.zeros(mask.shape).masked_fill_(mask, float("-inf"))[:, None, None]
        return batch, bias.to(device=network.device, dtype=network.dtype)

    def forget(self) -> None:
        """Drop the kept encoder states."""
        self._states.clear()
        self._held = 0

    def _keep(self, key: tuple[int, ...], state: Tensor) -> None:
        self._states[key] = state
        self._held += state.nbytes
        while self._held > self._cache_bytes:
            self._held -= self._states.popitem(last=False)[1].nbytes
