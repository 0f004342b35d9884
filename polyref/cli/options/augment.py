"""The options of ``polyref augment``, but those of generators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from polyref.augment.filters import PRESETS
from polyref.cli.commands import argument_or_option
from polyref.cli.options.origin import Origin
from polyref.cli.printing import quiet_option

Command = TypeVar("Command", bound=Callable[..., Any])

_FIRST = (
    click.argument("references", nargs=-1, metavar="REFS...", shell_complete=argument_or_option),
    click.option("-k", "k", type=int, metavar="K", help="Paraphrases a segment. [default: 10]"),
    click.option("-o", "--output", default="-", metavar="FILE", help="Where to write. [default: stdout]"),
)
_ORIGIN = (
    click.option(
        "--candidates",
        multiple=True,
        metavar="FILE",
        help="Take candidates from lists made elsewhere, and load no model unless --model names one: n-best lists, "
        "reference sets, or plain text files, which are one list together.",
    ),
    click.option(
        "--peers",
        multiple=True,
        metavar="SYS",
        help="Add the outputs of these systems as pseudo-references: a fixed pool that is not compared. No model; "
        "-k is all of them.",
    ),
)
_LAST = (
    click.option(
        "--filter",
        "preset",
        default="default",
        show_default=True,
        metavar="NAME|FILE",
        help=f"What may become a reference: {', '.join(PRESETS)}, or a TOML file. default is what the generator needs: "
        "good-writer for language models, lists without scores and peers, small-model for all others. Copies and "
        "duplicates never become one.",
    ),
    click.option(
        "--select",
        default="rank",
        show_default=True,
        metavar="NAME",
        help="Which of what passes the filter: rank or mmr[:LAMBDA].",
    ),
    click.option("--dropped", metavar="FILE", help="Write the candidates that the filter drops, with the reasons."),
    click.option("--lang", metavar="CODE", help="Language of the references. [default: told by them]"),
    click.option("--force", is_flag=True, help="Take text in a language that the model does not write."),
    click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on stdout (needs -o)."),
    quiet_option,
)


def input_options(command: Command) -> Command:
    """Decorate the command with what it reads and where it writes; it gets an ``origin``."""
    names = Origin.__dataclass_fields__

    @wraps(command)
    def gathered(**values: Any) -> Any:
        return command(origin=Origin(**{name: values.pop(name) for name in names}), **values)

    made: Any = gathered
    for option in reversed((*_FIRST, *_ORIGIN)):
        made = option(made)
    return made  # type: ignore[no-any-return]


def output_options(command: Command) -> Command:
    """Decorate the command with how candidates are filtered and what is told of it."""
    for option in reversed(_LAST):
        command = option(command)
    return command
