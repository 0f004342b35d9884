"""What is wrong with added references, by detectors that share no code with polyref's filters.

They err on the side of alarm: ``17`` for ``seventeen`` is no change, ``a dozen`` for ``twelve`` is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

TOKEN = re.compile(r"[A-Za-zÀ-ɏ0-9]+(?:['’][A-Za-z]+)?")
UNITS = """
zero one two three four five six seven eight nine ten
eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SPELLED = {word: str(value) for value, word in enumerate(UNITS.split())}
SPELLED |= {word: str(10 * value) for value, word in enumerate(TENS, 2)}
#: "one" is a pronoun as often as a number.
del SPELLED["one"]
SCALES = {"hundred", "thousand", "million", "billion", "trillion", "dozen", "half", "percent"}
NEGATIVE = {"not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "cannot", "without"}
NEGATIVE |= {"hardly", "barely", "scarcely", "seldom", "rarely", "dont", "doesnt", "didnt", "isnt", "wasnt", "wont"}
NOT_NEGATIVE = re.compile(r"\bnot only\b|\bno\.? ?\d|\bno doubt\b|\bno matter\b|\bwithout a doubt\b", re.IGNORECASE)
#: Function words that English says twice in a row.
DOUBLED = {"had", "that", "is", "so", "very"}
BAD_SPACING = re.compile(r"\s[,.;:!?)\]](?!\d)|[(\[]\s|\s{2}|\w\s['’](?:s|t|re|ve|ll|d|m)\b|\sn't\b|[▁⁇]|<\w+>")
SENTENCE_END = re.compile(r"[.!?…:]+[\"'”’)\]]*\s+|[\"“„«(—-]\s*|\n")


def bare(text: str) -> str:
    """Letters and digits alone, lower case."""
    return re.sub(r"[\W_]", "", text.lower())


def tokens(text: str) -> list[str]:
    """Words and numbers, lower case."""
    return [token.lower().replace("’", "'") for token in TOKEN.findall(text)]


def numbers(text: str) -> Counter[str]:
    """Numbers, whether in digits or spelled, and words for amounts."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower().replace("%", " percent ")).replace("per cent", "percent")
    found = Counter(str(int(run)) for run in re.findall(r"\d+", plain))
    for word in re.findall(r"[a-z]+", plain):
        if word in SPELLED:
            found[SPELLED[word]] += 1
        elif word in SCALES or word.removesuffix("s") in SCALES:
            found[word.removesuffix("s")] += 1
    return found


def negations(text: str) -> int:
    """Words that negate, the near-negatives (hardly, barely) among them."""
    words = tokens(NOT_NEGATIVE.sub(" ", text))
    return sum(word in NEGATIVE or word.endswith("n't") for word in words)


def repeats(text: str, reference: str) -> bool:
    """A word twice in a row, a trigram again, or a word of five letters or more more often than in the reference."""
    words, expected = tokens(text), tokens(reference)
    doubled = {a for a, b in pairwise(words) if a == b}
    if doubled - {a for a, b in pairwise(expected) if a == b} - DOUBLED:
        return True
    trigrams, allowed = Counter(zip(words, words[1:], words[2:])), Counter(zip(expected, expected[1:], expected[2:]))
    if any(count > max(1, allowed[gram]) for gram, count in trigrams.items()):
        return True
    long, there = Counter(w for w in words if len(w) > 4), Counter(expected)
    return any(count > max(1, there[word]) and word not in COMMON for word, count in long.items())


COMMON_LIST = """
about after again because before being could every first might other their there these those think which while where
would should never since still until under between during through
"""
COMMON = set(COMMON_LIST.split())


def names(text: str) -> set[str]:
    """Words with a capital that do not open a sentence."""
    found: set[str] = set()
    for sentence in SENTENCE_END.split(text):
        found |= {w.lower().replace("’s", "").replace("'s", "") for w in TOKEN.findall(sentence)[1:] if w[0].isupper()}
    return {name for name in found if not name.startswith("i'") and name != "i" and not name.isdigit()}


def names_changed(text: str, reference: str) -> bool:
    """A name of the reference is lost, or there is one it does not have in any case."""
    there = {word.removesuffix("'s") for word in tokens(text)}
    expected = {word.removesuffix("'s") for word in tokens(reference)}
    return bool(names(reference) - there) or bool(names(text) - expected)


def ill_formed(text: str, reference: str) -> bool:
    """Spacing, casing or punctuation that the reference does not have: what nobody would type."""
    if BAD_SPACING.search(text) and not BAD_SPACING.search(reference):
        return True
    first, expected = re.search(r"[^\W\d_]", text), re.search(r"[^\W\d_]", reference)
    if first and expected and first[0].islower() and expected[0].isupper() and not re.match(r"\w[A-Z]", text):
        return True
    if reference.rstrip(" \"'”’)")[-1:] in ".!?" and text.rstrip(" \"'”’)")[-1:] not in ".!?…":
        return True
    return (text.isupper() and not reference.isupper()) or text.count('"') % 2 > reference.count('"') % 2


def word_f1(text: str, reference: str) -> float:
    """Harmonic mean of the shares of words that the two have in common."""
    a, b = Counter(tokens(text)), Counter(tokens(reference))
    common = (a & b).total()
    return 2 * common / (a.total() + b.total()) if common else 0.0


def self_bleu(texts: Sequence[str]) -> float | None:
    """Mean sentence BLEU of each text against the others (Zhu et al. 2018): 100 is no diversity."""
    import sacrebleu

    if len(texts) < 2:
        return None
    scores = [sacrebleu.sentence_bleu(text, [*texts[:n], *texts[n + 1 :]]).score for n, text in enumerate(texts)]
    return fmean(scores)


def faults(text: str, human: Sequence[str], reference: str) -> dict[str, bool]:
    """Everything that is wrong with one added reference, by name.

    Args:
        text: The added reference.
        human: All human references of the segment.
        reference: The one it was made from.
    """
    expected, found = numbers(reference), numbers(text)
    return {
        "copy": bare(text) in {bare(one) for one in human},
        "repeats": repeats(text, reference),
        "numbers": expected != found,
        "negation": bool(negations(reference)) != bool(negations(text)),
        "names": names_changed(text, reference),
        "form": ill_formed(text, reference),
        "short": len(tokens(text)) < 0.8 * len(tokens(reference)),
    }


def measure(segments: Sequence[tuple[Sequence[str], Sequence[tuple[str, str]]]], most: int = 200) -> dict[str, Any]:
    """Figures of delivered references.

    Args:
        segments: One a segment: its human references, and (added reference, the one it was made from) in order.
        most: Segments used for self-BLEU, spread evenly.

    Returns:
        Shares (0 to 1) of the added references with each fault, and means.
    """
    rows = [(text, of, faults(text, human, of)) for human, added in segments for text, of in added]
    counts = [len(added) for _, added in segments]
    result: dict[str, Any] = {"segments": len(segments), "usable": fmean(counts) if counts else 0.0}
    result["five"] = sum(count >= 5 for count in counts) / max(len(counts), 1)
    result["added"] = len(rows)
    if not rows:
        return result
    for name in rows[0][2]:
        result[name] = sum(row[2][name] for row in rows) / len(rows)
    keys = [[bare(text) for text, _ in added] for _, added in segments]
    result["duplicates"] = sum(len(one) - len(set(one)) for one in keys) / len(rows)
    result["length_ratio"] = fmean(len(tokens(text)) / max(len(tokens(of)), 1) for text, of, _ in rows)
    result["word_f1"] = fmean(word_f1(text, of) for text, of, _ in rows)
    step = max(1, len(segments) // most)
    diverse = [self_bleu([text for text, _ in added]) for _, added in segments[::step]]
    known = [value for value in diverse if value is not None]
    result["self_bleu"] = fmean(known) if known else None
    return result
