"""The options of ``polyref evaluate``, but those of metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from polyref.cli.options.listing import ListingOption
from polyref.cli.options.metrics import metric_options
from polyref.cli.options.quiet import quiet_option
from polyref.cli.options.reading import fields_option, format_option
from polyref.cli.parsing.completion import argument_or_option, metric_names
from polyref.eval.judgements.base import JUDGEMENTS
from polyref.eval.statistics.named import STATISTICS
from polyref.tables import name_as_text

Command = TypeVar("Command", bound=Callable[..., Any])

#: Options that change nothing in a report.
_NO_SETTINGS: Final = frozenset({"output", "as_json", "width", "verbose"})

_MEASURED: Final = (
    click.argument(
        "set_dirs", nargs=-1, required=True, metavar="SET_DIR...", type=click.Path(), shell_complete=argument_or_option
    ),
    click.option(
        "-l",
        "--language-pair",
        "pairs",
        multiple=True,
        required=True,
        metavar="PAIR",
        help="Language pairs, such as zh-en.",
    ),
    click.option(
        "--ref", "refs", multiple=True, metavar="NAME", help="Human references; needed where there are several."
    ),
    click.option(
        "--refs",
        "extra",
        multiple=True,
        metavar="FILE",
        help="Augmented set made from --ref; or another human reference: a file, or ref:NAME of the set. NAME=FILE for "
        "several; {set} and {pair} are put in.",
    ),
    format_option(what="the augmented set"),
    fields_option,
    click.option(
        "--originals",
        multiple=True,
        type=click.Choice(["kept", "replaced"]),
        default=("kept",),
        show_default=True,
        help="What becomes of the human references for k > 0.",
    ),
    click.option(
        "--gold",
        "golds",
        multiple=True,
        metavar="NAME",
        help="darr, or a judgement in human-scores; with several sets, the first that each has.",
    ),
    click.option("--sys-gold", metavar="NAME", help="System-level judgement; default: that of --gold."),
    click.option("--mqm", metavar="FILE", help="Judgements from raw MQM marks or their averages instead of --gold."),
    click.option(
        "--mqm-weight",
        "mqm_weights",
        multiple=True,
        metavar="W",
        help="SEVERITY=WEIGHT or SEVERITY/CATEGORY=WEIGHT, over the usual ones.",
    ),
    click.option(
        "--da",
        multiple=True,
        metavar="FILE",
        help="Judgements from a file of DA, DA+SQM or ESA instead of --gold; several files are waves of one campaign.",
    ),
    click.option("--darr", metavar="FILE", help="Relative rankings from a file of the metrics task instead of --gold."),
    click.option(
        "--judgements",
        multiple=True,
        metavar="KIND=FILE",
        cls=ListingOption,
        names=JUDGEMENTS.names,
        help="Judgements from a file instead of --gold; kinds:",
    ),
    click.option("--reliable", is_flag=True, help="Of Pearmut's logs, leave out annotators by the rule of WMT26."),
    click.option(
        "--pairs",
        "repeated_pairs",
        type=click.Choice(["count", "merge", "drop"]),
        default="count",
        show_default=True,
        help="Two outputs that several relative rankings compare: count each as released, merge them into what most "
        "say, or drop them.",
    ),
    click.option(
        "--systems",
        metavar="DIR",
        type=click.Path(),
        help="Of a test set of the general task in JSON lines, the folder of outputs. [default: systems, beside it]",
    ),
    click.option("--collection", metavar="NAME", help="Of a WMT XML release, take this collection. [default: all]"),
    click.option("--test-suites", is_flag=True, help="Of a WMT XML release, take the test suites as well."),
    click.option(
        "-m",
        "--metric",
        "metrics",
        multiple=True,
        default=("bleu", "chrf"),
        show_default=True,
        metavar="METRIC",
        shell_complete=metric_names,
        help="A metric that polyref computes, or of which the set has a score file (stored:NAME).",
    ),
    click.option(
        "-k",
        "ks",
        multiple=True,
        type=click.IntRange(min=0),
        metavar="K",
        help="Numbers of extra references; default: 0, and with --refs also as many as there are.",
    ),
    click.option(
        "--statistic",
        "statistics",
        multiple=True,
        metavar="NAME",
        cls=ListingOption,
        names=STATISTICS.names,
        help="Print these too:",
    ),
    click.option("--pairwise", is_flag=True, help="Count pairs of systems: correct, incorrect, not significant."),
    click.option("--include-human", is_flag=True, help="Treat translations made by people as systems."),
    click.option(
        "--scores", metavar="FOLDER", help="Folder of score files in the set. [default: metric-scores, scores]"
    ),
    click.option("--baseline", metavar="METRIC", help="Measure gains from this metric instead of each one's k = 0."),
    click.option("--exclude", "excluded", multiple=True, metavar="SYSTEM", help="Leave systems out."),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Keep the N systems that people like best."),
    click.option(
        "--segments",
        type=click.IntRange(min=1),
        metavar="N",
        help="Score a random part of the judged segments, drawn by --seed; intervals are those of parts of this size.",
    ),
    click.option(
        "--all-segments",
        is_flag=True,
        help="Score segments that nobody judged as well, as runs of BLEU, chrF and TER always do: other metrics, and "
        "those beside them, leave them out where scores of systems are the means of the judged ones.",
    ),
    click.option("--exclude-outliers", is_flag=True, help="Leave out systems far from the median of human scores."),
    click.option(
        "-n",
        "--resamples",
        type=click.IntRange(min=0),
        default=1000,
        show_default=True,
        help="Bootstrap resamples; 0: no intervals.",
    ),
    click.option(
        "--over",
        type=click.Choice(["segments", "systems", "both"]),
        default="segments",
        show_default=True,
        help="What the bootstrap redraws: with both, intervals speak of other systems too.",
    ),
    click.option(
        "--confidence",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help="Confidence level of the intervals.",
    ),
    click.option(
        "--placebo",
        type=click.IntRange(min=1),
        metavar="N",
        help="Also measure N placebos: references of other segments, of the same lengths. 5 is a good number; "
        "without it no verdict is better.",
    ),
    click.option(
        "--perm-both",
        type=click.IntRange(min=1),
        metavar="N",
        help="Test gains with N permutations of outputs as well (PERM-BOTH): a test about these systems only.",
    ),
    click.option(
        "--correction", type=click.Choice(["holm", "bonferroni", "bh"]), help="Correct the p-values for their number."
    ),
    click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of all resampling."),
    click.option(
        "--peers",
        metavar="leave-one-out",
        help="Instead of --refs: the outputs of the other systems, for each system. Rows within segments alone: it "
        "measures consensus, and ranks no systems. With --combine mean, expected or blend.",
    ),
)
_PRINTED: Final = (
    click.option("-w", "--width", type=click.IntRange(0, 20), default=4, show_default=True, help="Digits for people."),
    click.option("-v", "--verbose", is_flag=True, help="Print signatures in full."),
    click.option("-o", "--output", metavar="DIR", type=click.Path(), help="Write a report: HTML, CSV, LaTeX and JSON."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    quiet_option,
)


#: Heading of the help -> options under it; the others come first.
HEADINGS: Final = {
    "Judgements": ["sys_gold", "mqm", "mqm_weights", "da", "darr", "judgements", "reliable", "repeated_pairs"],
    "Systems": ["include_human", "excluded", "top", "exclude_outliers"],
    "Segments": ["segments", "all_segments"],
    "Sets": ["systems", "collection", "test_suites", "scores"],
    "More to measure": ["statistics", "pairwise"],
    "Intervals and tests": ["resamples", "over", "confidence", "perm_both", "correction", "seed", "baseline"],
    "How references combine": ["peers"],
}


def evaluate_options(command: Command) -> Command:
    """Decorate the command with its arguments and options, those of metrics among them."""
    for option in reversed(_PRINTED):
        command = option(command)
    command = metric_options(command)
    for option in reversed(_MEASURED):
        command = option(command)
    return command


def settings() -> dict[str, Any]:
    """Every option of this run with its value, defaults included."""
    given = click.get_current_context().params
    # Sorted: click keeps the order of the command line.
    return {
        name: _written(given[name]) for name in sorted(given) if given[name] is not None and name not in _NO_SETTINGS
    }


def _written(value: Any) -> Any:
    """A value as JSON has it: no tuples, and names of files as text."""
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    return name_as_text(value) if isinstance(value, str) else value
