"""Groups of commands that are imported when they run, what has gone, and messages in the words of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


#: In what stands for a value: it is a file or a folder, or may be one.
_PLACE: Final = re.compile(r"\b(FILES?|DIR|FOLDER|REFS|SYS|IN|OUT|SRC|MODEL)\b")


class FileName(click.types.StringParamType):
    """Text that the shell completes to the name of a file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def _complete_file_names(command: click.Command) -> None:
    """Have the shell complete files wherever a command takes one."""
    for parameter in command.params:
        if parameter.type is click.STRING and _PLACE.search(parameter.metavar or ""):
            parameter.type = FileName()


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
            _complete_file_names(command)
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
