"""Training pairs for the shipped paraphraser, from clusters of sentences that mean the same.

Input: ``wmt.en.jsonl.gz`` with ``{"set", "lang", "id", "nref", "texts"}`` a line. A pair is kept when the word F1
lies in [0.4, 0.97) (few closer ones survive), digits and negation agree, and capitalised words differ by at most one.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
DIGITS = re.compile(r"\d+")
NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|cannot|without|hardly)\b|n['’]t\b", re.I
)
# Tokenised or broken spacing, doubled punctuation, stray markup: not what a reference should look like.
UNNATURAL = re.compile(r" [,.;:!?)]|\( | 's\b| n't\b|&(?:quot|amp|apos|lt|gt);|@-@|,,|\.\.\.\.|''|``|~|_{2}|\s{2}")

#: Upper bounds of the word F1 of closeness 0, 1, 2; above the last is 3 (near copies).
CLOSENESS_BOUNDS = (0.60, 0.75, 0.88)

#: How far near copies (closeness 3) go down the queue of a cluster's pairs: they teach copying, which is learnt early.
NEAR_COPY_HANDICAP = 0.5


@dataclass(frozen=True)
class Cluster:
    set: str
    id: int
    nref: int
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    closeness: int


def read_clusters(path: Path) -> list[Cluster]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        rows = map(json.loads, stream)
        return [Cluster(row["set"], row["id"], row["nref"], tuple(row["texts"])) for row in rows]


def split(clusters: Sequence[Cluster], held_out: int = 25) -> tuple[list[Cluster], list[Cluster]]:
    """Training and validation clusters: the last ``held_out`` ids of each set outside the test suites (nref > 0)."""
    by_set: dict[str, list[int]] = defaultdict(list)
    for index, cluster in enumerate(clusters):
        if cluster.nref:
            by_set[cluster.set].append(index)
    chosen = {i for members in by_set.values() for i in sorted(members, key=lambda i: clusters[i].id)[-held_out:]}
    train = [cluster for index, cluster in enumerate(clusters) if index not in chosen]
    return train, [clusters[index] for index in sorted(chosen)]


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def word_f1(a: Counter[str], b: Counter[str]) -> float:
    common = sum((a & b).values())
    return 2 * common / max(1, a.total() + b.total())


def _capitals(text: str) -> Counter[str]:
    return Counter(word for word in WORD.findall(text)[1:] if word[0].isupper())


@dataclass(frozen=True)
class _Text:
    text: str
    bag: Counter[str]
    length: int
    digits: Counter[str]
    negated: bool
    capitals: Counter[str]
    human: bool


def _describe(text: str, human: bool) -> _Text:
    tokens = words(text)
    return _Text(
        text,
        Counter(tokens),
        len(tokens),
        Counter(DIGITS.findall(text)),
        bool(NEGATION.search(text)),
        _capitals(text),
        human,
    )


def clean_texts(cluster: Cluster) -> list[_Text]:
    """The texts of a cluster that look like natural sentences; lost first letters and loops are left out."""
    lower = [text for text in cluster.texts if text[:1].islower()]
    keep_lower = len(lower) * 2 > len(cluster.texts)
    result = []
    for index, text in enumerate(cluster.texts):
        if UNNATURAL.search(text) or (text[:1].islower() and not keep_lower):
            continue
        described = _describe(text, index < cluster.nref)
        if 3 <= described.length <= 110 and described.bag.most_common(1)[0][1] <= max(4, described.length // 4):
            result.append(described)
    return result


def good_pair(a: _Text, b: _Text, f1: float, rng: random.Random) -> bool:
    if f1 < 0.4 or (f1 >= 0.97 and rng.random() > 0.03):
        return False
    if a.digits != b.digits or a.negated != b.negated or not 0.75 <= a.length / b.length <= 1.34:
        return False
    return ((a.capitals - b.capitals) + (b.capitals - a.capitals)).total() <= 1


def closeness(f1: float) -> int:
    return sum(f1 >= bound for bound in CLOSENESS_BOUNDS)


def pairs_of(cluster: Cluster, most: int, rng: random.Random) -> list[Pair]:
    """At most ``most`` pairs of one cluster: human sources first, targets close to the cluster's consensus."""
    texts = clean_texts(cluster)
    if len(texts) < 2:
        return []
    f1 = {(i, j): word_f1(texts[i].bag, texts[j].bag) for i in range(len(texts)) for j in range(i)}

    def between(i: int, j: int) -> float:
        return f1[max(i, j), min(i, j)]

    consensus = [sum(between(i, j) for j in range(len(texts)) if j != i) / (len(texts) - 1) for i in range(len(texts))]
    floor = sorted(consensus)[len(texts) // 4] if len(texts) >= 6 else 0.0
    found: list[tuple[float, Pair]] = []
    for i, source in enumerate(texts):
        for j, target in enumerate(texts):
            if i == j or (consensus[j] < floor and not target.human):
                continue
            if good_pair(source, target, between(i, j), rng):
                order = rng.random() - (0.35 if source.human else 0.0) - (0.2 if target.human else 0.0)
                order += NEAR_COPY_HANDICAP * (between(i, j) >= CLOSENESS_BOUNDS[-1])
                found.append((order, Pair(source.text, target.text, closeness(between(i, j)))))
    return [pair for _, pair in sorted(found, key=lambda item: item[0])[:most]]


def template(cluster: Cluster) -> str:
    """Key under which near-duplicates (test-suite templates) fall together."""
    return re.sub(r"\b[A-Z]\w*|\d+", "#", min(cluster.texts))[:60]


def training_pairs(
    clusters: Sequence[Cluster], *, most: int = 24, most_suite: int = 6, most_template: int = 3, seed: int = 1
) -> Iterator[list[Pair]]:
    """Pairs cluster by cluster; test suites (no human reference) and templates are capped."""
    seen: Counter[str] = Counter()
    for cluster in clusters:
        key = template(cluster)
        seen[key] += 1
        if seen[key] <= most_template:
            rng = random.Random(f"{seed}/{cluster.set}/{cluster.id}")
            yield pairs_of(cluster, most if cluster.nref else most_suite, rng)
