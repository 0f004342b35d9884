"""Checks that know English words: dates, persons, names, echoes, lost content, negation, amounts."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache, partial
from typing import Annotated, Final

from polyref.augment.checks import Check, check
from polyref.comparison import WORD, join_groups, words
from polyref.options import Option
from polyref.paraphrase.decoding import in_full

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


#: Names of days and months; those that are other words, too, are missing.
DAYS: Final = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS: Final = "january february april june july august september october november december"
_DATES: Final = frozenset(f"{DAYS} {MONTHS}".split())
_ABBREVIATED: Final = {name[:3]: name for name in MONTHS.split()} | {"sept": "september"}
#: "March" and "May" are months where a number or one of these words stands beside them.
_MARCH_MAY: Final = re.compile(
    r"\b(?:in|of|since|until|by|early|late|mid|last|this|next|\d+(?:st|nd|rd|th)?)[ -](March|May)\b|\b(March|May),? \d"
)


_RELATIVE: Final = frozenset(("yesterday", "today", "tomorrow"))


@check
def dates(reference: str, candidate: str) -> bool:
    """The same months and days of the week (``Jan.`` is ``January``); no ``yesterday`` that becomes ``tomorrow``."""
    here, there = _RELATIVE & set(words(reference)), _RELATIVE & set(words(candidate))
    return _dates(reference) == _dates(candidate) and not (here - there and there - here)


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


@check
def persons(reference: str, candidate: str) -> bool:
    """No ``I``, ``we``, ``you``, ``he`` or ``she``, in any form, more often than in the reference.

    A new person is the mark of an opening that diversity forced: ``You can see it`` for ``It is visible``.
    """
    return _persons(candidate) <= _persons(reference)


def _persons(text: str) -> Counter[str]:
    return Counter(_PERSONS[word] for word in words(text) if word in _PERSONS)


@partial(check, within_sentences=True)
def echo(reference: str, candidate: str) -> bool:
    """No content word comes again, in singular or plural, where the reference has it once: ``the head of the head``.

    Small models fall back into what they have said when they lose the thread, at any distance.
    """
    again = {word: count for word, count in _singular(candidate).items() if count > 1}
    expected = _singular(reference) if again else {}
    return all(count <= expected.get(word, 0) for word, count in again.items())


def _singular(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for word, count in _content(text).items():
        # Only an ending that cannot belong to the word itself: not "ss", "us", "is".
        plural = len(word) > 3 and word[-1] == "s" and word[-2] not in "sui"
        found[word[:-1] if plural else word] += count
    return found


@check
def names(reference: str, candidate: str) -> bool:
    """Every word the reference writes with a capital in mid-sentence occurs in the candidate."""
    found = {_bare(word) for word in words(candidate)}
    return all(name in found for name in _names(reference))


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


def omission(allowed: Annotated[float, Option(least=0, most=1)] = 0.1, *, deletion: bool = False) -> Check:
    """No net loss of content words beyond the fraction ``allowed``; and, but for ``deletion``, none without a gain.

    The usual fault of a small paraphraser is to leave something out; it shows as content words that are gone
    with nothing in their place.
    """

    def accepts(reference: str, candidate: str) -> bool:
        expected, found = _content(reference), _content(candidate)
        lost = (expected - found).total()
        gained = (found - expected).total()
        return lost == 0 or ((gained > 0 or deletion) and lost - gained <= allowed * expected.total())

    return Check(f"omission{in_full(allowed)}" if deletion else "omission", accepts)


def _content(text: str) -> Counter[str]:
    return Counter(_bare(word) for word in words(text) if word not in _FUNCTION_WORDS)


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


_NUMBER_LIST: Final = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion dozen half twice
"""
_NUMBERS: Final = frozenset(_NUMBER_LIST.split())
_ORDINAL_LIST: Final = """
third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth
hundredth thousandth
"""
_DECADE_LIST: Final = "twenties thirties forties fifties sixties seventies eighties nineties"
#: What has to be the same; and the same with a plural s, and decades.
_AMOUNTS: Final = frozenset({*_NUMBERS, *_ORDINAL_LIST.split(), *_DECADE_LIST.split()})
#: Mean other things as well ("initially", "in a second"): these may go, but not for one another.
_ORDERS: Final = frozenset(("first", "second"))
_HALF_OF_DAY: Final = re.compile(r"\b([ap])\.\s?m\b|\d\s?([ap])m\b", re.IGNORECASE)

