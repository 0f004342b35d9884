"""``polyref augment``: references in, reference set with paraphrases out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from polyref.augment.candidates import Generated, Source
from polyref.augment.filters import PRESETS, filters_in
from polyref.augment.in_memory import AugmentOptions, plan
from polyref.augment.inputs import open_inputs
from polyref.augment.writer import augment_file, check_output, journal_path
from polyref.cli.files import reading_options, refuse_overwriting, refuse_second_reader
from polyref.cli.generating import (
    GeneratingCommand,
    answers_of,
    generation_options,
    generators_from,
    loading_from,
    note_language,
    refuse_idle,
    summary,
)
from polyref.cli.options import argument_or_option, quiet_option, was_given
from polyref.cli.printing import bars, json_object, say, tell
from polyref.engine import Engine
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.paraphrase.loading import Wanted
from polyref.progress import listening
from polyref.publishing import is_stream
from polyref.references import Segment
from polyref.tables import shown


@click.command("augment", cls=GeneratingCommand)
@click.argument("references", nargs=-1, metavar="REFS...", shell_complete=argument_or_option)
@click.option("-k", "k", type=int, metavar="K", help="Paraphrases a segment. [default: 10]")
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: stdout]")
@click.option(
    "--candidates",
    multiple=True,
    metavar="FILE",
    help="Take candidates from lists made elsewhere, and load no model unless --model names one: n-best lists, "
    "reference sets, or plain text files, which are one list together.",
)
@click.option(
    "--peers",
    multiple=True,
    metavar="SYS",
    help="Add the outputs of these systems as pseudo-references: a fixed pool that is not compared. No model; "
    "-k is all of them.",
)
@reading_options(sources=True)
@generation_options(sets=True)
@click.option(
    "--filter",
    "preset",
    default="default",
    show_default=True,
    metavar="NAME|FILE",
    help=f"What may become a reference: {', '.join(PRESETS)}, or a TOML file. default is what the generator needs: "
    "good-writer for language models, lists without scores and peers, small-model for all others. Copies and "
    "duplicates never become one.",
)
@click.option(
    "--select",
    default="rank",
    show_default=True,
    metavar="NAME",
    help="Which of what passes the filter: rank or mmr[:LAMBDA].",
)
@click.option("--dropped", metavar="FILE", help="Write the candidates that the filter drops, with the reasons.")
@click.option("--lang", metavar="CODE", help="Language of the references. [default: told by them]")
@click.option("--force", is_flag=True, help="Take text in a language that the model does not write.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on stdout (needs -o).")
@quiet_option
def command(
    references: tuple[str, ...],
    reading: Reading,
    k: int | None,
    output: str,
    candidates: tuple[str, ...],
    peers: tuple[str, ...],
    loading: dict[str, Any],
    search: dict[str, Any],
    sentences: str,
    rewriting: dict[str, Any],
    preset: str,
    select: str,
    dropped: str | None,
    lang: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Add paraphrases to a set of references.

    REFS is one or more plain text files with one segment a line (several are several human references), - for
    stdin, a reference set as this command writes it, or references in any other form: TSV, CSV, JSON, n-best lists, WMT
    XML and SGML, the folder of a test set. Tables and JSON with columns of unusual names need --fields. The result is
    JSONL, one segment a line.

    By default, for English, candidates come from a table of words, and from a small model by diverse beam search: it
    offers only what it judges to mean the same. With any option of the search itself (--semantics to
    --sampling-epsilon), they are the engine's own list, unjudged; --seed is recorded, and counts where candidates are
    drawn.

    With --candidates, lists that were made elsewhere are filtered, selected and recorded, and no model is loaded. They
    are matched to the references by id, or by line where they have no ids of their own. A text that they hold must be a
    reference of the segment.

    Without REFS, or with a set without human references, the sources (--source) are translated from the first language
    of -l into the second: -l en-de. Such references are of the kind translation.

    With --peers, the outputs of systems that are not compared become pseudo-references; copies are left out.

    A run with -o that was interrupted is taken up where it stopped by the same command: until it is done, finished
    work lies in FILE.partial.
    """
    if as_json and output == "-":
        raise UsageError("--json prints the summary on stdout, where the reference set goes", remedy="name a file: -o")
    if as_json and dropped == "-":
        raise UsageError("--json prints the summary on stdout, where --dropped goes", remedy="name a file")
    refuse_second_reader([*references, *candidates, *peers])
    engine = None
    if loading["engine"] != "local" or loading["address"] or loading["gpus"]:
        engine = Engine.on(*(loading[name] for name in ("device", "engine", "jobs", "address", "gpus")))
    options = AugmentOptions(
        k,
        filters=preset,
        select=select,
        sentences=sentences,
        lang=lang,
        pair=reading.pair,
        candidates=candidates,
        peers=peers,
        seed=search["seed"],
        force=force,
        loading=loading_from(loading, search["semantics"]),
        engine=engine,
    )
    # Without references, the sources are not shown to language models, but translated.
    of_models = rewriting if references else {**rewriting, "source": None}
    if options.without_generator and not (candidates and was_given("model")):
        refuse_idle("--peers" if peers else "--candidates", (loading, search, of_models))
        generators: list[Wanted] = []
    else:
        _, generators = generators_from(None, options.asked, loading, search, of_models, output)
    way, requests = rewriting["batch"] or (None, "")
    read = [*references, *candidates, *peers, rewriting["source"], rewriting["prompt"]]
    read += [preset if preset not in PRESETS else None, requests if way == "read" else None]
    journals = answers_of(generators) + ([] if is_stream(output) else [str(journal_path(output))])
    written = requests if way == "write" else None
    refuse_overwriting(read, output, dropped, written, journals=journals, models=loading["model"])
    check_output(output, dropped)
    with ExitStack() as stack, listening(bars):
        context = (rewriting["context"] or 0) if any(one.rewriting for one in generators) else None
        inputs = stack.enter_context(open_inputs(references, reading, source=rewriting["source"], context=context))
        work = plan(inputs, generators, options, stack, partial(note_language, inputs.names[0]))
        if written is not None:
            _write_requests(work.source, inputs.segments(), written)
            return
        said = partial(_say_resumed, output)
        tally = augment_file(inputs, output, work, dropped, progress=True, engine=options.engine, resumed=said)
    say(tally.summary(work.filters.reasons, work.k, work.source.longest))
    filters = filters_in(preset, work.source.needs)
    _say_filters(filters)
    asked = work.source.paraphrasers if any(one.rewriting for one in generators) else ()
    rows = [row for one in asked if (row := summary(one, rewriting))]
    for warning in tally.warnings(translated=work.source_lang is not None):
        tell("warning", warning)
    if as_json:
        more = {"models": rows} if len(rows) > 1 else rows[0] if rows else {}
        click.echo(json_object(work.signature, [{"filter": filters, **tally.as_row(work.filters.reasons), **more}]))


