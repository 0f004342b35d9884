"""How to search for paraphrases: diverse beam search by its few settings, or every option of the engine."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, Final, Literal

from polyref.errors import UsageError

Semantics = Literal["paper", "fairseq", "hf"]
SEMANTICS: Final = ("paper", "fairseq", "hf")
#: Most hypotheses a sentence, 25 times the largest beam in common use: one copy of a step's scores over 64,000 tokens
#: then takes 1.3 GB. A beam of 100,000 would take 26 GB a copy, and the machine down with it.
LARGEST_BEAM: Final = 5000
#: Greatest whole number and greatest size of a weight: everything computed from them stays a finite float32.
LARGEST_WHOLE: Final = 10**9
LARGEST: Final = 1e6
#: Greatest size of a seed: more than any number of digits people type, less than what printing refuses.
LARGEST_SEED: Final = 10**100
#: Greatest size of the exponent of the length: 10 ** 6 tokens to the power of 50 is still a finite float.
LARGEST_LENPEN: Final = 50.0
_WHOLE: Final = (
    ("beam", 1, LARGEST_WHOLE),
    ("groups", 1, LARGEST_WHOLE),
    ("min_len", 0, LARGEST_WHOLE),
    ("max_len_b", 0, LARGEST_WHOLE),
    ("no_repeat_ngram", 0, LARGEST_WHOLE),
    ("nbest", 1, LARGEST_WHOLE),
    ("sampling_topk", 0, LARGEST_WHOLE),
)
_REAL: Final = (
    ("strength", 0.0, LARGEST),
    ("lenpen", -LARGEST_LENPEN, LARGEST_LENPEN),
    ("unkpen", -1e12, 1e12),
    ("min_len_a", 0.0, LARGEST),
    ("max_len_a", 0.0, LARGEST),
    ("temperature", 0.0, LARGEST),
    ("sampling_topp", 0.0, 1.0),
)


@dataclass(frozen=True)
class SearchOptions:
    """Settings of one search; names follow fairseq's command line where it has the option.

    Attributes:
        beam: B, hypotheses a sentence (1 to 5,000), over all groups; when sampling, independent draws a sentence.
        groups: G, groups of B / G hypotheses (1: ordinary beam search). B must be a multiple of G.
        strength: lambda, 0 to 1e6, what a token costs for every kept continuation of an earlier group that chose it at
            the same step (Hamming diversity, Vijayakumar et al. 2016, section 4), in nats.
        nbest: Hypotheses returned a sentence (None: ``beam``); fewer are returned where there are fewer.
        nbest_per_group: Take ``nbest`` of every group, in the order of the groups, instead of over all groups.
        lenpen: Exponent p of the length normalisation ``score / length ** p``, -50 to 50.
        unkpen: Subtracted (in nats) from the unknown token; negative values reward it.
        min_len: Fewest tokens before the end of sentence.
        min_len_a: Adds ``int(min_len_a * source length)`` to ``min_len``.
        max_len_a: a in the greatest length ``int(a * source length + b)`` before the end of sentence.
        max_len_b: b in the same.
        temperature: Divides the logits (1e-6 to 1e6).
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
        sampling_topp: Draw from the smallest set of tokens that holds this probability (0 and 1: all).
        sampling_epsilon: Draw only from tokens at least this probable (0: all; the most probable one always stays).
        seed: Seed of the draws; each sentence has its own stream, so batching does not change them.
        fixed: ``hf`` only: names of options that hold although they are at their default. Others at their default are
            taken from the generation settings that a Hugging Face model was saved with.
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
    fixed: tuple[str, ...] = ()

    def validate(self) -> SearchOptions:
        """Check every value and every combination; returns self.

        Raises:
            UsageError: Naming the first setting that is out of range or does not fit the others.
        """
        for name, least, most in _WHOLE:
            if name != "nbest" or self.nbest is not None:
                check_whole(name, getattr(self, name), least, most)
        if self.beam > LARGEST_BEAM:
            raise UsageError(
                f"a beam of {self.beam} hypotheses is asked for, expected at most {LARGEST_BEAM}",
                remedy="name a smaller `beam`, `k` or `nbest`",
            )
        for name, low, high in _REAL:
            check_real(name, getattr(self, name), low, high)
        if self.temperature < 1 / LARGEST:
            raise UsageError(f"`temperature` is {self.temperature}, expected more than 0, {1 / LARGEST:g} at least")
        check_whole("seed", self.seed, -LARGEST_SEED, LARGEST_SEED)
        if self.semantics not in SEMANTICS:
            raise UsageError(f"`semantics` is {self.semantics!r}, expected one of {', '.join(SEMANTICS)}")
        if self.early_stopping not in (True, False, "never", None):
            raise UsageError(f"early stopping is {self.early_stopping!r}, expected true, false or never")
        if self.groups > self.beam:
            raise UsageError(f"`groups` is {self.groups}, expected at most the beam, {self.beam}")
        if self.beam % self.groups:
            raise UsageError(f"`beam` is {self.beam}, expected a multiple of `groups`, {self.groups}")
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise UsageError(f"`min_len` is {self.min_len}, expected at most the greatest length, {self.max_len_b}")
        self._validate_semantics()
        self._validate_sampling()
        return self

    def _validate_semantics(self) -> None:
        if self.forced_eos and self.semantics != "hf":
            raise UsageError("a forced end of sentence is an option of `semantics` hf")
        if self.padded_max_len and self.semantics != "fairseq":
            raise UsageError("a greatest length from the padded source is an option of `semantics` fairseq")
        if self.early_stopping is not None and self.semantics == "fairseq":
            raise UsageError("`early_stopping` has no use with `semantics` fairseq, which has one rule of its own")
        if self.early_stopping is False and self.semantics == "paper":
            raise UsageError("early stopping by a heuristic is an option of `semantics` hf; expected true or never")
        if self.nbest_per_group and self.semantics == "fairseq":
            raise UsageError("`semantics` fairseq mixes its groups, so it has no n-best list per group")

    def _validate_sampling(self) -> None:
        check_real("sampling_epsilon", self.sampling_epsilon, 0.0, 1.0)
        if self.sampling_epsilon == 1:
            raise UsageError("`sampling_epsilon` is 1, expected less: no token but a certain one is that probable")
        restricted = [n for n in ("sampling_topk", "sampling_topp", "sampling_epsilon") if getattr(self, n)]
        if restricted and not self.sampling:
            raise UsageError(f"`{restricted[0]}` needs `sampling`")
        if self.sampling and self.groups > 1:
            raise UsageError(f"`sampling` draws independently: expected `groups` 1, found {self.groups}")

    def describe(self) -> str:
        """For signatures: beam, groups, semantics, and whatever is not the default."""
        plain = asdict(SearchOptions())
        named = ("beam", "groups", "semantics")
        given = {key: value for key, value in asdict(self).items() if key in named or value != plain[key]}
        given.pop("fixed", None)
        return f"search({','.join(f'{key}={value}' for key, value in given.items())})"

    @property
    def wanted(self) -> int:
        """Length of the n-best list asked for."""
        return self.beam if self.nbest is None else self.nbest


