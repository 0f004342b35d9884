"""Checks of English wording that rules can see: openings out of place, function words that do not go together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from polyref.augment.checks import Check, check
from polyref.augment.english_checks import DAYS, MONTHS
from polyref.comparison import WORD, words
from polyref.textfiles import read_lines


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Phrases that open a sentence and tie it to what came before, and what in the reference justifies one.
_TIES: Final = (
    ("in addition|moreover|furthermore|besides|additionally", "in addition|moreover|furthermore|besides|additionally"),
    ("however|nevertheless|on the other hand", "however|nevertheless|but|yet|though|although|while|on the other"),
    ("(?:at|in) the same time|meanwhile|at the time|at that time", "time|meanwhile|while|when|as|then|simultaneously"),
    ("therefore|thus|as a result|consequently|hence|so", "therefore|thus|result|consequently|hence|so|then|because"),
    ("for example|for instance", "example|instance|such as|like|including|e\\.g"),
    ("in fact|actually|indeed|of course", "fact|actually|indeed|really|course|truth"),
    ("in this case|in other words|in general|in the case|in terms", "case|words|general|generally|means|terms"),
)
_OPENINGS: Final = tuple(
    (re.compile(rf"\W*(?:{new})\b", re.IGNORECASE), re.compile(rf"\b(?:{why})\b", re.IGNORECASE)) for new, why in _TIES
)
_PREPOSITIONS: Final = _set(
    "in on at among between for with by from of to about under over after before during through since within according"
)
_TIMES: Final = _set(f"{DAYS} {MONTHS} march may today tomorrow yesterday")
_POINTERS: Final = _set("it this that these those there here it's that's there's here's what what's")
_POINTER_BE: Final = re.compile(
    r"\W*(?:(?:it|this|that|there|these|those|here|what)(?:[’']s| is| are| was| were))\b", re.I
)
#: Words before the subject that a paraphrase may add or leave out.
_LEAD: Final = _set("and but or so now then well yes no oh also actually in fact of course")
#: Words that open a sentence of their own kind: not one that the reference has in another way.
_INDEFINITE: Final = _set(
    "anyone someone everyone everybody everything something nobody nothing whoever whatever what who which why how"
)
_THEY: Final = _set("they them their they're they've they'll they'd")
_SUBORDINATORS: Final = _set(
    "if when once whenever as while although though even whereas despite because since after before until unless given"
)


def opening(*, ties: bool = True) -> Check:
    """No opening that the reference gives no reason for, and none lost that the rest needs.

    Diverse search makes beams start differently, and a model that finds no other start invents one. Refused are a
    preposition or subordinator that the reference does not have at all (``Among fresh vegetables rose``), but for
    prepositions of dates and times; ``It's``, ``That is`` or ``There are`` where the reference does not start with such
    a word; ``Anyone``, ``What`` or ``They`` where it has none; the loss of a subordinator that opens the reference
    (``Although it rained, we went``) without another, ``but``, ``and`` or ``so`` in the candidate; and, unless ``ties``
    are allowed, a tie to the sentence before (``In addition``, ``At the same time``) of which it has no kind.
    """

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = words(reference), words(candidate)
        if not found or found[:1] == expected[:1]:
            return True
        for new, reason in _OPENINGS:
            if new.match(candidate):
                return ties or reason.search(reference) is not None
        if _SUBORDINATORS & set(expected[:1]) and not (_SUBORDINATORS | {"but", "and", "so"}) & set(found):
            return False
        if _POINTER_BE.match(candidate) and not _points(expected):
            return False
        if found[0] in _INDEFINITE and found[0] not in expected:
            return False
        if found[0] in _THEY and not _THEY & set(expected):
            return False
        if found[0] in _SUBORDINATORS and not _SUBORDINATORS & set(expected):
            return False
        if found[0] not in _PREPOSITIONS or found[0] in expected:
            return True
        return found[1:2] != () and (found[1] in _TIMES or found[1][0].isdigit())

    return Check("opening" if ties else "opening-ties", accepts)


def _points(tokens: tuple[str, ...]) -> bool:
    """Whether a text starts with ``it``, ``this``, ``there`` and so on and a form of ``be`` near it."""
    at = next((at for at, token in enumerate(tokens) if token not in _LEAD), len(tokens))
    if tokens[at : at + 1] == () or tokens[at] not in _POINTERS:
        return False
    near = tokens[at : at + 4]
    return any(
        token in _BE or token.endswith(("'s", "'re")) or token in ("isn't", "wasn't", "aren't") for token in near
    )


_ARTICLES: Final = frozenset(("a", "an", "the"))
_SUBJECTS: Final = _set("i he she they we")
_FINITE: Final = _set("am is are was were has had does did would could should")
_BE: Final = _set("is are was were")
#: After an article: nothing that is a noun or an adjective as well (will, can, must, above, over, one, few, most ...).
_NOT_AFTER_ARTICLE: Final = (
    _ARTICLES
    | _SUBJECTS
    | _FINITE
    | _set("this that these those each every any some he she it they we you his her its their my our your")
    | _set("not of at from with for into than about if because although though whether and or but be been have")
)
_NOT_AFTER_PREPOSITION: Final = _SUBJECTS | _FINITE | _set("will can may might must")
_PLAIN_PREPOSITIONS: Final = _set("of with from at into among between")
_MODALS: Final = _set("will would can could should might must cannot can't won't wouldn't couldn't shouldn't")
_NOT_AFTER_MODAL: Final = _set("is are was were has had does did been being am will would can could should")
_ONE: Final = _set("he she it everything everyone everybody something someone nothing nobody")
_MANY: Final = _set("they we you these those")
_SINGULAR: Final = _set("a an each every this that")
#: Function words that keep their small letter inside a sentence.
_SMALL: Final = _set(
    "a an the this that these those each every it its he she they we you his her their our my your there here what "
    "when where which who if as so but and or because although while in on at for with from by of to"
)
_AN_SOUND: Final = re.compile(
    r"\b[Aa] (?!one|once|eu|ew|on-|o-|i{1,3}\b|a\b)[aeio][a-z]+|\b[Aa]n (?!ho|he|x-)[bcdfghjklmpqrstvwyz][a-z]{2,}"
)


_AUXILIARIES: Final = _set(
    "am is are was were be been being has have had do does did will would can could shall should may might must cannot"
)
_CONTRACTED: Final = re.compile(r".+(?:n't|'re|'m|'ve|'ll|'d)|(?:it|that|there|what|who|here|he|she|how|where)'s")


def _auxiliaries(tokens: tuple[str, ...]) -> int:
    """How many groups of auxiliaries there are: ``has been`` and ``it's`` count one each."""
    flags = [token in _AUXILIARIES or _CONTRACTED.fullmatch(token) is not None for token in tokens]
    return sum(flag and not before for flag, before in zip(flags, [False, *flags]))


