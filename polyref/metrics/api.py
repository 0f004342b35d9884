"""Score systems with any number of references, from texts to a table, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.metrics.base import Metric
from polyref.metrics.ngram.tokenizers import doubts
from polyref.metrics.registry import named_metrics
from polyref.metrics.signature import digest, inputs_signature, shortened
from polyref.metrics.significance import (
    BOOTSTRAP_SAMPLES,
    RANDOMIZATION_TRIALS,
    SEED,
    Null,
    confidence,
    paired_bootstrap,
    paired_randomization,
)
from polyref.metrics.statistics import Floats, Scores, Statistics
from polyref.references import ReferenceSet, as_reference_set, as_texts
from polyref.tables import data_frame, html_table, latex_table, shown, text_table

#: Tests, and how often they resample where nothing else is said.
TESTS: Final = {
    "confidence": BOOTSTRAP_SAMPLES,
    "paired_ar": RANDOMIZATION_TRIALS,
    "paired_bs_shift": BOOTSTRAP_SAMPLES,
    "paired_bs": BOOTSTRAP_SAMPLES,
}
# What is known of a BLEU, under sacreBLEU's names.
_DETAILS: Final = ("system", "metric", "precisions", "BP", "ratio", "hyp_len", "ref_len")


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
        higher_is_better: False for error rates, whose columns have an arrow.
    """

    metric: str
    digits: int
    scores: Scores
    signature: str
    found: Mapping[str, Floats]
    details: Sequence[Mapping[str, Any]]
    coverage: tuple[float, int]
    higher_is_better: bool = True


@dataclass(frozen=True, repr=False, eq=False)
class ScoreTable:
    """What :func:`score` found.

    Attributes:
        results: One for every metric and k, in the order that was asked for.
        signature: What all scores share: references, metrics, k, versions; each row says more.
        notes: What the reader has to know: empty texts, segments with fewer references than were asked for.
        by_segment: Whether rows are of segments; see :attr:`segment`.
        short: Whether signatures have sacreBLEU's short keys; see :attr:`shortened`.
    """

    results: tuple[MetricScores, ...]
    signature: str
    notes: tuple[str, ...] = ()
    by_segment: bool = False
    short: bool = False

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
        return [row for result in self.results for row in self._rows(result)]

    def _rows(self, result: MetricScores) -> list[dict[str, Any]]:
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
            return [
                {"system": system, "segment": segment, **shared, "score": _plain(value)}
                for system, values in zip(scores.systems, scores.segment.tolist(), strict=True)
                for segment, value in zip(scores.segments, values, strict=True)
            ]
        return [
            {
                "system": system,
                **shared,
                "score": _plain(scores.system[s]),
                **result.details[s],
                **{key: _plain(values[s]) for key, values in result.found.items()},
            }
            for s, system in enumerate(scores.systems)
        ]

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
        notes = [self._coverage()] if any(one.scores.k for one in self.results) else []
        if not full and not self.short:
            hashes = [f"{_title(one)} {digest(text)}" for one, text in zip(self.results, signatures, strict=True)]
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


