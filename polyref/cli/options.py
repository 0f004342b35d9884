"""Options of commands: made from what is declared, with several values after a flag, under headings of the help."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem, split_arg_string

from polyref.cli.commands import in_flags
from polyref.cli.printing import silence
from polyref.errors import UsageError
from polyref.options import REQUIRED, Option, declared, fields_of

if TYPE_CHECKING:
    from polyref.metrics.base import Metric

F = TypeVar("F", bound=Callable[..., Any])

#: Parameters that take names, none of which has a comma. Metrics are told apart by their own reader.
_NAMES: Final = frozenset({"pairs", "statistics"})
_NUMBER = re.compile(r"-\d+(\.\d*)?([eE][+-]?\d+)?|-\.\d+")


class HeadedOption(click.Option):
    """An option of a command that says more of itself than click asks.

    Args:
        heading: It stands under this heading of the help; without one, among the common options.
        names: Gives names that it may be, which the shell completes. A help text that ends with a colon goes on with
            them: they are looked up only when it is shown, because plug-ins take their time.
        otherwise: What is done where it is not given; help ends with it.
        needs: Parameters, or ``NAME=VALUE``, one of which has to be given with it.
        without: Parameters beside which it has no use.
    """

    def __init__(
        self,
        *args: Any,
        heading: str = "",
        names: Callable[[], Sequence[str]] | None = None,
        otherwise: str = "",
        needs: Sequence[str] = (),
        without: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.heading, self.needs, self.without = heading, needs, without
        self._names, self._before, self._otherwise = names, self.help or "", otherwise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names, or what its type completes."""
        if self._names is None:
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, where parameters in backticks are flags."""
        names = f" {', '.join(self._names())}." if self._names and self._before.endswith(":") else ""
        otherwise = f" [default: {self._otherwise}]" if self._otherwise else ""
        self.help = f"{self._before}{names}{otherwise}"
        record = super().get_help_record(ctx)
        return record and (record[0], in_flags(record[1], ctx.command))


class HeadedCommand(click.Command):
    """A command with headings in its help, several values after a flag, and no option that has no use.

    ``-k 0 1 5`` is rewritten to ``-k 0 -k 1 -k 5`` before click parses it: values are read up to the next option.
    Positional arguments therefore come before such an option, or after ``--``, as with argparse. ``-k 0,1,5`` is the
    same.

    Args:
        headings: Heading -> parameters under it that are no :class:`HeadedOption`.
    """

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headings = {name: heading for heading, names in (headings or {}).items() for name in names}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spread the values, then parse as usual."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.multiple]
        plain = (click.types.IntParamType, click.types.FloatParamType, click.Choice)
        listed = [one for one in options if isinstance(one.type, plain) or one.name in _NAMES]
        flags, lists = ({flag for one in some for flag in one.opts} for some in (options, listed))
        return super().parse_args(ctx, list(spread(args, flags, lists)))

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse options that have no use beside the others, or run."""
        given = [one for one in self.params if isinstance(one, HeadedOption) and was_given(one.name or "", ctx)]
        for one in given:
            if one.needs and not any(was_given(other, ctx) for other in one.needs):
                flag, *flags = (_spelt(other, ctx) for other in (one.name or "", *one.needs))
                remedy = f"add {flags[0]}, or leave it out"
                raise UsageError(f"{flag} has no use without {' or '.join(flags)}", remedy=remedy)
        for one in given:
            if beside := next((other for other in one.without if was_given(other, ctx)), None):
                flags = [_spelt(other, ctx) for other in (one.name or "", beside)]
                raise UsageError(" has no use with ".join(flags), remedy="leave one of them out")
        return super().invoke(ctx)

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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading, in the order in which they bring these up."""
        sections: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = getattr(parameter, "heading", "") or self._headings.get(parameter.name or "", "")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading or "Options"):
                formatter.write_dl(records)


def was_given(name: str, context: click.Context | None = None) -> bool:
    """Whether a parameter of the command that runs was given; ``name=value``: with that value."""
    context = context or click.get_current_context()
    name, sign, value = name.partition("=")
    given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return given and (not sign or str(context.params[name]) == value)


def _spelt(name: str, context: click.Context) -> str:
    """The flag of a parameter, with its value where one is named."""
    name, _, value = name.partition("=")
    (opts,) = (one.opts for one in context.command.params if one.name == name)
    return f"{next((flag for flag in opts if flag.startswith('--')), opts[0])} {value}".strip()


def spread(args: Iterable[str], flags: Collection[str], lists: Collection[str] = ()) -> Iterator[str]:
    """Repeat each flag in ``flags`` before every one of its values; of those in ``lists``, commas part values as well.

    >>> list(spread(["refs", "-k", "0", "1", "--json"], {"-k"}))
    ['refs', '-k', '0', '-k', '1', '--json']
    >>> list(spread(["refs", "-k", "0,1"], {"-k"}, {"-k"}))
    ['refs', '-k', '0', '-k', '1']
    """
    args = iter(args)
    flag, fresh = None, False  # the flag that takes values; whether it has none yet
    for arg in args:
        if arg == "--":
            yield from (arg, *args)  # the rest is positional
        elif arg.startswith("-") and arg != "-" and not _NUMBER.fullmatch(arg):
            flag, fresh = arg if arg in flags else None, True
            yield arg
        elif flag is None:
            yield arg
        else:
            parts = [part for part in arg.split(",") if part] if flag in lists else []
            for part in parts or [arg]:
                if not fresh:
                    yield flag
                fresh = False
                yield part


def argument_or_option(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completions of an argument that is a file, or of the option whose values come last: ``-m bleu <TAB>``."""
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    flag = next((word for word in reversed(words) if word.startswith("-") and word not in ("-", incomplete)), None)
    for option in context.command.get_params(context):
        if isinstance(option, click.Option) and option.multiple and flag in option.opts:
            return option.shell_complete(context, incomplete)
    return [CompletionItem(incomplete, type="file")]


