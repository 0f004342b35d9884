"""``-q``: how much a command says on stderr beside its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_KEY: Final = "polyref.quiet"


def quiet_option(command: Command) -> Command:
    """Add the option; it is obeyed without the command's doing."""
    return click.option(
        "-q",
        "--quiet",
        count=True,
        expose_value=False,
        callback=lambda _context, _option, times: silence(times),
        help="No bars, no summary and no notes; warnings stay. -qq: no warnings either.",
    )(command)


def silence(times: int) -> None:
    """Let the command that runs say less: 1 leaves out bars, summaries and notes, 2 warnings as well."""
    click.get_current_context().meta[_KEY] = times


def quietness() -> int:
    """How often -q is given, 0 where no command runs."""
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(_KEY, 0))


def say(summary: str) -> None:
    """What was done, for people, on stderr."""
    if not quietness():
        click.echo(summary, err=True)
