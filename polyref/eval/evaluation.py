"""Every set and language pair measured: what ``polyref evaluate`` prints and its report shows.

Metrics x added references x k x human references kept or replaced x language pairs x sets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyref import __version__
from polyref.errors import UsageError
from polyref.eval.agreement import (
    GAINS,
    LENGTH,
    PLACEBO,
    REAL_MINUS_PLACEBO,
    Row,
    Verdict,
    agreement,
    perm_both_fault,
    verdict,
    with_correction,
    with_perm_both,
)
from polyref.eval.data.reference_sets import OF_SET
from polyref.eval.data.releases import EvaluationSet, check_patterns, filled, set_name
from polyref.eval.data.score_files import BoolArray, Gold
from polyref.eval.judged import check_excluded, check_names, judgement
from polyref.eval.options import KEPT, Choices, Say
from polyref.eval.scores import ScoredSet, scores_of
from polyref.eval.series import OF_LENGTH, Series
from polyref.eval.statistics.base import BOTH
from polyref.eval.statistics.named import level_name, metric_names, statistic_name
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
from polyref.metrics.signature import exact
from polyref.references import ORIGINAL_KINDS, ReferenceSet
from polyref.store import file_sha256
from polyref.textfiles import without_scheme

#: Controls that stand alone: no verdict is made of them.
_ALONE: Final = frozenset({PLACEBO, LENGTH})
#: Of every p-value in a row: how likely so large a gain is without one.
ONE_SIDED: Final = "one"
#: Said wherever added references have verdicts and no placebo.
NO_CONTROL: Final = (
    "The control was not run: `gains` says that a gain is significant, not that it is due to what the added references "
    "say; any text can gain. Only with a placebo (--placebo 5) is a verdict `better`."
)
#: Said of verdicts where no reference is human.
NO_PLACEBO: Final = (
    "Gains are over the fewest of them that rows have, and `gains` says that one is significant, without a control."
)


def without_human(references: ReferenceSet | None) -> bool:
    """Whether there are references, and none of them is by people."""
    kinds = {ref.kind for segment in references or () for ref in segment.refs}
    return bool(kinds) and not kinds & ORIGINAL_KINDS


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Evaluation(ScoredSet):
    """ScoredSet and how they agree with people: what was measured, and what it was measured on.

    Rows of other values of k than those that were asked for (k = 0, where gains start) are not in ``rows``.

    Attributes:
        set_name: Name of the evaluation set.
        pair: Language pair.
        gold: The judgements, after systems were left out.
        rows: The table.
        signature: What all rows share.
        signatures: (metric, k) -> how its scores came about.
        excluded: System-level scores of the systems that were left out on purpose.
        scored: Segments that systems are scored on, shape (segments,); None where every metric is a score file.
        notes: What the reader has to know: systems left out, segments without outputs.
        controls: Rows of placebos of the added references, and of the difference to them.
        blind: Rows of a metric that sees only lengths over the same added references, where placebos were run.
        copies: Copies of outputs among the added references, of every system and k.
        doubts: k -> what is wrong with its added references: no gain of theirs is believed.
    """

    set_name: str
    pair: str
    gold: Gold
    rows: Sequence[Row]
    signature: str
    signatures: Mapping[tuple[str, int | None], str]
    excluded: Mapping[str, float] = field(default_factory=dict)
    scored: BoolArray | None = None
    notes: Sequence[str] = ()
    controls: Sequence[Row] = ()
    blind: Sequence[Row] = ()
    copies: Sequence[Copies] = ()
    doubts: Mapping[int, Sequence[str]] = field(default_factory=dict)
    _coverage: dict[int, tuple[float, int]] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """What tells it from the other evaluations of a run."""
        parts = [self.set_name, self.pair, self.generator, "" if self.originals == KEPT else self.originals]
        return " ".join(part for part in parts if part)

    @property
    def place(self) -> dict[str, Any]:
        """The columns of all rows that say what they are of."""
        return {
            "set": self.set_name,
            "pair": self.pair,
            "generator": self.generator or None,
            "originals": self.originals,
        }

    def __repr__(self) -> str:
        return f"Evaluation({self.name}: {len(self.rows)} rows against {self.gold.name})"

    def shown_ks(self, series: Series) -> list[int | None]:
        """The values of k of one metric that were asked for."""
        return [k for k in series.ks if k is None or k in self.ks]

    def ends(self, series: Series) -> list[int | None]:
        """The smallest k that the metric has (where gains start) and the largest one asked for."""
        return list(dict.fromkeys([series.ks[0], self.shown_ks(series)[-1]]))

    def coverage(self, k: int | None) -> tuple[float, int] | None:
        """References of a segment with ``k``, on average over those that are scored, and segments without an added one.

        None for score files, of which it is not known. With leave-one-out, both are of the outputs, not of segments.
        """
        if k is None or self.references is None:
            return None
        if k not in self._coverage:
            scored = [True] * len(self.references) if self.scored is None else self.scored
            sets = [*self.peers.values()] if k and self.peers else [self.references]
            here = [segment for one in sets for segment, there in zip(one, scored, strict=True) if there]
            added = [min(k, len(segment.extras)) for segment in here]
            human = [0 if k and self.originals != KEPT else len(segment.originals) for segment in here]
            mean = float(np.mean([*map(sum, zip(added, human, strict=True))]))
            self._coverage[k] = mean, added.count(0) if k else 0
        return self._coverage[k]

    @cached_property
    def _real_and_beyond(self) -> dict[tuple[str, str, str, int | None], list[Row]]:
        found: dict[tuple[str, str, str, int | None], list[Row]] = {}
        for row in (*self.rows, *(row for row in self.controls if row.control == REAL_MINUS_PLACEBO)):
            found.setdefault(_place(row), []).append(row)
        return found

    def verdict(self, row: Row) -> Verdict:
        """What may be said of a row's gain (:func:`~polyref.eval.agreement.verdict`).

        A row and that of its difference to the placebo have one verdict in common; the placebo's own and that of
        lengths alone have none.
        """
        real, *beyond = self._real_and_beyond.get(_place(row), [row])
        if row.control in _ALONE:
            return Verdict()
        return verdict(real, beyond[0] if beyond else None, self.doubts.get(row.k or 0, ()))

    def claim(self, row: Row) -> float | None:
        """The gain that may be claimed: the smaller of the gain and the gain beyond the placebo, where one was run.

        None where there is no verdict.
        """
        if not self.verdict(row).word:
            return None
        real, *beyond = self._real_and_beyond.get(_place(row), [row])
        amounts = [real.gain, *(one.value for one in beyond)]
        return min(amount for amount in amounts if amount is not None)

    @property
    def remarks(self) -> list[str]:
        """What has to be said below a table of verdicts: a control that was not run, and why verdicts are withheld."""
        told = [self.verdict(row) for row in self.rows]
        bare = without_human(self.references)
        added = any(row.k and one.word for row, one in zip(self.rows, told, strict=True))
        reasons = Counter(one for one in told if one.reason)
        return [
            *([f"{self.name}: {NO_HUMAN}. {NO_PLACEBO}"] if bare else []),
            *([NO_CONTROL] if added and not self.controls and not bare else []),
            *([str(self.length_left)] if self.length_left else []),
            *self._of_length(),
            *(f"{one.word} ({count} of {len(told)} rows): {one.reason}" for one, count in reasons.items()),
        ]

    def _of_length(self) -> Iterator[str]:
        """How much of a significant gain length alone gives, where that gains as well: at the largest such k."""
        names = metric_names(row.metric for row in self.rows)
        real = [row for row in self.rows if row.k and verdict(row).word == GAINS]
        gaining = [row for row in self.blind if verdict(replace(row, control="")).word == GAINS]
        for (level, statistic), alone in {(row.level, row.statistic): row for row in gaining}.items():
            shares = [
                f"{'all' if alone.gain >= row.gain else f'{100 * alone.gain / row.gain:.0f} %'} of the {row.gain:.4f} "
                f"of {names[row.metric]}"
                for row in real
                if (row.level, row.statistic, row.k) == (level, statistic, alone.k) and row.gain and alone.gain
            ]
            if shares:
                where = f"{statistic_name(statistic)}, {level_name(statistic, level)}, k = {alone.k}"
                yield (
                    f"Length alone gains as well ({where}): a metric that sees only lengths gains {alone.gain:.4f} "
                    f"(one-sided p = {alone.p:.4f}) with the same references, as much as {', '.join(shares)}."
                )

    def compared_with_placebo(self) -> Iterator[tuple[Row, Row, Row]]:
        """Rows of added references, of their placebos, and of the difference; none without a placebo."""
        real = {_place(row): row for row in self.rows}
        for fake, difference in zip(self.controls[::2], self.controls[1::2], strict=True):
            yield real[_place(fake)], fake, difference

    @property
    def all_rows(self) -> list[Row]:
        """The rows of the table, then those of the controls."""
        return [*self.rows, *self.controls, *self.blind]

    def row_values(self) -> list[dict[str, Any]]:
        """The rows as plain JSON values, with what they belong to; None where a value is undefined."""
        lengths = asdict(self.length_left) if self.length_left else {}
        left = {f"length_{key}": plain(one) for key, one in lengths.items()}
        covered: Any = {k: self.coverage(k) for k in {row.k for row in self.all_rows}}
        return [
            {
                **self.place,
                "gold": row.gold,
                "level": row.level,
                "metric": row.metric,
                "k": row.k,
                "statistic": row.statistic,
                "value": plain(row.value),
                "gain": plain(row.gain),
                "ci": list(row.ci) if row.ci else None,
                "gain_ci": list(row.gain_ci) if row.gain_ci else None,
                "n": row.n,
                "segments": row.segments,
                "references": covered[row.k] and covered[row.k][0],
                "without_added": covered[row.k] and covered[row.k][1],
                "p": plain(row.p),
                "p_williams": plain(row.p_williams),
                "p_perm_both": plain(row.p_perm_both),
                "p_adjusted": plain(row.p_adjusted),
                "p_sides": ONE_SIDED,
                "redrawn": row.redrawn or None,
                "verdict": (told := self.verdict(row)).word or None,
                **({"withheld": told.reason} if told.reason else {}),
                "signature": OF_LENGTH if row.control == LENGTH else self.signatures[row.metric, row.k],
                # Runs without a placebo have nothing to tell apart.
                **({"control": row.control or "real", "claim": plain(self.claim(row))} if self.controls else {}),
                **(left if row.control == PLACEBO else {}),
            }
            for row in self.all_rows
        ]


def _place(row: Row) -> tuple[str, str, str, int | None]:
    return row.level, row.statistic, row.metric, row.k


def plain(value: float | None) -> float | None:
    """None for NaN, which JSON does not have."""
    return None if value is None or math.isnan(value) else value


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
        raise UsageError("`repeated_pairs` has no use: no judgement is of relative rankings", remedy="leave it out")
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
    if choices["correction"] is None:
        return evaluations
    # All rows of the run are one family of comparisons.
    rows = iter(with_correction([row for one in evaluations for row in one.rows], choices["correction"]))
    return [replace(one, rows=[next(rows) for _ in one.rows]) for one in evaluations]


def _evaluation(
    evalset: EvaluationSet,
    gold: Gold,
    choices: Choices,
    found: ScoredSet,
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
    if gold.pairs is not None and found.unscored is not None:
        gold = replace(gold, pairs=gold.within(~np.logical_or.reduce(found.unscored)).pairs)
    scored = _scored(gold, found)
    inside = gold if scored is None else gold.within(scored)
    lacking = perm_both_fault(inside) if choices["perm_both"] is not None else None
    rows = _agreeing(gold, found, choices)
    controls = [row for row in rows if row.control]
    rows = [row for row in rows if not row.control]
    if choices["perm_both"] is not None and lacking is None:
        drawn = {"resamples": choices["perm_both"], "seed": choices["bootstrap"].seed}
        rows = with_perm_both(rows, found.series, inside, baseline=choices["baseline"], **drawn)
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
) -> Iterator[tuple[Gold, ScoredSet, str]]:
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


def _agreeing(gold: Gold, found: ScoredSet, choices: Choices) -> list[Row]:
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


def _blind_rows(gold: Gold, found: ScoredSet, choices: Choices) -> list[Row]:
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


def _scored(gold: Gold, found: ScoredSet) -> BoolArray | None:
    """Segments whose text is known for every judged system, or None where there are no texts."""
    if found.known is None:
        return None
    rows = [found.systems.index(name) for name in {**gold.system, **gold.segment} or found.systems]
    mask: BoolArray = np.all(found.known[rows], axis=0)
    return mask


def _signature(evalset: EvaluationSet, gold: Gold, choices: Choices, found: ScoredSet, left_out: Sequence[str]) -> str:
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
        bootstrap.resamples and f"bootstrap:{over}*{bootstrap.resamples}|ci:{exact(bootstrap.confidence)}",
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
