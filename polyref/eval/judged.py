"""The judgements that a set is evaluated against: which, of which systems."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyref.errors import UsageError
from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.releases import EvaluationSet, filled
from polyref.eval.data.score_files import Gold
from polyref.eval.judgements.base import Place, gold_reader
from polyref.eval.judgements.mqm import parse_weights
from polyref.eval.options import Choices


def judgement(evalset: EvaluationSet, choices: Choices, several: bool) -> tuple[Gold, dict[str, float], list[str]]:
    """The judgements of the systems that stay, the scores of those left out on purpose, and what to tell the reader.

    ``several`` says whether other sets or pairs are evaluated too, so that each takes what it has.
    """
    gold = _gold(evalset, choices, several)
    notes = list(gold.notes)
    if gold.unjudged:
        notes.append(f"not judged ({gold.name}), left out: {', '.join(gold.unjudged)}")
    if choices["include_human"]:
        # A reference is perfect against itself.
        if used := _scored_against(evalset, choices, several) & gold.systems:
            notes.append(f"scored against, left out: {', '.join(sorted(used))}")
            gold = gold.without(used)
    elif human := [name for name in evalset.output_files if evalset.is_human(name)]:
        notes.append(f"made by people, left out: {', '.join(human)}")
    everyone = gold.system
    left_out = [s for s in choices["exclude"] if not several or s in gold.systems]
    if choices["exclude_outliers"]:
        far = outliers(gold.system)
        left_out += far
        notes.append(f"outliers, left out: {', '.join(far) or 'none'}")
    gold = gold.without(left_out)
    if choices["top"] is not None:
        if choices["top"] > len(gold.system):
            raise UsageError(f"`top` {choices['top']}, but {len(gold.system)} systems have a human score")
        best = top_systems(gold.system, choices["top"])
        # Those that only rankings judge have no human score to be among the best.
        rest = [system for system in (*gold.system, *sorted(gold.systems - gold.system.keys())) if system not in best]
        left_out += rest
        gold = gold.without(rest)
    excluded = {system: everyone.get(system, math.nan) for system in dict.fromkeys(left_out)}
    if choices["exclude_outliers"] and not gold.system and all(map(math.isnan, excluded.values())):
        reason = f"`exclude_outliers` needs scores of systems, which the judgement {gold.name!r} does not have"
        raise UsageError(reason, remedy="choose another `gold` or give `sys_gold`")
    if not gold.systems:
        raise UsageError("every judged system is left out", remedy="leave out fewer")
    return gold, excluded, notes


def check_names(sets: Sequence[EvaluationSet], choices: Choices) -> None:
    """Refuse names that none of several sets has: each set takes what it has, and a typing error would go unnoticed."""
    if len(sets) < 2:
        return
    texts = [one for one in sets if isinstance(one, EvalSet) and one.reference_files]
    references = {name for one in texts for name in one.reference_files}
    golds = {name for one in sets for name in one.golds()}
    named = [("reference", name, references) for name in choices["ref"] if len(texts) == len(sets)]
    named += [("judgement", name, golds) for name in choices["gold"]]
    for what, name, there in named:
        if name not in there:
            raise UsageError(f"no set has the {what} {name!r}, there are: {', '.join(sorted(there)) or 'none'}")


def check_excluded(exclude: Sequence[str], left_out: Collection[str]) -> None:
    """Refuse systems to leave out that no set has."""
    for name in exclude:
        if name not in left_out:
            raise UsageError(f"no set has a judged system {name!r} to leave out")


def references_of(evalset: EvaluationSet, asked: tuple[str, ...], several: bool) -> tuple[str, ...]:
    """Where several sets or pairs are measured, each takes those of the names that it has."""
    if not several or not isinstance(evalset, EvalSet) or not evalset.reference_files:
        return asked
    return tuple(name for name in asked if name in evalset.reference_files) or asked


def _gold(evalset: EvaluationSet, choices: Choices, several: bool) -> Gold:
    if choices["gold_files"]:
        ((kind, patterns),) = choices["gold_files"].items()
        return gold_from_file(
            evalset,
            kind,
            [filled(pattern, evalset) for pattern in patterns],
            system_gold=choices["sys_gold"],
            include_human=choices["include_human"],
            weights=parse_weights(choices["mqm_weights"]),
            pairs=choices["repeated_pairs"],
            reliable=choices["reliable"],
        )
    name = _gold_name(evalset, choices["gold"], several)
    return evalset.gold(
        name, system_gold=choices["sys_gold"], include_human=choices["include_human"], pairs=choices["repeated_pairs"]
    )


def _gold_name(evalset: EvaluationSet, asked: Sequence[str], several: bool) -> str:
    available = evalset.golds()
    if len(asked) > 1 and not several:
        raise UsageError(f"one set has one `gold`, not {len(asked)}: {', '.join(asked)}")
    if asked:
        return next((name for name in asked if name in available), asked[0])
    if "darr" in available or len(available) == 1:
        return available[0]
    if not available:
        reason = f"{evalset.pair} has no human judgements in {evalset.directory}"
        raise UsageError(reason, remedy="see docs/reference/evaluation-sets.md")
    raise UsageError(f"{evalset.pair} has several judgements: {', '.join(available)}", remedy="choose with `gold`")


def _scored_against(evalset: EvaluationSet, choices: Choices, several: bool) -> set[str]:
    if not isinstance(evalset, EvalSet) or not evalset.has_texts:
        return set()
    asked = references_of(evalset, choices["ref"], several)
    return evalset.copies_of(asked or (evalset.reference_files if len(evalset.reference_files) == 1 else ()))


def gold_from_file(
    evalset: EvalSet | MetricsTaskArchive,
    kind: str,
    path: str | Path | Sequence[str | Path],
    *,
    system_gold: str | None = None,
    include_human: bool = False,
    **options: Any,
) -> Gold:
    """Judgements of one language pair.

    Scores of systems are the means of their judged segments, or a judgement that the set has.

    Args:
        evalset: Whose outputs were judged.
        kind: ``mqm`` (marks or averages), ``da`` (DA, DA+SQM, ESA), ``darr`` (relative rankings), ``pearmut`` (its
            logs), or that of a plug-in; see :data:`polyref.eval.judgements.base.JUDGEMENTS`.
        path: The file; of ``da`` and ``pearmut`` also several that belong together.
        system_gold: Name of a system-level judgement in the set; needed for rankings alone, where the default is that
            of :meth:`~polyref.eval.data.evaluation_set.EvalSet.gold`.
        include_human: Keep translations made by people among the systems.
        options: Of the reader: ``weights`` of MQM errors; ``pairs`` of rankings; ``reliable`` annotators alone. Those
            that the kind does not have are passed over.
    """
    reader = gold_reader(kind)
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if len(paths) != 1 and not reader.several:
        raise UsageError(f"judgements of the kind {kind!r} are one file, not {len(paths)}")
    if isinstance(evalset, MetricsTaskArchive) or not evalset.output_files or evalset.segments is None:
        raise UsageError(f"judgements of the kind {kind!r} need a set with outputs, to know what was judged")
    documents = [document for _, document in evalset.documents] if evalset.documents else None
    # A reference may have been judged without being among the outputs.
    named = (*evalset.output_files, *(name for name in evalset.reference_files if name not in evalset.output_files))
    place = Place(evalset.pair, named, evalset.segments, documents, evalset.source)
    given = paths if reader.several else paths[0]
    found = reader.read(given, place, **{name: value for name, value in options.items() if name in reader.options})
    kept = [s for s in evalset.output_files if include_human or not evalset.is_human(s)]
    segment = {s: found.segment[s] for s in kept if s in found.segment and not np.isnan(found.segment[s]).all()}
    judged = set(segment)
    pairs = None if found.pairs is None else found.pairs.of(kept)
    if pairs is not None:
        judged |= {pairs.systems[i] for i in {*pairs.better.tolist(), *pairs.worse.tolist()}}
    system, system_name = {s: float(np.nanmean(v)) for s, v in segment.items()}, found.name
    if system_gold is not None or pairs is not None:
        stored = evalset.system_gold(system_gold, include_human=include_human)
        system, system_name = stored if stored else ({}, found.name)
        judged |= set(system)
    unjudged = tuple(s for s in kept if s not in judged)
    notes = (*evalset.notes, *found.notes)
    return Gold(found.name, system_name if system else None, system, segment, pairs, unjudged, notes)


#: Makes the median absolute deviation comparable with a standard deviation of normal data.
MAD_SCALE: Final = 1.483
#: Deviations beyond which a system is an outlier (Mathur et al. 2020, and WMT20).
CUTOFF: Final = 2.5


def top_systems(human: Mapping[str, float], n: int) -> list[str]:
    """The ``n`` systems with the highest human scores, best first; correlations fall as the field gets narrower
    (Mathur et al. 2020).
    """
    return sorted(human, key=lambda name: -human[name])[:n]


def outliers(human: Mapping[str, float]) -> list[str]:
    """Systems whose human score is far from the median (Leys et al. 2013; Mathur et al. 2020, section 4.1).

    Args:
        human: System -> human score.

    Returns:
        Their names, in the order of ``human``; none where more than half of the systems have one score.
    """
    scores = np.array(list(human.values()), dtype=np.float64)
    if not len(scores):
        return []
    distance = np.abs(scores - np.median(scores))
    deviation = MAD_SCALE * float(np.median(distance))
    if deviation == 0:
        return []
    return [name for name, far in zip(human, distance / deviation > CUTOFF, strict=True) if far]
