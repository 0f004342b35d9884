"""``--threads``: on how many threads a command computes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

#: What libraries of matrix products and torch read when they are loaded.
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def threads_option(command: Command) -> Command:
    """Add the option; it is obeyed without the command's doing."""
    return click.option(
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_obeyed,
        help="CPU threads of networks and matrix products. [default: the libraries' own]",
    )(command)


def announce_threads(arguments: Sequence[str]) -> None:
    """Tell libraries that are not loaded yet how many threads they may start, before a command is imported."""
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--threads" and "numpy" not in sys.modules:
            value = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if value.isdecimal() and int(value):
                os.environ.update(dict.fromkeys(_VARIABLES, value))


def _obeyed(context: click.Context, _option: click.Parameter, threads: int | None) -> None:
    context.meta["polyref.threads"] = threads  # for who repeats the command line
    if threads is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
