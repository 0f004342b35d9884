"""Random settings from the declarations of options, and what must tell runs apart.

POLYREF_PROPERTIES is how many settings are tried (200), POLYREF_SEED where they begin (1); both are printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from polyref.options import Option

SETTINGS: Final = int(os.environ.get("POLYREF_PROPERTIES", "200"))
SEED: Final = int(os.environ.get("POLYREF_SEED", "1"))
#: What is tried beyond the least of a number, and around its default, unless its range ends before.
_STEPS: Final = (0, 1, 2, 3, 5)
_SHARES: Final = (0.0, 0.1, 0.25, 0.5, 1 / 3, 0.75, 1.0, 1.5, 2.0, 3.0)
#: So near to the default that six digits do not tell it apart.
_NEAR: Final = 1 + 1e-7


def tried(most: int = SETTINGS) -> Callable[[Any], Any]:
    """A property over so many random settings, the same in every run with one seed."""

    def decorate(test: Any) -> Any:
        chosen = settings(
            max_examples=most,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        return seed(SEED)(chosen(test))

    return decorate


def values(one: Option) -> st.SearchStrategy[Any]:
    """Values of an option that its declaration allows; of texts those with choices alone."""
    if one.choices:
        single: st.SearchStrategy[Any] = st.sampled_from(one.choices)
    elif one.type is bool:
        single = st.booleans()
    elif one.type is int:
        least = int(one.least or 0)
        usual = [one.default + step for step in (-1, 0, 1)] if isinstance(one.default, int) else []
        single = st.sampled_from(sorted({n for n in (*usual, *(least + s for s in _STEPS)) if _inside(one, n)}))
    elif one.type is float:
        start = one.least or 0.0
        usual = [one.default, one.default * _NEAR, one.default / _NEAR] if isinstance(one.default, float) else []
        single = st.sampled_from(sorted({x for x in (*usual, *(start + s for s in _SHARES)) if _inside(one, x)}))
    else:
        raise AssertionError(f"no values are known of {one.name}: it needs some by hand")
    if one.several:
        single = st.lists(single, min_size=1, max_size=2, unique=True).map(tuple)
    return st.none() | single if one.optional else single


def _inside(one: Option, value: float) -> bool:
    return (
        (one.least is None or value >= one.least)
        and (one.most is None or value <= one.most)
        and (one.above is None or value > one.above)
        and (one.below is None or value < one.below)
    )


def some(options: Mapping[str, st.SearchStrategy[Any]], most: int = 4) -> st.SearchStrategy[dict[str, Any]]:
    """Values of a few options: what is forgotten shows best where little else changes."""
    names = st.lists(st.sampled_from(sorted(options)), max_size=most, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: options[name] for name in chosen}))


class Told:
    """What was found under each signature or key: one finding for each, whatever the settings."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Any, Any]] = {}

    def add(self, key: Any, found: Any, settings: Any) -> None:
        """Refuse another finding under the same key; the other settings are named."""
        before, others = self._found.setdefault(key, (found, settings))
        assert before == found, f"the same {key!r}\nof {others!r}: {before!r}\nof {settings!r}: {found!r}"

    def __len__(self) -> int:
        return len(self._found)
