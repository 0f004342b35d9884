"""Copies: outputs that are among the references they are to be judged with, and people's references made of outputs.

*Circular references.* Where outputs of a system are among the added references, its scores and every gain from these
references tell who was copied. Short texts are equal by chance, so only outputs of six words or more count. How many of
them are equal to an added reference by chance is told by how many are equal to a human one. That is for paraphrases of
human references. A text that another person wrote can also be equal to an output as often as those of most systems are,
and an output of a system that is not compared (``pseudo``) as often as that of any other one.

*Originals.* A reference that is a post-edited or a chosen output gives that system, and its kin, scores that say who
was chosen (Kloudová, Bojar and Popel 2021, "Detecting Post-edited References and Their Effect on Human Evaluation").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from random import Random
from statistics import median_low
from typing import Any, Final, TypeVar

from polyref.comparison import UNSPACED
from polyref.metrics.ngram.bleu import BLEU
from polyref.metrics.ngram.diversity import tokenizer_for
from polyref.references import KINDS, ReferenceSet, Segment

#: Words of the shortest output that counts; characters in scripts without spaces.
LEAST_WORDS: Final = 6
#: Word F1 from which on two texts are near copies: the Dice coefficient of their words, which may stand in any order.
NEAR: Final = 0.9
#: Level of binomial tests of numbers of copies.
LEVEL: Final = 0.001
#: Segments that BLEU is computed on: a random part of a larger set.
SAMPLE: Final = 1000
#: Systems that a message names.
NAMED: Final = 3
#: Confidence of the upper bound of the share of outputs that are equal by chance.
_SURE: Final = 0.95
#: Most that two who write for themselves agree word for word, as a share of their texts.
_AGREEMENT: Final = 0.5
#: The largest share of a system's outputs that are exact or near copies of a reference which a person wrote. Measured
#: on 77 references of 18 sets (WMT19 to WMT23, optimal references, summaries, dialogue): of 69 of them the most is .156
#: (GPT4-5shot, refB of WMT23 he-en), in any other set .125. The other eight are known, or seen by this, to be made from
#: outputs: refA of WMT23 he-en (.66 of ONLINE-B), refB of WMT21 news zh-en (.195 of MiSS), and those of the three pairs
#: of the biomedical task of WMT21 (.65 to .90 of one participant).
MOST: Final = 0.16
_ASCII_MARKS: Final = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_TO_SPACE: Final = bytes.maketrans(_ASCII_MARKS, b" " * len(_ASCII_MARKS))
_OTHER_MARKS: Final = re.compile("[\u00ab\u00bb\u2010-\u201f\u2026\u2039\u203a\u3000-\u3011\uff01-\uff0f\uff1a-\uff20]")


@dataclass(frozen=True)
class Copies:
    """Copies of a system's outputs among the added references.

    Attributes:
        system: Name of the system.
        k: Number of added references of a segment, at most.
        segments: Segments with an output of six words or more and an added reference that is not a human one's copy.
        references: Different added references of these segments.
        exact: Segments where one of them has the words of the output, in order; case and punctuation do not count.
        near: Other segments where one has a word F1 of 0.9 or more to the output.
        expected: Largest share of ``references`` that would be equal to an output by chance, 0 to 1.
        p: One-sided p-value of the binomial test of more exact copies than that.
        circular: Whether it is below 0.001, or more than half of the segments have a copy, exact or near, of an output
            that is no near copy of a human reference (binomial test, p < 0.001): outputs with a word changed.
        examples: Ids of the first segments with a copy.
        bleu: BLEU of the outputs against the added references alone, 0 to 100; None where nothing is circular.
        bleu_of_others: The mean of the other systems (Kloudová, Bojar and Popel 2021: references that were made from
            the output of a system are nearer to it than to others); None without any.
    """

    system: str
    k: int
    segments: int
    references: int
    exact: int
    near: int
    expected: float
    p: float
    circular: bool
    examples: tuple[str, ...]
    bleu: float | None = None
    bleu_of_others: float | None = None

    def __str__(self) -> str:
        chance = f"{100 * self.expected:.2g}" if self.expected < 0.995 else "100"
        text = (
            f"{self.system} (exact copies of its outputs: {self.exact:,} of {self.references:,} added references, at "
            f"most {chance} % by chance, {_shown_p(self.p)}; near copies: {self.near:,}"
        )
        if self.bleu is None or self.bleu_of_others is None:
            return f"{text})"
        return f"{text}; BLEU against them {self.bleu:.1f}, of the others {self.bleu_of_others:.1f})"


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
        return f"{text}, {_shown_p(self.p)}{bleu})"


#: Either of the two.
_Near = TypeVar("_Near", Copies, Nearness)


class _Sample:
    """A random part of segments that come one by one, with the outputs of all systems (reservoir sampling)."""

    def __init__(self, size: int) -> None:
        self._size, self._chosen, self._read = size, Random(1), 0
        self._kept: list[tuple[Segment, Mapping[str, str]]] = []

    def add(self, segment: Segment, outputs: Mapping[str, str]) -> None:
        self._read += 1
        if len(self._kept) < self._size:
            self._kept.append((segment, outputs))
        elif (place := self._chosen.randrange(self._read)) < self._size:
            self._kept[place] = segment, outputs

    def bleu(self, kind: str, part: slice, names: Iterable[str]) -> dict[str, float]:
        """BLEU of these systems, 0 to 100, against a part of the ``extras`` or ``originals`` of every segment."""
        every = (([ref.text for ref in getattr(segment, kind)[part]], outputs) for segment, outputs in self._kept)
        kept = [(found, outputs) for found, outputs in every if found]
        systems = {name: [outputs[name] for _, outputs in kept] for name in names}
        metric = BLEU(tokenize=tokenizer_for([text for found, _ in kept for text in found]))
        references = ReferenceSet.from_texts([found for found, _ in kept])
        scores = metric.aggregate(metric.statistics(systems, references, ks=(0,)), k=0)
        return dict(zip(systems, map(float, scores.system), strict=True))


@dataclass
class _Tally:
    """What is counted of one system with one number of added references.

    Attributes:
        segments: With added references.
        exact: Of them, with an exact copy.
        near: Of them, with a near copy alone.
        alone: Of them, with a copy of an output that is near no human reference.
        added: Kind -> added references, and those that are equal to an output.
        examples: Ids of the first segments with a copy.
    """

    segments: int = 0
    exact: int = 0
    near: int = 0
    alone: int = 0
    added: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    examples: list[str] = field(default_factory=list)


class CopyCount:
    """Counts copies in a set that is read in stretches of any size: of texts, a random part is kept for BLEU.

    Args:
        ks: Numbers of added references, of which 0 is left out.
        kept: Segments that BLEU is computed on.
    """

    def __init__(self, ks: Iterable[int], kept: int = SAMPLE) -> None:
        self._ks = sorted({k for k in ks if k > 0})
        self._sample = _Sample(kept)
        #: Of every system: outputs that count, times human references; and how many are equal to one.
        self._human: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._outputs: Counter[str] = Counter()
        self._agree: Counter[tuple[str, str]] = Counter()
        self._tallies: dict[tuple[str, int], _Tally] = defaultdict(_Tally)

    def add(self, references: Iterable[Segment], systems: Mapping[str, Sequence[str]]) -> None:
        """Read a stretch: segments, and of every system as many outputs."""
        for place, segment in enumerate(references if self._ks else ()):
            self._one(segment, {name: texts[place] for name, texts in systems.items()})

    def found(self) -> list[Copies]:
        """One for every system and k, in order."""
        every = [self._copies(name, k) for k in self._ks for name in self._outputs]
        circular = {one.k for one in every if one.circular}
        bleu = {k: self._sample.bleu("extras", slice(k), self._outputs) for k in circular}
        return [_beside_others(one, bleu[one.k]) if one.k in bleu else one for one in every]

    def _one(self, segment: Segment, outputs: Mapping[str, str]) -> None:
        texts = {}
        for name, text in outputs.items():
            words = words_of(text)
            self._outputs[name] += (counts := len(words) >= LEAST_WORDS)
            if counts:
                texts[name] = key_of(words), words
        if not texts:
            return
        extras = segment.extras[: self._ks[-1]]
        if extras:
            self._sample.add(segment, outputs)
        human = {key_of(words): words for words in (words_of(ref.text) for ref in segment.originals)}
        equal: dict[bytes, list[str]] = defaultdict(list)
        for name, (key, _) in texts.items():
            equal[key].append(name)
            self._human[name][0] += len(human)
            self._human[name][1] += key in human
        for names in equal.values():
            self._agree.update(permutations(names, 2))
        added: dict[bytes, tuple[int, str, list[bytes]]] = {}
        for rank, ref in enumerate(extras):
            words = words_of(ref.text)
            if (key := key_of(words)) and key not in human:
                added.setdefault(key, (rank, ref.kind, words))
        there = [(rank, words) for rank, _, words in added.values()]
        kinds = {k: Counter(kind for rank, kind, _ in added.values() if rank < k) for k in self._ks}
        for name, (key, words) in texts.items() if added else ():
            if key in human:
                continue
            rank_of_copy = added[key][0] if key in added else None
            rank_of_near = None if rank_of_copy == 0 else first_near(words, there)
            copied = rank_of_copy is not None or rank_of_near is not None
            alone = copied and first_near(words, [(0, own) for own in human.values()]) is None
            for k, inside in kinds.items():
                if not inside:
                    continue
                exact = rank_of_copy is not None and rank_of_copy < k
                near = not exact and rank_of_near is not None and rank_of_near < k
                tally = self._tallies[name, k]
                for kind, number in inside.items():
                    tally.added[kind][0] += number
                    tally.added[kind][1] += exact and added[key][1] == kind
                tally.segments += 1
                tally.exact += exact
                tally.near += near
                tally.alone += alone and (exact or near)
                if (exact or near) and len(tally.examples) < NAMED:
                    tally.examples.append(segment.id)

    def _copies(self, name: str, k: int) -> Copies:
        tally = self._tallies.get((name, k), _Tally())
        tested = []
        for kind in KINDS:
            if kind in tally.added:
                total, equal = tally.added[kind]
                tested.append((_at_least(equal, total, share := self._expected(name, kind)), share))
        p, share = min(tested, key=lambda one: one[0], default=(1.0, 1.0))
        circular = p < LEVEL or _at_least(tally.alone, tally.segments, _AGREEMENT) < LEVEL
        references = sum(total for total, _ in tally.added.values())
        examples = tuple(tally.examples)
        return Copies(name, k, tally.segments, references, tally.exact, tally.near, share, p, circular, examples)

    def _expected(self, name: str, kind: str) -> float:
        """The largest share of added references that are equal to an output by chance."""
        shares = [_upper(equal, total) for total, equal in [self._human.get(name, (0, 0))] if total]
        others = [other for other in self._outputs if other != name]
        if others and (kind != "paraphrase" or not shares):
            typical = max if kind == "pseudo" else median_low
            shared = typical(self._agree[name, other] for other in others)
            # Texts that are equal more often than not are no other's, whatever the systems have in common.
            shares.append(min(_upper(shared, self._outputs[name]), _AGREEMENT))
        return max(shares, default=_AGREEMENT)


class OriginalCount:
    """Counts copies of outputs among the original references of a set that is read in stretches of any size.

    Args:
        names: Of the references of a segment, in order; others are called by their number.
        kept: Segments that BLEU is computed on.
    """

    def __init__(self, names: Sequence[str] = (), kept: int = SAMPLE) -> None:
        self._names = names
        self._sample = _Sample(kept)
        self._systems: dict[str, None] = {}
        #: Number of the reference and system -> segments, exact copies, near copies.
        self._counts: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])

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
                    counts = self._counts[number, name]
                    exact = key_of(words) == key_of(own)
                    counts[0] += 1
                    counts[1] += exact
                    counts[2] += not exact and first_near(words, [(0, own)]) is not None

    def found(self) -> list[Nearness]:
        """Of every reference, all systems, the nearest first."""
        found = []
        numbers = sorted({number for number, _ in self._counts})
        for number in numbers:
            unnamed = f"reference {number + 1}" if numbers[-1] else "the reference"
            name = self._names[number] if number < len(self._names) else unnamed
            every = []
            for system in self._systems:
                total, exact, near = self._counts.get((number, system), (0, 0, 0))
                p = _at_least(exact + near, total, MOST)
                every.append(Nearness(name, system, total, exact, near, p, p < LEVEL))
            if any(one.suspect for one in every):
                bleu = self._sample.bleu("originals", slice(number, number + 1), self._systems)
                every = [_beside_others(one, bleu) for one in every]
            found += sorted(every, key=lambda one: -one.share)
        return found


def count_copies(references: ReferenceSet, systems: Mapping[str, Sequence[str]], ks: Iterable[int]) -> list[Copies]:
    """Copies of every system's outputs among the first added references, of each number ``ks`` of them but 0."""
    counting = CopyCount(ks)
    counting.add(references, systems)
    return counting.found()


