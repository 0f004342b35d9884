"""What the shell completes: files and names, also after the first value of an option that takes several."""

from __future__ import annotations

import os
import re
from typing import Final

import click
from click.shell_completion import CompletionItem, split_arg_string

#: In what stands for a value: it is a file or a folder, or may be one.
_PLACE: Final = re.compile(r"\b(FILES?|DIR|FOLDER|REFS|SYS|IN|OUT|SRC|MODEL)\b")


class FileName(click.types.StringParamType):
    """Text that the shell completes to the name of a file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Files."""
        return [CompletionItem(incomplete, type="file")]


def complete_file_names(command: click.Command) -> None:
    """Have the shell complete files wherever a command takes one."""
    for parameter in command.params:
        if parameter.type is click.STRING and _PLACE.search(parameter.metavar or ""):
            parameter.type = FileName()


def argument_or_option(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completions of an argument that is a file, or of the option whose values come last: ``-m bleu <TAB>``."""
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    flag = next((word for word in reversed(words) if word.startswith("-") and word not in ("-", incomplete)), None)
    for option in context.command.get_params(context):
        if isinstance(option, click.Option) and option.multiple and flag in option.opts:
            return option.shell_complete(context, incomplete)
    return [CompletionItem(incomplete, type="file")]


def metric_names(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of metrics."""
    from polyref.metrics.registry import metric_names

    return [CompletionItem(name) for name in metric_names() if name.startswith(incomplete)]


def file_names(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(incomplete, type="file")]
