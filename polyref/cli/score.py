"""The options of ``polyref score``, but those of metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final, TypeVar

import click

from polyref.augment.filters import PRESETS
from polyref.cli.commands import HeadedCommand, HeadedOption, argument_or_option, file_names, metric_names
from polyref.cli.declared import (
    METRIC_HELP,
    files_of,
    format_option,
    make_metrics,
    metric_options,
    reading_options,
    threads_option,
)
from polyref.cli.making import MAKERS, OF_MAKING, making_from, naming_a_generator
from polyref.cli.overwriting import refuse_overwriting, refuse_second_reader
from polyref.cli.printing import bars, json_parts, quiet_option, remember, tell
from polyref.cli.scored_files import read_scored, score_large, tell_of_files
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.metrics.api import check_sources
from polyref.metrics.api import score as calculate
from polyref.metrics.significance import TESTS, check_test
from polyref.progress import listening
from polyref.textfiles import check_writable, write_atomically

Command = TypeVar("Command", bound=Callable[..., Any])

#: Heading of the help -> options under it; the others come first.
_HEADINGS: Final = {
    "Intervals and tests": ("confidence_n", "paired_ar_n", "paired_bs_n", "seed"),
    "Files": ("segments_out", "form", "fields", "input_form", "test_set", "pair", "num_refs", "encoding"),
    "How references combine": ("peers",),
}
_TESTS: Final = ("intervals", "paired_ar", "paired_bs_shift", "paired_bs")
#: Option -> options of which it needs one.
_NEEDS: Final = {
    "confidence_n": ("intervals",),
    "paired_ar_n": ("paired_ar",),
    "paired_bs_n": ("paired_bs", "paired_bs_shift"),
    "seed": _TESTS,
    **OF_MAKING,
}
#: Option -> options beside which it has no use.
_USELESS: Final = {
    "score_only": ("as_json", "layout=json", "layout=latex", *_TESTS),
    "width": ("as_json", "layout=json"),
    "verbose": ("as_json", "layout=json", "layout=latex", "score_only"),
    "short": ("score_only",),
    **dict.fromkeys(_TESTS, ("sentence",)),
    # augment reads UTF-8, and a reference from each file; scores against the other systems need no added references.
    **dict.fromkeys(("encoding", "num_refs", "peers"), MAKERS),
    "segments_out": ("peers",),
}
#: What the command knows of its options beside what they are.
DECLARED: Final[dict[str, Any]] = {"headings": _HEADINGS, "needs": _NEEDS, "useless": _USELESS}
_option = partial(click.option, cls=HeadedOption, heading="Making added references")
_MAKING: Final = (
    _option(
        "--model",
        multiple=True,
        metavar="NAME|DIR",
        help="Make them with this generator, as `polyref augment` does (its help lists them), and keep them in "
        "~/.cache/polyref, or $POLYREF_CACHE: nothing is made, asked or paid for twice. Several are merged.",
    ),
    _option(
        "--candidates",
        multiple=True,
        metavar="FILE",
        help="Take them from lists made elsewhere.",
        shell_complete=file_names,
    ),
    _option("--base-url", metavar="URL", help="Server of --model openai:NAME, such as http://localhost:8000/v1."),
    _option("--retry-failed", is_flag=True, default=None, help="Ask again what that server did not answer."),
    _option(
        "--filter",
        "preset",
        metavar="NAME|FILE",
        help=f"What may become a reference: {', '.join(PRESETS)}, or a TOML file. [default: augment's]",
    ),
    _option("--lang", "language", metavar="CODE", help="Language of the references. [default: told by them]"),
)
_OPTIONS: Final = (
    click.argument("references", nargs=-1, metavar="REFS...", shell_complete=argument_or_option),
    click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        required=True,
        metavar="SYS",
        help="System outputs.",
        shell_complete=file_names,
    ),
    click.option(
        "-m",
        "--metrics",
        multiple=True,
        default=("bleu",),
        show_default=True,
        metavar="METRIC",
        help=METRIC_HELP,
        shell_complete=metric_names,
    ),
    click.option(
        "-k",
        "ks",
        multiple=True,
        type=click.IntRange(min=0),
        metavar="K",
        help="Numbers of extra references: 0 is the human references alone. [default: 0 and all there are]",
    ),
    *_MAKING,
    format_option("--input-format", "the outputs", "input_form"),
    click.option("--source", metavar="FILE", help="Sources, for metrics that read them."),
    click.option(
        "-nr",
        "--num-refs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Lines of the one plain reference file hold N references with tabs between them.",
    ),
    click.option("-e", "--encoding", metavar="NAME", help="Encoding of all plain text files. [default: UTF-8]"),
    click.option(
        "-sl", "--sentence", "--sentence-level", is_flag=True, help="Score every segment instead of the whole set."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with full precision."),
    click.option(
        "-f",
        "--format",
        "layout",
        type=click.Choice(["text", "json", "latex"]),
        help="The same as a choice. [default: text]",
    ),
    click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: standard output]"),
    click.option(
        "--segments-out",
        metavar="FILE",
        help="Also write JSON with the score of every segment and the reference it came from: `index` (from 0) and "
        "`origin` (kind, generator). Both are null where several make it: BLEU, mean, expected, blend, max-each.",
    ),
    click.option(
        "-w",
        "--width",
        type=click.IntRange(0, 20),
        help="Digits for people. [default: the metric's own: 1 for BLEU, chrF and TER, 4 for most others]",
    ),
    click.option("-b", "--score-only", is_flag=True, help="Print the scores alone, one a line."),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Add BLEU's precisions, brevity penalty and lengths, and print signatures in full; JSON has all of it.",
    ),
    click.option("-sh", "--short", is_flag=True, help="Write signatures with sacreBLEU's short keys."),
    quiet_option,
    click.option("-ci", "--confidence", "intervals", is_flag=True, help="Add 95 % bootstrap intervals over segments."),
    click.option(
        "-cin", "--confidence-n", default=1000, show_default=True, type=click.IntRange(min=2), help="Bootstrap samples."
    ),
    click.option(
        "-par",
        "--paired-ar",
        is_flag=True,
        help="Test every system against the first one by approximate randomisation: the test to prefer.",
    ),
    click.option(
        "-parn",
        "--paired-ar-n",
        default=10000,
        show_default=True,
        type=click.IntRange(min=1),
        help="Trials of --paired-ar.",
    ),
    click.option(
        "--paired-bs-shift", is_flag=True, help="The same by a paired bootstrap that holds its level, with intervals."
    ),
    click.option(
        "-pbs",
        "--paired-bs",
        is_flag=True,
        help="The same by sacreBLEU's paired bootstrap, which calls equal systems different in 10 % of test sets "
        "instead of 5 %: to compare with published p-values.",
    ),
    click.option(
        "-pbsn",
        "--paired-bs-n",
        default=1000,
        show_default=True,
        type=click.IntRange(min=2),
        help="Bootstrap samples of both of these.",
    ),
    click.option("--seed", default=12345, show_default=True, type=click.IntRange(min=0), help="Of samples and trials."),
    click.option("--allow-missing", is_flag=True, help="Leave out segments that have no reference."),
    click.option(
        "--force", is_flag=True, help="Score references in a language that the model of a metric does not know."
    ),
    click.option(
        "--peers",
        metavar="leave-one-out",
        help="Score every segment against the outputs of the other systems as well: it measures consensus, and ranks "
        "no systems. For --sentence and 3 systems or more, with --combine mean, expected or blend.",
    ),
)


def score_options(command: Command) -> Command:
    """Decorate the command with its arguments and options.

    Those of making are a dictionary ``making``, those of tests a dictionary ``asked`` of the tests that are asked for.
    """
    names = (*MAKERS, *OF_MAKING)

    @wraps(command)
    def gathered(**values: Any) -> Any:
        making = {name: values.pop(name) for name in names}
        flags = {flag: values.pop(flag) for flag in _TESTS}
        trials = {name: values.pop(name) for name in ("confidence_n", "paired_ar_n", "paired_bs_n")}
        kinds = zip(TESTS, _TESTS, ("confidence_n", "paired_ar_n", "paired_bs_n", "paired_bs_n"), strict=True)
        asked = {kind: trials[drawn] for kind, flag, drawn in kinds if flags[flag]}
        return command(making=making, asked=asked, **values)

    made: Any = reading_options(flag="--refs-format")(gathered)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made  # type: ignore[no-any-return]


def test_from(asked: dict[str, int], systems: int) -> tuple[str | None, int | None]:
    """The test that the options ask for and its trials; None for both without one.

    Args:
        asked: Every test that is asked for, with its trials.
        systems: How many there are.
    """
    if not asked:
        return None, None
    if len(asked) > 1:
        flags = ", ".join("--" + test.replace("_", "-") for test in TESTS)
        raise UsageError(f"choose one of {flags}", remedy="the bootstraps have intervals as well")
    ((test, trials),) = asked.items()
    check_test(test, systems=systems)
    return test, trials


@click.command(cls=HeadedCommand, short_help="Score systems with any number of references.", **DECLARED)
@score_options
@threads_option
@metric_options
def command(
    references: tuple[str, ...],
    reading: Reading,
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    ks: tuple[int, ...],
    input_form: str | None,
    source: str | None,
    num_refs: int | None,
    encoding: str | None,
    sentence: bool,
    as_json: bool,
    layout: str | None,
    output: str,
    width: int | None,
    score_only: bool,
    verbose: bool,
    short: bool,
    asked: dict[str, int],
    seed: int,
    allow_missing: bool,
    force: bool,
    peers: str | None,
    segments_out: str | None,
    making: dict[str, Any],
    **options: Any,
) -> None:
    """Score systems with any number of references.

    REFS is a reference set (what `polyref augment` writes, or JSONL with "reference" and "paraphrases"), plain text
    files with one segment a line (several are several human references), or references in any other form: TSV, CSV,
    JSON, n-best lists, WMT XML and SGML, the folder of a test set. SYS is plain text, or outputs in one of these forms;
    a file may hold several systems. With -k 0 the scores are sacreBLEU's.

    \b
    polyref score refs.en -i sysA.en sysB.en -m prism
    polyref score refs.en -i sysA.en sysB.en -m parbleu --model shipped -k 10
    polyref score refs.polyref.jsonl -i sysA.en sysB.en -m bleu chrf++ -k 0 1 5 10
    """  # noqa: D301
    refuse_overwriting([*references, *inputs, source, *making["candidates"], making["preset"]], output, segments_out)
    if as_json and layout not in (None, "json"):
        raise UsageError(f"--json and --format {layout} contradict each other")
    if peers is not None and not sentence:
        raise UsageError("--peers gives scores of segments alone, and ranks no systems", remedy="add --sentence")
    test_from(asked, max(len(inputs), 2))  # one file may hold several systems
    adding = making_from(references, reading, making, ks, metrics, options, force=force)
    chosen = make_metrics(metrics, options)
    refuse_overwriting(named := files_of(chosen.values()), output, segments_out, models=[*named, *making["model"]])
    if segments_out == output:
        raise UsageError("-o and --segments-out both write to standard output", remedy="name a file for one of them")
    for file in filter(None, (output, segments_out)):
        check_writable(file)
    if source is not None:
        check_sources(chosen)
    refuse_second_reader([*references, *inputs, source])
    plain = all(one is None for one in (source, encoding, num_refs, peers, adding, segments_out))
    with naming_a_generator(adding), listening(bars):
        found = score_large(references, inputs, reading, input_form, chosen, ks or None, tell,
                            partial(test_from, asked), seed=seed,
                            allow_missing=allow_missing) if plain else None  # fmt: skip
        if found is None:
            refs, systems, sources = read_scored(references, inputs, source, reading, input_form, encoding, num_refs)
            tell_of_files([*references, *inputs], systems, refs, tell)
            test, trials = test_from(asked, len(systems))
            refs = refs if adding is None else adding.add_to(refs, () if force else chosen.values())
            found = calculate(systems, refs, chosen, ks or None, sources=sources, test=test, trials=trials, seed=seed,
                              allow_missing=allow_missing, force=force, peers=peers)  # fmt: skip
    found = found.segment if sentence else found
    for kind, message in found.messages:
        tell(kind, message)
    found = found.shortened if short else found
    if segments_out is not None:
        with write_atomically(segments_out) as stream:
            stream.writelines([*json_parts(found.signature, found.origins()), "\n"])
    with write_atomically(output) as stream:
        if as_json or layout == "json":
            stream.writelines(json_parts(found.signature, found.each_row(), circular=found.circular))
            stream.write("\n")
        elif score_only:
            stream.writelines(f"{number}\n" for number in found.numbers(width))
        elif layout == "latex":
            stream.write(found.latex(width) + "\n")
        else:
            full = verbose or output != "-"
            if not full and not short:
                remember(found.signatures)
            stream.write(found.text(width, verbose=verbose, full=full) + "\n")