def _write_requests(source: Source, segments: Iterable[Segment], path: str) -> None:
    """Write what would be asked for these references as a batch, and say so."""
    from polyref.paraphrase.rewriting.answers import write_batch
    from polyref.paraphrase.rewriting.rewriter import Rewriter

    paraphraser = source.paraphraser if isinstance(source, Generated) else None
    if not isinstance(source, Generated) or not isinstance(paraphraser, Rewriter):
        raise UsageError(
            "--batch write is for one language model that reads whole texts: no --candidates, no --sentences all"
        )
    texts = [ref.text for segment in segments for ref in segment.originals if ref.text.strip()]
    for _ in paraphraser.paraphrase(texts, source.asked):
        pass
    count = write_batch(paraphraser.asker.unanswered.values(), path)
    say(f"polyref: {count} requests for {len(texts)} references are in {path}")


def _say_resumed(output: str, segments: int) -> None:
    """Say how many segments were finished by a run that was interrupted."""
    say(f"polyref: {segments} segments are finished in {shown(str(journal_path(output)))}: going on")


def _say_filters(filters: Mapping[str, str]) -> None:
    """Say which filters held, and why."""
    what = "; ".join(f"{shown(name)}, {'by' if why == '--filter' else 'for'} {why}" for name, why in filters.items())
    say(f"polyref: filter {what}{'' if '--filter' in filters.values() else ' (--filter names another)'}")