_UNITS: Final = {
    form: unit
    for unit, forms in {
        "percent": "% percent per_cent pct",
        "points": "points point percentage_points percentage_point %_points pp",
        "kg": "kg kilogram kilograms kilogramme kilogrammes kilo kilos",
        "g": "g gram grams gramme grammes",
        "mg": "mg milligram milligrams",
        "t": "ton tons tonne tonnes metric_tons metric_tonnes",
        "pound": "lb lbs pound pounds gbp",
        "oz": "oz ounce ounces",
        "km": "km kms kilometer kilometers kilometre kilometres",
        "km/h": "kph kmh km/h km_per_hour kilometers_per_hour kilometres_per_hour kilometers_an_hour",
        "m": "meter meters metre metres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "mm": "mm millimeter millimeters millimetre millimetres",
        "mile": "mi mile miles",
        "mph": "mph miles_per_hour miles_an_hour",
        "yard": "yard yards",
        "ft": "ft foot feet",
        "inch": "inch inches",
        "l": "l liter liters litre litres",
        "ml": "ml milliliter milliliters millilitre millilitres",
        "celsius": "°c celsius",
        "fahrenheit": "°f fahrenheit",
        "second": "second seconds",
        "minute": "min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years",
        "dollar": "dollar dollars usd",
        "euro": "euro euros eur",
        "cent": "cent cents",
        "yen": "yen",
        "yuan": "yuan rmb renminbi",
        "rupee": "rupee rupees",
        "ruble": "ruble rubles rouble roubles",
        "franc": "franc francs",
        "peso": "peso pesos",
        "krona": "krona kronor krone kroner",
        "lira": "lira liras",
        "zloty": "zloty zlotys",
        "rand": "rand",
        "dinar": "dinar dinars",
        "baht": "baht",
        "shekel": "shekel shekels",
        "kb": "kb kilobyte kilobytes",
        "mb": "mb megabyte megabytes",
        "gb": "gb gigabyte gigabytes",
        "tb": "tb terabyte terabytes",
    }.items()
    for form in forms.split()
}
#: ¥ is either of two.
_SYMBOLS: Final = {
    "$": {"dollar"},
    "€": {"euro"},
    "£": {"pound"},
    "¥": {"yen", "yuan"},
    "₹": {"rupee"},
    "₽": {"ruble"},
    "₺": {"lira"},
    "₪": {"shekel"},
}
_QUANTITY: Final = re.compile(
    r"(?P<symbol>[$€£¥₹₽₺₪])?\s?(?<![\w.,])(?P<number>\d(?:[\d.,]*\d)?|\b(?:one|{numbers})\b)"
    r"(?:[\s-]?(?:hundred|thousand|million|billion|trillion|bn)\b)?"
    r"(?:[\s-]?(?P<unit>{units})(?!\w))?".format(
        numbers="|".join(_NUMBER_LIST.split()),
        units="|".join(re.escape(form).replace("_", r"[\s-]") for form in sorted(_UNITS, key=len, reverse=True)),
    ),
    re.IGNORECASE,
)


@check
def amounts(reference: str, candidate: str) -> bool:
    """Amounts survive.

    The same numbers in words (``two``, ``forty``, ``million``, ``half``; ``one`` is mostly a pronoun), ordinals from
    ``third`` and decades (``eighties``). ``first`` may go, but not become ``second``; ``p.m.`` may become another
    wording, but not ``a.m.``; and no number changes its unit (``5 kg`` to ``5 g``, ``5%`` to ``5 points``).
    """
    if _amounts(reference) != _amounts(candidate):
        return False
    if _exchanged(_orders(reference), _orders(candidate)):
        return False
    if _exchanged(_halves(reference), _halves(candidate)):
        return False
    expected, found = _units(reference), _units(candidate)
    return not any(_exchanged(units, found[number]) for number, units in expected.items() if number in found)


def _exchanged(expected: set[str], found: set[str]) -> bool:
    return bool(expected - found and found - expected)


@lru_cache(maxsize=4096)
def _amounts(text: str) -> Counter[str]:
    return Counter(form for form in map(_amount, words(text)) if form is not None)


@lru_cache(maxsize=1 << 16)
def _amount(word: str) -> str | None:
    forms = (word, word.removesuffix("s"), word.removesuffix("ly"))
    return next((form for form in forms if form in _AMOUNTS), None)


def _orders(text: str) -> set[str]:
    return set(_ORDERS.intersection(words(text)))


def _halves(text: str) -> set[str]:
    return {(dotted or plain).lower() for dotted, plain in _HALF_OF_DAY.findall(text)}


@lru_cache(maxsize=4096)
def _units(text: str) -> dict[str, set[str]]:
    """The units that stand after each number, or before it (``$5``)."""
    found: dict[str, set[str]] = {}
    text = join_groups(text)
    for match in _QUANTITY.finditer(text):
        form, symbol = match["unit"] or "", match["symbol"]
        # 5G is no weight, and 5 T-shirts are none.
        letter = len(form) == 1 and form.isalpha() and (form.isupper() or text[match.end() : match.end() + 1] == "-")
        units = {
            *_SYMBOLS.get(symbol or "", ()),
            *({_UNITS[re.sub(r"[\s-]", "_", form.lower())]} if form and not letter else ()),
        }
        if units:
            found.setdefault(match["number"].lower(), set()).update(units)
    return found
