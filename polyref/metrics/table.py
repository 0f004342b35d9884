"""The table of scores: rows of plain values for programs; text, LaTeX and HTML for people; and advice on them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from polyref.errors import UsageError
from polyref.metrics.copies import Copies, plain_copies, warnings_of_copies
from polyref.metrics.signature import digest, flat, shortened
from polyref.metrics.significance import MetricScores
from polyref.references import ORIGINAL_KINDS, Reference, ReferenceSet
from polyref.tables import data_frame, html_table, latex_table, shown, text_table

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


# What is known of a BLEU, under sacreBLEU's names.
_DETAILS: Final = ("system", "metric", "precisions", "BP", "ratio", "hyp_len", "ref_len")


@dataclass(frozen=True, repr=False, eq=False)
class ScoreTable:
    """What :func:`~polyref.metrics.api.score` found.

    Attributes:
        results: One for every metric and k, in the order that was asked for.
        signature: What all scores share: references, metrics, k, versions; each row says more.
        notes: What the reader has to know: empty texts, segments with fewer references than were asked for.
        by_segment: Whether rows are of segments; see :attr:`segment`.
        short: Whether signatures have sacreBLEU's short keys; see :attr:`shortened`.
        copies: Copies of outputs among the added references, of every system and k (not with ``peers``).
        references: What was scored with; None where it was not kept (``peers``, sets that are read in stretches).
    """

    results: tuple[MetricScores, ...]
    signature: str
    notes: tuple[str, ...] = ()
    by_segment: bool = False
    short: bool = False
    copies: tuple[Copies, ...] = ()
    references: ReferenceSet | None = None

    @property
    def messages(self) -> Iterator[tuple[str, str]]:
        """What to tell the reader: kind (``warning``, ``note``) and text of the notes, and of advice on systems."""
        yield from (("warning", note) for note in (*self.notes, *warnings_of_copies(self.copies)))
        if not self.by_segment and (better := advice(one.signature for one in self.results)):
            yield "note", better

    @property
    def circular(self) -> list[dict[str, Any]]:
        """:attr:`copies` as plain values."""
        return plain_copies(self.copies)

    @property
    def shortened(self) -> ScoreTable:
        """The same with short signatures, as ``sacrebleu --short``: ``#:1|c:mixed`` for ``nrefs:1|case:mixed``."""
        return replace(self, short=True)

    @property
    def segment(self) -> ScoreTable:
        """The scores of single segments."""
        return replace(self, by_segment=True)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One for every metric, k and system (and segment), as plain values; None where there is no score."""
        return [*self.each_row()]

    def each_row(self) -> Iterator[dict[str, Any]]:
        """The rows one by one: those of segments can be many."""
        return (row for result in self.results for row in self._rows(result))

    def origins(self) -> Iterator[dict[str, Any]]:
        """The rows of single segments, each with the reference that its score came from.

        ``index`` is its place among the references of the segment, from 0 and in the order of the set. ``origin`` is
        its ``kind`` and ``generator``; None for what a person wrote. Both are None where several references make the
        score (``mean``, ``expected``, ``blend``, ``max-each``, BLEU), and where none does. TER counts the edits to that
        reference, and the average length of all. Of references that are equally good, it is the first.

        Raises:
            UsageError: The scores are against the outputs of other systems (``peers``).
        """
        if self.references is None:
            raise UsageError("scores with `peers` are of several references each", remedy="leave `peers` out")
        there = [[*_places(segment.refs)] for segment in self.references]
        generator = self.references.meta.get("generator")
        for result in self.results:
            chosen = result.scores.chosen
            for number, row in enumerate(self.segment._rows(result)):
                system, n = divmod(number, len(there))
                place = -1 if chosen is None else int(chosen[system, n])
                index = None if place < 0 else there[n][place]
                ref = None if index is None else self.references[n].refs[index]
                made = None if ref is None or ref.kind in ORIGINAL_KINDS else ref.generator or generator
                origin = ref and {"kind": ref.kind, "generator": made and flat(made)}
                yield {**row, "index": index, "origin": origin}

    def _rows(self, result: MetricScores) -> Iterator[dict[str, Any]]:
        scores = result.scores
        shared = {
            "metric": result.metric,
            "name": scores.name,
            "k": scores.k,
            "references": {"min": scores.references[0], "max": scores.references[1]},
            "missing": scores.missing,
            "signature": self._signature(result),
        }
        if self.by_segment:
            return (
                {"system": system, "segment": segment, **shared, "score": _plain(value)}
                for system, values in zip(scores.systems, scores.segment, strict=True)
                for segment, value in zip(scores.segments, values, strict=True)
            )
        return (
            {
                "system": system,
                **shared,
                "score": _plain(scores.system[s]),
                **result.details[s],
                **{key: _plain(values[s]) for key, values in result.found.items()},
                **({"p_sides": "two"} if "p_value" in result.found else {}),
            }
            for s, system in enumerate(scores.systems)
        )

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame.

        Raises:
            UsageError: pandas is not installed.
        """
        return data_frame(self.rows)

    def numbers(self, width: int | None = None) -> list[str]:
        """The scores alone, in the order of the rows.

        Args:
            width: Digits; None is the metric's own: 1 for BLEU, chrF and TER, 4 for most others.
        """
        return [_number(row["score"], _digits(result, width)) for result in self.results for row in self._rows(result)]

    def text(self, width: int | None = None, *, verbose: bool = False, full: bool = False) -> str:
        """A table for people, one column a metric and k, then numbers of references, and signatures.

        Args:
            width: As for :meth:`numbers`.
            verbose: Add BLEU's precisions, brevity penalty, ratio of lengths, and lengths.
            full: Write signatures in full, as those with short keys always are, not as hashes.
        """
        tables = [text_table(*self._cells(width))]
        if verbose and not self.by_segment and (details := [*self._details()]):
            tables.append(text_table(_DETAILS, details))
        signatures = [shown(self._signature(one)) for one in self.results]
        tested = any("p_value" in one.found for one in self.results)
        notes = [f"p-values are two-sided, against {shown(self.results[0].scores.systems[0])}"] if tested else []
        notes += [self._coverage()] if any(one.scores.k for one in self.results) else []
        if not full and not self.short:
            hashes = [
                f"{_title(one, reached=False)} {digest(text)}"
                for one, text in zip(self.results, signatures, strict=True)
            ]
            last = f"Signatures: {', '.join(hashes)} (in full: -v, --json, or polyref info {digest(signatures[0])})"
            notes, signatures = [], [*notes, last]
        return "\n\n".join([*tables, *notes, "\n".join(signatures)])

    @property
    def signatures(self) -> dict[str, str]:
        """What every hash that :meth:`text` prints stands for."""
        return {digest(text): text for text in map(self._signature, self.results)}

    def _coverage(self) -> str:
        """How many references a segment has: ``References a segment: 1 with k = 0, 10.8 with k = 10``."""
        found = {one.scores.k: one.coverage for one in self.results}
        none = {k: f" ({without} segments have no added one)" if without else "" for k, (_, without) in found.items()}
        return "References a segment: " + ", ".join(f"{found[k][0]:.3g} with k = {k}{none[k]}" for k in found)

    def latex(self, width: int | None = None) -> str:
        """The table of :meth:`text` for a paper, with the signatures below it as comments.

        Args:
            width: As for :meth:`numbers`.
        """
        signatures = [f"% {shown(self._signature(one))}" for one in self.results]
        return "\n".join([latex_table(*self._cells(width)), *signatures])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        systems = len(self.results[0].scores.systems)
        columns = ", ".join(_title(result) for result in self.results)
        return f"ScoreTable({systems} system{'s' * (systems > 1)}: {columns})"

    def _repr_html_(self) -> str:
        return html_table(*self._cells(None), caption=self.signature)

    def _signature(self, result: MetricScores) -> str:
        found = result.scores.segment_signature if self.by_segment else result.signature
        return shortened(found) if self.short else found

    def _details(self) -> Iterator[list[str]]:
        """Rows of the table of what BLEU is made of, written as sacreBLEU does."""
        for result in self.results:
            for system, known in zip(result.scores.systems, result.details, strict=True):
                if known:
                    lengths = [f"{known[name]:.10g}" for name in ("sys_len", "ref_len")]
                    precisions = "/".join(f"{value:.1f}" for value in known["precisions"])
                    yield [system, _title(result), precisions, f"{known['bp']:.3f}", f"{known['ratio']:.3f}", *lengths]

    def _cells(self, width: int | None) -> tuple[list[str], list[list[str]]]:
        first = self.results[0].scores
        titles = [_title(result) + ("" if result.higher_is_better else " ↓") for result in self.results]
        if self.by_segment:
            return ["system", "segment", *titles], [
                [system, segment, *(_number(r.scores.segment[s, n], _digits(r, width)) for r in self.results)]
                for s, system in enumerate(first.systems)
                for n, segment in enumerate(first.segments)
            ]
        return ["system", *titles], [
            [system, *(_cell(result, s, _digits(result, width)) for result in self.results)]
            for s, system in enumerate(first.systems)
        ]


