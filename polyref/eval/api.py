"""Evaluate metrics against human judgements, from a folder to a table and a report, in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from polyref.errors import UsageError
from polyref.eval.data.reference_sets import as_added
from polyref.eval.data.releases import open_sets
from polyref.eval.evaluation_table import EvaluationTable, average_over_pairs
from polyref.eval.experiments.choices import KEPT, Choices
from polyref.eval.measure import Say, measure
from polyref.eval.scores import metric_name
from polyref.eval.statistics.base import SEGMENTS, Bootstrap
from polyref.metrics.base import Metric
from polyref.metrics.registry import name_or_metric, named_metrics
from polyref.references import ReferenceSet
from polyref.tables import name_as_text
from polyref.values import flag, mapping, place, real, several, text, texts, whole, wholes

_File: TypeAlias = str | Path | ReferenceSet


def _optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


_References: TypeAlias = _File | Mapping[str, _File] | Sequence[str] | Sequence[Sequence[str]] | None

#: What the values of parameters have to be.
_CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    **dict.fromkeys(("pairs", "ref", "originals", "gold", "mqm_weights", "statistics", "exclude"), texts),
    **dict.fromkeys(("pairwise", "include_human", "exclude_outliers", "test_suites", "all_segments", "reliable"), flag),
    **dict.fromkeys(("over", "repeated_pairs"), text),
    **dict.fromkeys(("sys_gold", "baseline", "correction", "collection", "form", "peers"), _optional(text)),
    **dict.fromkeys(("mqm", "darr", "scores", "systems"), _optional(place)),
    "da": _optional(lambda name, value: several(name, value, place)),
    **dict.fromkeys(
        ("judgements", "options", "fields"), lambda name, value: mapping(name, {} if value is None else value)
    ),
    **dict.fromkeys(("resamples", "seed"), whole),
    **dict.fromkeys(("top", "placebo", "perm_both", "segments"), _optional(partial(whole, least=1))),
    "ks": wholes,
    "confidence": real,
}


def evaluate(
    data: str | Path | Sequence[str | Path],
    pairs: str | Sequence[str],
    *,
    references: _References = None,
    ref: str | Sequence[str] = (),
    originals: str | Sequence[str] = KEPT,
    gold: str | Sequence[str] = (),
    sys_gold: str | None = None,
    mqm: str | Path | None = None,
    mqm_weights: Sequence[str] = (),
    da: str | Path | Sequence[str | Path] | None = None,
    darr: str | Path | None = None,
    judgements: Mapping[str, str | Path | Sequence[str | Path]] | None = None,
    reliable: bool = False,
    repeated_pairs: str = "count",
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric] = ("bleu", "chrf"),
    options: Mapping[str, Any] | None = None,
    ks: int | Sequence[int] = (),
    statistics: str | Sequence[str] = (),
    pairwise: bool = False,
    include_human: bool = False,
    exclude: str | Sequence[str] = (),
    exclude_outliers: bool = False,
    top: int | None = None,
    segments: int | None = None,
    all_segments: bool = False,
    scores: str | None = None,
    baseline: str | None = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    over: str = SEGMENTS,
    perm_both: int | None = None,
    placebo: int | None = None,
    correction: str | None = None,
    seed: int = 1,
    collection: str | None = None,
    test_suites: bool = False,
    form: str | None = None,
    fields: Mapping[str, str] | None = None,
    say: Say = lambda kind, message: None,
    peers: str | None = None,
    systems: str | Path | None = None,
) -> EvaluationTable:
    """Measure agreement with human judgements against the number of references.

    For every metric and k, each with the gain over k = 0 and bootstrap intervals: agreement within segments (Kendall's
    tau without ties, and accuracy with calibrated ties; of relative rankings Kendall's tau without ties and with ties
    discordant), Pearson's r of the systems' scores, and tau-b over all judged outputs.

    Args:
        data: A folder in the mt-metrics-eval layout or a WMT release, among them the JSON lines of the general task's
            human evaluation and of its test sets; or several: they are measured one by one.
        pairs: Language pairs, such as ``zh-en``; every set is measured on those that it has.
        references: Added references: an augmented set or its file, in whose name ``{set}`` and ``{pair}`` are put in;
            human references alone, in a file of any form or as ``ref:NAME`` of the set, which count as added ones (of a
            set without references, a file's are its references, and k counts from 1 where none of them is human);
            a list with one added text a segment, or with a list of them; or a mapping from names to sets or files, to
            compare several generators.
        ref: Names of human references; needed where there are several.
        originals: What becomes of the human references for k > 0: ``kept``, ``replaced``, or both in a list.
        gold: Name of the judgement, ``darr`` or one in ``human-scores``; of several, each set takes the first it has.
        sys_gold: System-level judgement, if not that of ``gold``.
        mqm: File of raw MQM marks or their averages, instead of ``gold``; as in ``references``, the names of set and
            pair are put in.
        mqm_weights: ``SEVERITY=WEIGHT`` or ``SEVERITY/CATEGORY=WEIGHT``, over the usual ones.
        da: File of DA, DA+SQM or ESA judgements, instead of ``gold``; or several that belong together (waves).
        darr: File of relative rankings of the metrics task, instead of ``gold``.
        judgements: Kind -> file of it, instead of ``gold``: one of the kinds above, ``pearmut`` (its logs), or of a
            plug-in. Of ``da`` and ``pearmut`` also several files.
        reliable: Of Pearmut's logs, leave out annotators by the rule of WMT26
            (:mod:`polyref.eval.judgements.pearmut`).
        repeated_pairs: What becomes of two outputs that several relative rankings compare: ``count`` each as released,
            ``merge`` them into what most say, or ``drop`` them.
        metrics: Metrics by name or specification, ``chrf(combine=expected)``, or as objects, or both in a list; or a
            mapping from the names that rows shall have. A name of a score file of the set is one too; ``stored:NAME``
            says so where polyref has a metric of that name.
        options: Of all metrics that have them and whose specification does not say otherwise, by the names of their
            flags: ``combine``, ``chrf_beta``.
        ks: Numbers of added references, each >= 0; default: 0, and as many as there are.
        statistics: More to compute, see :mod:`polyref.eval.statistics`.
        pairwise: Count pairs of systems: correct, incorrect, not significant.
        include_human: Treat translations made by people as systems.
        exclude: Systems to leave out.
        exclude_outliers: Leave out systems far from the median of human scores.
        top: Keep that many systems, those that people like best.
        segments: Score a random part of so many of the judged segments, drawn by ``seed``; of fewer, all. Intervals say
            what other such parts show.
        all_segments: Score segments that nobody judged as well. Without it, a run that has another metric than those
            that count n-grams scores judged ones alone, with all its metrics, unless scores of systems are not the
            means of the judged segments' and so say something of the others; a run of BLEU, chrF and TER scores all,
            as WMT does.
        scores: Folder of score files in the set, if not ``metric-scores`` or ``scores``.
        baseline: Name of the metric that gains are measured from, instead of each one's k = 0.
        resamples: Bootstrap resamples; 0 makes no intervals.
        confidence: Level of the intervals, between 0 and 1.
        over: What the bootstrap redraws: ``segments``, ``systems`` or ``both``. Intervals over segments say what other
            segments of the same systems would show; with ``both`` they also say it of other systems. Verdicts are from
            tests over systems, whatever is redrawn.
        perm_both: Test gains with that many permutations as well (PERM-BOTH, Deutsch et al. 2021): a test about these
            systems, not about others.
        placebo: Also measure that many placebos of the added references, in which every added reference is one of
            another segment of the same length (:mod:`polyref.eval.placebo`): rows with ``control``
            "placebo" are their mean, those with "real - placebo" the difference to it, with intervals over the same
            redrawn test sets, and those with "length" of a metric that sees only lengths. Only with them is a verdict
            ``better``: it needs a significant gain and a significant difference, and ``claim`` is the smaller of the
            two.
        correction: ``holm``, ``bonferroni`` or ``bh``: correct the p-values for their number.
        seed: Of all resampling; equal seeds give equal results.
        collection: Of a WMT XML release, take this collection; default: all.
        test_suites: Of a WMT XML release, take the test suites as well.
        form: Form of files of added references, as for :meth:`polyref.references.ReferenceSet.load`; default: told by
            content.
        fields: Key or column of these files -> what it is, likewise.
        say: Told every note as it comes up: ``note`` or ``warning``, and what it says.
        peers: ``leave-one-out``: for k > 0, the added references of every system are the outputs of the others, as for
            :func:`polyref.score`. There are rows within segments alone, and no verdicts: it measures agreement with the
            other systems, and ranks none.
        systems: Of a test set of the general task in JSON, the folder of outputs, ``NAME.jsonl``; default: the folder
            ``systems`` beside it.

    Returns:
        A table: ``print`` shows it, ``.rows`` are plain values, ``.report(folder)`` writes a page.

    Raises:
        DataError: A file is missing or broken, or does not fit the others.
        UsageError: A value is out of range, a name is unknown, or something is given that has no use.
    """
    given = {name: value for name, value in locals().items() if name != "say"}
    one = {name: check(name, given[name]) for name, check in _CHECKS.items()}
    names, made = _metrics(metrics)
    named = [*((kind, one[kind]) for kind in ("mqm", "da", "darr")), *one["judgements"].items()]
    given_files = [(kind, paths) for kind, file in named if (paths := several(kind, file, place))]
    if len(given_files) + bool(one["gold"]) > 1:
        raise UsageError("`gold`, `mqm`, `da`, `darr` and `judgements` are alternatives")
    known = {field.name for field in fields_of(Choices)}
    choices = Choices(
        **{name: value for name, value in one.items() if name in known and name not in ("options", "originals")},
        options={name: value for name, value in one["options"].items() if value is not None and value != ()},
        originals=tuple(dict.fromkeys(one["originals"])) or (KEPT,),
        metrics=names,
        made=made,
        references=_added(references),
        gold_files=dict(given_files),
        bootstrap=Bootstrap(*(one[name] for name in ("resamples", "confidence", "seed", "over"))),
    )
    one["data"], one["metrics"] = several("data", data, place), metrics if isinstance(metrics, Mapping) else names
    sets = open_sets(one["data"], one["pairs"], collection, test_suites, one["systems"])
    if baseline is not None:
        choices = replace(choices, baseline=metric_name(baseline, sets, bool(choices.references)))
    evaluations = measure(sets, choices, say)
    averages = []
    if len({(one.set_name, one.pair) for one in evaluations}) > 1:
        averages = [one for one in average_over_pairs(evaluations) if one["pairs"] > 1]
    # One string stays one.
    said = {
        name: value if isinstance(value, (str, Path, Metric)) else one.get(name, value) for name, value in given.items()
    }
    settings = {name: _plain(value) for name, value in sorted(said.items()) if value is not None}
    return EvaluationTable(
        tuple(evaluations), tuple(averages), settings, choices.bootstrap, correction, choices.baseline
    )


def _metrics(
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric],
) -> tuple[tuple[str, ...], dict[str, Metric]]:
    """Names of all metrics, in order, and those that are given as such: names may be of score files."""
    if isinstance(metrics, Mapping) and metrics:
        return tuple(metrics), named_metrics(metrics)
    given = several("metrics", metrics, name_or_metric)
    if not given:
        raise UsageError("`metrics` is empty, expected at least one")
    made = [one for one in given if isinstance(one, Metric)]
    names = tuple(one if isinstance(one, str) else one.name for one in given)
    return names, named_metrics(made) if made else {}


def _added(references: _References) -> dict[str, str | ReferenceSet]:
    """Name -> file or set; a single one has no name."""
    if references is None:
        return {}
    named = mapping("references", references) if isinstance(references, Mapping) else {"": references}
    return {name: os.fspath(one) if isinstance(one, (str, Path)) else as_added(one) for name, one in named.items()}


def _plain(value: Any) -> Any:
    """A choice as JSON has it."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, ReferenceSet)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (int, float)) else name_as_text(str(value))
