"""One language pair of one evaluation set, measured: what ``polyref evaluate`` prints and its report shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from polyref.eval.agreement import GAINS, LENGTH, PLACEBO, REAL_MINUS_PLACEBO, Row, Verdict, verdict
from polyref.eval.judgements.gold import BoolArray, Gold
from polyref.eval.names import level_name, metric_names, statistic_name
from polyref.eval.options import KEPT
from polyref.eval.scores import Scores
from polyref.eval.series import OF_LENGTH, Series
from polyref.metrics.api import NO_HUMAN
from polyref.metrics.copies import Copies
from polyref.references import ORIGINAL_KINDS, ReferenceSet

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
class Evaluation(Scores):
    """Scores and how they agree with people: what was measured, and what it was measured on.

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
        bare = [f"{self.name}: {NO_HUMAN}. {NO_PLACEBO}"] if without_human(self.references) else []
        added = any(row.k and one.word for row, one in zip(self.rows, told, strict=True))
        missing = [NO_CONTROL] if added and not self.controls and not bare else []
        reasons = Counter(one for one in told if one.reason)
        return [
            *bare,
            *missing,
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
                "set": self.set_name,
                "pair": self.pair,
                "generator": self.generator or None,
                "originals": self.originals,
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
