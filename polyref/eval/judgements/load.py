"""Human judgements from files that WMT publishes, held against the outputs of an evaluation set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyref.errors import UsageError
from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.judgements.base import Place
from polyref.eval.judgements.gold import Gold
from polyref.eval.judgements.registry import gold_reader


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
            logs), or that of a plug-in; see :data:`polyref.eval.judgements.registry.JUDGEMENTS`.
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
    return Gold(
        found.name,
        system_name if system else None,
        system,
        segment,
        pairs,
        tuple(s for s in kept if s not in judged),
        (*evalset.notes, *found.notes),
    )
