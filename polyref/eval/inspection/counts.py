"""What can be counted and measured in a reference set, and how much its references differ."""

from __future__ import annotations

import random
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from polyref.comparison import comparison_key
from polyref.metrics.ngram.diversity import bleu_to_references, distinct_ngrams, new_ngrams, self_bleu, tokenizer_for
from polyref.metrics.statistics import Floats
from polyref.references import KINDS, Reference, ReferenceSet, Segment

#: What a header says of the run that made references.
_RUN: Final = ("generator", "decoding", "k", "filters", "select", "lang", "seed")
_MARKS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Spread:
    """How many references the segments have.

    Attributes:
        kind: ``human``, ``postedit``, ``paraphrase`` or ``pseudo``.
        total: Of all segments.
        mean: A segment.
        none: Segments without any.
        quartiles: Fewest, 25 %, median, 75 %, most.
        segments: Number of segments with 0, 1, ... of them, up to the most.
    """

    kind: str
    total: int
    mean: float
    none: int
    quartiles: tuple[float, float, float, float, float]
    segments: tuple[int, ...]


@dataclass(frozen=True)
class Repeats:
    """Added references that say nothing new. Case, spaces and punctuation do not count.

    Attributes:
        added: Added references in all.
        copies: Those that are equal to a human reference of their segment.
        repeats: Those that are equal to an added reference before them.
        empty: References, added or not, that are empty or white space.
    """

    added: int
    copies: int
    repeats: int
    empty: int


@dataclass(frozen=True)
class Histogram:
    """How often a value falls between two edges: ``counts[i]`` values from ``low + i * width`` on.

    The last bin holds its upper edge as well. Values beyond the edges are in the outermost bins.
    """

    low: float
    width: float
    counts: tuple[int, ...]
    mean: float

    @property
    def high(self) -> float:
        """The upper edge of the last bin."""
        return round(self.low + self.width * len(self.counts), 9) + 0.0  # 0, not -2e-16


@dataclass(frozen=True)
class Counts:
    """What one pass over a set counts.

    Attributes:
        spreads: By kind, those that there are.
        generators: Name of a generator -> its references; ``""`` are added references that name none.
        languages: Languages of the segments and of the header.
        sources: Segments with a source text.
        without_added: Segments without an added reference.
        repeats: Copies, repeats, empty references.
        lengths: Mean length in characters of ``human`` and ``added`` references; those that there are.
        length_ratio: Length of an added reference over that of the reference it was made from; None without any.
        logprob: Log-probabilities of added references, in nats; None where there are none.
        weight: Their weights, or adequacy, 0 to 1 where it was measured; None where there are none.
    """

    spreads: tuple[Spread, ...]
    generators: Mapping[str, int]
    languages: tuple[str, ...]
    sources: int
    without_added: int
    repeats: Repeats
    lengths: Mapping[str, float]
    length_ratio: Histogram | None
    logprob: Histogram | None
    weight: Histogram | None


def count(references: ReferenceSet) -> tuple[Counts, Sequence[int]]:
    """Count everything, in one pass; and the places of the segments that have added references."""
    kinds = {kind: array("q") for kind in KINDS}
    generators: Counter[str] = Counter()
    languages = dict.fromkeys(_listed(references.meta.get("lang")))
    sources = without_added = copies = repeats = empty = 0
    characters, texts = Counter[str](), Counter[str]()
    ratios, logprobs, weights = array("d"), array("d"), array("d")
    places = array("q")
    for place, segment in enumerate(references):
        found = Counter(ref.kind for ref in segment.refs)
        for kind, numbers in kinds.items():
            numbers.append(found[kind])
        if segment.lang:
            languages[segment.lang] = None
        sources += bool(segment.source)
        if all(ref.original for ref in segment.refs):
            without_added += 1
        else:
            places.append(place)
        empty += sum(not ref.text.strip() for ref in segment.refs)
        own = _repeats(segment)
        copies, repeats = copies + own[0], repeats + own[1]
        for ref in segment.refs:
            group = "human" if ref.original else "added"
            characters[group] += len(ref.text)
            texts[group] += 1
            if ref.original:
                continue
            generators[ref.generator or ""] += 1
            base = base_of(ref, segment)
            if base is not None and base.text:
                ratios.append(len(ref.text) / len(base.text))
            if ref.logprob is not None:
                logprobs.append(ref.logprob)
            if ref.weight is not None:
                weights.append(ref.weight)
    counts = Counts(
        tuple(_spread(kind, numbers) for kind, numbers in kinds.items() if any(numbers)),
        dict(generators.most_common()),
        tuple(languages),
        sources,
        without_added,
        Repeats(texts["added"], copies, repeats, empty),
        {group: characters[group] / texts[group] for group in ("human", "added") if texts[group]},
        histogram(ratios, 0, 2),
        histogram(logprobs),
        histogram(weights, 0, 1),
    )
    return counts, places


