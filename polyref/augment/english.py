"""Checks that know English words: negation, echoes, names, lost content."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from polyref.augment.checks import Check
from polyref.augment.normalize import WORD, words

# The last line: as people write them without the apostrophe; "cant" and "wont" are words, but rare ones.
_NEGATION_LIST: Final = """
not no never none nobody nothing nowhere neither nor cannot without nope nah ain't aint
dont doesnt didnt cant couldnt wont wouldnt shouldnt isnt arent wasnt werent hasnt havent hadnt
"""
#: Words that negate by themselves. Contractions (n't) are found by their ending.
_NEGATIONS: Final = frozenset(_NEGATION_LIST.split())
#: Places where such a word does not negate: "no. 5", "not only", "no matter".
_NOT_NEGATING: Final = re.compile(
    r"\bno\.?\s*(?=\d)|\bnot (?:only|just|merely)\b|\bno (?:matter|doubt)\b", re.IGNORECASE
)

_SENTENCE_END: Final = re.compile(r"[.!?…:]+[\"'”’)\]]*\s|[\n\"“„«(]")

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


def negation(*, exact: bool = False) -> Check:
    """The candidate negates something exactly if the reference does; ``exact`` compares how often."""

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = count_negations(reference), count_negations(candidate)
        return expected == found if exact else bool(expected) == bool(found)

    return Check("negation-count" if exact else "negation", accepts)


def count_negations(text: str) -> int:
    """How many words of ``text`` negate."""
    plain = _NOT_NEGATING.sub(" ", text.replace("’", "'"))
    return sum(word in _NEGATIONS or word.endswith("n't") for word in words(plain))


def echo() -> Check:
    """No content word comes again where the reference has it once: ``the head of the head of the school``.

    Small models fall back into what they have said when they lose the thread, at any distance.
    """

    def accepts(reference: str, candidate: str) -> bool:
        again = {word: count for word, count in _content(candidate).items() if count > 1}
        expected = _content(reference) if again else {}
        return all(count <= expected.get(word, 0) for word, count in again.items())

    return Check("echo", accepts)


def names() -> Check:
    """Every word the reference writes with a capital in mid-sentence occurs in the candidate."""

    def accepts(reference: str, candidate: str) -> bool:
        found = {_bare(word) for word in words(candidate)}
        return all(name in found for name in _names(reference))

    return Check("names", accepts)


def _names(text: str) -> set[str]:
    found: set[str] = set()
    for sentence in _SENTENCE_END.split(text):
        # The first word has a capital anyway; "I" and its contractions have one everywhere.
        for match in list(WORD.finditer(sentence))[1:]:
            if match[0][0].isupper():
                found.update(_bare(word) for word in words(match[0]))
    return found - {"i", "i'm", "i've", "i'll", "i'd"}


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("'")


def omission(allowed: float = 0.1) -> Check:
    """No net loss of content words beyond the fraction ``allowed``, and no candidate that only deletes.

    The usual fault of a small paraphraser is to leave something out; it shows as content words that are gone
    with nothing in their place.
    """

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = _content(reference), _content(candidate)
        lost = (expected - found).total()
        gained = (found - expected).total()
        return lost == 0 or (gained > 0 and lost - gained <= allowed * expected.total())

    return Check("omission", accepts)


def _content(text: str) -> Counter[str]:
    return Counter(_bare(word) for word in words(text) if word not in _FUNCTION_WORDS)