def score(
    systems: Mapping[str, Sequence[str]] | Sequence[str],
    references: ReferenceSet | Sequence[str] | Sequence[Sequence[str]],
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric] = "bleu",
    ks: int | Sequence[int] | None = None,
    *,
    sources: Sequence[str] | None = None,
    test: str | None = None,
    trials: int | None = None,
    seed: int = SEED,
    allow_missing: bool = False,
    target_lang: str | None = None,
    force: bool = False,
) -> ScoreTable:
    """Score systems with any number of references. With ``ks=0`` the scores are sacreBLEU's.

    White space at the end of texts is cut, as sacreBLEU's command does.

    Args:
        systems: Name to outputs, one a segment; or the outputs of one system, which is called ``system``.
        references: A set; or one reference a segment; or the list of every segment's references.
        metrics: Metrics by name or specification, ``chrf(combine=expected)``, or as objects, or both in a list; or a
            mapping from the names that rows shall have.
        ks: Numbers of extra references, each >= 0; None is 0 and as many as there are.
        sources: One a segment, for metrics that read them.
        test: ``confidence`` (95 % bootstrap intervals, Koehn 2004), or a test of every system against the first one:
            ``paired_ar`` (approximate randomisation, Riezler and Maxwell 2005: the one to prefer),
            ``paired_bs_shift`` (a paired bootstrap that holds its level) or ``paired_bs`` (sacreBLEU's, which calls
            equal systems different twice as often as it says: to compare with published p-values).
        trials: How often a test resamples; None is sacreBLEU's 1,000 for the bootstrap, and 10,000.
        seed: Of the test; equal seeds give equal results.
        allow_missing: Leave out segments that have no reference, instead of refusing them.
        target_lang: Language of the outputs, for metrics given by name: it chooses BLEU's tokeniser as sacreBLEU does
            (``zh``, ``ja-mecab``, ``ko-mecab``, otherwise ``13a``), and models of several languages read it.
        force: Score references in a language that a metric's model does not know.

    Returns:
        A table: ``print`` shows it, ``.rows`` are plain values, ``.segment`` is the same of single segments.

    Raises:
        DataError: Lengths differ, a segment has no reference or source that a metric needs, or the references are
            clearly in a language that a metric's model does not know.
        UsageError: A value is out of range, a name is unknown, something is given that has no use, or added references
            are asked for where there are none.
    """
    outputs = {name: _stripped(texts, f"`systems`[{name!r}]") for name, texts in _named(systems).items()}
    refset = _without_trailing_space(as_reference_set(references))
    chosen = named_metrics(metrics, target_lang)
    if test is not None:
        check_test(test, systems=len(outputs))
    if sources is not None:
        check_sources(chosen)
        refset = _with_sources(refset, _stripped(sources, "`sources`"))
    if not len(refset):
        raise DataError("no segment: nothing to score")
    counts = [len(segment.extras) for segment in refset]
    asked = [ks] if isinstance(ks, int) else ks
    wanted = tuple(dict.fromkeys(asked or (0, max(counts))))
    if min(wanted) < 0:
        raise UsageError(f"`ks` holds {min(wanted)}, expected 0 or more")
    if max(wanted) and not max(counts):
        raise UsageError(
            f"`ks` asks for {max(wanted)} added references, but the references have none",
            remedy="add paraphrases with polyref augment, and score with what it writes; or ask for 0",
        )
    for metric in () if force else chosen.values():
        metric.check_language(refset)
    tokenizers = {metric.tokenize for metric in chosen.values() if hasattr(metric, "tokenize")}
    notes = [*_empty(refset, outputs), *doubts(tokenizers, outputs, refset.texts())]
    results = []
    for name, metric in chosen.items():
        stats = metric.statistics(outputs, refset, ks=wanted, allow_missing=allow_missing)
        results += [_result(name, metric, stats, k, test, trials, seed) for k in wanted]
    if asked and max(asked) > min(counts):
        fewest = min(counts)
        have = f"have only {fewest} extra reference{'s' * (fewest > 1)}" if fewest else "have no extra reference"
        notes.append(f"some segments {have}: `ks` {max(asked)} uses what there is")
    for k, missing in dict.fromkeys((result.scores.k, result.scores.missing) for result in results):
        if missing:
            notes.append(f"{missing} of {len(refset)} segments have no reference with `ks` {k} and are left out")
    weighed = {metric.weighed_by for metric in chosen.values()}
    return ScoreTable(tuple(results), inputs_signature(refset, tuple(chosen), wanted, weighed), tuple(notes))


def check_test(test: str, *, systems: int) -> None:
    """Refuse a test that there is not, or that has nothing to compare.

    Raises:
        UsageError: See above.
    """
    if test not in TESTS:
        raise UsageError(f"`test` is {test!r}, expected one of {', '.join(TESTS)}")
    if test != "confidence" and systems < 2:
        raise UsageError(f"`{test}` compares systems, but `systems` names one")


def check_sources(metrics: Mapping[str, Metric]) -> None:
    """Refuse sources that no metric reads.

    Raises:
        UsageError: See above.
    """
    if not any(metric.needs_sources for metric in metrics.values()):
        raise UsageError(f"`sources` is given, but none of `metrics` {' '.join(metrics)} reads it")


