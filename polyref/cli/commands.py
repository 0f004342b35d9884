"""How words become commands: several values after a flag, headings of the help, what has no use or has gone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem, split_arg_string

from polyref.errors import UsageError

_COMBINING: Final = {
    "--combine consensus": "use `--combine expected`",
    "--combine soft": "use `--combine blend`, which lies between the human references and the added ones",
    "--share": "leave it out; `--combine expected` is consensus with a share of 0",
    "--temperature": "leave it out; `--combine blend` has `--blend`",
}
_TURNS: Final = (
    "`--share` has gone: generators take turns; for other parts, augment with one, then augment that set with the "
    "next, each with its `-k`"
)

#: (command, option) -> what to do instead; no option: the command has gone. Commands are as they are typed after
#: ``polyref``. An option may be followed by the one value that has gone: ``("score", "--combine soft")``.
GONE: Final[dict[tuple[str, str], str]] = {
    ("train", ""): "`polyref train` has gone: in the repository, scripts/esim/train.py trains ESIM, and "
    "scripts/bertscore_baseline.py computes baselines",
    ("convert model", ""): "`polyref convert model` has gone: scripts/convert_model.py in the repository does it",
    ("augment", "--share"): _TURNS,
    ("augment", "--merge"): "`--merge` has gone: generators and lists take turns, leave it out",
    ("augment", "--keep-dropped"): "`--keep-dropped` has gone: `--dropped FILE` writes what the filter drops",
    ("augment", "--refilter"): "`--refilter` has gone: repeat the command that made the set with another `--filter`, "
    "which searches nothing again",
    ("info", "--lang"): "`--lang` has gone: docs/how-to/use-other-models.md has a table of generators by language",
    ("evaluate", "--hybrids"): "`--hybrids` has gone: --pairwise counts the pairs of systems that a metric gets right",
    ("evaluate", "--sizes"): "`--sizes` has gone: the bootstrap's intervals say how sure a set of this size is",
    ("evaluate", "--length-buckets"): "`--length-buckets` has gone: cut the set into parts and evaluate each",
    ("evaluate", "--keep"): "`--keep` has gone: leave it out, the cache keeps statistics (polyref cache info)",
    **{(by, old): f"`{old}` has gone: {new}" for by in ("evaluate", "score") for old, new in _COMBINING.items()},
}
#: The same of options that other programs have.
OF_OTHERS: Final[dict[tuple[str, str], str]] = {
    ("score", flag): f"`{flag}` is no option: references come first, as in `polyref score REFS -i SYS`"
    for flag in ("--ref", "--refs", "--reference", "--references", "-r")
}


def gone_command(group: click.Context, name: str) -> str | None:
    """What to do instead of a command of a group, if it has gone."""
    return GONE.get((f"{_typed(group)} {name}".strip(), ""))


def gone_option(error: click.UsageError) -> str | None:
    """What to do instead, where the mistake is an option, or a value of one, that has gone."""
    if error.ctx is None:
        return None
    command = _typed(error.ctx)
    if isinstance(error, click.NoSuchOption):
        return {**GONE, **OF_OTHERS}.get((command, error.option_name))
    if isinstance(error, click.BadParameter) and error.param is not None:
        for flag in error.param.opts:
            for (of, option), instead in GONE.items():
                if of == command and option.startswith(f"{flag} ") and repr(option.split()[1]) in error.message:
                    return instead
    return None


def _typed(context: click.Context) -> str:
    """The words of a command after the program's own."""
    return context.command_path.partition(" ")[2]


class CheckedCommand(click.Command):
    """A command that refuses options that have no use beside the others, before it runs."""

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse, or run."""
        given = [one for one in self.params if isinstance(one, HeadedOption) and was_given(one.name or "", ctx)]
        for one in given:
            if one.needs and not any(was_given(other, ctx) for other in one.needs):
                flags = [_spelt(other, ctx) for other in one.needs]
                raise UsageError(
                    f"{_spelt(one.name or '', ctx)} has no use without {' or '.join(flags)}",
                    remedy=f"add {flags[0]}, or leave it out",
                )
        for one in given:
            if beside := next((other for other in one.without if was_given(other, ctx)), None):
                raise UsageError(
                    f"{_spelt(one.name or '', ctx)} has no use with {_spelt(beside, ctx)}",
                    remedy="leave one of them out",
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


class HeadedOption(click.Option):
    """An option of a command that says more of itself than click asks.

    Args:
        heading: It stands under this heading of the help; without one, among the common options.
        names: Gives names that it may be, which the shell completes. A help text that ends with a colon goes on with
            them: they are looked up only when it is shown, because plug-ins take their time.
        needs: Parameters, or ``NAME=VALUE``, one of which has to be given with it.
        without: Parameters beside which it has no use.
    """

    def __init__(
        self,
        *args: Any,
        heading: str = "",
        names: Callable[[], Sequence[str]] | None = None,
        needs: Sequence[str] = (),
        without: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.heading, self.needs, self.without = heading, needs, without
        self._names, self._before = names, self.help or ""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names, or what its type completes."""
        if self._names is None:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, where parameters in backticks are flags."""
        if self._names is not None and self._before.endswith(":"):
            self.help = f"{self._before} {', '.join(self._names())}."
        record = super().get_help_record(ctx)
        return record and (record[0], in_flags(record[1], ctx.command))


class HeadedCommand(MultiCommand):
    """A command whose help has headings, in the order in which its options bring them up.

    Args:
        headings: Heading -> parameters under it that are no :class:`HeadedOption`.
    """

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headings = {name: heading for heading, names in (headings or {}).items() for name in names}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading."""
        sections: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = getattr(parameter, "heading", "") or self._headings.get(parameter.name or "", "")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading or "Options"):
                formatter.write_dl(records)


class LazyGroup(click.Group):
    """A group whose commands are ``command`` in modules of their own, imported on use: help stays light.

    Args:
        commands_in: Command -> its module and one line of help, in the order of the work.
    """

    def __init__(self, *args: Any, commands_in: Mapping[str, tuple[str, str]] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = commands_in or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in order."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name in self._lazy:
            command: click.Command | None = import_module(self._lazy[cmd_name][0]).command
        else:
            command = super().get_command(ctx, cmd_name)
        if command is not None and ctx.resilient_parsing:  # the shell asks what a line may go on with
            complete_file_names(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, noting which command runs in the list that the entry point gave."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            if instead := gone_command(ctx, args[0]):
                ctx.fail(instead)
            near = get_close_matches(args[0], known)
            meant = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
            ctx.fail(f"no command {args[0]!r}: {meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and ctx.obj is not None:
            ctx.obj.append(command)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        if not self._lazy:
            return super().format_commands(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._lazy.items()])


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
