"""Beam search as Transformers does it, with the generation settings that a model was saved with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import torch
from torch import Tensor

from polyref.errors import ModelError, PolyrefError, UsageError
from polyref.models.step import StepModel
from polyref.paraphrase.decoding import SearchOptions
from polyref.paraphrase.search.protocol import Candidate
from polyref.paraphrase.search.selection import Selector
from polyref.paraphrase.search.state import NEVER, Beams, Choice, Step, candidate, going_on

#: What changes next-token scores, with the value that changes nothing.
_PROCESSED: Final[Mapping[str, Any]] = {
    "sequence_bias": None,
    "encoder_repetition_penalty": 1.0,
    "repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "remove_invalid_values": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "renormalize_logits": False,
}
#: What would change the lists and has no counterpart here, with the value that changes nothing.
_REFUSED: Final[Mapping[str, Any]] = {
    **{"do_sample": False, "guidance_scale": 1.0, "watermarking_config": None, "penalty_alpha": 0.0},
    **dict.fromkeys(("dola_layers", "constraints", "force_words_ids", "stop_strings", "max_time")),
    **{"prompt_lookup_num_tokens": None, "token_healing": False},
}
#: Longest value that is written out in a signature.
_SHOWN: Final = 24


@dataclass(frozen=True)
class SavedGeneration:
    """What a model's folder says of generation, with nothing in it that has no value."""

    values: Mapping[str, Any]  # transformers' names and values
    ends: tuple[int, ...]  # tokens that end a sentence, the network's own first
    tagged: bool = False  # whether a first token is forced in any case: a saved one then has no place

    def fill(self, options: SearchOptions) -> SearchOptions:
        """The options, with saved values where they are at their default and not among ``options.fixed``."""
        for name, neutral in _REFUSED.items():
            if _changes(value := self.values.get(name), neutral):
                raise UsageError(
                    f"`semantics` is hf, but the model's generation settings have {name} {value!r}, which the search "
                    "does not have",
                    remedy="take it out of generation_config.json, or name another `semantics`",
                )
        changes = {name: value for name, value in self._options().items() if _is_open(options, name)}
        if "min_len" in changes and not options.max_len_a:
            changes["min_len"] = min(changes["min_len"], changes.get("max_len_b", options.max_len_b))
        try:
            filled = replace(options, **changes).validate()
            self._processors([self.ends[0]], filled.max_len_b, "cpu")
        except (PolyrefError, ValueError, TypeError) as error:
            raise ModelError(f"the model's generation settings cannot be used: {error}") from None
        return filled

    def _options(self) -> dict[str, Any]:
        """Saved values by the names of ``SearchOptions``. Transformers counts the start token and the last token."""
        saved, found = self.values, {}
        for name, ours in (("length_penalty", "lenpen"), ("early_stopping", "early_stopping")):
            if name in saved:
                found[ours] = saved[name]
        if "max_new_tokens" in saved:
            found["max_len_b"] = max(saved["max_new_tokens"] - 1, 0)
        elif "max_length" in saved:
            found["max_len_b"] = max(saved["max_length"] - 2, 0)
        least = max(saved.get("min_length", 0) - 1, saved.get("min_new_tokens", 0))
        if least > 0:
            found["min_len"] = least
        if saved.get("no_repeat_ngram_size"):
            found["no_repeat_ngram"] = saved["no_repeat_ngram_size"]
        return found

    def describe(self) -> str:
        """For signatures, what the processors are told: ``+generation(repetition_penalty=1.2)``, or nothing."""
        told = [f"{name}={_short(value)}" for name, value in self._processed().items()]
        told += [f"eos_token_id={_short(list(self.ends))}"] * (len(self.ends) > 1)
        return f"+generation({','.join(told)})" if told else ""

    def _processed(self) -> dict[str, Any]:
        found = {name: self.values.get(name) for name in _PROCESSED}
        if self.tagged:
            del found["forced_bos_token_id"]
        return {name: value for name, value in found.items() if _changes(value, _PROCESSED[name])}

    def process(self, sources: Sequence[Sequence[int]], limits: Sequence[int], device: torch.device) -> Process | None:
        """What the search applies to its scores; None where nothing is to be applied.

        Every sentence has processors of its own, so that none depends on its batch.
        """
        if not self._processed():
            return None
        processors = [self._processors(*pair, device) for pair in zip(sources, limits, strict=True)]

        def processed(beams: Beams, rows: slice, scores: Tensor) -> Tensor:
            first = beams.tokens.shape[1] == 1
            tokens = beams.tokens.expand(-1, scores.shape[1], -1) if first else beams.tokens[:, rows]
            made = scores.clone()
            for place, sentence in enumerate(beams.numbers):
                made[place] = processors[sentence](tokens[place], made[place])
            return made

        return processed

    def _processors(self, source: Sequence[int], most: int, device: torch.device | str) -> Any:
        """Transformers' processors for one sentence, in the order of ``GenerationMixin._get_logits_processor``."""
        import transformers as hf

        told = self._processed()
        ends = torch.tensor(self.ends, device=device)
        read = torch.tensor([source], device=device)
        forced = self.tagged or "forced_bos_token_id" in told
        makers = {
            "sequence_bias": hf.SequenceBiasLogitsProcessor,
            "encoder_repetition_penalty": lambda value: hf.EncoderRepetitionPenaltyLogitsProcessor(value, read),
            "repetition_penalty": hf.RepetitionPenaltyLogitsProcessor,
            "encoder_no_repeat_ngram_size": lambda value: hf.EncoderNoRepeatNGramLogitsProcessor(value, read),
            "bad_words_ids": lambda value: hf.NoBadWordsLogitsProcessor(value, ends),
            "forced_bos_token_id": hf.ForcedBOSTokenLogitsProcessor,
            "forced_eos_token_id": lambda value: hf.ForcedEOSTokenLogitsProcessor(most + 2, value, device),
            "remove_invalid_values": lambda _: hf.InfNanRemoveLogitsProcessor(),
            "exponential_decay_length_penalty": lambda value: hf.ExponentialDecayLengthPenalty(value, ends, 1),
            "suppress_tokens": lambda value: hf.SuppressTokensLogitsProcessor(value, device),
            "begin_suppress_tokens": lambda value: hf.SuppressTokensAtBeginLogitsProcessor(value, 1 + forced, device),
            "renormalize_logits": lambda _: hf.LogitNormalization(),
        }
        return hf.LogitsProcessorList([makers[name](value) for name, value in told.items()])


