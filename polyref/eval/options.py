"""What an evaluation may be asked for: every option once, for Python, the command line and the pages about both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypedDict

from polyref.eval.judgements.base import JUDGEMENTS
from polyref.eval.judgements.rankings import REPEATED
from polyref.eval.statistics.base import REDRAWN, SEGMENTS, Bootstrap
from polyref.eval.statistics.named import STATISTICS
from polyref.eval.statistics.significance import CORRECTIONS
from polyref.metrics.base import Metric
from polyref.metrics.registry import metric_names
from polyref.options import REQUIRED, Option
from polyref.references import ReferenceSet

#: What happens to the human references when others are added.
KEPT: Final = "kept"
REPLACED: Final = "replaced"

_File: TypeAlias = str | Path
_Added: TypeAlias = str | Path | ReferenceSet
References: TypeAlias = _Added | Mapping[str, _Added] | Sequence[str] | Sequence[Sequence[str]] | None
#: Told ``note`` or ``warning``, and what it says.
Say: TypeAlias = Callable[[str, str], object]

_added = partial(Option, heading="Added references")
_judgement = partial(Option, heading="Judgements")
_system = partial(Option, heading="Systems")
_segment = partial(Option, heading="Segments")
_set = partial(Option, heading="Sets")
_more = partial(Option, heading="More to measure")
_test = partial(Option, heading="Intervals and tests")


class Measured(TypedDict, total=False):
    """What most evaluations name: parameters of :func:`polyref.evaluate`, whose documentation says more."""

    pairs: Annotated[
        str | Sequence[str],
        Option(REQUIRED, "Language pairs, such as zh-en.", flag="--language-pair", short="-l", metavar="PAIR"),
    ]
    ref: Annotated[str | Sequence[str], Option((), "Human references; needed where there are several.", metavar="NAME")]
    references: Annotated[
        Sequence[_File],
        Option(
            (),
            "Augmented set made from `ref`; or another human reference: a file, or ref:NAME of the set. NAME=FILE for "
            "several; {set} and {pair} are put in.",
            flag="--refs",
            metavar="FILE",
        ),
    ]
    originals: Annotated[
        str | Sequence[str],
        Option(
            (KEPT,),
            "What becomes of the human references for k > 0.",
            choices=(KEPT, REPLACED),
            expected=f"{KEPT} or {REPLACED}",
        ),
    ]
    gold: Annotated[
        str | Sequence[str],
        Option((), "darr, or a judgement in human-scores; with several sets, the first that each has.", metavar="NAME"),
    ]
    mqm: Annotated[
        _File | None,
        _judgement(None, "Judgements from raw MQM marks or their averages instead of `gold`.", metavar="FILE"),
    ]
    da: Annotated[
        _File | Sequence[_File] | None,
        _judgement(
            (),
            "Judgements from a file of DA, DA+SQM or ESA instead of `gold`; several files are waves of one campaign.",
            metavar="FILE",
        ),
    ]
    judgements: Annotated[
        Mapping[str, Any] | None,
        _judgement((), "Judgements from a file instead of `gold`; kinds:", names=JUDGEMENTS.names, metavar="KIND=FILE"),
    ]
    metrics: Annotated[
        str | Sequence[str],
        Option(
            ("bleu", "chrf"),
            "A metric that polyref computes, or of which the set has a score file (stored:NAME).",
            names=metric_names,
            flag="--metric",
            short="-m",
            metavar="METRIC",
        ),
    ]
    ks: Annotated[
        int | Sequence[int],
        Option(
            (),
            "Numbers of extra references; default: 0, and with `references` also as many as there are.",
            flag="-k",
            metavar="K",
            least=0,
        ),
    ]
    placebo: Annotated[
        int | None,
        Option(
            None,
            "Also measure N placebos: references of other segments, of the same lengths. 5 is a good number; without "
            "it no verdict is better.",
            least=1,
        ),
    ]
    include_human: Annotated[bool, _system(False, "Treat translations made by people as systems.")]
    exclude: Annotated[str | Sequence[str], _system((), "Leave systems out.", metavar="SYSTEM")]
    scores: Annotated[
        _File | None,
        _set(None, "Folder of score files in the set.", metavar="FOLDER", otherwise="metric-scores, scores"),
    ]


class EvaluateOptions(TypedDict, total=False):
    """The further options of :func:`polyref.evaluate`."""

    form: Annotated[
        str | None,
        _added(None, "Form of files of added references, as for `ReferenceSet.load`.", otherwise="told by content"),
    ]
    fields: Annotated[Mapping[str, str] | None, _added(None, "Key or column of these files -> what it is, likewise.")]
    sys_gold: Annotated[
        str | None, _judgement(None, "System-level judgement; default: that of `gold`.", metavar="NAME")
    ]
    mqm_weights: Annotated[
        Sequence[str],
        _judgement(
            (), "SEVERITY=WEIGHT or SEVERITY/CATEGORY=WEIGHT, over the usual ones.", flag="--mqm-weight", metavar="W"
        ),
    ]
    darr: Annotated[
        _File | None,
        _judgement(None, "Relative rankings from a file of the metrics task instead of `gold`.", metavar="FILE"),
    ]
    reliable: Annotated[bool, _judgement(False, "Of Pearmut's logs, leave out annotators by the rule of WMT26.")]
    repeated_pairs: Annotated[
        str,
        _judgement(
            "count",
            "Two outputs that several relative rankings compare: count each as released, merge them into what most "
            "say, or drop them.",
            flag="--pairs",
            choices=REPEATED,
        ),
    ]
    systems: Annotated[
        _File | None,
        _set(
            None,
            "Of a test set of the general task in JSON lines, the folder of outputs.",
            metavar="DIR",
            otherwise="systems, beside it",
        ),
    ]
    collection: Annotated[
        str | None, _set(None, "Of a WMT XML release, take this collection.", metavar="NAME", otherwise="all")
    ]
    test_suites: Annotated[bool, _set(False, "Of a WMT XML release, take the test suites as well.")]
    statistics: Annotated[
        Sequence[str], _more((), "Print these too:", names=STATISTICS.names, flag="--statistic", metavar="NAME")
    ]
    pairwise: Annotated[bool, _more(False, "Count pairs of systems: correct, incorrect, not significant.")]
    baseline: Annotated[
        str | None, _test(None, "Measure gains from this metric instead of each one's k = 0.", metavar="METRIC")
    ]
    top: Annotated[int | None, _system(None, "Keep the N systems that people like best.", least=1)]
    exclude_outliers: Annotated[bool, _system(False, "Leave out systems far from the median of human scores.")]
    segments: Annotated[
        int | None,
        _segment(
            None,
            "Score a random part of the judged segments, drawn by `seed`; intervals are those of parts of this size.",
            least=1,
        ),
    ]
    all_segments: Annotated[
        bool,
        _segment(
            False,
            "Score segments that nobody judged as well, as runs of BLEU, chrF and TER always do: other metrics, and "
            "those beside them, leave them out where scores of systems are the means of the judged ones.",
        ),
    ]
    resamples: Annotated[int, _test(1000, "Bootstrap resamples; 0: no intervals.", short="-n", least=0)]
    over: Annotated[
        str,
        _test(
            SEGMENTS, "What the bootstrap redraws: with both, intervals speak of other systems too.", choices=REDRAWN
        ),
    ]
    confidence: Annotated[float, _test(0.95, "Confidence level of the intervals.", above=0, below=1)]
    perm_both: Annotated[
        int | None,
        _test(
            None,
            "Test gains with N permutations of outputs as well (PERM-BOTH, Deutsch et al. 2021): a test about these "
            "systems only.",
            least=1,
        ),
    ]
    correction: Annotated[str | None, _test(None, "Correct the p-values for their number.", choices=CORRECTIONS)]
    seed: Annotated[int, _test(1, "Seed of all resampling.", least=0)]
    peers: Annotated[
        str | None,
        Option(
            None,
            "Instead of `references`: the outputs of the other systems, for each system. Rows within segments alone: "
            "it measures consensus, and ranks no systems. With `combine` mean, expected or blend.",
            metavar="leave-one-out",
            heading="How references combine",
        ),
    ]
    options: Annotated[Mapping[str, Any] | None, Option(None, "Of all metrics that have them, by the names of flags.")]
    say: Annotated[Say, Option(lambda kind, message: None, "Told every note or warning as it comes up.")]


class Choices(EvaluateOptions):
    """What an evaluation is asked for, checked as far as it can be without data.

    ``metrics`` are specifications, names of score files or ``stored:NAME``; ``made`` those that are given as objects;
    ``of_metrics`` the options of metrics that are given; ``references`` files (``{set}`` and ``{pair}`` are put in) or
    sets, by name.
    """

    metrics: tuple[str, ...]
    made: Mapping[str, Metric]
    of_metrics: Mapping[str, Any]
    ks: tuple[int, ...]
    ref: tuple[str, ...]
    references: Mapping[str, str | ReferenceSet]
    originals: tuple[str, ...]
    gold: tuple[str, ...]
    gold_files: Mapping[str, tuple[str, ...]]
    include_human: bool
    exclude: tuple[str, ...]
    scores: str | None
    placebo: int | None
    bootstrap: Bootstrap
