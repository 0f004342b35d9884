"""The table of scores: rows of plain values for programs; text, LaTeX and HTML for people; and advice on them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from polyref.errors import UsageError
from polyref.metrics.base import Metric
from polyref.metrics.copies import Copies, plain_copies, warnings_of_copies
from polyref.metrics.signature import digest, flat, shortened
from polyref.metrics.significance import tested
from polyref.metrics.statistics import Floats, Scores, Statistics
from polyref.references import ORIGINAL_KINDS, Reference, ReferenceSet
from polyref.tables import Column, Table, data_frame, latex_table, shown, text_table, written
from polyref.values import html_table

#: How signatures name a language model as the only generator.
_LANGUAGE_MODEL: Final = re.compile(r"(openai|chat)/[^+]*")


class Finding(NamedTuple):
    """A combination that is surely better than others, by metric as signatures name it, and added references.

    It is known from ``least`` of them up to ``most``; None is the largest number that was measured, and any above it.
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
    """One line on the columns for which another combination is known to be better, by their signatures."""
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


#: What is known of a BLEU, by system, title and details: written as sacreBLEU does, under its names.
_DETAILS: Final[Sequence[Column[tuple[str, str, Mapping[str, Any]]]]] = (
    Column("system", lambda row: row[0]),
    Column("metric", lambda row: row[1]),
    Column("precisions", lambda row: "/".join(f"{value:.1f}" for value in row[2]["precisions"])),
    Column("BP", lambda row: row[2]["bp"], form=".3f"),
    Column("ratio", lambda row: row[2]["ratio"], form=".3f"),
    Column("hyp_len", lambda row: row[2]["sys_len"], form=".10g"),
    Column("ref_len", lambda row: row[2]["ref_len"], form=".10g"),
)


@dataclass(frozen=True)
class MetricScores:
    """The scores of one metric with one number of references.

    Attributes:
        metric: The name it was asked for by.
        digits: How many of a score people are shown.
        scores: Of all systems and segments.
        signature: How the scores of the systems came about, with the test.
        found: What the test found, an array with one value a system: ``mean``, ``ci`` (half the width of the 95 %
            interval), ``p_value`` (NaN for the first system).
        details: What else there is to say of every system's score: of BLEU ``precisions``, ``bp``, ``ratio``,
            ``sys_len`` and ``ref_len``.
        coverage: References of a segment on average, and segments that have no added one although k is above 0.
        added: Added references of a segment on average.
        higher_is_better: False for error rates, whose columns have an arrow.
    """

    metric: str
    digits: int
    scores: Scores
    signature: str
    found: Mapping[str, Floats]
    details: Sequence[Mapping[str, Any]]
    coverage: tuple[float, int]
    added: float
    higher_is_better: bool = True


def measured(
    name: str, metric: Metric, stats: Statistics, k: int, test: str | None, trials: int | None, seed: int
) -> MetricScores:
    """The scores of one metric with ``k`` extra references, and what a test finds; ``name`` is what rows call it."""
    scores, details = metric.aggregate(stats, k=k), metric.details(stats, k=k)
    added = np.minimum(stats.extras, min(k, stats.most_extras))
    coverage = float((stats.originals + added).mean()), int((added == 0).sum()) if k else 0
    found: dict[str, Floats] = {}
    signature = scores.signature
    if test is not None:
        found, how = tested(metric, stats, k, test, trials, seed)
        signature = f"{signature}|{how}"
    mean, better = float(added.mean()), metric.higher_is_better
    return MetricScores(name, metric.digits, scores, signature, found, details, coverage, mean, better)


def lowered(results: Sequence[MetricScores]) -> str | None:
    """One line on the columns whose mean over references is lower, for every system, than with the human ones alone."""
    human = {one.metric: one.scores.system for one in results if not one.scores.k}
    columns = [
        _title(one, reached=False)
        for one in results
        if one.higher_is_better and "combine:mean" in one.signature.split("|") and one.metric in human
        if bool((one.scores.system < human[one.metric]).all())
    ]
    if not columns:
        return None
    return (
        f"{', '.join(columns)}: lower than without added references for every system, for it is the mean over all "
        "references, and outputs fit the added ones less well than the human ones; compare systems within a column"
    )


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
        yield from (
            ("warning", note) for note in (*self.notes, *(warnings_of_copies(self.copies) if self.copies else ()))
        )
        if not self.by_segment:
            found = advice(one.signature for one in self.results), lowered(self.results)
            yield from (("note", text) for text in found if text)

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
        return [
            written(row["score"], result.digits if width is None else width)
            for result in self.results
            for row in self._rows(result)
        ]

    def text(self, width: int | None = None, *, verbose: bool = False, full: bool = False) -> str:
        """A table for people, one column a metric and k, then numbers of references, and signatures.

        Args:
            width: As for :meth:`numbers`.
            verbose: Add BLEU's precisions, brevity penalty, ratio of lengths, and lengths.
            full: Write signatures in full, as those with short keys always are, not as hashes.
        """
        tables: list[Table[Any]] = [self._table(width)]
        if verbose and not self.by_segment:
            details = [
                (system, _title(one), known)
                for one in self.results
                for system, known in zip(one.scores.systems, one.details, strict=True)
                if "precisions" in known
            ]
            tables += [Table("", _DETAILS, details)] if details else []
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
        return "\n\n".join([*(text_table(one.header, one.texts()) for one in tables), *notes, "\n".join(signatures)])

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
        table = self._table(width)
        return "\n".join([latex_table(table.header, table.texts()), *signatures])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        systems = len(self.results[0].scores.systems)
        columns = ", ".join(_title(result) for result in self.results)
        return f"ScoreTable({systems} system{'s' * (systems > 1)}: {columns})"

    def _repr_html_(self) -> str:
        table = self._table(None)
        return html_table(table.header, table.texts(), caption=self.signature)

    def _signature(self, result: MetricScores) -> str:
        found = result.scores.segment_signature if self.by_segment else result.signature
        return shortened(found) if self.short else found

    def _table(self, width: int | None) -> Table[tuple[int, int]]:
        """A row for every system, or for every system and segment, by their numbers."""
        first = self.results[0].scores
        columns: list[Column[tuple[int, int]]] = [Column("system", lambda row: first.systems[row[0]])]
        segments = range(len(first.segments)) if self.by_segment else (0,)
        if self.by_segment:
            columns.append(Column("segment", lambda row: first.segments[row[1]]))
        for one in self.results:
            title = _title(one) + ("" if one.higher_is_better else " ↓")
            digits = one.digits if width is None else width
            value = one.scores.segment.__getitem__ if self.by_segment else partial(_tested_score, one, digits)
            columns.append(Column(title, value, digits if self.by_segment else None))
        return Table("", columns, [*product(range(len(first.systems)), segments)])


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


def _tested_score(result: MetricScores, width: int, row: tuple[int, int]) -> str:
    text = written(result.scores.system[row[0]], width)
    found = {key: values[row[0]] for key, values in result.found.items()}
    if "mean" in found:
        text += f" ({written(found['mean'], width)} ± {written(found['ci'], width)})"
    if not math.isnan(found.get("p_value", math.nan)):
        text += f" p = {found['p_value']:.4f}"
    return text
