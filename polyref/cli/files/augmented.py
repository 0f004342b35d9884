"""The files of ``polyref augment``: which it may read and write, and the unfinished work beside its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyref.augment.filters import PRESETS
from polyref.augment.inputs import Inputs
from polyref.augment.language import check_sources
from polyref.augment.writer import journal_path
from polyref.cli.files.overwriting import refuse_overwriting, refuse_second_reader
from polyref.cli.options.origin import Origin
from polyref.cli.options.quiet import say
from polyref.cli.options.rewriting import answer_files
from polyref.errors import UsageError
from polyref.paraphrase import Paraphraser
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
