"""The check of English negation: words that negate, and words that have a negation in them."""

from __future__ import annotations

import re
from typing import Final

from polyref.augment.checks.base import Check
from polyref.comparison import words

# The last line: as people write them without the apostrophe; "cant" and "wont" are words, but rare ones.
_NEGATION_LIST: Final = """
not no never none nobody nothing nowhere neither nor cannot without nope nah ain't aint
hardly scarcely barely seldom rarely
dont doesnt didnt cant couldnt wont wouldnt shouldnt isnt arent wasnt werent hasnt havent hadnt
"""
#: Words that negate by themselves. Contractions (n't) are found by their ending.
_NEGATIONS: Final = frozenset(_NEGATION_LIST.split())
#: Places where such a word does not negate: "no. 5", "not only", "no matter".
_NOT_NEGATING: Final = re.compile(
    r"\bno\.?\s*(?=\d)|\bnot (?:only|just|merely)\b|\bno (?:matter|doubt)\b", re.IGNORECASE
)

_OPPOSITE_LIST: Final = """
impossible possible/impossibility possibility/unable able/inability ability/unlikely likely/unclear clear
uncertain certain/uncertainty certainty/unknown known/unsafe safe/unfair fair/unhappy happy/unpopular popular
unsuccessful successful/unsuccessfully successfully/unnecessary necessary/unacceptable acceptable/unaware aware
unwilling willing/unusual usual/unarmed armed/unhurt hurt/unharmed harmed/uninjured injured/unaffected affected
unchanged changed/unpaid paid/untrue true/unreliable reliable/unequal equal/unpleasant pleasant/unhealthy healthy
unpredictable predictable/unconstitutional constitutional/unemployed employed/unemployment employment
unlawful lawful/illegal legal/illegally legally/incorrect correct/inaccurate accurate/insufficient sufficient
inadequate adequate/incomplete complete/inappropriate appropriate/ineffective effective/inefficient efficient
invisible visible/irresponsible responsible/irrelevant relevant/irregular regular/dishonest honest/disagree agree
disagreed agreed/disagrees agrees/disagreement agreement/dissatisfied satisfied/disappear appear
disappeared appeared/disappears appears/immoral moral/immature mature/impatient patient/imperfect perfect
"""
#: Words with a negation in them, and what they are without it.
_OPPOSITES: Final = dict(pair.split() for pair in re.split(r"[/\n]", _OPPOSITE_LIST.strip()))
_FAIL: Final = re.compile(r"\bfail(?:s|ed|ing)?,? to\b", re.IGNORECASE)
#: Not to do something is less than not to have to do it.
_NEED: Final = re.compile(r"(?:n[’']t|\bnot) (?:have|need|want)\b", re.IGNORECASE)
#: Words that may stand for a failure, or weaken what follows: with one of them the other text need not negate.
_WEAK: Final = re.compile(
    r"\b(?:fail\w*|unsuccess\w*|unable|inabil\w*|impossib\w*|miss\w*|lack\w*|refus\w*|neglect\w*|declin\w*|los[et]\w*|"
    r"losing|loss|prevent\w*|stop\w*|avoid\w*|forg[eo]t\w*|hard|difficult\w*|struggl\w*|less|few|little|far from|too|"
    r"in vain|instead|den(?:y|ie\w*)|doubt\w*)\b",
    re.IGNORECASE,
)


def negation(*, exact: bool = False) -> Check:
    """The candidate negates something exactly if the reference does; ``exact`` compares how often.

    A word with a negation in it (``unable``, ``unclear``, ``failed to``) may become its opposite negated (``cannot``,
    ``not clear``, ``did not``), or the other way round, but not its opposite alone (``able``, ``clear``).
    """

    def accepts(reference: str, candidate: str) -> bool:
        here, there = count_negations(reference), count_negations(candidate)
        hidden, shown = _hidden(reference), _hidden(candidate)
        lost, new = hidden - shown, shown - hidden
        if exact and here != there and here + len(lost) != there + len(new):
            return False
        if bool(here) != bool(there):
            return _unfolded(new, reference) if here else _unfolded(lost, candidate)
        return here > 0 or not (_turned(lost, reference, candidate) or _turned(new, candidate, reference))

    return Check("negation-count" if exact else "negation", accepts)


def count_negations(text: str) -> int:
    """How many words of ``text`` negate."""
    plain = _NOT_NEGATING.sub(" ", text.replace("’", "'"))
    return sum(word in _NEGATIONS or word.endswith("n't") for word in words(plain))


def _hidden(text: str) -> set[str]:
    """Words with a negation in them; ``fail`` stands for ``failed to`` and its like."""
    found = _OPPOSITES.keys() & set(words(text))
    return {*found, "fail"} if _FAIL.search(text) else found


def _unfolded(hidden: set[str], other: str) -> bool:
    """Whether ``other``, which negates, says what is hidden elsewhere: ``not clear`` for ``unclear``."""
    if "fail" in hidden and not _NEED.search(other):
        return True
    found = words(other)
    can = {"cannot", "cant", "can't", "can", "couldnt", "couldn't", "could"} & set(found)
    return any(
        _OPPOSITES[word] in found or (bool(can) and word in ("impossible", "unable")) for word in hidden - {"fail"}
    )


def _turned(hidden: set[str], text: str, other: str) -> bool:
    """Whether the opposite of what is hidden in ``text`` stands in ``other``, without a word that weakens it."""
    if not hidden or _WEAK.search(other) or _hidden(other) - _hidden(text):
        return False
    turned = {_OPPOSITES[word] for word in hidden - {"fail"}} & set(words(other)) - set(words(text))
    return bool(turned) or "fail" in hidden
