"""The options of every command that generates paraphrases, declared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model", default="shipped", show_default=True, metavar="NAME|DIR", help="`shipped`, or a model folder."
    ),
    click.option("--beam", type=int, metavar="B", help="Beam over all groups. [default: twice the groups]"),
    click.option("--groups", type=int, metavar="G", help="Diverse beam groups. [default: half of the candidates]"),
    click.option("--strength", type=float, metavar="L", help="Diversity strength. [default: the model's own]"),
    click.option(
        "--closeness",
        type=int,
        metavar="0..3",
        help="How near to the source a shipped model stays: 0 free, 3 near copies. [default: the model's own]",
    ),
    click.option("--device", default="cpu", show_default=True, help="Torch device."),
    click.option("--threads", type=int, metavar="N", help="CPU threads. [default: torch's]"),
)


def generation_options(command: F) -> F:
    """Add ``--model --beam --groups --strength --closeness --device --threads`` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
