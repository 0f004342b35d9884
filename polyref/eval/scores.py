"""The scores that are held against the judgements of a set: of metrics computed here, and of score files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from polyref.cache import default_cache
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import bleu_tokenizer, check_sources, chosen_references, reference_set
from polyref.eval.data.releases import EvaluationSet, filled
from polyref.eval.judged import references_of
from polyref.eval.judgements.gold import BoolArray, Gold
from polyref.eval.options import KEPT, REPLACED, Choices
from polyref.eval.placebo import LengthLeft, length_left, placebo
from polyref.eval.series import (
    ComputedSeries,
    LeaveOneOutSeries,
    LengthSeries,
    Part,
    PartSeries,
    Series,
    StoredSeries,
    series_of,
)
from polyref.metrics.api import CONSENSUS, check_leave_one_out, leave_one_out, segment_scores, wanted_ks
from polyref.metrics.base import Metric
from polyref.metrics.registry import (
    is_metric,
    make_metrics,
    metric_class,
    metric_options,
    needs_added,
    read_specification,
    read_specifications,
    split,
)
from polyref.references import ReferenceSet

#: Share of their standard deviation by which scores of systems may differ from the means of those of segments.
_ROUNDED: Final = 0.01


def part_of(gold: Gold, choices: Choices, segments: int, costly: bool, several: bool) -> Part | None:
    """The segments to score; None for all of them.

    Where a metric is costly, these are the judged ones, for all metrics of a run alike. But where scores of systems are
    not the means of those of the judged segments, they say something of the others too, and all are scored, as WMT
    does. A random part is drawn so that of two parts with one seed the smaller one lies in the larger one.

    Args:
        gold: The judgements of the systems that stay.
        choices: What was asked for.
        segments: How many segments the set has.
        costly: Whether a metric of the run is.
        several: Whether other sets or pairs are evaluated too, which may leave segments out.

    Raises:
        UsageError: ``all_segments`` is given, and all are scored without it.
    """
    judged = _judged(gold, segments)
    if choices["segments"] is None:
        if costly and not judged.all() and _systems_are_means(gold):
            return None if choices["all_segments"] else Part(judged, int(judged.sum()), drawn=False)
        if choices["all_segments"] and not several:
            raise UsageError(f"`all_segments` has no use: all {segments} are scored without it", remedy="leave it out")
        return None
    # Not the stream of the redrawn test sets.
    order = np.random.default_rng([choices["bootstrap"].seed, 2]).permutation(segments)
    mask = np.zeros(segments, dtype=np.bool_)
    mask[order[judged[order]][: choices["segments"]]] = True
    return Part(mask, int(judged.sum()), drawn=True)


def _judged(gold: Gold, segments: int) -> BoolArray:
    """Segments with a judgement of any output; all of them where systems alone are judged."""
    judged = np.zeros(segments, dtype=np.bool_)
    for scores in gold.segment.values():
        judged |= ~np.isnan(scores)
    if gold.pairs is not None:
        judged[gold.pairs.segment] = True
    return judged if judged.any() else ~judged


def _systems_are_means(gold: Gold) -> bool:
    """Whether the scores of systems are the means of those of their judged segments, but for rounding."""
    if not gold.system.keys() <= gold.segment.keys():
        return False
    scores = np.array(list(gold.system.values()))
    means = np.array([np.nanmean(gold.segment[name]) for name in gold.system])
    return (
        bool(np.allclose(scores, means, rtol=0, atol=max(_ROUNDED * float(scores.std()), 1e-6)))
        if len(scores)
        else True
    )


#: Prefix that asks for a score file of the set where polyref could compute the metric as well.
STORED: Final = "stored:"


@dataclass(frozen=True)
class Inputs:
    """One combination of added references and what becomes of the human ones.

    Attributes:
        generator: Where the added references come from; empty without any, or where there is only one.
        originals: ``kept`` or ``replaced``.
        series: The metrics' scores.
        systems: The judged systems.
        ks: The values of k that were asked for.
        references: Human and added references; None where every metric is a score file, as below.
        known: Which outputs are real texts, shape (systems, segments).
        outputs: System -> its outputs.
        weighed: What the metrics weigh references by.
        reads_sources: Whether a metric reads the sources.
        peers: With leave-one-out, the references of every system; ``references`` are the human ones then.
        part: The segments that are scored; None for all. What is outside is not ``known``.
        warnings: What to tell the reader.
        placebos: The computed metrics over placebos of the added references, a list for every seed.
        length_left: What is left of a difference in length between these; None without placebos.
        blind: With placebos, a metric that sees only lengths, over the added references themselves.
    """

    generator: str
    originals: str
    series: list[Series]
    systems: list[str]
    ks: set[int]
    references: ReferenceSet | None = None
    known: BoolArray | None = None
    outputs: dict[str, list[str]] = field(default_factory=dict)
    weighed: Collection[str] = ()
    warnings: Sequence[str] = ()
    placebos: Sequence[Sequence[Series]] = ()
    length_left: LengthLeft | None = None
    blind: Series | None = None
    peers: Mapping[str, ReferenceSet] = field(default_factory=dict)
    reads_sources: bool = False
    part: Part | None = None


def metric_name(name: str, sets: Sequence[EvaluationSet], added: bool = False) -> str:
    """What the rows call a metric that was asked for by ``name``, with ``added`` references or without.

    Metrics with their options are in one spelling, names of metrics in small letters; names of score files are as they
    are, and so are all names where none of the sets has texts to score.
    """
    return str(read_specification(name)) if any(_is_computed(name, one, added) for one in sets) else name


def _is_computed(name: str, evalset: EvaluationSet, added: bool) -> bool:
    """Whether a name is that of a metric which has something to score here, and references to score it with."""
    if not isinstance(evalset, EvalSet) or not evalset.output_files or not is_metric(name):
        return False
    return added or bool(evalset.reference_files) or not _needs_references(name)


def _needs_references(name: str) -> bool:
    kind, _ = metric_class(read_specification(name).name)
    return kind.needs_references


def _row_names(choices: Choices, evalset: EvaluationSet) -> list[str]:
    """:func:`metric_name` of metrics that are asked for together, with options for all that have them."""
    names = [name for text in choices["metrics"] for name in split(text)]
    known = [name for name in names if _is_computed(name, evalset, bool(choices["references"]))]
    read = iter(read_specifications(known, choices["of_metrics"]))
    return [str(next(read)) if name in known else name for name in names]


def inputs(evalset: EvaluationSet, gold: Gold, choices: Choices, several: bool) -> Iterator[Inputs]:
    """Every combination of added references, and human ones kept or replaced."""
    refs = references_of(evalset, choices["ref"], several)
    systems = list(dict.fromkeys([*gold.system, *gold.segment, *(gold.pairs.systems if gold.pairs else ())]))
    metrics = _row_names(choices, evalset)
    made = _computed(evalset, metrics, choices)
    folder = {"folder": choices["scores"]} if choices["scores"] else {}
    if isinstance(evalset, EvalSet) and evalset.output_files and not evalset.reference_files:
        own = {*made, *evalset.stored_names(**folder)}
        if lacking := [name for name in metrics if is_metric(name) and name not in own]:
            raise DataError(f"no references for {evalset.pair}, which {lacking[0]} reads", file=evalset.directory,
                            remedy="give translations of its sources as added ones: `references`")  # fmt: skip
    stored: dict[str, Series] = {
        name: StoredSeries(name, evalset.stored(name.removeprefix(STORED), refs, **folder), evalset.directory)
        for name in metrics
        if name not in made
    }
    if choices["scores"] is not None and not stored and not several:
        raise UsageError("`scores` has no use: no metric here is a score file", remedy="leave it out")
    if choices["peers"] is not None and (stored or not made):
        raise UsageError("`peers` needs metrics that are computed here, not score files")
    if not made or not isinstance(evalset, EvalSet):
        ordered = [stored[name] for name in dict.fromkeys(metrics)]
        yield Inputs("", KEPT, ordered, systems, set(choices["ks"]) or {0})
        return
    texts = evalset.outputs(systems)
    outputs = dict(zip(systems, texts, strict=True))
    known = evalset.known(texts)
    part = part_of(gold, choices, known.shape[1], not all(metric.by_segment for metric in made.values()), several)
    if part is not None:
        known &= part.mask
    if choices["peers"] is not None:
        human = reference_set(evalset, evalset.choose_references(refs))
        yield _against_peers(choices["peers"], made, outputs, human, known, part)
        return
    cache = None if choices["of_metrics"].get("cache") is False else default_cache()
    reading = any(metric.needs_references for metric in made.values())
    for generator, added in choices["references"].items() or [("", None)]:
        source = filled(added, evalset) if isinstance(added, str) else added
        asked = () if (stored or several) and not evalset.reference_files else refs  # score files name theirs too
        names = chosen_references(evalset, asked, added is not None or not reading)
        references = reference_set(evalset, names, source, choices["form"], choices["fields"])
        check_sources(evalset, references, made.values())
        counts = [len(segment.extras) for segment in references]
        wanted = _wanted(choices, references, max(counts), several)
        if added is None and wanted != {0}:
            raise UsageError(f"k = {max(wanted)} without added references", remedy="give them with `references`")
        if added is None and choices["placebo"] is not None:
            raise UsageError("`placebo` without added references", remedy="give them with `references`")
        if added is None and (named := needs_added(made)):
            raise UsageError(f"{named[0]} without added references", remedy="give them with `references`")
        warnings = short_of(max(choices["ks"], default=0), counts)
        others = [placebo(references, choices["bootstrap"].seed + number) for number in range(choices["placebo"] or 0)]
        compared = [references, *others] if part is None else [part.references(one) for one in (references, *others)]
        left = length_left(compared[0], compared[1:]) if others else None
        for originals in choices["originals"]:
            if added is None and originals == REPLACED:
                raise UsageError("`originals` replaced without added references", remedy="give them with `references`")
            here = series_of(made, outputs, references, sorted(wanted), originals=originals, cache=cache, part=part)
            fakes = [
                series_of(made, outputs, other, sorted(wanted), originals=originals, cache=cache, base=False, part=part)
                for other in others
            ]
            series = {**stored, **dict(zip(made, here, strict=True))}
            ordered = [series[name] for name in dict.fromkeys(metrics)]
            weighed = {metric.weighed_by for metric in made.values()}
            blind = LengthSeries(outputs, references, sorted(wanted), kept=originals == KEPT) if others else None
            yield Inputs(
                generator, originals, ordered, systems, wanted, references, known, outputs, weighed, warnings, fakes,
                left, blind,
                reads_sources=any(metric.needs_sources for metric in made.values()), part=part,
            )  # fmt: skip


def _against_peers(
    peers: str,
    metrics: Mapping[str, Metric],
    outputs: dict[str, list[str]],
    human: ReferenceSet,
    known: BoolArray,
    part: Part | None,
) -> Inputs:
    """The human references alone, and with the outputs of the other systems."""
    check_leave_one_out(peers, outputs, human, metrics, None, None)
    own = leave_one_out(outputs, human)
    texts, base, others = outputs, human, own
    if part is not None:
        texts, base = part.texts(outputs), part.references(human)
        others = {name: part.references(one) for name, one in own.items()}
    series: list[Series] = [
        LeaveOneOutSeries(
            ComputedSeries(metric, texts, base, [0], name=name),
            segment_scores(name, metric, texts, others).scores,
            metric.higher_is_better,
        )
        for name, metric in metrics.items()
    ]
    series = series if part is None else [PartSeries(one, part.mask) for one in series]
    systems = list(outputs)
    # The header says whose outputs they are.
    named = ReferenceSet(human.segments, own[systems[0]].meta)
    weighed = {metric.weighed_by for metric in metrics.values()}
    ks = {0, len(systems) - 1}
    return Inputs("", KEPT, series, systems, ks, named, known, outputs, weighed, [CONSENSUS], peers=own, part=part)


def _computed(evalset: EvaluationSet, metrics: Sequence[str], choices: Choices) -> dict[str, Metric]:
    """The metrics that are computed here, by the names of rows."""
    own: dict[str, Metric] = {}
    if isinstance(evalset, EvalSet) and evalset.output_files:
        added = bool(choices["references"])
        given = {name: metric for name, metric in choices["made"].items()
                 if added or evalset.reference_files or not metric.needs_references}  # fmt: skip
        named = [name for name in dict.fromkeys(metrics)
                 if name not in choices["made"] and _is_computed(name, evalset, added)]  # fmt: skip
        fresh = make_metrics(named, _of_metrics(named, choices), tokenize=bleu_tokenizer(evalset.pair)) if named else {}
        both = {**fresh, **given}
        own = {name: both[name] for name in dict.fromkeys(metrics) if name in both}
    if not own and (choices["references"] or choices["of_metrics"]):
        name = "references" if choices["references"] else next(iter(choices["of_metrics"]))
        raise UsageError(f"`{name}` has no use: every metric here is a score file", remedy="leave it out")
    if not own and choices["placebo"] is not None:
        raise UsageError("`placebo` has no use: every metric here is a score file")
    if not own and choices["originals"] != (KEPT,):
        raise UsageError("`originals` has no use: every metric here is a score file")
    if not own and (choices["segments"] or choices["all_segments"]):
        name = "segments" if choices["segments"] else "all_segments"
        raise UsageError(f"`{name}` has no use: every metric here is a score file", remedy="leave it out")
    if not own and max(choices["ks"], default=0):
        raise UsageError("`ks` has no use: every metric here is a score file", remedy="leave it out")
    return own


def _wanted(choices: Choices, references: ReferenceSet, most: int, several: bool) -> set[int]:
    """The numbers of added references; where none is human, they begin with 1.

    Raises:
        UsageError: None is human, and 0 is asked for, alone or of one set; or something that takes human ones.
    """
    if not most or any(segment.originals for segment in references):
        return set(choices["ks"]) or {0, most}
    for name, useless in (("placebo", choices["placebo"]), ("originals", choices["originals"] != (KEPT,))):
        if useless:
            raise UsageError(f"`{name}` has no use: there is no human reference, and gains are over added ones",
                             remedy="leave it out")  # fmt: skip
    # Other sets may have some.
    asked = [k for k in choices["ks"] if k or not several] or choices["ks"]
    return set(wanted_ks(asked or (1, most), most, human=False))


def _of_metrics(named: Sequence[str], choices: Choices) -> dict[str, Any]:
    """Options of metrics. ``cache`` speaks of statistics too: metrics need not take it."""
    known = [one for name in named for one in metric_options(read_specification(name).name).values()]
    takers = any(one.parameter == "cache" for one in known)
    return {name: value for name, value in choices["of_metrics"].items() if takers or name != "cache"}


def short_of(k: int, extras: Sequence[int]) -> list[str]:
    """What to tell a user who asked for ``k`` extra references where segments have these numbers of them."""
    fewest = min(extras)
    if k <= fewest:
        return []
    have = f"only {fewest} extra reference{'s' * (fewest > 1)}" if fewest else "no extra reference"
    return [f"some segments have {have}: `ks` {k} uses what there is"]
