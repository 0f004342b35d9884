"""Options whose help lists names that plug-ins add to; the shell completes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem


class ListingOption(click.Option):
    """An option whose help ends with names, looked up only when the help is shown: that takes its time.

    Args:
        names: Gives the names.
    """

    def __init__(self, *args: Any, names: Callable[[], Sequence[str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._names = names
        self._before = self.help

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names."""
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help."""
        self.help = f"{self._before} {', '.join(self._names())}."
        return super().get_help_record(ctx)
