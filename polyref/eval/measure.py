"""The whole experiment: metrics x added references x k x human references kept or replaced x language pairs x sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from polyref import __version__
from polyref.errors import UsageError
from polyref.eval.agreement import LENGTH, Row, agreement, perm_both_fault, with_correction, with_perm_both
from polyref.eval.data.reference_sets import OF_SET
from polyref.eval.data.releases import EvaluationSet, check_patterns, filled, set_name
from polyref.eval.evaluation import Evaluation, without_human
from polyref.eval.judged import check_excluded, check_names, judgement
from polyref.eval.judgements.gold import BoolArray, Gold
from polyref.eval.options import KEPT, Choices, Say
from polyref.eval.scores import Inputs, inputs
from polyref.eval.series import StoredSeries
from polyref.eval.statistics.base import BOTH
from polyref.eval.system_pairs import outcome_rows
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import (
    count_copies,
    near_originals,
    reasons_of_copies,
    warnings_of_copies,
    warnings_of_originals,
    without_circular,
)
from polyref.metrics.signature import inputs_signature
from polyref.store import file_sha256
from polyref.textfiles import without_scheme

#: What a second evaluation is called, of references that hold copies of outputs.
WITHOUT_COPIES: Final = "without copies"
#: Systems that a second evaluation needs.
_FEWEST: Final = 3


def measure(sets: Sequence[EvaluationSet], choices: Choices, say: Say = lambda kind, message: None) -> list[Evaluation]:
    """Evaluate metrics on every set, with every generator's references, human ones kept or replaced.

    Args:
        sets: One or more, each with one language pair.
        choices: What to measure.
        say: Told what the reader has to know, as it comes up; it is in the evaluations' notes as well.
    """
    files = [one for one in choices["references"].values() if isinstance(one, str) and not one.startswith(OF_SET)]
    check_patterns(files, sets, "`references`")
    check_patterns([file for some in choices["gold_files"].values() for file in some], sets, "`mqm`, `da` or `darr`")
    check_names(sets, choices)
    judged = [judgement(evalset, choices, len(sets) > 1) for evalset in sets]
    if choices["repeated_pairs"] != "count" and all(gold.pairs is None for gold, _, _ in judged):
        raise UsageError(
            "`repeated_pairs` has no use: no judgement here is of relative rankings", remedy="leave it out"
        )
    lacking = [why for gold, _, _ in judged if (why := perm_both_fault(gold)) is not None]
    if choices["perm_both"] is not None and len(lacking) == len(judged):
        raise lacking[0]
    evaluations = []
    for evalset, (gold, left_out, notes) in zip(sets, judged, strict=True):
        for note in notes:
            say("note", note)
        if choices["peers"] is not None:
            # Only those that are judged within segments are compared.
            gold = replace(gold, system={}, system_name=None)
        for found in inputs(evalset, gold, choices, len(sets) > 1):
            evaluation = _evaluation(evalset, gold, choices, found, left_out, notes, say)
            evaluations.append(evaluation)
            if evaluation.doubts:
                again = _without_copies(evalset, gold, choices, found, len(sets) > 1, say)
                evaluations += (_evaluation(evalset, rest, choices, one, left_out, [*notes, note], say)
                                for rest, one, note in again)  # fmt: skip
    check_excluded(choices["exclude"], {system for one in evaluations for system in one.excluded})
    return _corrected(evaluations, choices["correction"])


def _evaluation(
    evalset: EvaluationSet,
    gold: Gold,
    choices: Choices,
    found: Inputs,
    left_out: Mapping[str, float],
    notes: Sequence[str],
    say: Say,
) -> Evaluation:
    """The rows of one combination, and what has to be said of it."""
    counted = found.references is not None and not found.peers
    copies = count_copies(found.references, found.outputs, found.ks) if counted and found.references else []
    near = near_originals(found.references, found.outputs) if counted and found.references else []
    warnings = [*found.warnings, *warnings_of_originals(near), *warnings_of_copies(copies)]
    for warning in warnings:
        say("warning", warning)
    if found.part is not None:
        gold = gold.within(found.part.mask)
    scored = _scored(gold, found)
    agreeing, controls = _rows(gold, found, choices, scored)
    pairs = outcome_rows(found.series, gold, scored, baseline=choices["baseline"]) if choices["pairwise"] else []
    rows = [*agreeing, *(row for row in pairs if row.k is None or row.k in found.ks)]
    partial = {row.segments for row in rows if row.level == "sys" and row.statistic == "pearson"}
    part = found.part
    partial -= {None, evalset.segments if part is None else part.segments}
    partly = [] if part is None else [part.note(choices["bootstrap"].seed)]
    partly += [NO_HUMAN] if without_human(found.references) else []
    partly += [f"systems are scored on the {count} segments whose outputs are all known" for count in partial]
    if choices["perm_both"] is not None and (why := perm_both_fault(_inside(gold, scored))):
        partly.append(f"{evalset.pair} is without PERM-BOTH: {why.message}")
    for note in partly:
        say("note", note)
    return Evaluation(
        set_name=set_name(evalset),
        pair=evalset.pair,
        gold=gold,
        series=found.series,
        ks=sorted(found.ks),
        rows=rows,
        controls=controls,
        blind=_blind_rows(gold, found, choices),
        length_left=found.length_left,
        signature=_signature(evalset, gold, choices, found, list(left_out)),
        signatures={(s.metric, k): s.signature(k) for s in found.series for k in s.ks if k is None or k in found.ks},
        generator=found.generator,
        originals=found.originals,
        excluded=left_out,
        references=found.references,
        outputs=found.outputs,
        peers=found.peers,
        scored=scored,
        notes=[*notes, *warnings, *partly],
        copies=copies,
        doubts={k: reasons for k in found.ks if (reasons := reasons_of_copies(copies, k))},
    )


def _without_copies(
    evalset: EvaluationSet, gold: Gold, choices: Choices, found: Inputs, several: bool, say: Say
) -> Iterator[tuple[Gold, Inputs, str]]:
    """The same without circular references and the systems whose copies they are: judgements, scores and a note."""
    assert found.references is not None
    kept, copied = without_circular(found.references, found.outputs, sorted(found.ks))
    rest = gold.without([system for system in copied if system in gold.systems])
    before, after = (sum(bool(segment.extras) for segment in one) for one in (found.references, kept))
    # Few segments that are left are no fair part of the set, and a placebo exchanges references of two or more.
    if after < max(before / 2, 2 if choices["placebo"] else 1) or len(rest.systems) < _FEWEST:
        say("note", f"nothing to compare is left without copies of outputs of {', '.join(copied)}, and without these")
        return
    inside = kept if found.part is None else found.part.references(kept)
    if bare := sum(not (one.refs if found.originals == KEPT else one.extras) for one in inside):
        say("note", f"nothing is evaluated without copies of outputs of {', '.join(copied)}: "
                    f"{bare:,} of {len(inside):,} segments have no reference left without them")  # fmt: skip
        return
    note = f"{WITHOUT_COPIES}: left out are {', '.join(copied)}, and all added references that are copies of outputs"
    say("note", note)
    name = f"{found.generator} {WITHOUT_COPIES}".strip()
    again: Choices = {
        **choices,
        "references": {name: kept},
        "originals": (found.originals,),
        "ks": tuple(sorted(found.ks)),
    }
    for one in inputs(evalset, rest, again, several):
        yield rest, one, note


def _inside(gold: Gold, scored: BoolArray | None) -> Gold:
    """The judgements of the segments that systems are scored on."""
    return gold if scored is None else gold.within(scored)


def _rows(gold: Gold, found: Inputs, choices: Choices, scored: BoolArray | None) -> tuple[list[Row], list[Row]]:
    """The rows of the references, and those of their placebos."""
    every = agreement(
        found.series,
        gold,
        known=found.known,
        systems=found.systems,
        bootstrap=choices["bootstrap"],
        baseline=choices["baseline"],
        statistics=tuple(dict.fromkeys(choices["statistics"])),
        placebos=found.placebos,
        within_segments=bool(found.peers),
    )
    if found.peers:
        # Without a test of the gain, no row has a verdict: what agrees with the others need not be good.
        every = [replace(row, gain_ci=None, p=None, p_bootstrap=None) for row in every]
    every = [row for row in every if row.k is None or row.k in found.ks]
    rows, controls = [row for row in every if not row.control], [row for row in every if row.control]
    if choices["perm_both"] is None:
        return rows, controls
    inside = _inside(gold, scored)
    if perm_both_fault(inside):
        return rows, controls
    tested = with_perm_both(
        rows,
        found.series,
        inside,
        baseline=choices["baseline"],
        resamples=choices["perm_both"],
        seed=choices["bootstrap"].seed,
    )
    return tested, controls


def _blind_rows(gold: Gold, found: Inputs, choices: Choices) -> list[Row]:
    """What a metric gains that sees only lengths; its tests need no redrawn test sets."""
    if found.blind is None:
        return []
    rows = agreement(
        [found.blind],
        gold,
        known=found.known,
        systems=found.systems,
        bootstrap=replace(choices["bootstrap"], resamples=0),
        statistics=tuple(dict.fromkeys(choices["statistics"])),
    )
    return [replace(row, control=LENGTH) for row in rows if row.k and row.k in found.ks]


def _scored(gold: Gold, found: Inputs) -> BoolArray | None:
    """Segments whose text is known for every judged system, or None where there are no texts."""
    if found.known is None:
        return None
    names = list({**gold.system, **gold.segment}) or found.systems
    rows = [found.systems.index(name) for name in names]
    mask: BoolArray = np.all(found.known[rows], axis=0)
    return mask


def _corrected(evaluations: list[Evaluation], method: str | None) -> list[Evaluation]:
    """All rows of the run are one family of comparisons."""
    if method is None:
        return evaluations
    rows = iter(with_correction([row for one in evaluations for row in one.rows], method))
    return [replace(one, rows=[next(rows) for _ in one.rows]) for one in evaluations]


def _signature(evalset: EvaluationSet, gold: Gold, choices: Choices, found: Inputs, left_out: Sequence[str]) -> str:
    """What all rows share: judgements, systems, resampling, references; the metrics' own signatures are in the rows."""
    bootstrap = choices["bootstrap"]
    parts = [f"set:{set_name(evalset)}", f"pair:{evalset.pair}", f"gold:{gold.name}"]
    if gold.system_name is not None and gold.system_name != gold.name:
        parts.append(f"sysgold:{gold.system_name}")
    parts.append(f"human:{'in' if choices['include_human'] else 'out'}")
    if choices["repeated_pairs"] != "count" and gold.pairs is not None:
        parts.append(f"pairs:{choices['repeated_pairs']}")
    if left_out:
        parts.append(f"without:{','.join(left_out)}")
    for kind, pattern in ((kind, file) for kind, some in choices["gold_files"].items() for file in some):
        path = without_scheme(filled(pattern, evalset))
        # What lies elsewhere is named alone.
        parts.append(f"judgements:{kind}#{file_sha256(path)[:12] if Path(path).is_file() else path}")
    if choices["reliable"]:
        parts.append("annotators:reliable")
    if choices["mqm_weights"]:
        parts.append(f"weights:{','.join(sorted(choices['mqm_weights']))}")
    if choices["baseline"] is not None:
        parts.append(f"baseline:{choices['baseline']}")
    if choices["scores"] is not None:
        parts.append(f"scores:{choices['scores']}")
    if choices["perm_both"] is not None:
        parts.append(f"perm-both:{choices['perm_both']}")
    if found.part is not None:
        parts.append(found.part.described)
    if choices["correction"] is not None:
        parts.append(f"correction:{choices['correction']}")
    if bootstrap.resamples:
        over = "segments+systems" if bootstrap.over == BOTH else bootstrap.over
        parts.append(f"bootstrap:{over}*{bootstrap.resamples}|ci:{bootstrap.confidence:g}")
    if bootstrap.resamples or found.placebos or choices["perm_both"] or choices["segments"]:
        parts.append(f"seed:{bootstrap.seed}")
    if found.references is None:
        return "|".join([*parts, f"polyref:{__version__}"])
    if found.generator:
        parts.append(f"refset:{found.generator}")
    if found.placebos:
        parts.append(f"placebo:{len(found.placebos)}")
    if found.originals != KEPT:
        parts.append(f"originals:{found.originals}")
    computed = [one.metric for one in found.series if not isinstance(one, StoredSeries)]
    parts.append(f"ref:{'+'.join(found.references.meta['references']) or 'none'}")
    shared = inputs_signature(found.references, computed, sorted(found.ks), found.weighed, found.reads_sources)
    return "|".join([*parts, shared])
