"""Original references that were perhaps made from the outputs of a system: nearer to it than people's references are.

A reference that is a post-edited or a chosen output gives that system, and its kin, scores that say who was chosen
(Kloudová, Bojar and Popel 2021, "Detecting Post-edited References and Their Effect on Human Evaluation").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from polyref.metrics.results.copies import (
    LEAST_WORDS,
    LEVEL,
    SAMPLE,
    Sample,
    at_least,
    first_near,
    key_of,
    listed,
    mean_of_others,
    shown_p,
    words_of,
)
from polyref.references import ReferenceSet, Segment

#: The largest share of a system's outputs that are exact or near copies of a reference which a person wrote. Measured
#: on 77 references of 18 sets (WMT19 to WMT23, optimal references, summaries, dialogue): of 69 of them the most is .156
#: (GPT4-5shot, refB of WMT23 he-en), in any other set .125. The other eight are known, or seen by this, to be made from
#: outputs: refA of WMT23 he-en (.66 of ONLINE-B), refB of WMT21 news zh-en (.195 of MiSS), and those of the three pairs
#: of the biomedical task of WMT21 (.65 to .90 of one participant).
MOST: Final = 0.16


@dataclass(frozen=True)
class Nearness:
    """How near a system's outputs are to an original reference.

    Attributes:
        reference: Name of the reference.
        system: Name of the system.
        segments: Segments with the reference and an output of six words or more.
        exact: Those where both have the same words in order; case and punctuation do not count.
        near: Others with a word F1 of 0.9 or more.
        p: One-sided p-value of the binomial test of more exact and near copies than :data:`MOST` of the segments.
        suspect: Whether it is below 0.001.
        bleu: BLEU of the outputs against the reference, 0 to 100; None where the reference has no suspect.
        bleu_of_others: The mean of the other systems; None without any.
    """

    reference: str
    system: str
    segments: int
    exact: int
    near: int
    p: float
    suspect: bool
    bleu: float | None = None
    bleu_of_others: float | None = None

    @property
    def share(self) -> float:
        """Share of the segments with an exact or near copy, 0 to 1."""
        return (self.exact + self.near) / self.segments if self.segments else 0.0

    def __str__(self) -> str:
        text = (
            f"{self.system} is nearest to {self.reference}: of {self.segments:,} outputs, exact copies {self.exact:,}, "
            f"near copies {self.near:,} ({100 * self.share:.0f} %; people's references reach {100 * MOST:.0f} %"
        )
        if not self.suspect:
            return f"{text})"
        others = "" if self.bleu_of_others is None else f", of the others {self.bleu_of_others:.1f}"
        bleu = "" if self.bleu is None else f"; BLEU against it {self.bleu:.1f}{others}"
        return f"{text}, {shown_p(self.p)}{bleu})"


class OriginalCount:
    """Counts copies of outputs among the original references of a set that is read in stretches of any size.

    Args:
        names: Of the references of a segment, in order; others are called by their number.
        kept: Segments that BLEU is computed on.
    """

    def __init__(self, names: Sequence[str] = (), kept: int = SAMPLE) -> None:
        self._names = names
        self._sample = Sample(kept)
        self._systems: dict[str, None] = {}
        #: Reference and system -> segments, exact copies, near copies.
        self._counts: dict[tuple[int, str], list[int]] = {}

    def add(self, references: Iterable[Segment], systems: Mapping[str, Sequence[str]]) -> None:
        """Read a stretch: segments, and of every system as many outputs."""
        self._systems.update(dict.fromkeys(systems))
        for place, segment in enumerate(references):
            originals = [words_of(ref.text) for ref in segment.originals]
            outputs = {name: texts[place] for name, texts in systems.items()}
            if originals:
                self._sample.add(segment, outputs)
            for name, text in outputs.items():
                words = words_of(text)
                for number, own in enumerate(originals if len(words) >= LEAST_WORDS else ()):
                    counts = self._counts.setdefault((number, name), [0, 0, 0])
                    exact = key_of(words) == key_of(own)
                    counts[0] += 1
                    counts[1] += exact
                    counts[2] += not exact and first_near(words, [(0, own)]) is not None

    def found(self) -> list[Nearness]:
        """Of every reference, all systems, the nearest first."""
        made = []
        for number in sorted({number for number, _ in self._counts}):
            counts = {name: self._counts.get((number, name), [0, 0, 0]) for name in self._systems}
            ps = {name: at_least(one[1] + one[2], one[0], MOST) for name, one in counts.items()}
            suspected = min(ps.values()) < LEVEL
            bleu = self._sample.bleu(partial(_text, number=number), self._systems) if suspected else {}
            every = [
                Nearness(self._name(number), name, total, exact, near, ps[name], ps[name] < LEVEL, bleu.get(name),
                         mean_of_others(name, bleu))
                for name, (total, exact, near) in counts.items()
            ]  # fmt: skip
            made += sorted(every, key=lambda one: -one.share)
        return made

    def _name(self, number: int) -> str:
        several = any(other for other, _ in self._counts)
        unnamed = f"reference {number + 1}" if several else "the reference"
        return self._names[number] if number < len(self._names) else unnamed


def near_originals(references: ReferenceSet, systems: Mapping[str, Sequence[str]]) -> list[Nearness]:
    """How near the outputs of every system are to every original reference.

    Args:
        references: N segments; what it is made of names the references.
        systems: Name -> N outputs.
    """
    counting = OriginalCount(references.meta.get("references", ()))
    counting.add(references, systems)
    return counting.found()


def warnings_of_originals(found: Sequence[Nearness]) -> list[str]:
    """What to tell of original references that have a suspect; nothing where there are none."""
    suspects: dict[str, list[Nearness]] = {}
    for one in found:
        if one.suspect:
            suspects.setdefault(one.reference, []).append(one)
    told = []
    for reference, (first, *others) in suspects.items():
        kin = listed([f"{one.system} {100 * one.share:.0f} %" for one in others], ", ")
        told.append(
            f"{reference} may have been made from outputs of a system: {first}"
            f"{f'; also near are {kin}' if kin else ''}. Scores with it favour that system and its kin"
        )
    return told


def plain_originals(found: Iterable[Nearness]) -> list[dict[str, Any]]:
    """The counts as plain JSON values."""
    return [asdict(one) for one in found]


def _text(segment: Segment, number: int) -> list[str]:
    return [ref.text for ref in segment.originals[number : number + 1]]
