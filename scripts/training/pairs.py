"""Training pairs for the shipped paraphraser, from clusters of sentences that mean the same.

Input: ``{"set", "lang", "id", "nref", "texts"}`` a line. A pair is kept when the word F1 lies in [0.4, 0.97) (few
closer ones survive), digits and negation agree, and capitalised words differ by at most one; the recipe's
:class:`~training.recipe.PairRules` say what else, :mod:`training.rules` which pairs say the same.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.recipe import PairRules

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
DIGITS = re.compile(r"\d+")
NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|cannot|without|hardly)\b|n['’]t\b", re.I
)
# Tokenised or broken spacing, doubled punctuation, stray markup: not what a reference should look like.
UNNATURAL = re.compile(r" [,.;:!?)]|\( | 's\b| n't\b|&(?:quot|amp|apos|lt|gt);|@-@|,,|\.\.\.\.|''|``|~|_{2}|\s{2}")

#: Upper bounds of the word F1 of closeness 0, 1, 2; above the last is 3 (near copies).
CLOSENESS_BOUNDS = (0.60, 0.75, 0.88)
#: Pairs of this word F1 or more are copies.
COPY = 0.97

#: Connectives that open a sentence and tie it to the one before, and what in the source justifies one.
TIES = (
    (
        "in addition|additionally|moreover|furthermore|besides|also|what is more|and",
        "and|also|in addition|additionally|moreover|furthermore|besides|too|as well|plus",
    ),
    (
        "however|nevertheless|nonetheless|on the other hand|on the contrary|by contrast|in contrast|still|yet|but",
        "but|however|yet|still|nevertheless|nonetheless|though|although|while|whereas|despite|contrast|contrary|hand",
    ),
    (
        "as a result|therefore|thus|hence|consequently|accordingly|so|because of this|for this reason|that is why",
        "so|thus|therefore|hence|consequently|accordingly|result|because|reason|then|why|since",
    ),
    (
        "at the same time|in the same time|meanwhile|in the meantime|at that time|at the time|then|afterwards",
        "time|meanwhile|meantime|while|when|as|then|simultaneously|after|afterwards|later|subsequently|next|and",
    ),
    ("for example|for instance", "example|instance|such as|like|including|e\\.g"),
    ("in fact|as a matter of fact|actually|indeed|of course|in reality", "fact|actually|indeed|really|course|truth"),
    ("in other words|that is to say|in this case|in general|in this regard", "words|say|case|generally?|means|regard"),
    ("finally|in the end|in conclusion|lastly", "finally|end|last|lastly|eventually|conclusion|ultimately"),
    ("similarly|likewise|instead|otherwise", "similar|similarly|likewise|also|too|same|instead|rather|otherwise|or"),
)
_TIES = tuple((re.compile(rf"\W*(?:{new})\b", re.I), re.compile(rf"\b(?:{why})\b", re.I)) for new, why in TIES)

#: How far near copies (closeness 3) go down the queue of a cluster's pairs: they teach copying, which is learnt early.
NEAR_COPY_HANDICAP = 0.5

#: What is wrong with a pair (source, target); None if nothing is.
Faults = Callable[[str, str], str | None]


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


def inserts_opening(source: str, target: str) -> bool:
    """Whether ``target`` opens with a connective (``In addition``, ``However``) that ``source`` gives no reason for."""
    return any(new.match(target) and not why.search(source) for new, why in _TIES)


def fault(a: _Text, b: _Text, f1: float, rng: random.Random) -> str | None:
    """What is wrong with a pair by the rules that all pairs obey; None if nothing is."""
    if f1 < 0.4:
        return "apart"
    if f1 >= COPY and rng.random() > 0.03:
        return "copy"
    if a.digits != b.digits:
        return "digits"
    if a.negated != b.negated:
        return "negation"
    if not 0.75 <= a.length / b.length <= 1.34:
        return "length"
    return "capitals" if ((a.capitals - b.capitals) + (b.capitals - a.capitals)).total() > 1 else None


def closeness(f1: float) -> int:
    return sum(f1 >= bound for bound in CLOSENESS_BOUNDS)


def likeness(source: str, sample: str) -> int | None:
    """The closeness of a source and what a model made of it; None if the rules that all pairs obey forbid it."""
    one, other = _describe(source, False), _describe(sample, False)
    f1 = word_f1(one.bag, other.bag)
    if other.length < 3 or f1 >= COPY or UNNATURAL.search(sample) or inserts_opening(source, sample):
        return None
    return None if fault(one, other, f1, random.Random(1)) else closeness(f1)


def pairs_of(
    cluster: Cluster,
    rules: PairRules,
    rng: random.Random,
    faults: Counter[str] | None = None,
    judged: Faults | None = None,
) -> list[Pair]:
    """The pairs of one cluster: human sources first, targets close to the cluster's consensus.

    ``faults`` counts the ordered pairs that were left out, by reason; ``judged`` has the last word about each.
    """
    faults = Counter() if faults is None else faults
    texts = clean_texts(cluster)
    faults["unnatural text"] += len(cluster.texts) - len(texts)
    if len(texts) < 2:
        return []
    f1 = {(i, j): word_f1(texts[i].bag, texts[j].bag) for i in range(len(texts)) for j in range(i)}

    def between(i: int, j: int) -> float:
        return f1[max(i, j), min(i, j)]

    consensus = [sum(between(i, j) for j in range(len(texts)) if j != i) / (len(texts) - 1) for i in range(len(texts))]
    floor = sorted(consensus)[int(len(texts) * rules.min_consensus)] if len(texts) >= 6 else 0.0
    found: list[tuple[float, Pair]] = []
    for i, source in enumerate(texts):
        for j, target in enumerate(texts):
            if i == j:
                continue
            if consensus[j] < floor and not target.human:
                faults["consensus"] += 1
                continue
            reason = fault(source, target, between(i, j), rng)
            near = between(i, j) >= CLOSENESS_BOUNDS[-1]
            if reason is None and near and rules.near_copies < 1 and rng.random() >= rules.near_copies:
                reason = "near copy"
            if reason is None and not rules.openings and inserts_opening(source.text, target.text):
                reason = "opening"
            if reason is not None:
                faults[reason] += 1
                continue
            order = rng.random() - rules.human * ((0.35 if source.human else 0.0) + (0.2 if target.human else 0.0))
            found.append((order + NEAR_COPY_HANDICAP * near, Pair(source.text, target.text, closeness(between(i, j)))))
    found.sort(key=lambda item: item[0])
    return _chosen(found, rules.most if cluster.nref else rules.most_without_human, faults, judged)


def _chosen(found: list[tuple[float, Pair]], most: int, faults: Counter[str], judged: Faults | None) -> list[Pair]:
    chosen: list[Pair] = []
    for at, (_, pair) in enumerate(found):
        if len(chosen) == most:
            faults["more than the most"] += len(found) - at
            break
        if judged is not None and (reason := judged(pair.source, pair.target)):
            faults[reason] += 1
        else:
            chosen.append(pair)
    return chosen


def template(cluster: Cluster) -> str:
    """Key under which near-duplicates (test-suite templates) fall together."""
    return re.sub(r"\b[A-Z]\w*|\d+", "#", min(cluster.texts))[:60]


def training_pairs(
    clusters: Iterable[Cluster],
    rules: PairRules,
    seed: int = 1,
    faults: Counter[str] | None = None,
    judge: Callable[[Cluster], Faults] | None = None,
) -> Iterator[list[Pair]]:
    """Pairs cluster by cluster; test suites (no human reference) and templates are capped."""
    faults = Counter() if faults is None else faults
    seen: Counter[str] = Counter()
    for cluster in clusters:
        key = template(cluster)
        seen[key] += 1
        if seen[key] <= rules.most_template:
            rng = random.Random(f"{seed}/{cluster.set}/{cluster.id}")
            yield pairs_of(cluster, rules, rng, faults, judge and judge(cluster))
        else:
            faults["clusters like others"] += 1
