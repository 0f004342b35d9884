"""N-best lists that are kept in the cache: what was searched once is read the next time."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence

from polyref.cache import Cache
from polyref.paraphrase.nbest import Hypothesis

#: Texts whose lists are kept together, and the lists of each.
Unit = tuple[str, ...]
Lists = list[tuple[Hypothesis, ...]]


class KeptLists:
    """The lists of one paraphraser with one decoding.

    A unit of texts is kept as a whole: a single text where its list depends on nothing else, or a batch. So what is
    read is what would be computed, to the last digit.

    Args:
        cache: Where they are kept.
        facts: Everything but the texts that the lists depend on. Their ``repr`` says what they are.
    """

    def __init__(self, cache: Cache, *facts: object) -> None:
        self._cache = cache
        self._facts = facts

    def read(self, units: Sequence[Unit]) -> dict[Unit, Lists]:
        """The lists of those units that are kept."""
        keys = {unit: self._key(unit) for unit in units}
        values = self._cache.get(list(keys.values()))
        return {unit: _unpacked(values[key]) for unit, key in keys.items() if key in values}

    def write(self, found: Mapping[Unit, Lists]) -> None:
        """Keep the lists of some units."""
        self._cache.put({self._key(unit): _packed(lists) for unit, lists in found.items()})

    def _key(self, unit: Unit) -> bytes:
        return hashlib.sha256(repr(("n-best lists 1", self._facts, unit)).encode()).digest()


def _packed(lists: Lists) -> bytes:
    plain = [[(one.text, one.score, one.tokens, one.group) for one in found] for found in lists]
    return zlib.compress(json.dumps(plain).encode(), 1)


def _unpacked(value: bytes) -> Lists:
    plain = json.loads(zlib.decompress(value))
    return [
        tuple(Hypothesis(text, score, tuple(tokens), group) for text, score, tokens, group in found) for found in plain
    ]