def _title(reference: str, candidate: str) -> bool:
    """Whether an article stands before what is the second part of a name in the reference."""
    there = [match[0] for match in WORD.finditer(reference)]
    here = [match[0] for match in WORD.finditer(candidate)]
    for article, word in pairwise(here):
        if article.lower() in _ARTICLES and word[0].isupper() and not word.isupper():
            before = [one for one, two in pairwise(there) if two == word]
            if before and all(one[0].isupper() and one.lower() not in _ARTICLES | _SMALL for one in before):
                return True
    return False


@check
def grammar(reference: str, candidate: str) -> bool:
    """No words in a row that English does not put together, unless the reference does.

    An article before a pronoun, verb or another article; ``of`` before a verb; a verb form that does not follow
    ``will`` or ``can``; ``is are``; ``they is``; ``this graphs`` for ``this graph``; ``a apple``; ``Spain is`` for
    ``Spain's``; a capital that belongs to the start of a sentence (``In addition, Our data``, ``The Ann Lee``); an
    article before the second part of a name; fewer auxiliaries than the reference without a new word of its own.
    """
    return _bad(candidate) <= _bad(reference) and not _broken(reference, candidate)


@lru_cache(maxsize=4096)
def _bad(text: str) -> frozenset[str]:
    """Faults that can be seen in a text alone."""
    return frozenset((*_bad_pairs(words(text)), *_AN_SOUND.findall(text), *_capitals(text)))


