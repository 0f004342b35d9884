"""Evaluate metrics against human judgements, from a folder to a table and a report, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from typing_extensions import Unpack

from polyref.errors import UsageError
from polyref.eval.data.reference_sets import as_added
from polyref.eval.data.releases import open_sets
from polyref.eval.evaluation import measure
from polyref.eval.evaluation_table import EvaluationTable, average_over_pairs
from polyref.eval.options import KEPT, Choices, EvaluateOptions, Measured, References
from polyref.eval.scores import metric_name
from polyref.eval.statistics.base import SEGMENTS, Bootstrap
from polyref.metrics.base import Metric
from polyref.metrics.registry import name_or_metric, named_metrics
from polyref.options import declared, with_options
from polyref.references import ReferenceSet
from polyref.tables import name_as_text
from polyref.values import mapping, place, several

#: Parameters of many kinds, which are read in a way of their own.
_READ_HERE: Final = ("metrics", "references")
#: What speaks of systems, or of references that all systems share.
_NOT_WITH_PEERS: Final = ("references", "ks", "pairwise", "placebo", "perm_both", "correction", "sys_gold")


@with_options(EvaluateOptions)
def evaluate(
    data: str | Path | Sequence[str | Path],
    pairs: str | Sequence[str],
    *,
    references: References = None,
    ref: str | Sequence[str] = (),
    originals: str | Sequence[str] = KEPT,
    gold: str | Sequence[str] = (),
    mqm: str | Path | None = None,
    da: str | Path | Sequence[str | Path] | None = None,
    judgements: Mapping[str, str | Path | Sequence[str | Path]] | None = None,
    metrics: str | Metric | Sequence[str | Metric] | Mapping[str, Metric] = ("bleu", "chrf"),
    ks: int | Sequence[int] = (),
    placebo: int | None = None,
    include_human: bool = False,
    exclude: str | Sequence[str] = (),
    scores: str | Path | None = None,
    **more: Unpack[EvaluateOptions],
) -> EvaluationTable:
    """Measure agreement with human judgements against the number of references.

    Args:
        data: A directory in the mt-metrics-eval layout or a WMT release, or a file of JSON lines or XML; several are
            measured one after the other.
        pairs: Language pairs, such as ``zh-en``.
        references: Added references: an augmented set or its file, in whose name ``{set}`` and ``{pair}`` are put in;
            human references alone, in a file of any form or as ``ref:NAME`` of the set, which count as added ones (of a
            set without references, a file's are its references, and k counts from 1 where none of them is human);
            a list with one added text a segment, or with a list of them; or a mapping from names to sets or files, to
            compare several generators.
        ref: Names of human references; needed where there are several.
        originals: What becomes of the human references for k > 0: ``kept``, ``replaced``, or both in a list.
        gold: Name of the judgement, ``darr`` or one in ``human-scores``; of several, each set takes the first it has.
        mqm: File of raw MQM marks or their averages, instead of ``gold``; as in ``references``, the names of set and
            pair are put in.
        da: File of DA, DA+SQM or ESA judgements, instead of ``gold``; or several that belong together (waves).
        judgements: Kind -> file of it, instead of ``gold``: one of these kinds, ``darr``, ``pearmut`` (its logs), or of
            a plug-in. Of ``da`` and ``pearmut`` also several files.
        metrics: Metrics by name or specification, ``chrf(combine=expected)``, or as objects, or both in a list; or a
            mapping from the names that rows shall have. A name of a score file of the set is one too; ``stored:NAME``
            says so where polyref has a metric of that name.
        ks: Numbers of added references, each >= 0; default: 0, and as many as there are.
        placebo: Also measure that many placebos of the added references, in which every added reference is one of
            another segment of the same length (:mod:`polyref.eval.data.reference_sets`): rows with ``control``
            "placebo" are their mean, those with "real - placebo" the difference to it, with intervals over the same
            redrawn test sets, and those with "length" of a metric that sees only lengths. Only with them is a verdict
            ``better``: it needs a significant gain and a significant difference, and ``claim`` is the smaller of the
            two.
        include_human: Treat translations made by people as systems.
        exclude: Systems to leave out.
        scores: Folder of score files in the set, if not ``metric-scores`` or ``scores``.
        more: Any of :class:`polyref.eval.options.EvaluateOptions`: what else to measure, on which systems and
            segments, how to draw and to test.

    Returns:
        A table: ``print`` shows it, ``.rows`` are plain values, ``.report(folder)`` writes a page.

    Raises:
        DataError: A file is missing or broken, or does not fit the others.
        UsageError: A value is out of range, a name is unknown, or something is given that has no use.
    """
    given = {**locals()}
    given |= given.pop("more")
    say = given.pop("say")
    own = {name: one.taken(given[name]) for name, one in declared(Measured).items() if name not in _READ_HERE}
    names, made = _metrics(metrics)
    checked = {**more, **own, "data": several("data", data, place), "metrics": names}
    choices = cast(
        Choices,
        checked
        | {
            "made": made,
            "of_metrics": {
                name: value for name, value in checked["options"].items() if value is not None and value != ()
            },
            "originals": tuple(dict.fromkeys(checked["originals"])) or (KEPT,),
            "references": _added(references),
            "gold_files": _files_of_judgements(checked),
            "bootstrap": Bootstrap(*(checked[name] for name in ("resamples", "confidence", "seed", "over"))),
        },
    )
    _check(choices)
    sets = open_sets(*(checked[name] for name in ("data", "pairs", "collection", "test_suites", "systems")))
    if (baseline := choices["baseline"]) is not None:
        choices["baseline"] = metric_name(baseline, sets, bool(choices["references"]))
    evaluations = measure(sets, choices, say)
    averages = []
    if len({(one.set_name, one.pair) for one in evaluations}) > 1:
        averages = [one for one in average_over_pairs(evaluations) if one["pairs"] > 1]
    # One string stays one, and metrics that are named stay so.
    plain = (str, Path, Metric, *([Mapping] if isinstance(metrics, Mapping) else []))
    settings = {
        name: _plain(value if isinstance(value, plain) else checked.get(name, value))
        for name, value in sorted(given.items())
        if (value if isinstance(value, plain) else checked.get(name, value)) is not None
    }
    return EvaluationTable(
        tuple(evaluations), tuple(averages), settings, choices["bootstrap"], choices["correction"], choices["baseline"]
    )


def _files_of_judgements(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Kind -> files of judgements, of which there may be one kind, or ``gold``."""
    named = [*((kind, given[kind]) for kind in ("mqm", "da", "darr")), *given["judgements"].items()]
    found = [(kind, paths) for kind, file in named if (paths := several(kind, file, place))]
    if len(found) + bool(given["gold"]) > 1:
        raise UsageError("`gold`, `mqm`, `da`, `darr` and `judgements` are alternatives")
    return dict(found)


def _check(choices: Choices) -> None:
    """Refuse what has no use beside the rest."""
    bootstrap, files = choices["bootstrap"], choices["gold_files"]
    if choices["mqm_weights"] and "mqm" not in files:
        raise UsageError("`mqm_weights` has no use without `mqm`")
    if choices["reliable"] and "pearmut" not in files:
        raise UsageError("`reliable` has no use without `judgements` of the kind pearmut")
    if choices["segments"] is not None and choices["all_segments"]:
        raise UsageError("`segments` and `all_segments` contradict each other", remedy="leave one of them out")
    if not any(isinstance(one, str) for one in choices["references"].values()):
        for name, value in (("form", choices["form"]), ("fields", choices["fields"])):
            if value:
                raise UsageError(
                    f"`{name}` has no use without a file of `references`", remedy="give `references`, or leave it out"
                )
    if not bootstrap.resamples:
        plain = Bootstrap()
        drawn = choices["placebo"] or choices["perm_both"] or choices["segments"]
        for name in ("over", "confidence", *(() if drawn else ("seed",))):
            if getattr(bootstrap, name) != getattr(plain, name):
                raise UsageError(f"`{name}` has no use with `resamples` 0", remedy="leave one of them out")
    if choices["peers"] is not None:
        given = [name for name in _NOT_WITH_PEERS if cast(Mapping[str, Any], choices)[name]]
        given += ["originals"] if choices["originals"] != (KEPT,) else []
        given += ["over"] if bootstrap.over != SEGMENTS else []
        if given:
            raise UsageError(
                f"`{given[0]}` is of no use with `peers`: every system has references of its own, and scores of "
                "segments alone",
                remedy="leave one of them out",
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


def _added(references: References) -> dict[str, str | ReferenceSet]:
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
