"""Files that are given with a name for what they hold: ``NAME=FILE``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from polyref.cli.commands import HeadedCommand, ListingOption, argument_or_option, metric_names
from polyref.cli.declared import (
    fields_from,
    fields_option,
    format_option,
    metric_options,
    metric_parameters,
    threads_option,
)
from polyref.cli.printing import bars, json_object, quiet_option, remember, tell
from polyref.errors import UsageError
from polyref.eval.judgements.base import JUDGEMENTS
from polyref.eval.statistics.named import STATISTICS
from polyref.progress import listening
from polyref.tables import name_as_text

_NAMED: Final = re.compile(r"([\w.+-]+)=(.+)", re.DOTALL)


def named_files(values: Sequence[str]) -> dict[str, str]:
    """``--refs``: name -> file, from files, or NAME=FILE where several generators are compared."""
    pieces = []
    for value in values:
        match = None if Path(value).is_file() else _NAMED.fullmatch(value)
        if match:
            pieces.append((match[1], match[2]))
        else:
            pieces.append(("" if len(values) == 1 else name_as_text(Path(value).name.split(".")[0]), value))
    names = [name for name, _ in pieces]
    if len(set(names)) < len(names):
        raise UsageError(f"two --refs are called {next(n for n in names if names.count(n) > 1)!r}",
                         remedy="name them: --refs NAME=FILE ...")  # fmt: skip
    return dict(pieces)


def files_of_judgements(values: Sequence[str]) -> dict[str, list[str]]:
    """``--judgements``: kind -> files, from KIND=FILE."""
    from polyref.eval.judgements.base import gold_reader

    pieces = [value.partition("=") for value in values]
    for value, (kind, _, file) in zip(values, pieces, strict=True):
        if not kind or not file:
            raise UsageError(f"--judgements {value!r}, expected KIND=FILE")
    files: dict[str, list[str]] = {}
    for kind, _, file in pieces:
        if kind in files and not gold_reader(kind).several:
            raise UsageError(f"--judgements {kind} is given twice", remedy="name one file of judgements")
        files.setdefault(kind, []).append(file)
    return files


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


@click.command(cls=HeadedCommand, headings=HEADINGS, useless={"width": ["as_json"], "verbose": ["as_json"]})
@threads_option
@evaluate_options
def command(
    set_dirs: tuple[str, ...],
    pairs: tuple[str, ...],
    refs: tuple[str, ...],
    extra: tuple[str, ...],
    fields: tuple[str, ...],
    golds: tuple[str, ...],
    judgements: tuple[str, ...],
    excluded: tuple[str, ...],
    output: str | None,
    as_json: bool,
    width: int,
    verbose: bool,
    **options: Any,
) -> None:
    """Measure agreement with human judgements against the number of references.

    SET_DIR is a directory in the mt-metrics-eval layout or a WMT release, also one file of JSON lines or XML; several
    are measured one after the other. For every metric and k, with the gain over k = 0 and bootstrap intervals:
    agreement within segments (Kendall's tau without ties, accuracy with calibrated ties), Pearson's r of the systems'
    scores, and tau-b over all judged outputs. Translations made by people are left out.

    \b
    polyref evaluate wmt21.news -l zh-en --ref refA --gold mqm -m bleu chrf
    polyref evaluate wmt22 -l zh-en --ref refA --refs paraphrases.jsonl --gold wmt-z -m bleu -k 0 1 5 10 -o report
    """  # noqa: D301
    from polyref.eval.api import evaluate
    from polyref.eval.evaluation_table import signatures
    from polyref.metrics.table import advice

    if output is not None:
        from polyref.eval.report.write import check_report

        check_report(output)
        if options["peers"] is not None:
            raise UsageError("-o writes a report about systems, and --peers is about segments alone", remedy="--json")
    of_metrics = {name: options.pop(name) for name in metric_parameters()}
    with listening(bars):
        found = evaluate(
            set_dirs,
            pairs,
            references=named_files(extra),
            fields=fields_from(fields) or None,
            ref=refs,
            gold=golds,
            judgements=files_of_judgements(judgements),
            exclude=excluded,
            options=of_metrics,
            say=tell,
            **options,
        )
    if options["peers"] is None and (better := advice(s for one in found.evaluations for s in one.signatures.values())):
        tell("note", better)
    if output is not None:
        page = found.report(output, settings())
        tell("note", f"report: {page}")
    if as_json:
        click.echo(json_object(found.signature, found.rows, circular=found.circular, notes=found.without_human))
        return
    remember(signatures(found))
    click.echo(found.text(width, full=verbose))
