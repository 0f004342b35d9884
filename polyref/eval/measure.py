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
from polyref.eval.scores import Scores, scores_of
from polyref.eval.statistics.base import BOTH
from polyref.eval.system_pairs import outcome_rows
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import (
    Copies,
    count_copies,
    near_originals,
    reasons_of_copies,
    warnings_of_copies,
    warnings_of_originals,
    without_circular,
)
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
        reason = "`repeated_pairs` has no use: no judgement here is of relative rankings"
        raise UsageError(reason, remedy="leave it out")
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
        for found in scores_of(evalset, gold, choices, len(sets) > 1):
            evaluation = _evaluation(evalset, gold, choices, found, left_out, notes, say)
            evaluations.append(evaluation)
            if evaluation.doubts:
                for rest, one, note in _without_copies(evalset, gold, choices, evaluation, len(sets) > 1, say):
                    evaluations.append(_evaluation(evalset, rest, choices, one, left_out, [*notes, note], say))
    check_excluded(choices["exclude"], {system for one in evaluations for system in one.excluded})
    return _corrected(evaluations, choices["correction"])


def _evaluation(
    evalset: EvaluationSet,
    gold: Gold,
    choices: Choices,
    found: Scores,
    left_out: Mapping[str, float],
    notes: Sequence[str],
    say: Say,
) -> Evaluation:
    """The rows of one combination, and what has to be said of it."""
    copies: list[Copies] = []
    warnings = list(found.warnings)
    if found.references is not None and not found.peers:
        copies = count_copies(found.references, found.outputs, found.ks)
        warnings += warnings_of_originals(near_originals(found.references, found.outputs))
        warnings += warnings_of_copies(copies)
    for warning in warnings:
        say("warning", warning)
    part = found.part
    if part is not None:
        gold = gold.within(part.mask)
    scored = _scored(gold, found)
    inside = gold if scored is None else gold.within(scored)
    lacking = perm_both_fault(inside) if choices["perm_both"] is not None else None
    rows = _agreeing(gold, found, choices)
    controls = [row for row in rows if row.control]
    rows = [row for row in rows if not row.control]
    if choices["perm_both"] is not None and lacking is None:
        permutations, seed = choices["perm_both"], choices["bootstrap"].seed
        rows = with_perm_both(
            rows, found.series, inside, baseline=choices["baseline"], resamples=permutations, seed=seed
        )
    if choices["pairwise"]:
        pairs = outcome_rows(found.series, gold, scored, baseline=choices["baseline"])
        rows += [row for row in pairs if row.k is None or row.k in found.ks]
    partial = {row.segments for row in rows if row.level == "sys" and row.statistic == "pearson"}
    partial -= {None, evalset.segments if part is None else part.segments}
    partly = [] if part is None else [part.note(choices["bootstrap"].seed)]
    partly += [NO_HUMAN] if without_human(found.references) else []
    partly += [f"systems are scored on the {count} segments whose outputs are all known" for count in partial]
    if lacking is not None:
        partly.append(f"{evalset.pair} is without PERM-BOTH: {lacking.message}")
    for note in partly:
        say("note", note)
    return Evaluation(
        **vars(replace(found, placebos=(), lengths=None)),
        set_name=set_name(evalset),
        pair=evalset.pair,
        gold=gold,
        rows=rows,
        signature=_signature(evalset, gold, choices, found, list(left_out)),
        signatures={(s.metric, k): s.signature(k) for s in found.series for k in s.ks if k is None or k in found.ks},
        excluded=left_out,
        scored=scored,
        notes=[*notes, *warnings, *partly],
        controls=controls,
        blind=_blind_rows(gold, found, choices),
        copies=copies,
        doubts={k: reasons for k in found.ks if (reasons := reasons_of_copies(copies, k))},
    )


def _without_copies(
    evalset: EvaluationSet, gold: Gold, choices: Choices, found: Evaluation, several: bool, say: Say
) -> Iterator[tuple[Gold, Scores, str]]:
    """The same without circular references and the systems whose copies they are: judgements, scores and a note."""
    assert found.references is not None
    kept, copied = without_circular(found.references, found.outputs, found.ks)
    named = ", ".join(copied)
    rest = gold.without([system for system in copied if system in gold.systems])
    before, after = (sum(bool(segment.extras) for segment in one) for one in (found.references, kept))
    # Few segments that are left are no fair part of the set, and a placebo exchanges references of two or more.
    if after < max(before / 2, 2 if choices["placebo"] else 1) or len(rest.systems) < _FEWEST:
        say("note", f"nothing to compare is left without copies of outputs of {named}, and without these")
        return
    inside = kept if found.part is None else found.part.references(kept)
    if bare := sum(not (one.refs if found.originals == KEPT else one.extras) for one in inside):
        lacking = f"{bare:,} of {len(inside):,} segments have no reference left without them"
        say("note", f"nothing is evaluated without copies of outputs of {named}: {lacking}")
        return
    note = f"{WITHOUT_COPIES}: left out are {named}, and all added references that are copies of outputs"
    say("note", note)
    references = {f"{found.generator} {WITHOUT_COPIES}".strip(): kept}
    again: Choices = {**choices, "references": references, "originals": (found.originals,), "ks": tuple(found.ks)}
    for one in scores_of(evalset, rest, again, several):
        yield rest, one, note


