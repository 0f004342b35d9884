"""Copies: texts with the words of another text, and nearly so; and what is told of systems whose outputs they are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from random import Random
from statistics import median_low
from typing import Any, Final

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
_ASCII_MARKS: Final = bytes(code for code in range(128) if not chr(code).isalnum() and not chr(code).isspace())
_TO_SPACE: Final = bytes.maketrans(_ASCII_MARKS, b" " * len(_ASCII_MARKS))
_OTHER_MARKS: Final = re.compile("[\u00ab\u00bb\u2010-\u201f\u2026\u2039\u203a\u3000-\u3011\uff01-\uff0f\uff1a-\uff20]")


class Sample:
    """A random part of segments that come one by one, with the outputs of all systems (reservoir sampling).

    Args:
        size: Most segments that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._chosen = Random(1)
        self._read = 0
        self._kept: list[tuple[Segment, dict[str, str]]] = []

    def add(self, segment: Segment, outputs: Mapping[str, str]) -> None:
        """One more segment."""
        self._read += 1
        if len(self._kept) < self._size:
            self._kept.append((segment, dict(outputs)))
        elif (place := self._chosen.randrange(self._read)) < self._size:
            self._kept[place] = segment, dict(outputs)

    def bleu(self, texts: Callable[[Segment], list[str]], names: Iterable[str]) -> dict[str, float]:
        """BLEU of these systems, 0 to 100, against the texts of every segment that has some."""
        kept = [(found, outputs) for segment, outputs in self._kept if (found := texts(segment))]
        systems = {name: [outputs[name] for _, outputs in kept] for name in names}
        metric = BLEU(tokenize=tokenizer_for([text for found, _ in kept for text in found]))
        references = ReferenceSet.from_texts([found for found, _ in kept])
        scores = metric.aggregate(metric.statistics(systems, references, ks=(0,)), k=0)
        return dict(zip(systems, map(float, scores.system), strict=True))


def mean_of_others(name: str, bleu: Mapping[str, float]) -> float | None:
    """The mean of the other systems, None without any."""
    others = [value for other, value in bleu.items() if other != name]
    return sum(others) / len(others) if others else None


def is_copy(words: list[bytes], output: list[bytes]) -> bool:
    """Whether a text is an exact copy of an output, or a near one of an output of six words or more."""
    long = len(output) >= LEAST_WORDS
    return key_of(words) == key_of(output) or (long and first_near(output, [(0, words)]) is not None)


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


def listed(items: Sequence[object], between: str) -> str:
    """The first of them, and how many there are besides."""
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return between.join(map(str, items[:NAMED])) + more


def at_least(count: int, total: int, share: float) -> float:
    """Probability of so many or more of ``total``."""
    from scipy.special import betainc

    return float(betainc(count, total - count + 1, share)) if count else 1.0


def shown_p(value: float) -> str:
    """A p-value for a message."""
    return "p < 1e-16" if value < 1e-16 else f"p = {value:.1g}"


#: Confidence of the upper bound of the share of outputs that are equal by chance.
_SURE: Final = 0.95
#: Most that two who write for themselves agree word for word, as a share of their texts.
_MOST: Final = 0.5


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
        text = (
            f"{self.system} (exact copies of its outputs: {self.exact:,} of {self.references:,} added references, at "
            f"most {100 * self.expected:.2g} % by chance, {shown_p(self.p)}; near copies: {self.near:,}"
        )
        if self.bleu is None or self.bleu_of_others is None:
            return f"{text})"
        return f"{text}; BLEU against them {self.bleu:.1f}, of the others {self.bleu_of_others:.1f})"