def _is_open(options: SearchOptions, name: str) -> bool:
    """Whether an option is left to the model, the length as a whole."""
    together = next((pair for pair in (("min_len", "min_len_a"), ("max_len_b", "max_len_a")) if name in pair), (name,))
    plain = {field.name: field.default for field in fields(options)}
    return all(getattr(options, one) == plain[one] and one not in options.fixed for one in together)


def _changes(value: Any, neutral: Any) -> bool:
    return value is not None and value != neutral and value not in ([], {})


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, separators=(",", ":"))
    return text if len(text) <= _SHOWN else f"sha:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


#: Changes the scores ``[S, b, V]`` of some rows after the penalty, as Transformers' processors do.
Process = Callable[[Beams, slice, Tensor], Tensor]
#: Score of the rows that are not there yet, so that the first step chooses from the first row of a group.
ABSENT = -1e9


@dataclass
class _Pool:
    """``BeamHypotheses``: at most ``size`` hypotheses; of equal scores the one that came first goes first."""

    size: int
    entries: list[Candidate] = field(default_factory=list)
    worst: float = 1e9
    done: bool = False

    def add(self, found: Candidate) -> None:
        if len(self.entries) < self.size or found.score > self.worst:
            self.entries.append(found)
            if len(self.entries) > self.size:
                self.entries.remove(min(self.entries, key=lambda entry: entry.score))
                self.worst = min(entry.score for entry in self.entries)
            else:
                self.worst = min(found.score, self.worst)