def _agreeing(gold: Gold, found: Scores, choices: Choices) -> list[Row]:
    """The rows of the references, and those of their placebos, of every k that was asked for."""
    rows = agreement(
        found.series,
        gold,
        known=found.known,
        systems=found.systems,
        bootstrap=choices["bootstrap"],
        baseline=choices["baseline"],
        statistics=choices["statistics"],
        placebos=found.placebos,
        within_segments=bool(found.peers),
    )
    if found.peers:
        # Without a test of the gain, no row has a verdict: what agrees with the others need not be good.
        rows = [replace(row, gain_ci=None, p=None, p_bootstrap=None) for row in rows]
    return [row for row in rows if row.k is None or row.k in found.ks]


def _blind_rows(gold: Gold, found: Scores, choices: Choices) -> list[Row]:
    """What a metric gains that sees only lengths; its tests need no redrawn test sets."""
    if found.lengths is None:
        return []
    rows = agreement(
        [found.lengths],
        gold,
        known=found.known,
        systems=found.systems,
        bootstrap=replace(choices["bootstrap"], resamples=0),
        statistics=choices["statistics"],
    )
    return [replace(row, control=LENGTH) for row in rows if row.k and row.k in found.ks]


def _scored(gold: Gold, found: Scores) -> BoolArray | None:
    """Segments whose text is known for every judged system, or None where there are no texts."""
    if found.known is None:
        return None
    rows = [found.systems.index(name) for name in {**gold.system, **gold.segment} or found.systems]
    mask: BoolArray = np.all(found.known[rows], axis=0)
    return mask


def _corrected(evaluations: list[Evaluation], method: str | None) -> list[Evaluation]:
    """All rows of the run are one family of comparisons."""
    if method is None:
        return evaluations
    rows = iter(with_correction([row for one in evaluations for row in one.rows], method))
    return [replace(one, rows=[next(rows) for _ in one.rows]) for one in evaluations]


def _signature(evalset: EvaluationSet, gold: Gold, choices: Choices, found: Scores, left_out: Sequence[str]) -> str:
    """What all rows share: judgements, systems, resampling, references; the metrics' own signatures are in the rows."""
    bootstrap, part = choices["bootstrap"], found.part
    files = [
        (kind, without_scheme(filled(file, evalset))) for kind, some in choices["gold_files"].items() for file in some
    ]
    over = "segments+systems" if bootstrap.over == BOTH else bootstrap.over
    drawn = bootstrap.resamples or found.placebos or choices["perm_both"] or choices["segments"]
    parts = [
        f"set:{set_name(evalset)}",
        f"pair:{evalset.pair}",
        f"gold:{gold.name}",
        gold.system_name not in {None, gold.name} and f"sysgold:{gold.system_name}",
        f"human:{'in' if choices['include_human'] else 'out'}",
        choices["repeated_pairs"] != "count" and gold.pairs is not None and f"pairs:{choices['repeated_pairs']}",
        left_out and f"without:{','.join(left_out)}",
        # What lies elsewhere is named alone.
        *(f"judgements:{kind}#{file_sha256(p)[:12] if Path(p).is_file() else p}" for kind, p in files),
        choices["reliable"] and "annotators:reliable",
        choices["mqm_weights"] and f"weights:{','.join(sorted(choices['mqm_weights']))}",
        choices["baseline"] is not None and f"baseline:{choices['baseline']}",
        choices["scores"] is not None and f"scores:{choices['scores']}",
        choices["perm_both"] is not None and f"perm-both:{choices['perm_both']}",
        part is not None and part.described,
        choices["correction"] is not None and f"correction:{choices['correction']}",
        bootstrap.resamples and f"bootstrap:{over}*{bootstrap.resamples}|ci:{bootstrap.confidence:g}",
        drawn and f"seed:{bootstrap.seed}",
    ]
    if found.references is None:
        parts.append(f"polyref:{__version__}")
    else:
        parts += [
            found.generator and f"refset:{found.generator}",
            bool(found.placebos) and f"placebo:{len(found.placebos)}",
            found.originals != KEPT and f"originals:{found.originals}",
            f"ref:{'+'.join(found.references.meta['references']) or 'none'}",
            found.shared,
        ]
    return "|".join(str(part) for part in parts if part)
