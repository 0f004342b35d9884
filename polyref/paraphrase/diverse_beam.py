"""How to search for paraphrases: diverse beam search by its few settings, or every option of the engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from polyref.errors import UsageError
from polyref.paraphrase.search import SearchOptions
from polyref.paraphrase.search.options import LARGEST_WHOLE, check_whole, in_full

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
