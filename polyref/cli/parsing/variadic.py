"""Options that take several values after one flag, as sacreBLEU's do: ``-i sysA sysB -m bleu chrf -k 0 1 5``.

Numbers, choices and names may also stand in one value, with commas: ``-k 0,1,5``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import click

from polyref.cli.parsing.idle import CheckedCommand

#: Parameters that take names, none of which has a comma. Metrics are told apart by their own reader.
_NAMES: Final = frozenset({"pairs", "statistics"})
_NUMBER = re.compile(r"-\d+(\.\d*)?([eE][+-]?\d+)?|-\.\d+")


class MultiCommand(CheckedCommand):
    """A command whose ``multiple=True`` options also accept several values after one flag.

    ``-k 0 1 5`` is rewritten to ``-k 0 -k 1 -k 5`` before click parses it: values are read up to the next option.
    Positional arguments therefore come before such an option, or after ``--``, as with argparse. ``-k 0,1,5`` is the
    same.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spread the values, then parse as usual."""
        return super().parse_args(ctx, list(spread(args, *self._flags(ctx))))

    def _flags(self, ctx: click.Context) -> tuple[set[str], set[str]]:
        """Flags of all options of several values, and of those whose values have no commas."""
        options = [
            parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and parameter.multiple
        ]
        plain = (click.types.IntParamType, click.types.FloatParamType, click.Choice)
        return {flag for option in options for flag in option.opts}, {
            flag
            for option in options
            if isinstance(option.type, plain) or option.name in _NAMES
            for flag in option.opts
        }

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Usage with ``...`` where several values are taken."""
        pieces: list[str] = []
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                pieces.append(parameter.make_metavar(ctx))
            elif isinstance(parameter, click.Option) and parameter.multiple:
                text = f"{parameter.opts[0]} {parameter.make_metavar(ctx)}..."
                pieces.append(text if parameter.required else f"[{text}]")
        formatter.write_usage(ctx.command_path, " ".join([*pieces, "[OPTIONS]"]))


def spread(args: Iterable[str], flags: set[str], lists: Collection[str] = ()) -> Iterator[str]:
    """Repeat each flag in ``flags`` before every one of its values; of those in ``lists``, commas part values as well.

    >>> list(spread(["refs", "-k", "0", "1", "--json"], {"-k"}))
    ['refs', '-k', '0', '-k', '1', '--json']
    >>> list(spread(["refs", "-k", "0,1"], {"-k"}, {"-k"}))
    ['refs', '-k', '0', '-k', '1']
    """
    flag: str | None = None
    fresh = False  # a flag was just read and has no value yet
    rest = False  # after `--` everything is positional
    for arg in args:
        if rest:
            yield arg
        elif arg == "--":
            flag, rest = None, True
            yield arg
        elif arg.startswith("-") and arg != "-" and not _NUMBER.fullmatch(arg):
            flag = arg if arg in flags else None
            fresh = flag is not None
            yield arg
        elif flag is not None:
            parts = [part for part in arg.split(",") if part] if flag in lists else [arg]
            for part in parts or [arg]:
                if not fresh:
                    yield flag
                fresh = False
                yield part
        else:
            yield arg
