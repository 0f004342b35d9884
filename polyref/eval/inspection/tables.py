"""The tables of an inspection, as text: the same in a terminal, on the page and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from polyref.eval.inspection.measures import Measures
from polyref.segments import ORIGINAL_KINDS

#: In place of a number that is not defined.
MISSING: Final = "–"


@dataclass(frozen=True)
class Table:
    """Titles of columns, and cells; the first column holds names, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def spread_table(measures: Measures) -> Table:
    """References a segment, by kind."""
    rows = [
        [one.kind, whole(one.total), number(one.mean), whole(one.none), *(f"{value:g}" for value in one.quartiles)]
        for one in measures.counts.spreads
    ]
    return Table(["references a segment", "in all", "mean", "none", "least", "25 %", "median", "75 %", "most"], rows)


def diversity_table(measures: Measures) -> Table:
    """How much the references of a segment differ."""
    rows = [
        [
            one.group,
            number(one.self_bleu),
            number(one.bleu_to_human),
            *(number(100 * value) for value in (*one.distinct, *one.new)),
        ]
        for one in measures.diversity
    ]
    header = [
        "diversity",
        "self-BLEU",
        "BLEU to human",
        "distinct-1 %",
        "distinct-2 %",
        "new 1-grams %",
        "new 2-grams %",
    ]
    return Table(header, rows)


def repeats_line(measures: Measures) -> str:
    """Copies, repeats and empty references in a sentence."""
    found = measures.counts.repeats
    parts = [f"{whole(found.empty)} empty"]
    if found.added:
        parts = [f"{whole(found.copies)} copies of a human reference", f"{whole(found.repeats)} repeats", *parts]
    return ", ".join(parts)


def copies_lines(measures: Measures) -> list[str]:
    """Copies of outputs among the references: the nearest to every original one, and every system for added ones."""
    nearest = {one.reference: one for one in reversed(measures.originals or ())}
    suspect = {True: ": the reference may have been made from its outputs", False: ""}
    originals = [f"{one}{suspect[one.suspect]}" for one in reversed(nearest.values())]
    told = {True: "circular: more copies than by chance", False: "no more copies than by chance"}
    return [*originals, *(f"{one}: {told[one.circular]}" for one in measures.copies or ())]


def summary(measures: Measures) -> str:
    """Segments and references in a sentence."""
    kinds = ", ".join(f"{whole(one.total)} {one.kind}" for one in measures.counts.spreads)
    human = ORIGINAL_KINDS & {one.kind for one in measures.counts.spreads}
    alone = ", no human reference" if kinds and not human else ""
    return f"{whole(measures.segments)} segment{'s' * (measures.segments != 1)}: {kinds or 'no'} references{alone}"


def sample_note(measures: Measures) -> str:
    """What diversity was measured on, where that is not everything; else nothing."""
    if measures.sampled == measures.segments:
        return ""
    return f"Diversity is of {whole(measures.sampled)} random segments (seed {measures.seed})."


def number(value: float, digits: int = 1) -> str:
    """A number as people write it; a dash where it is not defined."""
    return MISSING if math.isnan(value) else f"{round(value, digits) + 0.0:,.{digits}f}"


def whole(value: int) -> str:
    """A whole number with its thousands set apart."""
    return f"{value:,}"


def minus(text: str) -> str:
    """A number with the sign of print: a page shows it, a program does not read it."""
    return text.replace("-", "\N{MINUS SIGN}")