class _HfRule:
    """What both procedures share.

    With ``fixed`` there are as many hypotheses for every sentence as are asked for, as of Transformers: where there are
    fewer, some of score -1e9 or -inf fill up.
    """

    def __init__(
        self,
        model: StepModel,
        options: SearchOptions,
        limits: Sequence[int],
        process: Process | None = None,
        *,
        fixed: bool = False,
        ends: tuple[int, ...] = (),
    ) -> None:
        self._model, self._options, self._limits = model, options, list(limits)
        self._process, self._fixed = process, fixed
        self._ends = ends or (model.eos,)
        # Enough candidates for a full group even if every hypothesis can end in every way.
        self._room = 1 + len(self._ends)
        self._groups = options.groups
        self._rows = options.beam // options.groups
        self._lenpen = options.lenpen if options.normalize else 0.0
        self._pools = [[_Pool(self._rows) for _ in range(options.groups)] for _ in limits]

    def _top(
        self, step: Step, beams: Beams, group: int, selector: Selector, over: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The 2b best candidates of one group: scores, parents and tokens (any, where the group is ``over``).

        With several ends of sentence there are more: (1 + ends) * b.
        """
        rows = slice(group * self._rows, (group + 1) * self._rows)
        # Forced tokens are set after the penalty is taken off, so they pay none.
        free = step.forced | step.last if self._options.forced_eos else step.forced
        strength = torch.where(free, 0.0, self._options.strength)
        if step.t > 0 and self._process is None:
            cum = beams.cum[:, rows]
            # The rows of a group that is done are all the same: no order of theirs is of interest.
            cum = cum if over is None else cum.masked_fill(over, NEVER)
            top, row, token = selector.best(rows, cum, self._room * self._rows, strength)
            return top, row + rows.start, token
        if step.t == 0:
            rows = slice(0, 1)
            cum = torch.full((len(step.forced), self._rows), ABSENT, device=step.scores.device)
            cum[:, 0] = 0.0
        else:
            cum = beams.cum[:, rows]
        scores = selector.dense(rows, strength)
        if self._process is not None:
            rows = slice(group * self._rows, (group + 1) * self._rows)
            scores = self._process(beams, rows, scores.expand(-1, self._rows, -1))
        values = (scores + cum[:, :, None]).flatten(1)
        top, index = values.topk(min(self._room * self._rows, values.shape[1]))
        row = index // self._model.vocab_size
        return top, torch.zeros_like(row) if step.t == 0 else row + rows.start, index % self._model.vocab_size

    def _found(
        self, step: Step, beams: Beams, at: tuple[Tensor, ...], chosen: tuple[Tensor, Tensor, Tensor]
    ) -> list[tuple[int, tuple[int, ...], list[list[float]]]]:
        """Position in the batch, tokens and trace of the candidates ``chosen`` (score, parent, token) at ``at``."""
        if not len(at[0]):
            return []
        top, parent, token = chosen
        found = beams.hypotheses(step, at[0], parent[at], token[at], top[at])
        return [(position, tokens, trace) for position, (tokens, trace) in zip(at[0].tolist(), found)]

    def _candidate(self, tokens: tuple[int, ...], trace: list[list[float]], group: int) -> Candidate:
        score = trace[2][-1] / len(tokens) ** self._lenpen
        return candidate(tokens, trace, score, group, tokens[-1] in self._ends)

    def _are_ends(self, tokens: Tensor) -> Tensor:
        """Which tokens end a sentence."""
        found = tokens == self._ends[0]
        for end in self._ends[1:]:
            found |= tokens == end
        return found

    def _bound(self, t: int, sentence: int, early: str | bool) -> float:
        """What the running score is divided by in the test whether a group can still improve."""
        longest = early == "never" and self._lenpen > 0
        return float((self._limits[sentence] + 1 if longest else t + 1) ** self._lenpen)

    def results(self) -> list[list[Candidate]]:
        """The pools joined in group order, best first; of equal scores the later one is first."""
        lists = []
        for pools in self._pools:
            parts = [[found for pool in pools for found in pool.entries]]
            if self._options.nbest_per_group:
                parts = [pool.entries for pool in pools]
            ranked = [sorted(part, key=lambda c: c.score)[::-1][: self._options.wanted] for part in parts]
            there = [found for part in ranked for found in part if self._fixed or _exists(found)]
            if self._fixed:
                missing = self._options.wanted - len(there)
                there += [Candidate((), ABSENT, ABSENT, (), (), 0, False)] * missing
            lists.append(there)
        return lists


def _exists(found: Candidate) -> bool:
    """Whether it is a hypothesis: none of those that fill a group up where there are too few."""
    return sum(found.token_scores) > ABSENT / 2


class HfGroupRule(_HfRule):
    """``_group_beam_search``: groups are beam searches of their own, apart from the penalty."""

    def advance(self, step: Step, beams: Beams) -> Choice:
        """One step over all groups, in order."""
        sentences = beams.numbers
        selector = Selector(step, as_topk=True)
        kept = []
        for group in range(self._groups):
            pools = [self._pools[sentence][group] for sentence in sentences]
            over = torch.tensor([pool.done for pool in pools], device=beams.cum.device)[:, None]
            chosen = self._top(step, beams, group, selector, over)
            top, parent, token = chosen
            ends = self._are_ends(token)
            entering = (ends & ~over)[:, : self._rows]
            for position, tokens, trace in self._found(step, beams, entering.nonzero(as_tuple=True), chosen):
                pools[position].add(self._candidate(tokens, trace, group))
            for pool, sentence, best in zip(pools, sentences, top[:, 0].tolist()):
                pool.done = pool.done or self._full(pool, best, step.t, sentence)
            top, parent, token = going_on(chosen, ends, self._rows)
            # A group that is done goes on as padding with a running score of 0: its tokens count in the penalty.
            kept.append(
                (
                    top.masked_fill(over, 0.0),
                    parent.masked_fill(over, 0 if step.t == 0 else group * self._rows),
                    token.masked_fill(over, self._model.pad),
                )
            )
            if group + 1 < self._groups:
                selector.count(kept[-1][2], torch.ones_like(top))
        cum, parents, tokens_ = (torch.cat(parts, dim=1) for parts in zip(*kept))
        choice = Choice(parents, tokens_, cum, [])
        done = []
        for position, sentence in enumerate(sentences):
            if step.t >= self._limits[sentence]:
                self._add_open(step, beams, choice, position, sentence)
                done.append(True)
            else:
                done.append(all(pool.done for pool in self._pools[sentence]))
        choice.done = done
        return choice

    def _full(self, pool: _Pool, best: float, t: int, sentence: int) -> bool:
        if len(pool.entries) < pool.size:
            return False
        early = self._options.early_stopping or False
        return early is True or pool.worst >= best / self._bound(t, sentence, early)

    def _add_open(self, step: Step, beams: Beams, choice: Choice, position: int, sentence: int) -> None:
        """At the greatest length, hypotheses of groups that are not done enter their pools as they are."""
        rows = torch.arange(self._options.beam, device=choice.cum.device)
        at = (torch.full_like(rows, position), rows)
        chosen = (choice.cum, choice.parents, choice.tokens)
        for row, (_, tokens, trace) in enumerate(self._found(step, beams, at, chosen)):
            pool = self._pools[sentence][row // self._rows]
            if not pool.done and (self._fixed or trace[2][-1] > NEVER):
                pool.add(self._candidate(tokens, trace, row // self._rows))


class HfBeamRule(_HfRule):
    """``_beam_search`` of 4.50 and later: at the greatest length the B best candidates count as finished."""

    def advance(self, step: Step, beams: Beams) -> Choice:
        """One step."""
        sentences = beams.numbers
        pools = [self._pools[sentence][0] for sentence in sentences]
        chosen = self._top(step, beams, 0, Selector(step, as_topk=True))
        top, _, token = chosen
        ends = self._are_ends(token) | step.last[:, None]
        entering = (ends & (top > NEVER))[:, : self._rows]
        for position, tokens, trace in self._found(step, beams, entering.nonzero(as_tuple=True), chosen):
            pools[position].add(self._candidate(tokens, trace, 0))
        cum, parents, tokens_ = going_on(chosen, ends, self._rows)
        choice = Choice(parents, tokens_, cum, [])
        early = self._options.early_stopping or False
        for pool, sentence, best in zip(pools, sentences, cum[:, 0].tolist()):
            full = len(pool.entries) == pool.size
            # Unlike the group search, this asks the best hypothesis that goes on, not the best candidate.
            beaten = full and (early is True or best / self._bound(step.t, sentence, early) <= pool.worst)
            choice.done.append(beaten or step.t >= self._limits[sentence])
        return choice
