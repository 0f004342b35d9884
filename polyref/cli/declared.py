"""Options that several commands have: of files that are read, of metrics, of threads."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from polyref.cli.commands import HeadedOption
from polyref.errors import UsageError
from polyref.formats import Reading, takes_pair
from polyref.formats.test_sets import FOLDER, SCHEME
from polyref.options import REQUIRED, Option, declared, fields_of
from polyref.textfiles import display_name

if TYPE_CHECKING:
    from polyref.metrics.base import Metric

F = TypeVar("F", bound=Callable[..., Any])


def click_option(one: Option, *, given: bool = False) -> Callable[[F], F]:
    """An option of the command line, made from what is declared.

    Args:
        one: What is declared.
        given: Whether the command gets None where the option is not given, instead of its default.
    """
    flags = [*one.short.split(), *(one.flag.split() or [f"--{one.name.replace('_', '-')}"])]
    shown = one.otherwise or (_shown(one.default) if given else "")
    facts: dict[str, Any] = {
        "cls": HeadedOption,
        "help": f"{one.help} [default: {shown}]" if shown else one.help,
        "default": None if given or one.default is REQUIRED else one.default,
        "required": one.default is REQUIRED,
        "show_default": not given and not one.otherwise and bool(_shown(one.default)),
        **{name: getattr(one, name) for name in ("heading", "names", "needs", "without")},
    }
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
    if value is None or value is REQUIRED or value is False or value == () or value == "":
        return ""
    return "yes" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


#: Headings of the help.
FILES: Final = "Files"
HOW: Final = "How it runs"
#: What a metric is called at the command line; its names follow.
METRIC_HELP: Final = "A metric, or one with options of its own, such as 'chrf(combine=expected, beta=3)'. There are:"
_FORMAT_HELP = (
    "Form of {what}: plain, normal, simple, nbest, json, lists, tsv, csv, sacrebleu-tsv, xml, sgml, general, "
    "human-evaluation, metrics-task or a plug-in's. [default: told by content]"
)
_FIELDS_HELP = (
    "What a column (name or number) or key is: id, reference, paraphrase, source, output, doc or lang; of XML, SGML "
    "and folders, the references to take."
)


def format_option(flag: str = "--format", what: str = "the references", name: str = "form") -> Callable[[F], F]:
    """``--format``, or what a command calls it."""
    return _file(flag, name, metavar="NAME", help=_FORMAT_HELP.format(what=what))


_file = partial(click.option, cls=HeadedOption, heading=FILES)
fields_option = _file("--fields", multiple=True, metavar="KEY=ROLE", help=_FIELDS_HELP)


def reading_options(*, flag: str = "--format", sets: bool = True, sources: bool = False) -> Callable[[F], F]:
    """Add ``--format``, ``--fields`` and ``-l``; the command gets them as a ``reading``.

    Args:
        flag: What the first one is called, where that name is taken.
        sets: Add ``-t`` for test sets by name too. The command then has references in the parameter ``references``, to
            which the set that is named is added.
        sources: Whether ``--source`` may stand in the place of references.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def gathered(**values: Any) -> Any:
            test_set = values.pop("test_set", None)
            reading = Reading(values.pop("form"), fields_from(values.pop("fields")), values.pop("pair"))
            if sets:
                instead = values.get("source") if sources else None
                values["references"] = _references(values["references"], test_set, instead)
            files = values["references"] if sets else (values["file"],)
            # Names of files hold it, and where no option does it names the language of the references.
            named = values.get("to") == FOLDER.name or values.get("lang", "") is None
            if reading.pair is not None and files and not named:
                _check_pair(files, reading, values)
            return command(reading=reading, **values)

        made: Any = gathered
        made = _file("-l", "--language-pair", "pair", metavar="PAIR", help="Of a set with several.")(made)
        if sets:
            made = _file(
                "-t", "--test-set", metavar="NAME", help="References of a test set that sacreBLEU has, instead of REFS."
            )(made)
        return format_option(flag)(fields_option(made))  # type: ignore[no-any-return]

    return decorate


def _check_pair(references: Sequence[str], reading: Reading, values: Mapping[str, Any]) -> None:
    """Refuse a language pair of files that hold one each."""
    of_outputs = Reading(values.get("input_form"), encoding=values.get("encoding"))
    reading = replace(reading, fields={}, encoding=values.get("encoding"))
    others = [*values.get("inputs", ()), *values.get("candidates", ())]
    if not takes_pair(references, reading) and not takes_pair(others, of_outputs):
        raise UsageError(
            f"-l {reading.pair} has no use with {display_name(references[0])}, which holds one language pair",
            remedy="leave -l out",
        )


def _references(references: Sequence[str], test_set: str | None, source: str | None) -> tuple[str, ...]:
    if test_set is not None and references:
        raise UsageError(f"-t {test_set} and {references[0]} both name references", remedy="leave one of them out")
    if test_set is None and not references and source is not None:
        return ()
    if test_set is None and not references:
        raise UsageError("Missing argument 'REFS...'", remedy="the files of references; or name a test set: -t")
    return tuple(references) if test_set is None else (f"{SCHEME}{test_set}",)


def fields_from(values: Sequence[str]) -> dict[str, str]:
    """``--fields``: key -> role."""
    found: dict[str, str] = {}
    for value in values:
        key, _, role = value.rpartition("=")
        if not key or not role:
            raise UsageError(
                f"--fields {value!r}, expected KEY=ROLE", remedy="for example text=reference or 2=reference"
            )
        if found.setdefault(key, role) != role:
            raise UsageError(f"--fields gives {key} two roles: {found[key]} and {role}")
    return found


def metric_options(command: F) -> F:
    """Decorate a command with the options of all metrics; as keyword arguments they are for :func:`make_metrics`."""
    for option in reversed(_options()):
        command = option(command)
    return command


def metric_parameters() -> set[str]:
    """Names of the parameters that :func:`metric_options` adds to a command."""
    from polyref.metrics.registry import all_options

    return {one.parameter for options in all_options().values() for one in options.values() if one.flag}


def files_of(metrics: Iterable[Metric]) -> list[str]:
    """The values of options of metrics that may be files: a baseline, a model."""
    return [
        value
        for metric in metrics
        for name, option in fields_of(type(metric)).items()
        if isinstance(value := getattr(metric, name, None), str)
        and any(kind in (option.metavar or "") for kind in ("FILE", "DIR", "MODEL"))
    ]


@lru_cache(maxsize=1)
def _options() -> list[Callable[[F], F]]:
    """One option for every flag, whichever metrics have it."""
    from polyref.metrics.registry import all_options

    takers: dict[str, dict[str, Option]] = defaultdict(dict)
    families: dict[str, list[str]] = defaultdict(list)
    for name, options in all_options().items():
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


#: What libraries of matrix products and torch read when they are loaded.
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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


def announce_threads(arguments: Sequence[str]) -> None:
    """Tell libraries that are not loaded yet how many threads they may start, before a command is imported."""
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--threads" and "numpy" not in sys.modules:
            value = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if value.isdecimal() and int(value):
                os.environ.update(dict.fromkeys(_VARIABLES, value))


def _obeyed(context: click.Context, _option: click.Parameter, threads: int | None) -> None:
    context.meta["polyref.threads"] = threads  # for who repeats the command line
    if threads is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
