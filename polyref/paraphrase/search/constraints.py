"""What changes the next-token scores before selection: penalties, lengths, prefix, n-gram blocking, hooks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.step import Parts, RowModel, StepModel
from polyref.paraphrase.search.options import SearchOptions
from polyref.paraphrase.search.protocol import StepHook
from polyref.paraphrase.search.state import NEVER, Beams, Step


class Constraints:
    """The constraints of one batch, applied step by step.

    Args:
        model: The network (its special tokens and longest target).
        options: Validated options.
        sources: Token ids of every sentence, with the end of sentence.
        prefixes: Forced first tokens of every sentence, or None. In ``fairseq`` semantics padding in a prefix forces
            nothing at its place.
        hooks: Called in order on every step.
        ends: Tokens that end a sentence, the model's own first; None for that alone.
    """

    def __init__(
        self,
        model: StepModel,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]] | None,
        hooks: Sequence[StepHook],
        ends: tuple[int, ...] | None = None,
    ) -> None:
        self._model = model
        self.ends = ends or (model.eos,)
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
        fairseq = self._options.semantics == "fairseq"
        for row, prefix in enumerate(prefixes):
            for token in prefix:
                if not 0 <= token < self._model.vocab_size:
                    raise UsageError(f"prefix token {token} is not in the vocabulary of {self._model.vocab_size}")
                if token == self._model.eos:
                    raise UsageError("the prefix holds the end of sentence, which would end every hypothesis")
                if token == self._model.pad and not fairseq:
                    raise UsageError(
                        "the prefix holds padding, which only `semantics` fairseq takes for a place that is not forced"
                    )
            table[row, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)
        return table.masked_fill(table == self._model.pad, -1)

    def apply(self, t: int, beams: Beams, out: Tensor | Parts) -> Step:
        """Normalise the network's output, ``[R, V]`` or ``[S, W, V]``, and apply every constraint."""
        options, eos = self._options, self._model.eos
        owners = beams.layout.owners
        base = self._log_probabilities(out)
        if options.semantics != "hf":
            base[:, self._model.pad] = NEVER
        fairseq = options.semantics == "fairseq"
        # Hooks that only forbid leave a chosen token's log-probability as it is, except where its end is forced.
        apart = bool(options.unkpen) or any(not getattr(hook, "forbids_only", False) for hook in self._hooks)
        scores = base.clone() if apart else base
        ending = base[:, eos].clone()
        if self._hooks:
            width = out.shape[1] if isinstance(out, Tensor) and out.dim() == 3 else 1
            given = beams.prefixes()
            prefixes = given.view(len(given) // width, width, given.shape[1])
            for hook in self._hooks:
                hook(beams.sentences[owners[::width]], prefixes, scores.view(-1, width, scores.shape[1]))
        if options.unkpen:
            scores[:, self._model.unk] -= options.unkpen
        last = self._max[beams.sentences] <= t
        forced = torch.zeros_like(last)
        if options.semantics == "hf":
            if options.forced_eos and bool(last.any()):
                self._force(base, scores, last[owners], torch.full_like(owners, eos), None)
        elif bool(last.any()):
            # The hooks are overridden here: a hypothesis that may not end would be lost.
            self._force(base, scores, last[owners], torch.full_like(owners, eos), ending)
        if self._prefixes is not None and t < self._prefixes.shape[1]:
            wanted = self._prefixes[beams.sentences, t]
            forced = (wanted >= 0) & ~last
            tokens = wanted[owners]
            values = scores.gather(1, tokens.clamp_min(0)[:, None])[:, 0] if fairseq else None
            self._force(base, scores, forced[owners], tokens, values)
        short = (self._min[beams.sentences] > t) & ~forced & ~last
        if fairseq and self._prefixes is not None and t < self._prefixes.shape[1]:
            # Places of the prefix that force nothing are under no least length either.
            short &= torch.tensor([self.prefix_lengths[i] <= t for i in beams.sentences.tolist()], device=short.device)
        for end in self.ends:
            scores[:, end].masked_fill_(short[owners], NEVER)
        if options.no_repeat_ngram and not fairseq:
            spared = None if options.semantics == "hf" else (forced | last)[owners]
            self._block_ngrams(beams.tokens.flatten(0, 1)[beams.layout.slots], scores, spared)
        return Step(t, base, scores, forced, last, beams.layout.rows)

    def _log_probabilities(self, out: Tensor | Parts) -> Tensor:
        temperature = self._options.temperature
        if isinstance(out, Parts):
            first = 0
            for part in out.parts:
                values = part if temperature == 1.0 else part / temperature
                torch._log_softmax(values, 1, False, out=out.whole[first : first + len(part)])
                first += len(part)
            return self._without_broken(out.whole, out.whole[:, 0].isnan())
        values = out.float().view(-1, out.shape[-1])
        if temperature != 1.0:
            values = values / temperature
        if not self._model.normalized or temperature != 1.0:
            # In place: a second tensor of this size would be mapped page by page on every step.
            torch._log_softmax(values, 1, False, out=values)
            broken = values[:, 0].isnan()  # one that is not a number makes all of its row so
        elif isinstance(self._model, RowModel):
            broken = values[:, self._model.eos].isnan()
        else:
            broken = values.amax(dim=-1).isnan()
        return self._without_broken(values, broken)

    def _without_broken(self, values: Tensor, broken: Tensor) -> Tensor:
        return values.masked_fill(values.isnan(), NEVER) if bool(broken.any()) else values

    def _force(self, base: Tensor, scores: Tensor, where: Tensor, tokens: Tensor, values: Tensor | None) -> None:
        """Leave only ``tokens[i]`` to rows in ``where``, at ``values[i]`` (None: at no cost)."""
        at = where.nonzero()[:, 0]
        if not len(at):
            return
        token = tokens[at]
        scores[at] = NEVER
        scores[at, token] = 0.0 if values is None else values[at]
        if values is None:
            base[at, token] = 0.0

    def _block_ngrams(self, tokens: Tensor, scores: Tensor, spared: Tensor | None) -> None:
        # Transformers counts the start token, which is often the end of sentence: an n-gram size of 1 then forbids to
        # end. That is kept where it is followed to the letter.
        size = self._options.no_repeat_ngram
        history = tokens if spared is None else tokens[:, 1:]
        if history.shape[1] < size:
            return
        grams = history.unfold(1, size, 1)
        repeated = (grams[..., :-1] == history[:, None, history.shape[1] - size + 1 :]).all(dim=-1)
        if spared is not None:
            repeated &= ~spared[:, None]
        row, place = repeated.nonzero(as_tuple=True)
        scores[row, grams[row, place, -1]] = NEVER
