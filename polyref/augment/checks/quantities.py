"""The check of English amounts: numbers in words, ordinals, decades, halves of the day, units after numbers."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from polyref.augment.checks.base import Check
from polyref.comparison import join_groups, words

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
_AMOUNTS: Final = frozenset(
    {
        *_NUMBERS,
        *_ORDINAL_LIST.split(),
        *_DECADE_LIST.split(),
    }
)
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


def amounts() -> Check:
    """Amounts survive.

    The same numbers in words (``two``, ``forty``, ``million``, ``half``; ``one`` is mostly a pronoun), ordinals from
    ``third`` and decades (``eighties``). ``first`` may go, but not become ``second``; ``p.m.`` may become another
    wording, but not ``a.m.``; and no number changes its unit (``5 kg`` to ``5 g``, ``5%`` to ``5 points``).
    """

    def accepts(reference: str, candidate: str) -> bool:
        if _amounts(reference) != _amounts(candidate):
            return False
        if _exchanged(_orders(reference), _orders(candidate)):
            return False
        if _exchanged(_halves(reference), _halves(candidate)):
            return False
        expected, found = _units(reference), _units(candidate)
        return not any(_exchanged(units, found[number]) for number, units in expected.items() if number in found)

    return Check("amounts", accepts)


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