#: The heading of the help under which options stand that change no result.
HOW: Final = "How it runs"
#: What a metric is called at the command line; its names follow.
METRIC_HELP: Final = "A metric, or one with options of its own, such as 'chrf(combine=expected, beta=3)'. There are:"


def click_option(one: Option, *, given: bool = False) -> Callable[[F], F]:
    """An option of the command line, made from what is declared.

    Args:
        one: What is declared.
        given: Whether the command gets None where the option is not given, instead of its default.
    """
    required = one.default is REQUIRED
    flags = [*one.short.split(), *(one.flag.split() or [f"--{one.name.replace('_', '-')}"])]
    facts: dict[str, Any] = {
        "cls": HeadedOption,
        "default": None if given or required else one.default,
        "required": required,
        "show_default": not (given or required or one.otherwise) and bool(_shown(one.default)),
        **{name: getattr(one, name) for name in ("help", "heading", "names", "otherwise", "needs", "without")},
    }
    if given and not one.otherwise:
        facts["otherwise"] = _shown(one.default)
    if one.type is bool:
        if one.default is not False:
            flags[-1] = f"{flags[-1]}/--no-{flags[-1].removeprefix('--')}"
        return click.option(*flags, one.name, is_flag=True, **facts)
    if one.several or one.type is dict:
        facts["multiple"] = True
        if given:
            facts["callback"] = lambda _context, _option, values: values or None
    metavar = one.metavar or {int: "N", float: "X"}.get(one.type)
    return click.option(*flags, one.name, type=_type(one), metavar=metavar, **facts)


