"""Groups of commands that are imported when they run, so that help stays light."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from polyref.cli.parsing.gone import gone_command


class LazyGroup(click.Group):
    """A group whose commands are ``command`` in modules of their own, imported on use.

    Args:
        commands_in: Command -> its module and one line of help, in the order of the work.
    """

    def __init__(self, *args: Any, commands_in: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = {name: module for name, (module, _) in commands_in.items()}
        self._help = [(name, line) for name, (_, line) in commands_in.items()]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in order."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = import_module(self._modules[cmd_name]).command
        if ctx.resilient_parsing:  # the shell asks what a line may go on with
            from polyref.cli.parsing.completion import complete_file_names

            complete_file_names(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, noting which command runs in the list that the entry point gave."""
        if args[0] not in self._modules and not args[0].startswith("-") and not ctx.resilient_parsing:
            if instead := gone_command(ctx, args[0]):
                ctx.fail(instead)
            near = get_close_matches(args[0], self._modules)
            meant = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(self._modules)}"
            ctx.fail(f"no command {args[0]!r}: {meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and ctx.obj is not None:
            ctx.obj.append(command)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(self._help)
