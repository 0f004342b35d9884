"""``polyref convert refs``: references of one form written in another."""

from __future__ import annotations

from contextlib import ExitStack

import click

from polyref.cli.commands import LazyGroup
from polyref.cli.files import reading_options, refuse_overwriting
from polyref.cli.options import HeadedCommand
from polyref.cli.printing import tell
from polyref.formats import Reading, open_references
from polyref.formats.own import Spool
from polyref.formats.writing import WRITTEN, save
from polyref.textfiles import STDOUT_NAME, display_name


@click.group(cls=LazyGroup)
def command() -> None:
    """Write references in another format."""


@command.command("refs", cls=HeadedCommand, short_help="References in another form: tables, JSON, XML, plain files ...")
@click.argument("references", nargs=-1, metavar="IN...")
@click.argument("target", metavar="OUT")
@click.option("--to", metavar="FORM", help=f"Form to write: {', '.join(WRITTEN)}. [default: what OUT's suffix says]")
@reading_options(lang=True)
def refs(references: tuple[str, ...], reading: Reading, target: str, to: str | None) -> None:
    """Write references in another form.

    IN is what `polyref augment` takes. OUT is a file: .jsonl is polyref's normal form, .tsv and .csv are tables, .xml
    and .sgm are WMT's, .json is COMET's, anything else is plain text. Several references are several plain files: put
    {} into the name, or name a folder. What the form cannot hold is said.

    \b
    polyref convert refs refs.polyref.jsonl 'refs.{}.en'     # files for sacreBLEU
    polyref convert refs newstest2021.zh-en.xml refs.jsonl
    polyref convert refs refs.polyref.jsonl wmt22 --to mt-metrics-eval -l zh-en
    """  # noqa: D301
    refuse_overwriting(references, target)
    with ExitStack() as stack:
        opened = open_references(references, stack, reading)
        lost = save(Spool(stack, opened.segments), opened.meta, target, to, reading.pair)
    if lost:
        tell("note", f"{STDOUT_NAME if target == '-' else display_name(target)} cannot hold {'; '.join(lost)}")
