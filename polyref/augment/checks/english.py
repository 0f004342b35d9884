"""Checks that know English words: dates, persons, names, echoes, lost content."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from polyref.augment.checks.base import Check
from polyref.comparison import WORD, words

#: Starts where a run of marks does: tried at each of them, a long run would take the square of its length.
_SENTENCE_END: Final = re.compile(r"(?<![.!?…:])[.!?…:]+[\"'”’)\]]*\s|[\n\"“„«]")
#: A full stop that ends no sentence, initials included ("so do I." is none), and the word after it.
_ABBREVIATION: Final = re.compile(
    r"\b((?:[A-Z]\.)+[A-Z]|[A-HJ-Z]|Mr|Mrs|Ms|Dr|St|Prof|Gen|Sen|Rep|Gov|Lt|Col|Sgt|Capt|Rev|Hon|Jr|Sr|Mt|Ft)\.(?=\s(\w+))"
)  #: The colon before what is no sentence: "Winner: Berlin", "Winners: Berlin, Rome", "Winner: Ann Lee".
_LABEL: Final = re.compile(r":(?= (?:[A-Z]\w+ ?){1,4}(?:[.,;)]|$|and\b))")

_FUNCTION_WORD_LIST: Final = """
a an the this that these those here there it its itself i me my mine myself we us our ours you your yours he him
his himself she her hers herself they them their theirs one ones who whom whose which what where when how why
be am is are was were been being do does did done doing have has had having will would shall should can could
may might must ought of in on at by to from for with about into onto over under up down out off upon within
through during before after above below between among against toward towards via per as than then so if because
since while although though and or but yet also too very quite just even only still again already ever such some
any each every both all more most much many few less least other another own same well now i'm i've i'll i'd
you're you've you'll you'd he's she's it's we're we've we'll we'd they're they've they'll they'd that's there's
what's who's let's
"""
#: Dropping or adding one of these does not change what is said.
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())


_DAY_LIST: Final = "monday tuesday wednesday thursday friday saturday sunday"
_MONTH_LIST: Final = "january february april june july august september october november december"
_DATES: Final = frozenset(f"{_DAY_LIST} {_MONTH_LIST}".split())
_ABBREVIATED: Final = {name[:3]: name for name in _MONTH_LIST.split()} | {"sept": "september"}
#: "March" and "May" are months where a number or one of these words stands beside them.
_MARCH_MAY: Final = re.compile(
    r"\b(?:in|of|since|until|by|early|late|mid|last|this|next|\d+(?:st|nd|rd|th)?)[ -](March|May)\b|\b(March|May),? \d"
)


_RELATIVE: Final = frozenset(("yesterday", "today", "tomorrow"))


def dates() -> Check:
    """The same months and days of the week (``Jan.`` is ``January``); no ``yesterday`` that becomes ``tomorrow``."""

    def accepts(reference: str, candidate: str) -> bool:
        here, there = _RELATIVE & set(words(reference)), _RELATIVE & set(words(candidate))
        return _dates(reference) == _dates(candidate) and not (here - there and there - here)

    return Check("dates", accepts)


def _dates(text: str) -> set[str]:
    found = {_ABBREVIATED.get(word.lower(), word.lower()) for word in WORD.findall(text) if word[0].isupper()}
    months = {(before or after).lower() for before, after in _MARCH_MAY.findall(text)}
    return {
        word.removesuffix("'s").removesuffix("s") if word not in _DATES else word for word in found
    } & _DATES | months


_PERSONS: Final = {
    word: person
    for person, forms in {
        "i": "i me my mine myself i'm i've i'll i'd",
        "we": "we us our ours ourselves we're we've we'll we'd let's",
        "you": "you your yours yourself yourselves you're you've you'll you'd",
        "he": "he him his himself he's he'll he'd",
        "she": "she her hers herself she's she'll she'd",
    }.items()
    for word in forms.split()
}


def persons() -> Check:
    """No ``I``, ``we``, ``you``, ``he`` or ``she``, in any form, more often than in the reference.

    A new person is the mark of an opening that diversity forced: ``You can see it`` for ``It is visible``.
    """

    def accepts(reference: str, candidate: str) -> bool:
        return _persons(candidate) <= _persons(reference)

    return Check("persons", accepts)


def _persons(text: str) -> Counter[str]:
    return Counter(_PERSONS[word] for word in words(text) if word in _PERSONS)


def echo() -> Check:
    """No content word comes again, in singular or plural, where the reference has it once: ``the head of the head``.

    Small models fall back into what they have said when they lose the thread, at any distance.
    """

    def accepts(reference: str, candidate: str) -> bool:
        again = {word: count for word, count in _singular(candidate).items() if count > 1}
        expected = _singular(reference) if again else {}
        return all(count <= expected.get(word, 0) for word, count in again.items())

    return Check("echo", accepts, within_sentences=True)


def _singular(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for word, count in _content(text).items():
        # Only an ending that cannot belong to the word itself: not "ss", "us", "is".
        plural = len(word) > 3 and word[-1] == "s" and word[-2] not in "sui"
        found[word[:-1] if plural else word] += count
    return found


def names() -> Check:
    """Every word the reference writes with a capital in mid-sentence occurs in the candidate."""

    def accepts(reference: str, candidate: str) -> bool:
        found = {_bare(word) for word in words(candidate)}
        return all(name in found for name in _names(reference))

    return Check("names", accepts)


def _names(text: str) -> set[str]:
    found: set[str] = set()
    # "in the U.S. But ..." ends a sentence; "the U.S. Army" does not.
    joined = _ABBREVIATION.sub(
        lambda one: one[0] if one[2].lower() in _FUNCTION_WORDS else one[1], _LABEL.sub("", text)
    )
    for sentence in _SENTENCE_END.split(joined):
        # The first word has a capital anyway; "I" and its contractions have one everywhere.
        for match in list(WORD.finditer(sentence))[1:]:
            if match[0][0].isupper():
                found.update(_bare(word) for word in words(match[0]))
    return found - {"i", "i'm", "i've", "i'll", "i'd"}


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("'")


def omission(allowed: float = 0.1, *, deletion: bool = False) -> Check:
    """No net loss of content words beyond the fraction ``allowed``; and, but for ``deletion``, none without a gain.

    The usual fault of a small paraphraser is to leave something out; it shows as content words that are gone
    with nothing in their place.
    """

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = _content(reference), _content(candidate)
        lost = (expected - found).total()
        gained = (found - expected).total()
        return lost == 0 or ((gained > 0 or deletion) and lost - gained <= allowed * expected.total())

    return Check(f"omission{allowed:g}" if deletion else "omission", accepts)


def _content(text: str) -> Counter[str]:
    return Counter(_bare(word) for word in words(text) if word not in _FUNCTION_WORDS)