def _bad_pairs(tokens: tuple[str, ...]) -> Iterator[str]:
    for at, (first, second) in enumerate(pairwise(tokens)):
        if (
            (first in _ARTICLES and second in _NOT_AFTER_ARTICLE)
            or (first == "a" and (second == "same" or tokens[at + 1 : at + 3] == ("one", "of")))
            or (first in _PLAIN_PREPOSITIONS and second in _NOT_AFTER_PREPOSITION)
            or (first in _MODALS and second in _NOT_AFTER_MODAL)
            or (first in _BE and second in _BE)
            or (first in _SUBJECTS and second in _SUBJECTS)
            or (first in _ONE and second in ("are", "were", "have"))
            or (first in _MANY and second in ("is", "was", "has"))
            or (first in ("have", "has", "had") and second in ("know", "want", "see", "go", "make", "take", "say"))
        ):
            yield f"{first} {second}"


def _capitals(text: str) -> Iterator[str]:
    """Function words with a capital after a small letter or a comma: inside a sentence."""
    for match in WORD.finditer(text):
        before = text[: match.start()].rstrip(" ")
        if match[0][0].isupper() and match[0].lower() in _SMALL and (before[-1:].islower() or before.endswith(",")):
            yield match[0]


def _capital(text: str, number: int) -> bool:
    """Whether word ``number`` of a text has a capital, and not in all of its letters (``The UK``)."""
    word = next((match[0] for at, match in enumerate(WORD.finditer(text)) if at == number), "")
    return word[:1].isupper() and not word.isupper()


def _broken(reference: str, candidate: str) -> bool:
    """Faults that show against the reference."""
    expected, found = words(reference), words(candidate)
    if found[0:1] and found[0] in _ARTICLES and expected[:1] == found[1:2] and _capital(candidate, 1):
        return True  # The Ann Lee
    if _title(reference, candidate):
        return True  # The Lee, for Ann Lee
    if _auxiliaries(found) < _auxiliaries(expected) and set(found) <= set(expected) | _SMALL | _AUXILIARIES:
        return True  # a clause that lost its verb
    pairs = set(pairwise(expected))
    for first, second in set(pairwise(found)) - pairs:
        if first in _SINGULAR and second.endswith("s") and (first, second[:-1]) in pairs:
            return True
        if second == "is" and f"{first}'s" in expected and first not in _SMALL:
            return True
    return False


@check
def vocabulary(reference: str, candidate: str) -> bool:
    """No new word that is not English (``supermasive``), as small models spell them when they mix up pieces.

    A word is known when it, or what is left without a regular ending, is in the reference or in the list of
    ``english_words.txt`` (:file:`scripts/data/english_words.py`); short words, digits and other scripts are not judged.
    """
    new = set(words(candidate)) - set(words(reference))
    return all(_known(word, words(reference)) for word in new if len(word) > 3 and word.isascii())


_ENDINGS: Final = (
    ("'s", ""),
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    ("ed", ""),
    ("d", ""),
    ("ing", ""),
    ("ing", "e"),
    ("ly", ""),
)


def _known(word: str, there: tuple[str, ...]) -> bool:
    if not word.replace("'", "").isalpha():
        return True
    listed = _listed()
    forms = [word, *(word.removesuffix(end) + instead for end, instead in _ENDINGS if word.endswith(end))]
    return any(form in listed or form in there for form in forms)


@lru_cache(maxsize=1)
def _listed() -> frozenset[str]:
    return frozenset(read_lines(Path(__file__).with_name("english_words.txt")))