def base_of(ref: Reference, segment: Segment) -> Reference | None:
    """The reference that an added one was made from; the first human one where it does not say, None without any."""
    if ref.of is not None and ref.of < len(segment.refs):
        return segment.refs[ref.of]
    return next((other for other in segment.refs if other.original), None)


def runs(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the header says of every run that added references, oldest first."""
    generators = meta.get("generator")
    if generators is None:
        return []
    if not isinstance(generators, list):
        return [{key: meta[key] for key in _RUN if meta.get(key) is not None}]
    values = {key: meta[key] for key in _RUN if isinstance(meta.get(key), list) and len(meta[key]) == len(generators)}
    return [{key: one[run] for key, one in values.items() if one[run] is not None} for run in range(len(generators))]


def histogram(values: Sequence[float], low: float | None = None, high: float | None = None) -> Histogram | None:
    """Twenty bins between two edges, by default the round numbers around the values; None without values."""
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    bins = 20
    if low is None or high is None:
        least, most = float(array.min()), float(array.max())
        step = 10.0 ** np.floor(np.log10(max(most - least, 1e-6) / 2))
        low, high = float(np.floor(least / step) * step), float(np.ceil(most / step) * step)
        high = high if high > low else low + step
    found, _ = np.histogram(np.clip(array, low, high), bins=bins, range=(low, high))
    return Histogram(low, (high - low) / bins, tuple(found.tolist()), float(array.mean()))


def _repeats(segment: Segment) -> tuple[int, int]:
    """Copies of human references, and added references that repeat one before them."""
    # Comparing in full takes long, and few segments have anything alike.
    if len({_MARKS.sub("", ref.text.casefold()) for ref in segment.refs}) == len(segment.refs):
        return 0, 0
    seen: set[str] = set()
    human: set[str] = set()
    copies = repeats = 0
    for ref in sorted(segment.refs, key=lambda ref: not ref.original):
        key = comparison_key(ref.text)
        if ref.original:
            human.add(key)
        elif key in human:
            copies += 1
        elif key in seen:
            repeats += 1
        seen.add(key)
    return copies, repeats


def _spread(kind: str, numbers: Sequence[int]) -> Spread:
    array = np.asarray(numbers)
    low, first, median, third, high = (float(value) for value in np.percentile(array, [0, 25, 50, 75, 100]))
    return Spread(
        kind,
        int(array.sum()),
        float(array.mean()),
        int((array == 0).sum()),
        (low, first, median, third, high),
        tuple(np.bincount(array).tolist()),
    )


def _listed(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


Item = TypeVar("Item")


def sampled(items: Sequence[Item], size: int, seed: int) -> list[Item]:
    """``size`` of the items, or all where there are fewer, in their order."""
    if size >= len(items):
        return list(items)
    return [items[place] for place in sorted(random.Random(seed).sample(range(len(items)), size))]


@dataclass(frozen=True)
class Diversity:
    """How much the references of one group differ. Everything is NaN where there is nothing to compare.

    Attributes:
        group: ``human`` or ``added``.
        references: How many there are in the part that was measured.
        self_bleu: BLEU of a reference against the others of its group and segment, 0 to 100.
        bleu_to_human: BLEU of an added reference against the human ones, 0 to 100; NaN for the human ones.
        distinct: Different 1-grams and 2-grams of a segment over all of them, 0 to 1.
        new: Share of those of the added references that no human one of the segment has, 0 to 1; NaN for the human
            ones.
    """

    group: str
    references: int
    self_bleu: float
    bleu_to_human: float
    distinct: tuple[float, float]
    new: tuple[float, float]


def diversity(part: Sequence[Segment]) -> tuple[list[Diversity], str]:
    """Diversity of the human and of the added references, those that there are, and the tokeniser it is for."""
    human = [[ref.text for ref in segment.originals] for segment in part]
    added = [[ref.text for ref in segment.extras] for segment in part]
    tokenize = tokenizer_for([text for texts in (*human, *added) for text in texts])
    nothing = float("nan")
    found = []
    for group, texts in (("human", human), ("added", added)):
        count = sum(map(len, texts))
        if not count:
            continue
        one, two = distinct_ngrams(texts, 2, tokenize)
        closeness, new = nothing, (nothing, nothing)
        if group == "added" and any(map(len, human)):
            some = [more for more, refs in zip(texts, human, strict=True) if refs]
            against = [refs for refs in human if refs]
            closeness = _mean(bleu_to_references(some, against, tokenize))
            new_one, new_two = new_ngrams(some, against, 2, tokenize)
            new = (new_one, new_two)
        found.append(Diversity(group, count, _mean(self_bleu(texts, tokenize)), closeness, (one, two), new))
    return found, tokenize


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
