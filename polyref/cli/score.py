"""``polyref score``: systems against any number of references, corpus or sentence level, for several k at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import click

from polyref.cli.files import FILES, format_option, reading_options, refuse_overwriting, refuse_second_reader
from polyref.cli.making import MAKERS, MakingOptions, making_from
from polyref.cli.options import (
    HOW,
    METRIC_HELP,
    MetricCommand,
    argument_or_option,
    files_of,
    metric_options,
    options_of,
    quiet_option,
    threads_option,
)
from polyref.cli.printing import bars, json_parts, remember, tell
from polyref.cli.scored_files import read_scored, score_large, tell_of_files
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.metrics.api import NoAddedReferencesError, check_sources
from polyref.metrics.api import score as calculate
from polyref.metrics.registry import make_metrics, metric_names
from polyref.metrics.significance import SEED, TESTS, check_test
from polyref.options import REQUIRED, option
from polyref.progress import listening
from polyref.publishing import check_writable, write_atomically

_TESTS: Final = ("intervals", "paired_ar", "paired_bs_shift", "paired_bs")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is scored with how many references."""

    inputs: tuple[str, ...] = option(REQUIRED, flag="--input", short="-i", metavar="SYS", help="System outputs.")
    metrics: tuple[str, ...] = option(("bleu",), short="-m", metavar="METRIC", names=metric_names, help=METRIC_HELP)
    ks: tuple[int, ...] = option(
        (),
        flag="-k",
        metavar="K",
        least=0,
        help="Numbers of extra references: 0 is the human references alone.",
        otherwise="0 and all there are",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What else is read, and what is written."""

    # Making reads UTF-8, and a reference from each file; scores against other systems need no added references.
    source: str | None = option(None, metavar="FILE", heading=FILES, help="Sources, for metrics that read them.")
    num_refs: int | None = option(
        None,
        short="-nr",
        least=1,
        heading=FILES,
        without=MAKERS,
        help="Lines of the one plain reference file hold N references with tabs between them.",
    )
    encoding: str | None = option(
        None,
        short="-e",
        metavar="NAME",
        heading=FILES,
        without=MAKERS,
        help="Encoding of all plain text files.",
        otherwise="UTF-8",
    )
    sentence: bool = option(
        False, flag="--sentence --sentence-level", short="-sl", help="Score every segment instead of the whole set."
    )
    as_json: bool = option(False, flag="--json", help="Print one JSON object, with full precision.")
    layout: str | None = option(
        None,
        flag="--format",
        short="-f",
        choices=("text", "json", "latex"),
        help="The same as a choice.",
        otherwise="text",
    )
    output: str = option("-", short="-o", metavar="FILE", help="Where to write.", otherwise="standard output")
    segments_out: str | None = option(
        None,
        metavar="FILE",
        heading=FILES,
        without=("peers",),
        help="Also write JSON with the score of every segment and the reference it came from: `index` (from 0) and "
        "`origin` (kind, generator). Both are null where several make it: BLEU, mean, expected, blend, max-each.",
    )
    width: int | None = option(
        None,
        short="-w",
        least=0,
        most=20,
        heading=HOW,
        without=("as_json", "layout=json"),
        help="Digits for people.",
        otherwise="the metric's own: 1 for BLEU, chrF and TER, 4 for most others",
    )
    score_only: bool = option(
        False,
        short="-b",
        heading=HOW,
        without=("as_json", "layout=json", "layout=latex", *_TESTS),
        help="Print the scores alone, one a line.",
    )
    verbose: bool = option(
        False,
        short="-v",
        heading=HOW,
        without=("as_json", "layout=json", "layout=latex", "score_only"),
        help="Add BLEU's precisions, brevity penalty and lengths, and print signatures in full; JSON has all of it.",
    )
    short: bool = option(
        False, short="-sh", heading=HOW, without=("score_only",), help="Write signatures with sacreBLEU's short keys."
    )
    allow_missing: bool = option(False, help="Leave out segments that have no reference.")
    force: bool = option(False, help="Score references in a language that the model of a metric does not know.")
    peers: str | None = option(
        None,
        metavar="leave-one-out",
        heading="How references combine",
        without=MAKERS,
        help="Score every segment against the outputs of the other systems as well: it measures consensus, and ranks "
        "no systems. For --sentence and 3 systems or more, with --combine mean, expected or blend.",
    )


@dataclass(frozen=True, kw_only=True)
class TestOptions:
    """Which test, and how often it draws."""

    intervals: bool = option(
        False,
        flag="--confidence",
        short="-ci",
        without=("sentence",),
        help="Add 95 % bootstrap intervals over segments.",
    )
    confidence_n: int = option(1000, short="-cin", least=2, needs=("intervals",), help="Bootstrap samples.")
    paired_ar: bool = option(
        False,
        short="-par",
        without=("sentence",),
        help="Test every system against the first one by approximate randomisation: the test to prefer.",
    )
    paired_ar_n: int = option(10000, short="-parn", least=1, needs=("paired_ar",), help="Trials of --paired-ar.")
    paired_bs_shift: bool = option(
        False, without=("sentence",), help="The same by a paired bootstrap that holds its level, with intervals."
    )
    paired_bs: bool = option(
        False,
        short="-pbs",
        without=("sentence",),
        help="The same by sacreBLEU's paired bootstrap, which calls equal systems different in 10 % of test sets "
        "instead of 5 %: to compare with published p-values.",
    )
    paired_bs_n: int = option(
        1000, short="-pbsn", least=2, needs=("paired_bs", "paired_bs_shift"), help="Bootstrap samples of both of these."
    )
    seed: int = option(SEED, least=0, needs=_TESTS, help="Of samples and trials.")

    def of(self, systems: int) -> tuple[str | None, int | None]:
        """The test and its trials for a number of systems; None for both where none is asked for."""
        trials = (self.confidence_n, self.paired_ar_n, self.paired_bs_n, self.paired_bs_n)
        kinds = zip(TESTS, _TESTS, trials, strict=True)
        asked = [(test, drawn) for test, flag, drawn in kinds if getattr(self, flag)]
        if not asked:
            return None, None
        if len(asked) > 1:
            flags = ", ".join("--" + test.replace("_", "-") for test in TESTS)
            raise UsageError(f"choose one of {flags}", remedy="the bootstraps have intervals as well")
        check_test(asked[0][0], systems=systems)
        return asked[0]


@click.command(cls=MetricCommand, short_help="Score systems with any number of references.")
@click.argument("references", nargs=-1, metavar="REFS...", shell_complete=argument_or_option)
@options_of(Asked)
@options_of(MakingOptions, gathered="making", heading="Making added references")
@reading_options(flag="--refs-format")
@format_option("--input-format", "the outputs", "input_form")
@options_of(ScoreOptions, gathered="how")
@quiet_option
@options_of(TestOptions, gathered="tests", heading="Intervals and tests")
@threads_option
@metric_options
def command(
    references: tuple[str, ...],
    reading: Reading,
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    ks: tuple[int, ...],
    input_form: str | None,
    how: ScoreOptions,
    tests: TestOptions,
    making: MakingOptions,
    **options: Any,
) -> None:
    """Score systems with any number of references.

    REFS is a reference set (what `polyref augment` writes, or JSONL with "reference" and "paraphrases"), plain text
    files with one segment a line (several are several human references), or references in any other form: TSV, CSV,
    JSON, n-best lists, WMT XML and SGML, XLIFF, TMX, the folder of a test set. SYS is plain text, or outputs in one of
    these forms; a file may hold several systems. With -k 0 the scores are sacreBLEU's.

    \b
    polyref score refs.en -i sysA.en sysB.en -m prism
    polyref score refs.en -i sysA.en sysB.en -m bleu --model lexical shipped -k 0 10
    polyref score refs.polyref.jsonl -i sysA.en sysB.en -m bleu chrf++ -k 0 1 5 10
    """  # noqa: D301
    read = [*references, *inputs, how.source]
    written = [how.output, how.segments_out]
    refuse_overwriting([*read, *making.candidates, making.preset], *written)
    if how.as_json and how.layout not in (None, "json"):
        raise UsageError(f"--json and --format {how.layout} contradict each other")
    if how.peers is not None and not how.sentence:
        raise UsageError("--peers gives scores of segments alone, and ranks no systems", remedy="add --sentence")
    tests.of(max(len(inputs), 2))  # one file may hold several systems
    adding = None
    if making.model or making.candidates:
        adding = making_from(references, reading, making, ks, metrics, options, force=how.force)
    chosen = make_metrics(metrics, options)
    refuse_overwriting(named := files_of(chosen.values()), *written, models=[*named, *making.model])
    if how.segments_out == how.output:
        raise UsageError("-o and --segments-out both write to standard output", remedy="name a file for one of them")
    for file in filter(None, written):
        check_writable(file)
    if how.source is not None:
        check_sources(chosen)
    refuse_second_reader(read)
    settings: dict[str, Any] = {"seed": tests.seed, "allow_missing": how.allow_missing}
    found = None
    try:
        with listening(bars):
            if all(
                one is None for one in (how.source, how.encoding, how.num_refs, how.peers, adding, how.segments_out)
            ):
                found = score_large(
                    references, inputs, reading, input_form, chosen, ks or None, tell, tests.of, **settings
                )
            if found is None:
                refs, systems, sources = read_scored(
                    references, inputs, how.source, reading, input_form, how.encoding, how.num_refs
                )
                tell_of_files([*references, *inputs], systems, refs, tell)
                test, settings["trials"] = tests.of(len(systems))
                refs = refs if adding is None else adding.add_to(refs, () if how.force else chosen.values())
                settings |= {"sources": sources, "test": test, "force": how.force, "peers": how.peers}
                found = calculate(systems, refs, chosen, ks or None, **settings)
    except NoAddedReferencesError as error:
        if adding is not None:  # all of them were dropped
            raise
        raise UsageError(error.message, remedy=f"{error.remedy}; or name generators: --model lexical shipped") from None
    found = found.segment if how.sentence else found
    for kind, message in found.messages:
        tell(kind, message)
    found = found.shortened if how.short else found
    if how.segments_out is not None:
        with write_atomically(how.segments_out) as stream:
            stream.writelines([*json_parts(found.signature, found.origins()), "\n"])
    with write_atomically(how.output) as stream:
        if how.as_json or how.layout == "json":
            stream.writelines(json_parts(found.signature, found.each_row(), circular=found.circular))
            stream.write("\n")
        elif how.score_only:
            stream.writelines(f"{number}\n" for number in found.numbers(how.width))
        elif how.layout == "latex":
            stream.write(found.latex(how.width) + "\n")
        else:
            full = how.verbose or how.output != "-"
            if not full and not how.short:
                remember(found.signatures)
            stream.write(found.text(how.width, verbose=how.verbose, full=full) + "\n")
