"""Live hypotheses of a batch, one step's scores over them, and what changes these scores before selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.step import Parts, RowModel, StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate, StepHook

NEVER = float("-inf")


def far(device: torch.device) -> bool:
    """Whether the host would have to wait for what a tensor holds: on an accelerator, so that little is asked there."""
    return device.type != "cpu"


def sent(values: Sequence[object], device: torch.device) -> Tensor:
    """A list as a tensor on a device, without waiting for it."""
    return torch.tensor(values).to(device, non_blocking=True)


@dataclass(frozen=True)
class Layout:
    """Which row of the network stands for each of the W slots of S sentences.

    Slots with equal prefixes share a row; a dead slot borrows one of its sentence.
    """

    rows: Tensor  # [S, W] int64 row of every slot
    owners: Tensor  # [R] int64 position in the batch of every row's sentence, ascending
    slots: Tensor  # [R] int64 a slot (s * W + w) that the row stands for

    @classmethod
    def dense(cls, sentences: int, width: int, device: torch.device) -> Layout:
        """A row for every slot."""
        slots = torch.arange(sentences * width, device=device)
        return cls(slots.view(sentences, width), slots // max(width, 1), slots)

    @classmethod
    def shared(cls, parents: Tensor, tokens: Tensor, live: Tensor, vocab: int) -> tuple[Layout, Tensor]:
        """A row for every distinct prefix, and for each of them ``[R]`` the row (of the layout before) it continues.

        ``[S, W]`` say for every slot which row it continues, with which token, and whether it needs a row at all; a
        sentence without any gets one.
        """
        count, width = live.shape
        live = live.clone()
        live[:, 0] |= ~live.any(dim=1)
        places = live.flatten().nonzero()[:, 0]
        # Rows lie in the order of the sentences, hence so do the keys.
        keys, inverse = torch.unique((parents * vocab + tokens).flatten()[places], return_inverse=True)
        slots = torch.empty_like(keys)
        slots[inverse] = places
        owners = slots // width
        rows = torch.searchsorted(owners, torch.arange(count, device=owners.device))[:, None].repeat(1, width)
        rows.view(-1)[places] = inverse
        return cls(rows, owners, slots), keys // vocab


@dataclass
class Step:
    """One step's distributions, ready for selection (S sentences, W slots each, R rows, V tokens)."""

    t: int  # 0-based step; a token chosen now is token t + 1 of its hypothesis
    base: Tensor  # [R, V] float32 log-probabilities of the model
    scores: Tensor  # the same after penalties and constraints; may be the same tensor
    forced: Tensor  # [S] bool, a prefix token is forced
    last: Tensor  # [S] bool, the greatest length is reached
    rows: Tensor  # [S, W] int64 row of every slot


@dataclass
class Choice:
    """What a semantics decided: the next live rows (dead ones have ``cum`` -inf) and the sentences that are done."""

    parents: Tensor  # [S, W'] int64, row of the old width
    tokens: Tensor  # [S, W'] int64
    cum: Tensor  # [S, W'] float32, running score
    done: list[bool]  # [S]


@dataclass
class Beams:
    """Live hypotheses."""

    numbers: list[int]  # index of every sentence in the list given to the search
    sentences: Tensor  # [S] the same
    tokens: Tensor  # [S, W, t + 1] int64, the start token first
    #: ``[S, W, t, 3]`` float32, for every token: the model's log-probability, the score after penalties (the
    #: diversity penalty left out), and the running score (all included).
    trace: Tensor
    cum: Tensor  # [S, W] float32 running score; -inf for dead rows
    layout: Layout  # rows of the network

    @classmethod
    def begin(cls, count: int, start: int, device: torch.device) -> Beams:
        """One empty hypothesis a sentence."""
        return cls(
            list(range(count)),
            torch.arange(count, device=device),
            torch.full((count, 1, 1), start, dtype=torch.int64, device=device),
            torch.zeros((count, 1, 0, 3), device=device),
            torch.zeros((count, 1), device=device),
            Layout.dense(count, 1, device),
        )

    def last_tokens(self) -> Tensor:
        """``[R]`` the token that each row is fed next."""
        return self.tokens[:, :, -1].flatten()[self.layout.slots]

    def prefixes(self) -> Tensor:
        """``[R, t]`` tokens of each row so far, without the start token."""
        return self.tokens.flatten(0, 1)[self.layout.slots, 1:]

    def extend(self, step: Step, choice: Choice) -> None:
        """Replace the live hypotheses by the chosen ones."""
        new = _values(step, choice.parents, choice.tokens, choice.cum)
        self.tokens = torch.cat((rows(self.tokens, choice.parents), choice.tokens[..., None]), dim=2)
        self.trace = torch.cat((rows(self.trace, choice.parents), new[:, :, None]), dim=2)
        self.cum = choice.cum

    def keep(self, kept: Sequence[int]) -> Tensor:
        """Leave only these sentences (positions in the batch, ascending) in; the positions as a tensor."""
        if len(kept) == len(self.numbers):
            return torch.arange(len(kept), device=self.sentences.device)
        positions = sent(kept, self.sentences.device)
        self.numbers = [self.numbers[i] for i in kept]
        self.sentences = self.sentences[positions]
        self.tokens, self.trace, self.cum = self.tokens[positions], self.trace[positions], self.cum[positions]
        return positions

    def hypotheses(
        self, step: Step, positions: Tensor, parents: Tensor, tokens: Tensor, cum: Tensor
    ) -> list[tuple[tuple[int, ...], list[list[float]]]]:
        """Tokens and trace (a list a column) of hypotheses that a token has just ended; all arguments are ``[N]``."""
        new = _values(step, parents[:, None], tokens[:, None], cum[:, None], positions)
        words = torch.cat((self.tokens[positions, parents, 1:], tokens[:, None]), dim=1)
        traces = torch.cat((self.trace[positions, parents], new), dim=1).transpose(1, 2)
        # All at once, in a type that holds both. A list a row, not a list a token: thousands of small lists would set
        # the garbage collector off.
        found = torch.cat((words[:, None].double(), traces.double()), dim=1).tolist()
        return [(tuple(map(int, word)), trace) for word, *trace in found]


