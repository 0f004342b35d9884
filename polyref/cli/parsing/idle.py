"""Options that have no use beside the others are refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from polyref.errors import UsageError


class CheckedCommand(click.Command):
    """A command that refuses options without a use before it runs.

    Args:
        needs: Parameter -> others, one of which has to be given with it.
        useless: Parameter -> others beside which it has no use. ``layout=latex`` is one with that value.
    """

    def __init__(
        self,
        *args: Any,
        needs: Mapping[str, Sequence[str]] | None = None,
        useless: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._needs, self._useless = needs or {}, useless or {}

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse, or run."""
        for name, others in self._needs.items():
            if was_given(name, ctx) and not any(was_given(other, ctx) for other in others):
                flags = [_spelt(other, ctx) for other in others]
                raise UsageError(
                    f"{_spelt(name, ctx)} has no use without {' or '.join(flags)}",
                    remedy=f"add {flags[0]}, or leave it out",
                )
        for name, others in self._useless.items():
            beside = next((other for other in others if was_given(other, ctx)), None)
            if was_given(name, ctx) and beside is not None:
                raise UsageError(
                    f"{_spelt(name, ctx)} has no use with {_spelt(beside, ctx)}", remedy="leave one of them out"
                )
        return super().invoke(ctx)


def was_given(name: str, context: click.Context | None = None) -> bool:
    """Whether a parameter of the command that runs was given; ``name=value``: with that value."""
    context = context or click.get_current_context()
    name, sign, value = name.partition("=")
    given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return given and (not sign or str(context.params[name]) == value)


def _spelt(name: str, context: click.Context) -> str:
    """The flag of a parameter, with its value where one is named."""
    name, _, value = name.partition("=")
    (option,) = (one for one in context.command.params if one.name == name)
    return f"{next((flag for flag in option.opts if flag.startswith('--')), option.opts[0])} {value}".strip()
