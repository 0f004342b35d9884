"""What a search is asked to do, checked before any model loads (imports no torch)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from polyref.errors import UsageError

Semantics = Literal["paper", "fairseq", "hf"]
SEMANTICS: Final = ("paper", "fairseq", "hf")


@dataclass(frozen=True)
class SearchOptions:
    """Settings of one search; names follow fairseq's command line where it has the option.

    Attributes:
        beam: B, hypotheses a sentence (>= 1), over all groups; when sampling, independent draws a sentence.
        groups: G, groups of B / G hypotheses (1: ordinary beam search). B must be a multiple of G.
        strength: lambda >= 0, what a token costs for every kept continuation of an earlier group that chose it at the
            same step (Hamming diversity, Vijayakumar et al. 2016, section 4), in nats.
        nbest: Hypotheses returned a sentence (None: ``beam``); fewer are returned where there are fewer.
        nbest_per_group: Take ``nbest`` of every group, in the order of the groups, instead of over all groups.
        lenpen: Exponent p of the length normalisation ``score / length ** p``.
        unkpen: Subtracted (in nats) from the unknown token; negative values reward it.
        min_len: Fewest tokens before the end of sentence.
        min_len_a: Adds ``int(min_len_a * source length)`` to ``min_len``.
        max_len_a: a in the greatest length ``int(a * source length + b)`` before the end of sentence.
        max_len_b: b in the same.
        temperature: Divides the logits (> 0).
        no_repeat_ngram: Forbid to repeat an n-gram of this size (0: off; ``fairseq``: no effect, as in 0.12.2).
        semantics: ``paper`` (fixed groups, each with its own pool of finished hypotheses), ``fairseq`` (0.12.2, group
            drift included) or ``hf`` (Transformers 4.31 - 4.56).
        normalize: False ranks by sums instead of length-normalised scores.
        early_stopping: When a group's pool is full: True stops it at once; ``"never"`` when no live hypothesis can
            still enter it; False by Transformers' rule (``hf`` only). None: ``"never"`` for ``paper``, False for
            ``hf``. ``fairseq`` has one rule of its own.
        forced_eos: ``hf`` only: force the end of sentence, at no cost, at the greatest length.
        padded_max_len: ``fairseq`` only: take the source length of ``max_len_a`` from the longest sentence of the
            batch, as fairseq does. Results then depend on the batch, so this is off by default.
        sampling: Draw ``beam`` independent hypotheses instead of searching.
        sampling_topk: Draw from the k most probable tokens (0: all).
        sampling_topp: Draw from the smallest set of tokens that holds this probability (0: all).
        sampling_epsilon: Draw only from tokens at least this probable (0: all; the most probable one always stays).
        seed: Seed of the draws; each sentence has its own stream, so batching does not change them.
    """

    beam: int = 5
    groups: int = 1
    strength: float = 0.5
    nbest: int | None = None
    lenpen: float = 1.0
    unkpen: float = 0.0
    min_len: int = 1
    min_len_a: float = 0.0
    max_len_a: float = 0.0
    max_len_b: int = 200
    temperature: float = 1.0
    no_repeat_ngram: int = 0
    semantics: Semantics = "paper"
    nbest_per_group: bool = False
    normalize: bool = True
    early_stopping: bool | Literal["never"] | None = None
    forced_eos: bool = False
    padded_max_len: bool = False
    sampling: bool = False
    sampling_topk: int = 0
    sampling_topp: float = 0.0
    sampling_epsilon: float = 0.0
    seed: int = 0

    def validate(self) -> SearchOptions:
        """Check every value and every combination; returns self.

        Raises:
            UsageError: Naming the first setting that is out of range or does not fit the others.
        """
        for name, least in (("beam", 1), ("groups", 1), ("min_len", 0), ("max_len_b", 0), ("no_repeat_ngram", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{_flag(name)} is {getattr(self, name)}, expected {least} or more")
        if self.nbest is not None and self.nbest < 1:
            raise UsageError(f"--nbest is {self.nbest}, expected 1 or more")
        for name in ("strength", "lenpen", "unkpen", "min_len_a", "max_len_a", "temperature"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"{_flag(name)} is {getattr(self, name)}, expected a finite number")
        for name in ("strength", "min_len_a", "max_len_a"):
            if getattr(self, name) < 0:
                raise UsageError(f"{_flag(name)} is {getattr(self, name)}, expected 0 or more")
        if self.temperature <= 0:
            raise UsageError(f"--temperature is {self.temperature}, expected more than 0")
        if self.semantics not in SEMANTICS:
            raise UsageError(f"--semantics is {self.semantics!r}, expected one of {', '.join(SEMANTICS)}")
        if self.early_stopping not in (True, False, "never", None):
            raise UsageError(f"early stopping is {self.early_stopping!r}, expected true, false or never")
        if self.groups > self.beam:
            raise UsageError(f"--groups is {self.groups}, expected at most the beam, {self.beam}")
        if self.beam % self.groups:
            raise UsageError(f"--beam is {self.beam}, expected a multiple of --groups, {self.groups}")
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise UsageError(f"--min-len is {self.min_len}, expected at most the greatest length, {self.max_len_b}")
        self._validate_semantics()
        self._validate_sampling()
        return self

    def _validate_semantics(self) -> None:
        if self.forced_eos and self.semantics != "hf":
            raise UsageError("a forced end of sentence is an option of --semantics hf")
        if self.padded_max_len and self.semantics != "fairseq":
            raise UsageError("a greatest length from the padded source is an option of --semantics fairseq")
        if self.early_stopping is not None and self.semantics == "fairseq":
            raise UsageError("--semantics fairseq has no early stopping to set")
        if self.early_stopping is False and self.semantics == "paper":
            raise UsageError("early stopping by a heuristic is an option of --semantics hf; expected true or never")
        if self.nbest_per_group and self.semantics == "fairseq":
            raise UsageError("--semantics fairseq mixes its groups, so it has no n-best list per group")

    def _validate_sampling(self) -> None:
        if self.sampling_topk < 0:
            raise UsageError(f"--sampling-topk is {self.sampling_topk}, expected 0 or more")
        for name in ("sampling_topp", "sampling_epsilon"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{_flag(name)} is {getattr(self, name)}, expected at least 0 and less than 1")
        restricted = [n for n in ("sampling_topk", "sampling_topp", "sampling_epsilon") if getattr(self, n)]
        if restricted and not self.sampling:
            raise UsageError(f"{_flag(restricted[0])} needs --sampling")
        if self.sampling and self.groups > 1:
            raise UsageError(f"--sampling draws independently: expected --groups 1, found {self.groups}")

    @property
    def wanted(self) -> int:
        """Length of the n-best list asked for."""
        return self.beam if self.nbest is None else self.nbest


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