class CopyCount:
    """Counts copies in a set that is read in stretches of any size: of texts, a random part is kept for BLEU.

    Args:
        ks: Numbers of added references, of which 0 is left out.
        kept: Segments that BLEU is computed on.
    """

    def __init__(self, ks: Iterable[int], kept: int = SAMPLE) -> None:
        self._ks = sorted({k for k in ks if k > 0})
        self._sample = Sample(kept)
        #: Of every system: outputs that count, times human references; and how many are equal to one.
        self._human: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._outputs: Counter[str] = Counter()
        self._agree: Counter[tuple[str, str]] = Counter()
        #: (system, k, kind) -> added references, and those that are equal to an output.
        self._added: dict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0])
        #: Segments with added references, with an exact copy, with a near one, and with one that is near no human one.
        self._segments: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._examples: dict[tuple[str, int], list[str]] = defaultdict(list)

    def add(self, references: Iterable[Segment], systems: Mapping[str, Sequence[str]]) -> None:
        """Read a stretch: segments, and of every system as many outputs."""
        if not self._ks:
            return
        for place, segment in enumerate(references):
            self._one(segment, {name: texts[place] for name, texts in systems.items()})

    def found(self) -> list[Copies]:
        """One for every system and k, in order."""
        every = [self._copies(name, k) for k in self._ks for name in self._outputs]
        with_bleu = {
            k: self._sample.bleu(partial(_first_extras, k=k), self._outputs)
            for k in {one.k for one in every if one.circular}
        }
        return [self._beside_others(one, with_bleu.get(one.k, {})) for one in every]

    def _one(self, segment: Segment, outputs: Mapping[str, str]) -> None:
        extras = segment.extras[: self._ks[-1]]
        cut = {name: words_of(text) for name, text in outputs.items()}
        texts = {name: (key_of(words), words) for name, words in cut.items() if len(words) >= LEAST_WORDS}
        for name in outputs:
            self._outputs[name] += name in texts
        if not texts:
            return
        if extras:
            self._sample.add(segment, outputs)
        human = {key_of(words): words for words in (words_of(ref.text) for ref in segment.originals)}
        equal: dict[bytes, list[str]] = defaultdict(list)
        for name, (key, _) in texts.items():
            equal[key].append(name)
            seen = self._human[name]
            seen[0] += len(human)
            seen[1] += key in human
        for names in equal.values():
            self._agree.update((a, b) for a in names for b in names if a != b)
        added: dict[bytes, tuple[int, str, list[bytes]]] = {}
        for rank, ref in enumerate(extras):
            words = words_of(ref.text)
            key = key_of(words)
            if key and key not in human:
                added.setdefault(key, (rank, ref.kind, words))
        if added:
            self._count(segment.id, texts, human, added)

    def _count(
        self,
        segment: str,
        texts: Mapping[str, tuple[bytes, list[bytes]]],
        human: Mapping[bytes, list[bytes]],
        added: Mapping[bytes, tuple[int, str, list[bytes]]],
    ) -> None:
        """What a segment adds to the counts.

        Args:
            segment: Its id.
            texts: System -> key and words of its output.
            human: Key of a human reference -> words.
            added: Key of an added reference -> rank, kind, words.
        """
        there = [(rank, words) for rank, _, words in added.values()]
        ranks = [(k, [kind for rank, kind, _ in added.values() if rank < k]) for k in self._ks]
        for name, (key, words) in texts.items():
            if key in human:
                continue
            rank_of_copy = added[key][0] if key in added else None
            rank_of_near = None if rank_of_copy == 0 else first_near(words, there)
            copied = rank_of_copy is not None or rank_of_near is not None
            alone = copied and first_near(words, [(0, own) for own in human.values()]) is None
            for k, inside in ranks:
                if not inside:
                    continue
                exact = rank_of_copy is not None and rank_of_copy < k
                near = not exact and rank_of_near is not None and rank_of_near < k
                for kind in set(inside):
                    counts = self._added[name, k, kind]
                    counts[0] += inside.count(kind)
                    counts[1] += exact and added[key][1] == kind
                counts = self._segments[name, k]
                counts[0] += 1
                counts[1] += exact
                counts[2] += near
                counts[3] += alone and (exact or near)
                if (exact or near) and len(examples := self._examples[name, k]) < NAMED:
                    examples.append(segment)

    def _copies(self, name: str, k: int) -> Copies:
        tested = {}
        for kind in KINDS:
            total, equal = self._added.get((name, k, kind), (0, 0))
            if total:
                tested[kind] = (share := self._expected(name, kind)), at_least(equal, total, share)
        share, p = min(tested.values(), key=lambda one: one[1], default=(1.0, 1.0))
        segments, exact, near, alone = self._segments.get((name, k), (0, 0, 0, 0))
        references = sum(self._added.get((name, k, kind), (0, 0))[0] for kind in KINDS)
        examples = tuple(self._examples.get((name, k), ()))
        circular = p < LEVEL or at_least(alone, segments, _MOST) < LEVEL
        return Copies(name, k, segments, references, exact, near, share, p, circular, examples)

    def _expected(self, name: str, kind: str) -> float:
        """The largest share of added references that are equal to an output by chance."""
        shares = [_upper(equal, total) for total, equal in [self._human.get(name, (0, 0))] if total]
        others = [other for other in self._outputs if other != name]
        if others and (kind != "paraphrase" or not shares):
            typical = max if kind == "pseudo" else median_low
            shared = typical(self._agree[name, other] for other in others)
            # Texts that are equal more often than not are no other's, whatever the systems have in common.
            shares.append(min(_upper(shared, self._outputs[name]), _MOST))
        return max(shares, default=_MOST)

    @staticmethod
    def _beside_others(one: Copies, bleu: Mapping[str, float]) -> Copies:
        return replace(one, bleu=bleu.get(one.system), bleu_of_others=mean_of_others(one.system, bleu))


