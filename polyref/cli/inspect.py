"""``polyref inspect``: what a reference set holds."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from polyref.cli.files import reading_options, refuse_overwriting
from polyref.cli.options import HeadedCommand, options_of, quiet_option, threads_option
from polyref.cli.printing import bars, json_object
from polyref.cli.scored_files import read_scored
from polyref.errors import UsageError
from polyref.eval.inspection.inspection import EXAMPLES, SAMPLE, inspect
from polyref.eval.inspection.views import Mark, brackets
from polyref.formats import Reading, open_references
from polyref.formats.own import Spool
from polyref.options import option
from polyref.progress import listening
from polyref.publishing import check_writable, write_atomically
from polyref.references import ReferenceSet
from polyref.textfiles import display_name


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How much is looked at."""

    examples: int = option(EXAMPLES, short="-n", least=0, help="Segments to read; the terminal shows three.")
    sample: int = option(SAMPLE, least=1, help="Most segments to look for faults in and measure diversity on.")
    seed: int = option(1, least=0, help="Chooses the random segments.")


@click.command("inspect", cls=HeadedCommand)
@click.argument("references", nargs=-1, metavar="REFS...")
@reading_options(lang=True)
@click.option("-i", "--input", "inputs", multiple=True, metavar="SYS", help="System outputs to look for among them.")
@click.option("-o", "--output", metavar="FILE", help="Write an HTML page as well; -: to stdout, instead of the text.")
@click.option("--dropped", metavar="FILE", help="Refused candidates, as `polyref augment --dropped` wrote them.")
@options_of(Looking)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@quiet_option
@threads_option
def command(
    references: tuple[str, ...],
    reading: Reading,
    inputs: tuple[str, ...],
    output: str | None,
    dropped: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Look at a set of references.

    Some segments to read, those with faults first; how many references there are, who made them, how many are copies,
    how likely and how different they are, why candidates were refused. REFS is what the other commands read: a
    reference set, or plain text files. Candidates that the filter refused are shown with --dropped. With -i, it says
    whether outputs of these systems are among the added references.

    \b
    polyref inspect refs.polyref.jsonl
    polyref inspect refs.polyref.jsonl -i sysA.en sysB.en
    polyref inspect refs.polyref.jsonl --dropped dropped.jsonl -o refs.html
    """  # noqa: D301
    if as_json and output == "-":
        raise UsageError("--json and -o - both print on stdout", remedy="name a file: -o")
    if [*references, *inputs, dropped].count("-") > 1:
        raise UsageError("standard input (-) is named twice")
    refuse_overwriting([*references, *inputs, dropped], output)
    if output is not None:
        check_writable(output)
    name = " ".join(Path(display_name(path)).name for path in references)
    with ExitStack() as stack, listening(bars):
        if inputs:
            refset, systems, _ = read_scored(references, inputs, None, reading, hold=partial(Spool, stack))
        else:
            opened = open_references(references, stack, reading)
            refset, systems = ReferenceSet(Spool(stack, opened.segments), opened.meta), None
        found = inspect(refset, name=name, dropped=dropped, systems=systems, **how)
    if output is not None:
        found.save(output)
    if output == "-":
        return
    with write_atomically("-") as stream:
        text = json_object(found.signature, found.rows) if as_json else found.text(_mark())
        stream.write(f"{text}\n")


def _mark() -> Mark:
    """Colours on a terminal, brackets elsewhere."""
    return _coloured if sys.stdout is not None and sys.stdout.isatty() else brackets


def _coloured(change: str, text: str) -> str:
    gone = change == "gone"
    return click.style(text, fg="red" if gone else "green", strikethrough=gone, underline=not gone)
