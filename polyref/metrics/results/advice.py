"""Which other way of combining references is known to rank systems better, for the generator that a set names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

#: How signatures name a language model as the only generator.
_LANGUAGE_MODEL: Final = re.compile(r"(openai|chat)/[^+]*")


class Finding(NamedTuple):
    """A combination that is surely better than others.

    Attributes:
        metric: Name of the metric in signatures.
        least: The smallest number of added references of which it is known.
        most: The largest one; None: it is the largest that was measured, and any above it.
        better: The combination that agrees better with people about systems.
        than: Those that it is better than.
    """

    metric: str
    least: int
    most: int | None
    better: str
    than: tuple[str, ...]


#: With a language model's references (``docs/benchmarks/evidence.csv``: rows ``over-max`` of WMT22 en-de). Sure is what
#: has, of the difference and of the difference beyond the placebo, an interval without 0, and p <= .05 by Williams'
#: test. With the shipped model's references nothing is, and within segments neither.
FINDINGS: Final = (
    Finding("parCHRF++", 1, 1, "expected", ("max",)),
    Finding("parCHRF++", 10, None, "max", ("expected", "blend")),
    Finding("parBLEU", 10, None, "max", ("mean", "expected", "blend")),
)


def advice(signatures: Iterable[str]) -> str | None:
    """One line on the columns for which another combination is known to be better; None where there is none.

    Args:
        signatures: Of scores of systems (:mod:`polyref.metrics.signature`): each has one metric, k and combination.
    """
    better: dict[str, list[str]] = {}
    for signature in signatures:
        name, *parts = signature.split("|")
        known = dict(part.split(":", 1) for part in parts if ":" in part)
        if not _LANGUAGE_MODEL.fullmatch(known.get("gen", "")):
            continue
        k = int(known["k"])
        for one in FINDINGS:
            fits = one.metric == name and one.least <= k and (one.most is None or k <= one.most)
            if fits and known["combine"] in one.than:
                better.setdefault(one.better, []).append(f"{name} k={k}")
    if not better:
        return None
    named = "; ".join(f"`combine` {use} ({', '.join(dict.fromkeys(columns))})" for use, columns in better.items())
    return (
        f"with a language model's references, systems are known to be ranked better by {named}: "
        "see docs/explanation/how-many-references.md"
    )
