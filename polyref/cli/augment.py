"""The files of ``polyref augment``: which it may read and write, and the unfinished work beside its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from polyref.augment.filters import PRESETS, filter_chain, filters_in, fitting_chain
from polyref.augment.inputs import Inputs
from polyref.augment.language import check_sources
from polyref.augment.pipeline import Augmentation, filtered_sentences
from polyref.augment.selection import selection
from polyref.augment.writer import augment_file, check_output, journal_path
from polyref.cli.declared import reading_options
from polyref.cli.options.augment import input_options, output_options
from polyref.cli.options.generation import GeneratingCommand, arithmetic, engine_from, generation_options, options_for
from polyref.cli.options.origin import Origin, generators_from, languages_from, source_from, use_filter_threads
from polyref.cli.options.rewriting import (
    answer_files,
    of_generators,
    open_inputs,
    rewriting_options,
    summaries,
    write_requests,
)
from polyref.cli.options.search import SENTENCES
from polyref.cli.overwriting import refuse_overwriting, refuse_second_reader
from polyref.cli.printing import bars, json_object, say, tell
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.paraphrase import Paraphraser, load_paraphraser
from polyref.progress import listening
from polyref.tables import shown
from polyref.textfiles import is_stream


def check_files(
    references: Sequence[str],
    origin: Origin,
    preset: str,
    rewriting: Mapping[str, Any],
    models: Sequence[str],
    output: str,
    dropped: str | None,
    *,
    as_json: bool,
) -> None:
    """Refuse files that are read and written, and standard input and output for two things.

    Args:
        references: Files of references.
        origin: Where candidates come from.
        preset: Name of a filter, or its file.
        rewriting: Values of the options of language models.
        models: The generators, as they were named.
        output: Where the set goes.
        dropped: Where what the filter drops goes.
        as_json: Whether the summary goes to standard output.
    """
    if as_json and output == "-":
        raise UsageError("--json prints the summary on stdout, where the reference set goes", remedy="name a file: -o")
    if as_json and dropped == "-":
        raise UsageError("--json prints the summary on stdout, where --dropped goes", remedy="name a file")
    refuse_second_reader([*references, *origin.files])
    way, batch = rewriting["batch"] or (None, None)
    chain_file = preset if preset not in PRESETS else None
    read = [*references, *origin.files, chain_file, rewriting["source"], rewriting["prompt"]]
    reads, writes = (batch, None) if way == "read" else (None, batch)
    journals = answer_files(models, rewriting["answers"], output)
    if not is_stream(output):
        journals.append(str(journal_path(output)))
    refuse_overwriting([*read, reads], output, dropped, writes, journals=journals, models=models)


def check_texts(paraphraser: Paraphraser, inputs: Inputs, language: str, source_lang: str | None) -> None:
    """Refuse references, or sources to be translated, that are clearly in another language than they should be."""
    texts = (ref.text for segment in inputs.segments() for ref in segment.originals)
    if source_lang is None:
        paraphraser.check_texts(texts, language, inputs.names[0])
    else:
        check_sources(texts, source_lang, inputs.names[0])


def say_resumed(output: str, segments: int) -> None:
    """Say how many segments were finished by a run that was interrupted."""
    journal = shown(str(journal_path(output)))
    say(f"polyref: {segments} segments are finished in {journal}: going on")


def say_filters(filters: Mapping[str, str]) -> None:
    """Say which filters held, and why; see :func:`polyref.augment.filters.filters_in`."""
    what = "; ".join(f"{shown(name)}, {'by' if why == '--filter' else 'for'} {why}" for name, why in filters.items())
    say(f"polyref: filter {what}{'' if '--filter' in filters.values() else ' (--filter names another)'}")


@click.command("augment", cls=GeneratingCommand)
@input_options
@reading_options(sources=True)
@generation_options(several=True)
@SENTENCES
@rewriting_options(sets=True)
@output_options
def command(
    references: tuple[str, ...],
    reading: Reading,
    k: int | None,
    output: str,
    origin: Origin,
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

    The candidates come from diverse beam search by default. With any option of the search itself (--semantics to
    --sampling-epsilon) they are the engine's own list; --seed is recorded, and counts where candidates are drawn.

    With --candidates, lists that were made elsewhere are filtered, selected and recorded, and no model is loaded. They
    are matched to the references by id, or by line where they have no ids of their own. A text that they hold must be a
    reference of the segment.

    Without REFS, or with a set without human references, the sources (--source) are translated from the first language
    of -l into the second: -l en-de. Such references are of the kind translation.

    With --peers, the outputs of systems that are not compared become pseudo-references; copies are left out.

    A run with -o that was interrupted is taken up where it stopped by the same command: until it is done, finished
    work lies in FILE.partial.
    """
    check_files(references, origin, preset, rewriting, loading["model"], output, dropped, as_json=as_json)
    way, requests = rewriting["batch"] or (None, "")
    wanted, seed = origin.wanted(k), search["seed"]
    engine = engine_from(loading)
    generators = generators_from(origin, wanted, loading, search, of_generators(references, rewriting), output)
    chosen = selection(select)
    check_output(output, dropped)
    loaded: list[Paraphraser] = []

    def load(name: str, **options: Any) -> Paraphraser:
        options = options_for(name, loading, options, inputs.length, also)
        loaded.append(load_paraphraser(name, lang=language, source_lang=source_lang, **options))
        stack.callback(loaded[-1].close)
        if not force:
            check_texts(loaded[-1], inputs, language, source_lang)
        own = filter_chain(preset, language, loaded[-1].need, models=False, source_lang=source_lang)
        return filtered_sentences(loaded[-1], own, source_lang or language, sentences, copies=source_lang is None)

    with ExitStack() as stack, listening(bars):
        models = loading["model"] if generators else ()
        inputs = stack.enter_context(open_inputs(references, reading, models, rewriting))
        language, source_lang, note = languages_from(lang, inputs, models, reading.pair)
        filter_chain(preset, language, models=False, source_lang=source_lang)  # refused before anything is loaded
        also = use_filter_threads(loading["threads"], preset, origin, generators)
        source = source_from(origin, inputs, generators, load, stack, reading.pair)
        note()
        if way == "write" and requests:
            write_requests(source, inputs.segments(), requests)
            return
        chain = fitting_chain(preset, language, source.needs, source_lang)
        work = Augmentation(source, wanted, chain, language, seed, chosen, arithmetic(loading), source_lang)
        said = partial(say_resumed, output)
        tally = augment_file(inputs, output, work, dropped, progress=True, engine=engine, resumed=said)
    say(tally.summary(chain.reasons, wanted))
    say_filters(filters := filters_in(preset, source.needs))
    more = summaries(loaded, rewriting)
    for warning in tally.warnings(translated=source_lang is not None):
        tell("warning", warning)
    if as_json:
        click.echo(json_object(work.signature, [{"filter": filters, **tally.as_row(chain.reasons), **more}]))