def candidate(tokens: tuple[int, ...], trace: list[list[float]], score: float, group: int, finished: bool) -> Candidate:
    """The candidate of a hypothesis, its per-token scores taken as differences of the running score."""
    logprobs, running = tuple(trace[0]), trace[2]
    steps = tuple(now - before for now, before in zip(running, [0.0, *running[:-1]]))
    return Candidate(tokens, score, sum(logprobs), logprobs, steps, group, finished)


def rows(values: Tensor, parents: Tensor) -> Tensor:
    """``values[i, parents[i, j]]`` for ``values`` ``[S, W, ...]`` and ``parents`` ``[S, W']``."""
    return values[torch.arange(values.shape[0], device=values.device)[:, None], parents]


def _values(step: Step, parents: Tensor, tokens: Tensor, cum: Tensor, positions: Tensor | None = None) -> Tensor:
    where = torch.arange(parents.shape[0], device=parents.device) if positions is None else positions
    at = (step.rows[where[:, None], parents], tokens)
    return torch.stack((step.base[at], step.scores[at], cum), dim=-1)


def going_on(chosen: tuple[Tensor, Tensor, Tensor], ends: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first ``width`` candidates (scores, parents, tokens) that end nothing, in order; dead ones fill them up."""
    top, parent, token = chosen
    order = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, :width]
    return (
        pad_columns(top.masked_fill(ends, NEVER).gather(1, order), width, NEVER),
        pad_columns(parent.gather(1, order), width, 0),
        pad_columns(token.gather(1, order), width, 0),
    )


def pad_columns(values: Tensor, width: int, fill: float) -> Tensor:
    """``values`` ``[S, W]`` with at least ``width`` columns."""
    missing = width - values.shape[1]
    return torch.nn.functional.pad(values, (0, missing), value=fill) if missing > 0 else values


def forbid(scores: Tensor, tokens: Tensor, where: Tensor) -> None:
    """Never tokens ``[..., n]`` in ``scores`` ``[..., V]``, where it says so ``[..., n]``."""
    least = scores.new_full(tokens.shape, -NEVER).masked_fill_(where, NEVER)
    scores.scatter_reduce_(-1, tokens, least, "amin")


def _without_broken(values: Tensor, broken: Tensor) -> Tensor:
    return values.masked_fill(values.isnan(), NEVER) if far(values.device) or bool(broken.any()) else values


class Constraints:
    """The constraints of one batch, applied step by step.

    ``prefixes`` are forced first tokens of every sentence; in ``fairseq`` semantics, padding among them forces nothing
    at its place. ``ends`` are tokens that end a sentence, the model's own first.
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
        self._model, self._options, self._hooks = model, options, hooks
        self.ends = ends or (model.eos,)
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
        any_last = any(self.limits[number] <= t for number in beams.numbers)
        if options.semantics == "hf":
            if options.forced_eos and any_last:
                self._force(base, scores, last[owners], torch.full_like(owners, eos), None)
        elif any_last:
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
            short &= sent([self.prefix_lengths[number] <= t for number in beams.numbers], short.device)
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
            return _without_broken(out.whole, out.whole[:, 0].isnan())
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
        return _without_broken(values, broken)

    def _force(self, base: Tensor, scores: Tensor, where: Tensor, tokens: Tensor, values: Tensor | None) -> None:
        """Leave only ``tokens[i]`` to rows in ``where``, at ``values[i]`` (None: at no cost)."""
        where, token = where[:, None], tokens.clamp_min(0)[:, None]
        wanted = scores.new_zeros(1) if values is None else values[:, None]
        wanted = torch.where(where, wanted, scores.gather(1, token))
        scores.masked_fill_(where, NEVER).scatter_(1, token, wanted)
        if values is None:
            base.scatter_(1, token, base.gather(1, token).masked_fill(where, 0.0))

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
        forbid(scores, grams[..., -1], repeated)