def count_copies(references: ReferenceSet, systems: Mapping[str, Sequence[str]], ks: Iterable[int]) -> list[Copies]:
    """Copies of every system's outputs among the first k added references.

    Args:
        references: N segments.
        systems: Name -> N outputs.
        ks: Numbers of added references, of which 0 is left out.
    """
    counting = CopyCount(ks)
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
        f"{listed(worst, '; ')}. Scores with these references, and gains from them, say who was copied"
    ]


def reasons_of_copies(found: Sequence[Copies], k: int) -> list[str]:
    """Why no gain from the first ``k`` added references is believed; nothing where nothing is circular."""
    worst = sorted((one for one in found if one.circular and one.k == k), key=lambda one: -one.exact - one.near)
    names = listed([one.system for one in worst], ", ")
    return [f"added references are copies of outputs of {names}"] if worst else []


def without_circular(
    references: ReferenceSet, systems: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> tuple[ReferenceSet, list[str]]:
    """The references without the added ones that make them circular, and the systems whose copies they are.

    The system with most copies comes first: what is equal to its outputs may be equal to others' for that reason alone.
    At last the copies of all other systems go as well, and those of short outputs: where outputs were copied, fewer of
    them than the test can tell are copies too.

    Args:
        references: N segments.
        systems: Name -> N outputs.
        ks: Numbers of added references.
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
        kept = [index for index, ref in enumerate(segment.refs) if ref.original or not is_copy(words_of(ref.text), own)]
        moved = {old: new for new, old in enumerate(kept)}
        refs = (segment.refs[index] for index in kept)
        numbered = (ref if ref.of is None else replace(ref, of=moved.get(ref.of)) for ref in refs)
        segments.append(replace(segment, refs=tuple(numbered)))
    return ReferenceSet(tuple(segments), references.meta)


def plain_copies(found: Iterable[Copies]) -> list[dict[str, Any]]:
    """The counts as plain JSON values."""
    return [{**asdict(one), "examples": list(one.examples)} for one in found]


def _first_extras(segment: Segment, k: int) -> list[str]:
    return [ref.text for ref in segment.extras[:k]]


def _upper(equal: int, total: int) -> float:
    """Upper bound of a share (Clopper and Pearson)."""
    from scipy.special import betaincinv

    return float(betaincinv(equal + 1, total - equal, _SURE)) if equal < total else 1.0


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