def _named(systems: Mapping[str, Sequence[str]] | Sequence[str]) -> Mapping[str, Sequence[str]]:
    return systems if isinstance(systems, Mapping) else {"system": as_texts(systems, "`systems`")}


def _stripped(texts: Sequence[str], name: str) -> list[str]:
    return [text.rstrip() for text in as_texts(texts, name)]


def _without_trailing_space(references: ReferenceSet) -> ReferenceSet:
    """The same objects where there is nothing to cut: a large set would be there twice."""
    if not any(ref.text != ref.text.rstrip() for segment in references for ref in segment.refs):
        return references
    segments = (
        replace(segment, refs=tuple(replace(ref, text=ref.text.rstrip()) for ref in segment.refs))
        for segment in references
    )
    return ReferenceSet(tuple(segments), references.meta)


def _with_sources(references: ReferenceSet, sources: Sequence[str]) -> ReferenceSet:
    if len(sources) != len(references):
        raise DataError(f"`sources` has {len(sources)} segments, but the references have {len(references)}")
    pairs = zip(references, sources, strict=True)
    return ReferenceSet(tuple(replace(segment, source=text) for segment, text in pairs), references.meta)


def _empty(references: ReferenceSet, systems: Mapping[str, Sequence[str]]) -> list[str]:
    empty = {name: sum(not text for text in texts) for name, texts in systems.items()}
    empty["the references"] = sum(not ref.text for segment in references for ref in segment.refs)
    found = [f"{count} in {name}" for name, count in empty.items() if count]
    return [f"empty lines are scored as they are: {', '.join(found)}"] if found else []


def _result(
    name: str, metric: Metric, stats: Statistics, k: int, test: str | None, trials: int | None, seed: int
) -> MetricScores:
    scores, details = metric.aggregate(stats, k=k), metric.details(stats, k=k)
    added = np.minimum(stats.extras, k)
    coverage = float((stats.originals + added).mean()), int((added == 0).sum()) if k else 0
    if test is None:
        return MetricScores(
            name, metric.digits, scores, scores.signature, {}, details, coverage, metric.higher_is_better
        )
    drawn = TESTS[test] if trials is None else trials
    found: dict[str, Floats]
    if test == "paired_ar":
        found = {"p_value": paired_randomization(metric, stats, k=k, trials=drawn, seed=seed)}
    else:
        if test == "confidence":
            resampled = confidence(metric, stats, k=k, samples=drawn, seed=seed)
        else:
            null: Null = "shift" if test == "paired_bs_shift" else "sacrebleu"
            resampled = paired_bootstrap(metric, stats, k=k, samples=drawn, seed=seed, null=null)
        found = {"mean": resampled.mean, "ci": resampled.half_width}
        if resampled.p_value is not None:
            found["p_value"] = resampled.p_value
    kind = {"paired_ar": f"ar:{drawn}", "paired_bs_shift": f"bs:{drawn}|null:shift"}.get(test, f"bs:{drawn}")
    return MetricScores(
        name,
        metric.digits,
        scores,
        f"{scores.signature}|{kind}|rs:{seed}",
        found,
        details,
        coverage,
        metric.higher_is_better,
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _title(result: MetricScores) -> str:
    # A metric with options of its own goes by them: another one may have the same name.
    name = result.metric if "(" in result.metric else result.scores.name
    return name if result.scores.k == 0 else f"{name} k={result.scores.k}"


def _digits(result: MetricScores, width: int | None) -> int:
    return result.digits if width is None else width


def _number(value: float | None, width: int) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{width}f}"


def _cell(result: MetricScores, s: int, width: int) -> str:
    text = _number(result.scores.system[s], width)
    found = {key: values[s] for key, values in result.found.items()}
    if "mean" in found:
        text += f" ({_number(found['mean'], width)} ± {_number(found['ci'], width)})"
    if not math.isnan(found.get("p_value", math.nan)):
        text += f" p = {found['p_value']:.4f}"
    return text
