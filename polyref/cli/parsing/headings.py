"""Help with the common options first, and the others under headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from polyref.cli.parsing.variadic import MultiCommand


class HeadedOption(click.Option):
    """An option that stands under a heading of the help; without one, among the common options."""

    def __init__(self, *args: Any, heading: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


class HeadedCommand(MultiCommand):
    """A command whose help has headings.

    Args:
        headings: Heading to parameters of the command that stand under it; those of a :class:`HeadedOption` say it
            themselves.
    """

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headings = {name: heading for heading, names in (headings or {}).items() for name in names}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading, in the order in which headings come up."""
        sections: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = getattr(parameter, "heading", "") or self._headings.get(parameter.name or "", "")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading or "Options"):
                formatter.write_dl(records)