def _places(references: Sequence[Reference]) -> Iterator[int]:
    """Where the references of a segment are that metrics have in this order: first those of people."""
    for original in (True, False):
        yield from (place for place, ref in enumerate(references) if ref.original == original)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _title(result: MetricScores, *, reached: bool = True) -> str:
    """``parBLEU k=10``, and how many references were added where there are fewer."""
    # A metric with options of its own goes by them: another one may have the same name.
    name = result.metric if "(" in result.metric else result.scores.name
    if result.scores.k == 0:
        return name
    few = reached and round(result.added, 1) != result.scores.k
    return f"{name} k={result.scores.k}" + (f" ({result.added:.1f} on average)" if few else "")


def _digits(result: MetricScores, width: int | None) -> int:
    return result.digits if width is None else width


def _number(value: float | None, width: int) -> str:
    return "-" if value is None or math.isnan(value) else f"{round(value, width) + 0.0:.{width}f}"


def _cell(result: MetricScores, s: int, width: int) -> str:
    text = _number(result.scores.system[s], width)
    found = {key: values[s] for key, values in result.found.items()}
    if "mean" in found:
        text += f" ({_number(found['mean'], width)} ± {_number(found['ci'], width)})"
    if not math.isnan(found.get("p_value", math.nan)):
        text += f" p = {found['p_value']:.4f}"
    return text
