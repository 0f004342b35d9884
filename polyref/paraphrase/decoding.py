"""How to search for paraphrases: diverse beam search by its few settings, or every option of the engine."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, Final, Literal

from polyref.errors import UsageError

SEMANTICS: Final = ("paper", "fairseq", "hf")
#: Most hypotheses a sentence, 25 times the largest beam in common use: one copy of a step's scores over 64,000 tokens
#: then takes 1.3 GB. A beam of 100,000 would take 26 GB a copy, and the machine down with it.
LARGEST_BEAM: Final = 5000
#: Greatest whole number and greatest size of a weight, where an option names none of its own: everything computed from
#: them stays a finite float32.
LARGEST_WHOLE: Final = 10**9
LARGEST: Final = 1e6
#: Greatest size of a seed: more than any number of digits people type, less than what printing refuses.
LARGEST_SEED: Final = 10**100
#: Texts read ahead and sorted by length; batches are formed inside a window, so results stream in input order.
WINDOW: Final = 256
#: Diversity strength where neither the user nor the model names one.
STRENGTH: Final = 0.5


def setting(default: Any, *, help: str, **facts: Any) -> Any:
    """A field with the facts of a root ``Option``, which is not loaded for it; see ``loading.options_of``."""
    return field(default=default, metadata={"option": {"help": help, **facts}})


@dataclass(frozen=True)
class SearchOptions:
    """Settings of one search; names follow fairseq's command line where it has the option.

    Attributes:
        strength: lambda, for every kept continuation of an earlier group that chose the token at the same step (Hamming
            diversity, Vijayakumar et al. 2016, section 4).
        semantics: ``paper`` (fixed groups, each with its own pool of finished hypotheses), ``fairseq`` (0.12.2, group
            drift included) or ``hf`` (Transformers 4.31 - 4.56).
        nbest: None returns ``beam`` hypotheses; fewer are returned where there are fewer.
        lenpen: Exponent p of the length normalisation ``score / length ** p``.
        max_len_a: a in the greatest length ``int(a * source length + b)`` before the end of sentence.
        no_repeat_ngram: 0 is off; without effect in ``fairseq``, as in 0.12.2.
        early_stopping: When a group's pool is full: True stops it at once; ``"never"`` when no live hypothesis can
            still enter it; False by Transformers' rule (``hf`` only). None: ``"never"`` for ``paper``, False for
            ``hf``. ``fairseq`` has one rule of its own.
        padded_max_len: As fairseq does. Results then depend on the batch, so this is off by default.
        sampling_topk: 0 takes all, and so do 0 and 1 of ``sampling_topp``, and 0 of ``sampling_epsilon``; the most
            probable token always stays.
        fixed: ``hf`` only: names of options that hold although they are at their default. Others at their default are
            taken from the generation settings that a Hugging Face model was saved with.
    """

    beam: int = setting(5, help="Hypotheses a sentence, over all groups; draws where those are asked for.", least=1)
    groups: int = setting(1, help="Groups, each of beam / groups hypotheses; 1 is ordinary beam search.", least=1)
    strength: float = setting(
        STRENGTH, help="What a token costs for every earlier group's choice of it, in nats.", least=0
    )
    nbest: int | None = setting(None, help="Length of the list, instead of -k.", least=1, metavar="N")
    # 10 ** 6 tokens to the power of 50 is still a finite float.
    lenpen: float = setting(
        1.0, help="Length penalty: scores are divided by length ** P.", least=-50, most=50, metavar="P"
    )
    unkpen: float = setting(0.0, help="Subtracted from unknown tokens.", least=-1e12, most=1e12, metavar="U")
    min_len: int = setting(1, help="Fewest tokens.", least=0, metavar="N")
    min_len_a: float = setting(0.0, help="At least A x source length more.", least=0, metavar="A")
    max_len_a: float = setting(0.0, help="At most A x source length + B tokens.", least=0, metavar="A")
    max_len_b: int = setting(200, help="See --max-len-a.", least=0, metavar="B")
    temperature: float = setting(1.0, help="Divides the logits; of language models too.", least=0, metavar="T")
    no_repeat_ngram: int = setting(0, help="No n-gram of tokens twice.", least=0, metavar="N")
    semantics: str = setting("paper", help="Whose diverse beam search.", choices=SEMANTICS, otherwise="paper")
    nbest_per_group: bool = setting(False, help="N of every group, in the order of the groups.")
    normalize: bool = setting(True, help="Rank by sums instead.", flag="--unnormalized")
    early_stopping: bool | Literal["never"] | None = setting(
        None, help="When a full group stops: at once, by Transformers' rule (hf), or when nothing better can come."
    )
    forced_eos: bool = setting(False, help="hf only: force the end of sentence, at no cost, at the greatest length.")
    padded_max_len: bool = setting(False, help="fairseq only: take max_len_a of the batch's longest source.")
    sampling: bool = setting(False, help="Draw instead of searching (--beam draws).")
    sampling_topk: int = setting(0, help="Draw from the K most probable tokens.", least=0, metavar="K")
    sampling_topp: float = setting(
        0.0, help="Draw from the smallest set with probability P.", least=0, most=1, metavar="P"
    )
    sampling_epsilon: float = setting(
        0.0, help="Draw from tokens at least that probable.", least=0, most=1, metavar="E"
    )
    seed: int = setting(
        0,
        help="Of the draws; each sentence has a stream of its own. Language models get it with every request.",
        least=-LARGEST_SEED,
        most=LARGEST_SEED,
        metavar="S",
    )
    fixed: tuple[str, ...] = ()

    def validate(self) -> SearchOptions:
        """Check every value and every combination; returns self.

        Raises:
            UsageError: Naming the first setting that is out of range or does not fit the others.
        """
        check_numbers(self)
        if self.beam > LARGEST_BEAM:
            raise UsageError(
                f"a beam of {self.beam} hypotheses is asked for, expected at most {LARGEST_BEAM}",
                remedy="name a smaller `beam`, `k` or `nbest`",
            )
        if self.temperature < 1 / LARGEST:
            raise UsageError(f"`temperature` is {self.temperature}, expected more than 0, {1 / LARGEST:g} at least")
        check_choice("semantics", self.semantics, SEMANTICS)
        if self.early_stopping not in (True, False, "never", None):
            raise UsageError(f"early stopping is {self.early_stopping!r}, expected true, false or never")
        if self.groups > self.beam:
            raise UsageError(f"`groups` is {self.groups}, expected at most the beam, {self.beam}")
        if self.beam % self.groups:
            raise UsageError(f"`beam` is {self.beam}, expected a multiple of `groups`, {self.groups}")
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise UsageError(f"`min_len` is {self.min_len}, expected at most the greatest length, {self.max_len_b}")
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
        if self.sampling_epsilon == 1:
            raise UsageError("`sampling_epsilon` is 1, expected less: no token but a certain one is that probable")
        restricted = [n for n in ("sampling_topk", "sampling_topp", "sampling_epsilon") if getattr(self, n)]
        if restricted and not self.sampling:
            raise UsageError(f"`{restricted[0]}` needs `sampling`")
        if self.sampling and self.groups > 1:
            raise UsageError(f"`sampling` draws independently: expected `groups` 1, found {self.groups}")
        return self

    def describe(self) -> str:
        """For signatures: beam, groups, semantics, and whatever is not the default."""
        given = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name in ("beam", "groups", "semantics") or getattr(self, one.name) != one.default
        }
        given.pop("fixed", None)
        return f"search({','.join(f'{name}={value}' for name, value in given.items())})"

    @property
    def wanted(self) -> int:
        """Length of the n-best list asked for."""
        return self.beam if self.nbest is None else self.nbest


@dataclass(frozen=True)
class DiverseBeam:
    """Diverse beam search (Vijayakumar et al. 2016, arXiv:1610.02424, Algorithm 1).

    Attributes:
        beam: None: the model's own (8 of the shipped one), or as many as paraphrases are asked for, and at least 4.
        groups: A multiple of them is the beam. None: one for every five hypotheses, and at least two. Every group after
            the first is forced to begin differently: with more of them, more candidates begin badly.
        strength: Lambda, nats a token for every kept hypothesis of earlier groups that chose it at the same step. None:
            the model's default (0.5 where it has none).
        closeness: For models with control tokens (the shipped one). None: the model's default.
    """

    beam: int | None = setting(
        None, help="Beam over all groups.", least=1, metavar="B", otherwise="the model's own, or as many as asked for"
    )
    groups: int | None = setting(
        None, help="Diverse beam groups.", least=1, metavar="G", otherwise="one for every 5 of the beam, at least 2"
    )
    strength: float | None = setting(None, help="Diversity strength.", metavar="L", otherwise="the model's own")
    closeness: int | None = setting(
        None,
        help="How near to the source a shipped model stays: 0 free, 3 near copies.",
        metavar="0..3",
        otherwise="the model's own",
    )

    def resolve(self, k: int) -> DiverseBeam:
        """The settings used for ``k`` paraphrases: no None in beam and groups.

        Raises:
            UsageError: A value is no number or out of range, a beam for k is larger than any may be, or the beam is
                no multiple of the groups.
        """
        check_k(k)
        check_numbers(self)
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
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return f"dbs({','.join(f'{name}={in_full(value)}' for name, value in given.items())})"


#: How to search: the face most people need, or every option of the engine.
Decoding = DiverseBeam | SearchOptions


def in_full(value: float) -> str:
    """A number for signatures, which tells it from all others: six digits, or as many as it needs."""
    short = f"{value:g}"
    return short if float(short) == value else str(value)


def check_k(k: Any) -> None:
    """Refuse a number of paraphrases that is none."""
    check_number("k", k, 1, LARGEST_WHOLE, whole=True)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is none of a few words."""
    if value not in choices:
        raise UsageError(f"`{name}` is {value!r}, expected one of {', '.join(choices)}")


def check_numbers(options: Any) -> None:
    """Refuse what is no number, or out of range, among the fields of a dataclass that have a least value."""
    for kind, largest in (("int", LARGEST_WHOLE), ("float", LARGEST)):
        for one in fields(options):
            facts, value = one.metadata.get("option", {}), getattr(options, one.name)
            plain, _, optional = str(one.type).partition(" | ")
            if "least" in facts and plain == kind and not (value is None and optional):
                check_number(one.name, value, facts["least"], facts.get("most", largest), whole=kind == "int")


def check_number(name: str, value: Any, least: float, most: float, *, whole: bool = False) -> None:
    """Refuse what is no finite number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        raise UsageError(f"`{name}` is {value!r}, expected a {'whole ' * whole}number")
    try:
        number: Any = value if whole else float(value)
    except OverflowError:
        raise UsageError(f"`{name}` is too large a number, expected a finite one") from None
    if not whole and not math.isfinite(number):
        raise UsageError(f"`{name}` is {value}, expected a finite number")
    form = "" if whole else "g"
    if number < least:
        raise UsageError(f"`{name}` is {value}, expected {least:{form}} or more")
    if number > most:
        raise UsageError(f"`{name}` is {value}, expected at most {most:{form}}")