def near_originals(references: ReferenceSet, systems: Mapping[str, Sequence[str]]) -> list[Nearness]:
    """How near the outputs of every system are to every original reference; the set's ``meta`` names these."""
    counting = OriginalCount(references.meta.get("references", ()))
    counting.add(references, systems)
    return counting.found()


def warnings_of_copies(found: Sequence[Copies]) -> list[str]:
    """What to tell of circular references; nothing where there are none. Of several k the largest speaks."""
    circular = [one for one in found if one.circular]
    most = max((one.k for one in circular), default=0)
    worst = sorted((one for one in circular if one.k == most), key=lambda one: -one.exact - one.near)
    if not worst:
        return []
    return [
        "circular references: outputs that are scored are among the added references more often than chance has it: "
        f"{_listed(worst, '; ')}. Scores with these references, and gains from them, say who was copied"
    ]


def reasons_of_copies(found: Sequence[Copies], k: int) -> list[str]:
    """Why no gain from the first ``k`` added references is believed; nothing where nothing is circular."""
    worst = sorted((one for one in found if one.circular and one.k == k), key=lambda one: -one.exact - one.near)
    names = _listed([one.system for one in worst], ", ")
    return [f"added references are copies of outputs of {names}"] if worst else []


def without_circular(
    references: ReferenceSet, systems: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> tuple[ReferenceSet, list[str]]:
    """The references without the added ones that make them circular, and the systems whose copies they are.

    The system with most copies comes first: what is equal to its outputs may be equal to others' for that reason alone.
    At last the copies of all other systems go as well, and those of short outputs: where outputs were copied, fewer of
    them than the test can tell are copies too.
    """
    copied: list[str] = []
    while found := [one for one in count_copies(references, systems, ks) if one.circular and one.system not in copied]:
        copied.append(max(found, key=lambda one: (one.k, one.exact + one.near)).system)
        references = _without_copies(references, systems[copied[-1]])
    if copied:
        for outputs in systems.values():
            references = _without_copies(references, outputs)
    return references, copied


def _without_copies(references: ReferenceSet, outputs: Sequence[str]) -> ReferenceSet:
    """The references without the added ones that are copies of these outputs: exact ones, or near ones of long ones."""
    segments = []
    for segment, text in zip(references, outputs, strict=True):
        own = words_of(text)
        words = [words_of(ref.text) for ref in segment.refs]
        copied = [
            key_of(one) == key_of(own) or (len(own) >= LEAST_WORDS and first_near(own, [(0, one)]) is not None)
            for one in words
        ]
        kept = [index for index, ref in enumerate(segment.refs) if ref.original or not copied[index]]
        moved = {old: new for new, old in enumerate(kept)}
        refs = (segment.refs[index] for index in kept)
        numbered = (ref if ref.of is None else replace(ref, of=moved.get(ref.of)) for ref in refs)
        segments.append(replace(segment, refs=tuple(numbered)))
    return ReferenceSet(tuple(segments), references.meta)


def plain_copies(found: Iterable[Copies]) -> list[dict[str, Any]]:
    """The counts as plain JSON values."""
    return [{**asdict(one), "examples": list(one.examples)} for one in found]


def warnings_of_originals(found: Sequence[Nearness]) -> list[str]:
    """What to tell of original references that have a suspect; nothing where there are none."""
    suspects: dict[str, list[Nearness]] = {}
    for one in found:
        if one.suspect:
            suspects.setdefault(one.reference, []).append(one)
    told = []
    for reference, (first, *others) in suspects.items():
        kin = _listed([f"{one.system} {100 * one.share:.0f} %" for one in others], ", ")
        told.append(
            f"{reference} may have been made from outputs of a system: {first}"
            f"{f'; also near are {kin}' if kin else ''}. Scores with it favour that system and its kin"
        )
    return told


def plain_originals(found: Iterable[Nearness]) -> list[dict[str, Any]]:
    """The counts as plain JSON values."""
    return [asdict(one) for one in found]


def words_of(text: str) -> list[bytes]:
    """The words, their case folded, without punctuation; characters where words run on."""
    if text.isascii():
        return text.lower().encode().translate(_TO_SPACE).split()
    bare = _OTHER_MARKS.sub(" ", text.casefold())
    if UNSPACED.search(bare):
        return [
            char.encode("utf-8", "surrogatepass")
            for char in bare
            if not char.isspace() and (ord(char) > 127 or char.isalnum())
        ]
    # What is no Unicode, of file names that were read as text, has to be cut as well.
    return bare.encode("utf-8", "surrogatepass").translate(_TO_SPACE).split()


def key_of(words: Iterable[bytes]) -> bytes:
    """Texts with one key are exact copies of each other, wherever a word is split by a hyphen."""
    return b"".join(words)


def first_near(words: list[bytes], texts: Iterable[tuple[int, list[bytes]]]) -> int | None:
    """The smallest rank of a text that is a near copy."""
    own = frozenset(words)
    for rank, others in texts:
        needed = NEAR * (len(words) + len(others)) / 2
        if min(len(words), len(others)) < needed or len(others) < LEAST_WORDS:
            continue
        # Every different word that is missing is one occurrence at least.
        if len(own.difference(others)) > len(words) - needed:
            continue
        if (Counter(words) & Counter(others)).total() >= needed:
            return rank
    return None


def _listed(items: Sequence[object], between: str) -> str:
    """The first of them, and how many there are besides."""
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return between.join(map(str, items[:NAMED])) + more


def _at_least(count: int, total: int, share: float) -> float:
    """Probability of so many or more of ``total``."""
    from scipy.special import betainc

    return float(betainc(count, total - count + 1, share)) if count else 1.0


def _shown_p(value: float) -> str:
    return "p < 1e-16" if value < 1e-16 else f"p = {value:.1g}"


def _upper(equal: int, total: int) -> float:
    """Upper bound of a share (Clopper and Pearson)."""
    from scipy.special import betaincinv

    return float(betaincinv(equal + 1, total - equal, _SURE)) if equal < total else 1.0


def _beside_others(one: _Near, bleu: Mapping[str, float]) -> _Near:
    """The same with the BLEU of its system, and the mean of the others."""
    others = [value for name, value in bleu.items() if name != one.system]
    return replace(one, bleu=bleu[one.system], bleu_of_others=sum(others) / len(others) if others else None)
