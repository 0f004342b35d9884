"""Messages of the library in the words of a command: its flags for the names of parameters."""

from __future__ import annotations

import re
from typing import Final

import click

_PARAMETER: Final = re.compile(r"`([a-z]\w*)`")
#: Parameter of the library -> what it is at the command line, where neither an option's flag nor its name says so. A
#: command has one of these.
_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "ks": ("-k",),
    "data": ("SET_DIR...", "SET_DIR"),
    "metrics": ("-m",),
    "normalize": ("--unnormalized",),
    "output": ("-o",),
    "pairs": ("-l",),
    "references": ("--refs", "REFS..."),
    "sources": ("--source",),
    "statistics": ("--statistic",),
    "systems": ("-i",),
}


def in_flags(message: str, command: click.Command | None) -> str:
    """A message of the library with the flags of a command where it names its parameters in backticks.

    What the command has no option for stays as it is.
    """
    if command is None:
        return message
    flags = _flags(command) | _of_metric(message, command)
    return _PARAMETER.sub(lambda found: flags.get(found[1], found[0]), message)


def _flags(command: click.Command) -> dict[str, str]:
    """Name of a parameter of the library -> the option or argument of the command."""
    flags: dict[str, str] = {}
    there = set()
    for parameter in command.params:
        name = parameter.name or ""
        if isinstance(parameter, click.Argument):
            flags[name] = parameter.metavar or name.upper()
            there.add(flags[name])
            continue
        flags[name] = max(parameter.opts, key=len)
        there.update(parameter.opts)
    flags |= {flag.removeprefix("--").replace("-", "_"): flag for flag in there if flag.startswith("--")}
    return flags | {name: flag for name, known in _ALIASES.items() for flag in reversed(known) if flag in there}


def _of_metric(message: str, command: click.Command) -> dict[str, str]:
    """The flags of the metric that a message begins with, by the names of its options: ``chrf++: `beta` ...``."""
    owner = message.partition(": ")[0].replace("-", "_").removesuffix("++").removesuffix("_src")
    own = {name: option for option in command.params if (name := option.name or "").startswith(f"{owner}_")}
    return {name.removeprefix(f"{owner}_"): max(option.opts, key=len) for name, option in own.items()}