def options_of(
    kind: Any, *names: str, without: Collection[str] = (), gathered: str = "", heading: str = "", given: bool = False
) -> Callable[[F], F]:
    """Decorate a command with the options that a dataclass or a TypedDict declares.

    Args:
        kind: What declares them.
        names: Those that are wanted; none: all.
        without: Those that are not.
        gathered: The command gets them under this name, as the dataclass or a dictionary; empty: each by its own name.
        heading: Of those that name none.
        given: As for :func:`click_option`.
    """
    known = {
        name: replace(one, heading=one.heading or heading)
        for name, one in declared(kind).items()
        if one.type is not object and name not in without and (not names or name in names)
    }

    def decorate(command: F) -> F:
        made: Any = command
        if gathered:

            @wraps(command)
            def together(**values: Any) -> Any:
                own = {name: values.pop(name) for name in known}
                return command(**{gathered: kind(**own)}, **values)

            made = together
        for one in reversed(known.values()):
            made = click_option(one, given=given)(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _type(one: Option) -> click.ParamType[Any, Any]:
    if one.choices:
        return click.Choice(list(one.choices))
    if one.type not in (int, float):
        return click.STRING
    if not one.range:
        return click.INT if one.type is int else click.FLOAT
    limits: dict[str, Any] = {
        "min": one.least if one.above is None else one.above,
        "max": one.most if one.below is None else one.below,
        "min_open": one.above is not None,
        "max_open": one.below is not None,
    }
    return click.IntRange(**limits) if one.type is int else click.FloatRange(**limits)


def _shown(value: Any) -> str:
    """A default as help shows it; empty where nothing is to be said."""
    if value is None or value is False or value == () or value == "":
        return ""
    return "yes" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


class MetricCommand(HeadedCommand):
    """A command with the options of metrics; as keyword arguments they are for :func:`make_metrics`.

    Those of other packages are there where a command line names the metric: neither the help of a command nor what the
    shell completes runs code of other packages.
    """

    _own: list[click.Parameter] | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the options of metrics that are named, then parse as usual."""
        from polyref.metrics.registry import REGISTRY, plain_name, split

        words = [] if ctx.resilient_parsing else [w for arg in args for w in (arg, arg[2:], arg.partition("=")[2])]
        named = {plain_name(one.partition("(")[0].strip().lower()) for word in words for one in split(word)}
        ctx.meta[_ADDED] = added = tuple(entry.name for entry in REGISTRY.added() if entry.name in named)
        more = {one.name: one for one in _parameters(added)} if added else {}
        self._own = self.params if self._own is None else self._own
        self.params = [*(more.pop(one.name, one) for one in self._own), *more.values()]
        return super().parse_args(ctx, args)


_ADDED: Final = "polyref.added"


def metric_options(command: F) -> F:
    """Decorate a :class:`MetricCommand` with the options of polyref's own metrics."""
    for option in reversed(_options(())):
        command = option(command)
    return command


def _parameters(added: tuple[str, ...]) -> list[click.Parameter]:
    """The options of polyref's own metrics and of some added ones."""
    command: Callable[..., Any] = lambda: None  # noqa: E731
    for option in reversed(_options(added)):
        command = option(command)
    return click.command()(command).params


def metric_parameters() -> set[str]:
    """Names of the parameters of the command that runs which are options of metrics."""
    return {one.name or "" for one in _parameters(click.get_current_context().meta[_ADDED])}


def files_of(metrics: Iterable[Metric]) -> list[str]:
    """The values of options of metrics that may be files: a baseline, a model."""
    return [
        value
        for metric in metrics
        for name, option in fields_of(type(metric)).items()
        if isinstance(value := getattr(metric, name, None), str)
        and any(kind in (option.metavar or "") for kind in ("FILE", "DIR", "MODEL"))
    ]


@lru_cache(maxsize=2)
def _options(added: tuple[str, ...]) -> list[Callable[[F], F]]:
    """One option for every flag, whichever of polyref's metrics and of the added ones have it."""
    from polyref.metrics.registry import all_options

    takers: dict[str, dict[str, Option]] = defaultdict(dict)
    families: dict[str, list[str]] = defaultdict(list)
    for name, options in all_options(added).items():
        for one in options.values():
            if one.flag:
                takers[one.flag][name] = one
                if one.family and name not in families[one.family]:
                    families[one.family].append(name)
    ordered = sorted(takers.values(), key=lambda found: not next(iter(found.values())).common)
    return [_option(found, families) for found in ordered]


def _option(takers: Mapping[str, Option], families: Mapping[str, list[str]]) -> Callable[[F], F]:
    """The option of one flag: metric to what its field says; the first of them speaks for all."""
    first = next(iter(takers.values()))
    heading = first.heading or f"Options of {', '.join(families[first.family])}"
    shared = replace(
        first,
        name=first.parameter,
        heading="" if first.common else heading,
        choices=tuple(dict.fromkeys(choice for each in takers.values() for choice in each.choices)),
        otherwise=_default(takers),
        needs=(),  # of fields, which the metric itself checks
    )
    return click_option(shared, given=True)


def _default(takers: Mapping[str, Option]) -> str:
    """What is done where the option is not given: of most metrics, then of the others."""
    said = {name: one.otherwise or _shown(one.default) for name, one in takers.items()}
    most, _ = Counter(said.values()).most_common(1)[0]
    others = defaultdict(list)
    for name, text in said.items():
        if text != most:
            others[text].append(name)
    parts = [most, *(f"{text} of {', '.join(names)}" for text, names in others.items())]
    return "; ".join(part for part in parts if part)


def threads_option(command: F) -> F:
    """Add the option; it is obeyed without the command's doing."""
    return click.option(
        "--threads",
        cls=HeadedOption,
        heading=HOW,
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_obeyed,
        help="CPU threads of networks and matrix products. [default: the libraries' own]",
    )(command)


def _obeyed(context: click.Context, _option: click.Parameter, threads: int | None) -> None:
    context.meta["polyref.threads"] = threads  # for who repeats the command line
    if threads is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def quiet_option(command: F) -> F:
    """Add the option; it is obeyed without the command's doing."""
    return click.option(
        "-q",
        "--quiet",
        cls=HeadedOption,
        heading=HOW,
        count=True,
        expose_value=False,
        callback=lambda _context, _option, times: silence(times),
        help="No bars, no summary and no notes; warnings stay. -qq: no warnings either.",
    )(command)
