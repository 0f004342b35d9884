"""What changes the next-token scores before selection: penalties, lengths, prefix, n-gram blocking, hooks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.paraphrase.search.options import SearchOptions
from polyref.paraphrase.search.protocol import StepHook, StepModel
from polyref.paraphrase.search.state import NEVER, Beams, Step


class Constraints:
    """The constraints of one batch, applied step by step.

    Args:
        model: The network (its special tokens and longest target).
        options: Validated options.
        sources: Token ids of every sentence, with the end of sentence.
        prefixes: Forced first tokens of every sentence, or None.
        hooks: Called in order on every step.

    Raises:
        UsageError: A prefix holds a token outside the vocabulary or the end of sentence.
    """

    def __init__(
        self,
        model: StepModel,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]] | None,
        hooks: Sequence[StepHook],
    ) -> None:
        self._model = model
        self._options = options
        self._hooks = hooks
        lengths = [len(source) for source in sources]
        if options.padded_max_len:
            lengths = [max(lengths)] * len(lengths)
        limits = [min(int(options.max_len_a * n + options.max_len_b), model.max_target - 1) for n in lengths]
        least = [min(options.min_len + int(options.min_len_a * len(s)), m) for s, m in zip(sources, limits)]
        self._max = torch.tensor(limits, device=model.device)
        self._min = torch.tensor(least, device=model.device)
        self.limits: list[int] = limits  # greatest length a sentence, the end of sentence not counted
        self.prefix_lengths: list[int] = [len(p) for p in prefixes] if prefixes else [0] * len(lengths)
        self._prefixes = self._prefix_table(prefixes) if prefixes else None

    def _prefix_table(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        table = torch.full((len(prefixes), max(self.prefix_lengths)), -1, device=self._model.device)
        for row, prefix in enumerate(prefixes):
            for token in prefix:
                if not 0 <= token < self._model.vocab_size:
                    raise UsageError(f"prefix token {token} is not in the vocabulary of {self._model.vocab_size}")
                if token == self._model.eos:
                    raise UsageError("the prefix holds the end of sentence, which would end every hypothesis")
            table[row, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)
        return table

    def apply(self, t: int, beams: Beams, out: Tensor) -> Step:
        """Normalise the network's output ``[S, W, V]`` and apply every constraint."""
        options, eos = self._options, self._model.eos
        base = self._log_probabilities(out)
        if options.semantics != "hf":
            base[..., self._model.pad] = NEVER
        fairseq = options.semantics == "fairseq"
        scores = base.clone() if options.unkpen or self._hooks else base
        for hook in self._hooks:
            hook(beams.sentences, beams.tokens[:, :, 1:], scores)
        if options.unkpen:
            scores[..., self._model.unk] -= options.unkpen
        last = self._max[beams.sentences] <= t
        forced = torch.zeros_like(last)
        if options.semantics == "hf":
            if options.forced_eos and bool(last.any()):
                self._force(base, scores, last, torch.full_like(beams.sentences, eos), None)
        elif bool(last.any()):
            # The hooks are overridden here: a hypothesis that may not end would be lost.
            self._force(base, scores, last, torch.full_like(beams.sentences, eos), base)
        if self._prefixes is not None and t < self._prefixes.shape[1]:
            wanted = self._prefixes[beams.sentences, t]
            forced = (wanted >= 0) & ~last
            self._force(base, scores, forced, wanted, scores if fairseq else None)
        short = (self._min[beams.sentences] > t) & ~forced & ~last
        scores[..., eos].masked_fill_(short[:, None], NEVER)
        if options.no_repeat_ngram and not fairseq:
            self._block_ngrams(beams.tokens, scores, None if options.semantics == "hf" else forced | last)
        return Step(t, base, scores, forced, last)

    def _log_probabilities(self, out: Tensor) -> Tensor:
        values = out.float()
        if self._options.temperature != 1.0:
            values = values / self._options.temperature
        if not self._model.normalized or self._options.temperature != 1.0:
            values = torch.log_softmax(values, dim=-1)
            broken = values[..., 0].isnan()  # one that is not a number makes all of its row so
        else:
            broken = values.amax(dim=-1).isnan()
        if bool(broken.any()):
            values = values.masked_fill(values.isnan(), NEVER)
        return values

    def _force(self, base: Tensor, scores: Tensor, where: Tensor, tokens: Tensor, values: Tensor | None) -> None:
        """Leave only ``tokens[i]`` to sentences in ``where``, at its value in ``values`` (None: at no cost)."""
        at = where.nonzero()[:, 0]
        if not len(at):
            return
        token = tokens[at]
        kept = torch.zeros(1, device=scores.device) if values is None else values[at, :, token].clone()
        scores[at] = NEVER
        scores[at, :, token] = kept
        if values is None:
            base[at, :, token] = kept

    def _block_ngrams(self, tokens: Tensor, scores: Tensor, spared: Tensor | None) -> None:
        # Transformers counts the start token, which is often the end of sentence: an n-gram size of 1 then forbids to
        # end. That is kept where it is followed to the letter.
        size = self._options.no_repeat_ngram
        history = tokens if spared is None else tokens[:, :, 1:]
        if history.shape[2] < size:
            return
        grams = history.unfold(2, size, 1)
        repeated = (grams[..., :-1] == history[:, :, None, history.shape[2] - size + 1 :]).all(dim=-1)
        if spared is not None:
            repeated &= ~spared[:, None, None]
        sentence, row, place = repeated.nonzero(as_tuple=True)
        scores[sentence, row, grams[sentence, row, place, -1]] = NEVER
