"""``polyref score``: systems against any number of references, corpus or sentence level, for several k at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from polyref.cli.files.making import making_from, naming_a_generator
from polyref.cli.files.overwriting import refuse_overwriting, refuse_second_reader
from polyref.cli.files.stretches import score_large
from polyref.cli.files.systems import read_scored, tell_of_files
from polyref.cli.options.metrics import files_of, make_metrics, metric_options
from polyref.cli.options.score import DECLARED, score_options, test_from
from polyref.cli.options.threads import threads_option
from polyref.cli.parsing.headings import HeadedCommand
from polyref.cli.printing import bars, json_parts, remember, tell
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.metrics.api import check_sources
from polyref.metrics.api import score as calculate
from polyref.progress import listening
from polyref.textfiles import check_writable, write_atomically


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