def in_full(value: float) -> str:
    """A number for signatures, which tells it from all others: six digits, or as many as it needs."""
    short = f"{value:g}"
    return short if float(short) == value else str(value)


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"`{name}` is {value!r}, expected a whole number")
    number = int(value)
    if number < least:
        raise UsageError(f"`{name}` is {value}, expected {least} or more")
    if number > most:
        raise UsageError(f"`{name}` is {value}, expected at most {most}")


def check_real(name: str, value: Any, least: float, most: float) -> None:
    """Refuse what is no finite number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"`{name}` is {value!r}, expected a number")
    try:
        number = float(value)
    except OverflowError:
        raise UsageError(f"`{name}` is too large a number, expected a finite one") from None
    if not math.isfinite(number):
        raise UsageError(f"`{name}` is {value}, expected a finite number")
    if number < least:
        raise UsageError(f"`{name}` is {value}, expected {least:g} or more")
    if number > most:
        raise UsageError(f"`{name}` is {value}, expected at most {most:g}")


#: Diversity strength where neither the user nor the model names one.
STRENGTH = 0.5


@dataclass(frozen=True)
class DiverseBeam:
    """Diverse beam search (Vijayakumar et al. 2016, arXiv:1610.02424, Algorithm 1).

    Attributes:
        beam: Hypotheses a sentence, over all groups. None: as many as paraphrases are asked for, and at least 4.
        groups: Groups; a multiple of them is the beam. None: one for every five hypotheses, and at least two. Every
            group after the first is forced to begin differently: with more of them, more candidates begin badly.
        strength: Diversity strength lambda, nats a token for every kept hypothesis of earlier groups that chose it at
            the same step. None: the model's default (0.5 where it has none).
        closeness: For models with control tokens (the shipped one): 0 (free) to 3 (near copies); None: the model's
            default.
    """

    beam: int | None = None
    groups: int | None = None
    strength: float | None = None
    closeness: int | None = None

    def resolve(self, k: int) -> DiverseBeam:
        """The settings used for ``k`` paraphrases: no None in beam and groups.

        Raises:
            UsageError: A value is no number or out of range, a beam for k is larger than any may be, or the beam is
                no multiple of the groups.
        """
        check_whole("k", k, 1, LARGEST_WHOLE)
        for name, value in (("beam", self.beam), ("groups", self.groups)):
            if value is not None:
                check_whole(name, value, 1, LARGEST_WHOLE)
        groups = self.groups
        if groups is None:
            groups = max(2, (self.beam or k) // 5)
            while self.beam is not None and (groups > self.beam or self.beam % groups):
                groups -= 1
        beam = self.beam if self.beam is not None else -(-max(k, 4) // groups) * groups
        if self.closeness is not None and self.closeness not in range(4):
            raise UsageError(f"`closeness` is {self.closeness!r}, expected 0 to 3")
        resolved = replace(self, beam=beam, groups=groups)
        resolved.options().validate()
        return resolved

    def options(self) -> SearchOptions:
        """As settings of the engine (of a resolved instance)."""
        assert self.beam is not None and self.groups is not None
        strength = STRENGTH if self.strength is None else self.strength
        return SearchOptions(beam=self.beam, groups=self.groups, strength=strength)

    def describe(self) -> str:
        """For signatures, of a resolved instance: ``dbs(beam=20,groups=4,strength=0.5)``."""
        given = {key: value for key, value in asdict(self).items() if value is not None}
        return f"dbs({','.join(f'{key}={in_full(value)}' for key, value in given.items())})"


#: How to search: the face most people need, or every option of the engine.
Decoding = DiverseBeam | SearchOptions
