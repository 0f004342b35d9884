"""What to evaluate: everything a caller may choose, checked as far as it can be without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from polyref.errors import UsageError
from polyref.eval.judgements.rankings import REPEATED
from polyref.eval.statistics.base import REDRAWN, SEGMENTS, Bootstrap
from polyref.eval.statistics.significance import CORRECTIONS
from polyref.metrics.base import Metric
from polyref.references import ReferenceSet

#: What happens to the human references when others are added.
KEPT: Final = "kept"
REPLACED: Final = "replaced"

#: Where added references come from: a file (``{set}`` and ``{pair}`` are put in), or a set.
Added: TypeAlias = str | ReferenceSet

#: What speaks of systems, or of references that all systems share.
_NOT_WITH_PEERS: Final = ("references", "ks", "pairwise", "placebo", "perm_both", "correction", "sys_gold")


@dataclass(frozen=True)
class Choices:
    """What to evaluate; :func:`polyref.evaluate` says what each one means.

    Attributes:
        metrics: Specifications of metrics, names of score files, or ``stored:NAME``.
        made: Metrics that are given as such, by name.
        options: Of metrics, by the names of their flags.
        form: Form of the files of added references; None tells it by content.
        fields: Key or column of these files -> what it is.
    """

    metrics: tuple[str, ...] = ("bleu", "chrf")
    made: Mapping[str, Metric] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    ks: tuple[int, ...] = ()
    ref: tuple[str, ...] = ()
    references: Mapping[str, Added] = field(default_factory=dict)
    originals: tuple[str, ...] = (KEPT,)
    gold: tuple[str, ...] = ()
    sys_gold: str | None = None
    gold_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reliable: bool = False
    mqm_weights: tuple[str, ...] = ()
    repeated_pairs: str = "count"
    statistics: tuple[str, ...] = ()
    pairwise: bool = False
    include_human: bool = False
    scores: str | None = None
    baseline: str | None = None
    exclude: tuple[str, ...] = ()
    top: int | None = None
    exclude_outliers: bool = False
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    perm_both: int | None = None
    placebo: int | None = None
    correction: str | None = None
    form: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    peers: str | None = None
    segments: int | None = None
    all_segments: bool = False

    def __post_init__(self) -> None:
        for choice in self.originals:
            if choice not in {KEPT, REPLACED}:
                raise UsageError(f"`originals` is {choice!r}, expected {KEPT} or {REPLACED}")
        if self.repeated_pairs not in REPEATED:
            raise UsageError(f"`repeated_pairs` is {self.repeated_pairs!r}, expected one of {', '.join(REPEATED)}")
        if self.mqm_weights and "mqm" not in self.gold_files:
            raise UsageError("`mqm_weights` has no use without `mqm`")
        if self.reliable and "pearmut" not in self.gold_files:
            raise UsageError("`reliable` has no use without `judgements` of the kind pearmut")
        if self.bootstrap.over not in REDRAWN:
            raise UsageError(f"`over` is {self.bootstrap.over!r}, expected one of {', '.join(REDRAWN)}")
        if self.segments is not None and self.all_segments:
            raise UsageError("`segments` and `all_segments` contradict each other", remedy="leave one of them out")
        if self.correction not in {None, *CORRECTIONS}:
            raise UsageError(f"`correction` is {self.correction!r}, expected one of {', '.join(CORRECTIONS)}")
        if not 0 < self.bootstrap.confidence < 1:
            raise UsageError(f"`confidence` is {self.bootstrap.confidence}, expected between 0 and 1")
        for name in ("form", "fields"):
            if getattr(self, name) and not any(isinstance(one, str) for one in self.references.values()):
                raise UsageError(
                    f"`{name}` has no use without a file of `references`", remedy="give `references`, or leave it out"
                )
        self._check_drawing()
        if self.peers is not None:
            given = [name for name in _NOT_WITH_PEERS if getattr(self, name)]
            given += ["originals"] if self.originals != (KEPT,) else []
            given += ["over"] if self.bootstrap.over != SEGMENTS else []
            if given:
                raise UsageError(
                    f"`{given[0]}` is of no use with `peers`: every system has references of its own, and scores of "
                    "segments alone",
                    remedy="leave one of them out",
                )

    def _check_drawing(self) -> None:
        """Refuse settings of draws where nothing is drawn."""
        if self.bootstrap.resamples:
            return
        plain = Bootstrap()
        drawn = self.placebo or self.perm_both or self.segments
        for name in ("over", "confidence", *(() if drawn else ("seed",))):
            if getattr(self.bootstrap, name) != getattr(plain, name):
                raise UsageError(f"`{name}` has no use with `resamples` 0", remedy="leave one of them out")
