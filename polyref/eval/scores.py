"""The scores that are held against the judgements of a set: of metrics computed here, and of score files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from polyref.cache import default_cache
from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.reference_sets import (
    LengthLeft,
    check_sources,
    chosen_references,
    length_left,
    placebo,
    reference_set,
)
from polyref.eval.data.releases import EvaluationSet, filled
from polyref.eval.data.score_files import BoolArray, Gold
from polyref.eval.judged import references_of
from polyref.eval.options import KEPT, REPLACED, Choices
from polyref.eval.series import (
    ComputedSeries,
    LeaveOneOutSeries,
    LengthSeries,
    PartSeries,
    ScoredPart,
    Series,
    StoredSeries,
    series_of,
)
from polyref.metrics.api import CONSENSUS, check_leave_one_out, leave_one_out, segment_scores, wanted_ks, warnings_of
from polyref.metrics.base import Metric
from polyref.metrics.registry import (
    between,
    is_metric,
    make_metrics,
    metric_class,
    metric_options,
    needs_added,
    read_specification,
    read_specifications,
    split,
)
from polyref.metrics.signature import inputs_signature
from polyref.references import ReferenceSet

#: Share of their standard deviation by which scores of systems may differ from the means of those of segments.
_ROUNDED: Final = 0.01


#: Prefix that asks for a score file of the set where polyref could compute the metric as well.
STORED: Final = "stored:"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ScoredSet:
    """The scores of one combination of added references and what becomes of the human ones.

    Attributes:
        series: The metrics' scores.
        systems: The judged systems.
        ks: The values of k that were asked for.
        generator: Where the added references come from; empty without any, or where there is only one.
        originals: Whether the human references were ``kept`` or ``replaced``.
        references: Human and added references, or None where every metric is a score file.
        shared: What the signatures of the metrics share; empty where every metric is a score file.
        outputs: System -> its outputs; empty where every metric is a score file.
        known: Which outputs are real texts, shape (systems, segments); None where every metric is a score file.
        unscored: Real texts without a score by some metric, likewise; they are not ``known``.
        part: The segments that are scored; None for all. What is outside is not ``known``.
        peers: With leave-one-out, the references of every system, for k > 0; ``references`` are the human ones then.
        warnings: What to tell the reader.
        placebos: The computed metrics over placebos of the added references, a list for every seed.
        length_left: What is left of a difference in length between the added references and their placebos.
        lengths: With placebos, a metric that sees only lengths, over the added references themselves.
    """

    series: Sequence[Series]
    systems: Sequence[str]
    ks: Sequence[int]
    generator: str = ""
    originals: str = KEPT
    references: ReferenceSet | None = None
    shared: str = ""
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    known: BoolArray | None = None
    unscored: BoolArray | None = None
    part: ScoredPart | None = None
    peers: Mapping[str, ReferenceSet] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    placebos: Sequence[Sequence[Series]] = ()
    length_left: LengthLeft | None = None
    lengths: Series | None = None


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
    if added or evalset.reference_files:
        return True
    kind, _ = metric_class(read_specification(name).name)
    return not kind.needs_references


def _row_names(choices: Choices, evalset: EvaluationSet) -> list[str]:
    """:func:`metric_name` of metrics that are asked for together, with options for all that have them."""
    names = [name for text in choices["metrics"] for name in split(text)]
    known = [name for name in names if _is_computed(name, evalset, bool(choices["references"]))]
    read = iter(read_specifications(known, choices["of_metrics"]))
    return [str(next(read)) if name in known else name for name in names]


def scores_of(evalset: EvaluationSet, gold: Gold, choices: Choices, several: bool) -> Iterator[ScoredSet]:
    """The scores of every combination of added references, and human ones kept or replaced.

    ``several`` says whether other sets or pairs are evaluated too, so that each takes what it has.
    """
    refs = references_of(evalset, choices["ref"], several)
    systems = list(dict.fromkeys([*gold.system, *gold.segment, *(gold.pairs.systems if gold.pairs else ())]))
    metrics = list(dict.fromkeys(_row_names(choices, evalset)))
    made = _computed(evalset, metrics, choices)
    stored = _stored(evalset, [name for name in metrics if name not in made], refs, choices)
    _refuse_useless(made, choices)
    if choices["scores"] is not None and not stored and not several:
        raise UsageError("`scores` has no use: no metric here is a score file", remedy="leave it out")
    if choices["peers"] is not None and (stored or not made):
        raise UsageError("`peers` needs metrics that are computed here, not score files")
    if not made or not isinstance(evalset, EvalSet):
        series = [stored[name] for name in metrics]
        yield ScoredSet(series=series, systems=systems, ks=sorted(set(choices["ks"]) or {0}))
        return
    outputs = dict(zip(systems, texts := evalset.outputs(systems), strict=True))
    known = evalset.known(texts)
    part = part_of(gold, choices, known.shape[1], not all(metric.by_segment for metric in made.values()), several)
    if part is not None:
        known &= part.mask
    if choices["peers"] is not None:
        human = reference_set(evalset, evalset.choose_references(refs))
        yield _against_peers(choices["peers"], made, outputs, human, known, part)
        return
    cache = None if choices["of_metrics"].get("cache") is False else default_cache()
    # Score files name theirs too.
    asked = () if (stored or several) and not evalset.reference_files else refs
    for generator, added in choices["references"].items() or [("", None)]:
        references = _references(evalset, asked, added, made, choices)
        counts = [len(segment.extras) for segment in references]
        ks = _wanted(choices, references, max(counts), several)
        if added is None and (lone := _without_added(ks, made, choices)):
            raise UsageError(f"{lone} without added references", remedy="give them with `references`")
        others = [placebo(references, choices["bootstrap"].seed + number) for number in range(choices["placebo"] or 0)]
        compared = [references, *others] if part is None else [part.references(one) for one in (references, *others)]
        left = length_left(compared[0], compared[1:]) if others else None
        for originals in choices["originals"]:
            if added is None and originals == REPLACED:
                raise UsageError("`originals` replaced without added references", remedy="give them with `references`")
            here, *fakes = (
                series_of(made, outputs, one, ks, originals=originals, cache=cache, base=one is references, part=part)
                for one in (references, *others)
            )
            by_name = {**stored, **dict(zip(made, here, strict=True))}
            told = warnings_of(made.values(), references, max(choices["ks"], default=0))
            cells = [s.segment(systems, k) for s in chain(here, *fakes) if made[s.metric].may_miss for k in s.ks]
            unscored = known & np.isnan(np.array(cells, dtype=np.float64)).any(axis=0)
            if unscored.any():
                told.append(f"{unscored.sum()} outputs have no score by a judge: no metric is compared on them")
            yield ScoredSet(
                series=[by_name[name] for name in metrics],
                systems=systems,
                ks=ks,
                generator=generator,
                originals=originals,
                references=references,
                shared=_shared(references, made, ks),
                outputs=outputs,
                known=known & ~unscored,
                unscored=unscored,
                part=part,
                warnings=told,
                placebos=fakes,
                length_left=left,
                lengths=LengthSeries(outputs, references, ks, kept=originals == KEPT) if others else None,
            )


def _stored(evalset: EvaluationSet, names: Sequence[str], refs: tuple[str, ...], choices: Choices) -> dict[str, Series]:
    """The metrics whose scores are in files of the set."""
    folder = {"folder": choices["scores"]} if choices["scores"] else {}
    if isinstance(evalset, EvalSet) and evalset.output_files and not evalset.reference_files:
        there = evalset.stored_names(**folder)
        if lacking := [name for name in names if is_metric(name) and name not in there]:
            reason = f"no references for {evalset.pair}, which {lacking[0]} reads"
            remedy = "give translations of its sources as added ones: `references`"
            raise DataError(reason, file=evalset.directory, remedy=remedy)
    found = {name: evalset.stored(name.removeprefix(STORED), refs, **folder) for name in names}
    return {name: StoredSeries(name, scores, evalset.directory) for name, scores in found.items()}


def _references(
    evalset: EvalSet,
    asked: Sequence[str],
    added: str | ReferenceSet | None,
    metrics: Mapping[str, Metric],
    choices: Choices,
) -> ReferenceSet:
    """The human references that were asked for, and added ones."""
    unread = not any(metric.needs_references for metric in metrics.values())
    names = chosen_references(evalset, asked, added is not None or unread)
    source = filled(added, evalset) if isinstance(added, str) else added
    references = reference_set(evalset, names, source, choices["form"], choices["fields"])
    check_sources(evalset, references, metrics.values())
    return references


def _without_added(ks: Sequence[int], metrics: Mapping[str, Metric], choices: Choices) -> str:
    """What was asked for and needs added references."""
    if list(ks) != [0]:
        return f"k = {max(ks)}"
    if choices["placebo"] is not None:
        return "`placebo`"
    return next(iter(needs_added(metrics)), "")


def _shared(references: ReferenceSet, metrics: Mapping[str, Metric], ks: Sequence[int]) -> str:
    """What the signatures of computed metrics share."""
    weighed = {metric.weighed_by for metric in metrics.values()}
    reads_sources = any(metric.needs_sources for metric in metrics.values())
    return inputs_signature(references, list(metrics), sorted(ks), weighed, reads_sources)


def _against_peers(
    peers: str,
    metrics: Mapping[str, Metric],
    outputs: dict[str, list[str]],
    human: ReferenceSet,
    known: BoolArray,
    part: ScoredPart | None,
) -> ScoredSet:
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
    systems = list(outputs)
    # The header says whose outputs they are.
    named = ReferenceSet(human.segments, own[systems[0]].meta)
    return ScoredSet(
        series=series if part is None else [PartSeries(one, part.mask) for one in series],
        systems=systems,
        ks=(ks := [0, len(systems) - 1]),
        references=named,
        shared=_shared(named, metrics, ks),
        outputs=outputs,
        known=known,
        part=part,
        peers=own,
        warnings=[CONSENSUS],
    )


def _computed(evalset: EvaluationSet, metrics: Sequence[str], choices: Choices) -> dict[str, Metric]:
    """The metrics that are computed here, by the names of rows."""
    own: dict[str, Metric] = {}
    options = choices["of_metrics"]
    if isinstance(evalset, EvalSet) and evalset.output_files:
        added = bool(choices["references"])
        given = choices["made"]
        named = [name for name in metrics if name not in given and _is_computed(name, evalset, added)]
        # ``cache`` speaks of statistics too: metrics need not take it.
        known = [one for name in named for one in metric_options(read_specification(name).name).values()]
        takers = any(one.parameter == "cache" for one in known)
        taken = {name: value for name, value in options.items() if takers or name != "cache"}
        both = make_metrics(named, taken, evalset.pair) if named else {}
        usable = added or bool(evalset.reference_files)
        both |= {name: between(one, evalset.pair) for name, one in given.items() if usable or not one.needs_references}
        own = {name: both[name] for name in metrics if name in both}
    return own


def _refuse_useless(own: Mapping[str, Metric], choices: Choices) -> None:
    """Refuse options of metrics that are computed here where none is."""
    given = {name: choices[name] for name in ("references", "placebo", "segments", "all_segments")}
    given |= {"originals": choices["originals"] != (KEPT,), "ks": max(choices["ks"], default=0)}
    useless = [*(name for name, value in given.items() if value), *choices["of_metrics"]]
    if useless and not own:
        raise UsageError(f"`{useless[0]}` has no use: every metric here is a score file", remedy="leave it out")


def part_of(gold: Gold, choices: Choices, segments: int, costly: bool, several: bool) -> ScoredPart | None:
    """The segments to score; None for all of them.

    Where a metric is costly, these are the judged ones, for all metrics of a run alike. But where scores of systems are
    not the means of those of the judged segments, they say something of the others too, and all are scored, as WMT
    does. A random part is drawn so that of two parts with one seed the smaller one lies in the larger one.
    """
    judged = np.zeros(segments, dtype=np.bool_)
    for scores in gold.segment.values():
        judged |= ~np.isnan(scores)
    if gold.pairs is not None:
        judged[gold.pairs.segment] = True
    if not judged.any():  # systems alone are
        judged = ~judged
    if choices["segments"] is None:
        if costly and not judged.all() and _systems_are_means(gold):
            return None if choices["all_segments"] else ScoredPart(judged, int(judged.sum()), drawn=False)
        if choices["all_segments"] and not several:
            raise UsageError(f"`all_segments` has no use: all {segments} are scored without it", remedy="leave it out")
        return None
    # Not the stream of the redrawn test sets.
    order = np.random.default_rng([choices["bootstrap"].seed, 2]).permutation(segments)
    mask = np.zeros(segments, dtype=np.bool_)
    mask[order[judged[order]][: choices["segments"]]] = True
    return ScoredPart(mask, int(judged.sum()), drawn=True)


def _systems_are_means(gold: Gold) -> bool:
    """Whether the scores of systems are the means of those of their judged segments, but for rounding."""
    if not gold.system.keys() <= gold.segment.keys():
        return False
    scores = np.array(list(gold.system.values()))
    means = np.array([np.nanmean(gold.segment[name]) for name in gold.system])
    return not len(scores) or np.allclose(scores, means, rtol=0, atol=max(_ROUNDED * float(scores.std()), 1e-6))


def _wanted(choices: Choices, references: ReferenceSet, most: int, several: bool) -> list[int]:
    """The numbers of added references; where none is human, they begin with 1."""
    if not most or any(segment.originals for segment in references):
        return sorted(set(choices["ks"]) or {0, most})
    for name, useless in (("placebo", choices["placebo"]), ("originals", choices["originals"] != (KEPT,))):
        if useless:
            found = f"`{name}` has no use: there is no human reference, and gains are over added ones"
            raise UsageError(found, remedy="leave it out")
    # Other sets may have some.
    asked = [k for k in choices["ks"] if k or not several] or choices["ks"]
    return sorted(set(wanted_ks(asked or (1, most), most, human=False)))
