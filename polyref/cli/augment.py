"""``polyref augment``: references in, reference set with paraphrases out."""

from __future__ import annotations

from typing import Any

import click

from polyref.augment.filters.chain import FilterChain
from polyref.augment.filters.load import filter_chain
from polyref.augment.filters.presets import PRESETS
from polyref.augment.inputs import Inputs
from polyref.augment.pipeline import OVERGENERATE, Augmentation
from polyref.augment.select import selection
from polyref.augment.sentences import filtered_sentences
from polyref.augment.tally import Tally
from polyref.augment.writer import augment_file, check_output, journal_path
from polyref.cli.files.overwriting import refuse_overwriting
from polyref.cli.options.completion import argument_or_option
from polyref.cli.options.generation import GeneratingCommand, generation_options, loading_from, processes_for
from polyref.cli.options.reading import reading_options
from polyref.cli.options.search import SENTENCES, decoding_from
from polyref.cli.printing import json_object, tell
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.paraphrase import load_paraphraser
from polyref.tables import shown, text_table
from polyref.textfiles import display_name


@click.command("augment", cls=GeneratingCommand)
@click.argument("references", nargs=-1, metavar="REFS...", shell_complete=argument_or_option)
@click.option("-k", "k", type=int, default=10, show_default=True, help="Paraphrases a segment.")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: stdout]")
@reading_options()
@generation_options()
@SENTENCES
@click.option(
    "--filter",
    "preset",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help=f"What may become a reference: {', '.join(PRESETS)}, or a TOML file. Copies and duplicates never do.",
)
@click.option(
    "--select",
    default="rank",
    show_default=True,
    metavar="NAME",
    help="Which of what passes the filter: rank, group, mmr[:LAMBDA] or coverage[:N].",
)
@click.option("--dropped", metavar="FILE", help="Write the candidates that the filter drops, with the reasons.")
@click.option("--lang", default="en", show_default=True, metavar="CODE", help="Language of the references.")
@click.option("--force", is_flag=True, help="Take text in a language that the model does not write.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on stdout (needs -o).")
@click.option("--quiet", is_flag=True, help="No progress bar and no summary; warnings stay.")
def command(
    references: tuple[str, ...],
    reading: Reading,
    k: int,
    output: str,
    loading: dict[str, Any],
    search: dict[str, Any],
    sentences: str,
    preset: str,
    select: str,
    dropped: str | None,
    lang: str,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Add paraphrases to a set of references.

    REFS is one or more plain text files with one segment a line (several are several human references), - for
    stdin, a reference set as this command writes it, or references in any other form: TSV, CSV, JSON, n-best lists, WMT
    XML and SGML, the folder of a test set. Tables and JSON with columns of unusual names need --fields. The result is
    JSONL, one segment a line.

    The candidates come from diverse beam search by default. With any option of the search itself (--semantics to
    --sampling-epsilon) they are the engine's own list; --seed is recorded, and counts where candidates are drawn.

    A run with -o that was interrupted is taken up where it stopped by the same command: until it is done, finished
    work lies in FILE.partial.
    """
    if as_json and output == "-":
        raise UsageError("--json prints the summary on stdout, where the reference set goes", remedy="name a file: -o")
    if as_json and dropped == "-":
        raise UsageError("--json prints the summary on stdout, where --dropped goes", remedy="name a file")
    if k < 1:
        raise UsageError(f"-k is {k}, expected 1 or more paraphrases a segment")
    refuse_overwriting([*references, preset if preset not in PRESETS else None], output, dropped)
    _, decoding = decoding_from(OVERGENERATE * k, search, loading["backend"])
    options = loading_from(loading, search["semantics"])
    chosen = selection(select)
    chain = filter_chain(preset, lang)
    check_output(output, dropped)
    # As given: on one machine the defaults stay the same.
    given = {**loading, "device": None if loading["device"] == "cpu" else loading["device"]}
    arithmetic = {name: given[name] for name in ("memory", "threads", "device") if given[name] is not None}

    def resumed(segments: int) -> None:
        journal = shown(str(journal_path(output)))
        click.echo(f"polyref: {segments} segments are finished in {journal}: going on", err=True)

    with Inputs(references, reading) as inputs:
        options |= processes_for(loading, inputs.length)
        paraphraser = load_paraphraser(loading["model"], lang=lang, **options)
        if not force:
            texts = (ref.text for segment in inputs.segments() for ref in segment.originals)
            paraphraser.check_texts(texts, lang, display_name(references[0]))
        paraphraser = filtered_sentences(paraphraser, chain, lang, sentences)
        work = Augmentation(paraphraser, k, chain, decoding, lang, search["seed"], chosen, arithmetic)
        tally = augment_file(inputs, output, work, dropped=dropped, progress=not quiet, resumed=resumed)
    if not quiet:
        _summarise(tally, chain, k)
    for warning in tally.warnings():
        tell("warning", warning)
    if as_json:
        click.echo(json_object(work.signature, [tally.as_row(chain.reasons)]))


def _summarise(tally: Tally, chain: FilterChain, k: int) -> None:
    """What became of the candidates, for people."""
    total = max(tally.candidates, 1)
    lines = [[name, str(count), f"{100 * count / total:.1f}"] for name, count in tally.outcomes(chain.reasons)]
    click.echo(text_table(["candidates", "count", "%"], lines), err=True)
    if tally.short:
        click.echo(f"polyref: {tally.short} of {tally.segments} segments got fewer than {k} paraphrases", err=True)
