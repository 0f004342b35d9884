"""``polyref convert``: files of one kind written as another."""

from __future__ import annotations

from typing import Final

import click

from polyref.cli.parsing.lazy import LazyGroup

# Command -> its module, one line of help.
CONVERSIONS: Final[dict[str, tuple[str, str]]] = {
    "refs": ("polyref.cli.conversion.refs", "References in another form: tables, JSON, XML, plain files ..."),
}


@click.group(cls=LazyGroup, commands_in=CONVERSIONS)
def command() -> None:
    """Write references in another format."""
