"""The options of every command that generates paraphrases, and the generators that they ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from polyref.chat.requests import parse_body
from polyref.cli.options import HeadedCommand, HeadedOption, click_option, was_given
from polyref.cli.printing import say, tell
from polyref.engine import ADDRESS, ENGINES, GPUS
from polyref.errors import UsageError
from polyref.models.language_recognition import Language
from polyref.paraphrase import DiverseBeam, Paraphraser, SearchOptions
from polyref.paraphrase.loading import (
    DEFAULT_MODELS,
    FEWEST,
    PRISM_B,
    Loading,
    LoadingOptions,
    Wanted,
    check_penalty,
    generators,
    is_language_model,
    options_of,
)
from polyref.paraphrase.rewriting.options import RewritingOptions
from polyref.paraphrase.sentences import LONG, MODES
from polyref.publishing import is_stream
from polyref.store import file_sha256

F = TypeVar("F", bound=Callable[..., Any])
Options = tuple[Callable[[Any], Any], ...]


def _declared(kind: Any, names: str, heading: str = "", **facts: Any) -> Options:
    """Options as the fields of a dataclass declare them; the command gets None where one is not given."""
    known = [replace(options_of(kind)[name], heading=heading, **facts) for name in names.split()]
    return tuple(click_option(one if one.type is bool else replace(one, default=None), given=True) for one in known)


#: Of ranges that are checked with the others, in more words than click's.
_ANY: Final[Mapping[str, None]] = {"least": None, "most": None}
_SEARCH: Final = "Search"
_ITSELF: Final = "The search itself (its list as it is: nothing is merged or judged)"
_MACHINES: Final = "Models and machines"
_MODELS: Final = "Language models (--model openai:NAME, chat:DIR)"
_machine = partial(click.option, cls=HeadedOption, heading=_MACHINES)
_language_model = partial(click.option, cls=HeadedOption, heading=_MODELS)
_MODEL_HELP: Final = "`shipped`, a model folder (polyref, fairseq, Hugging Face), a hub name, or a generator (below)"
_model = partial(click.option, "--model", show_default=True, metavar="NAME|DIR")
_LOADING: Options = (
    click_option(options_of(LoadingOptions)["device"]),
    *_declared(LoadingOptions, "dtype threads", _MACHINES),
    *_declared(LoadingOptions, "jobs", otherwise=f"one a core, for {FEWEST} texts each and more"),
    _machine(
        "--cache/--no-cache",
        default=True,
        show_default=True,
        help="Keep n-best lists in ~/.cache/polyref, or $POLYREF_CACHE; it changes no result.",
    ),
    *_declared(LoadingOptions, "memory", _MACHINES),
    *_declared(LoadingOptions, "prefix prism_a prism_b", _MACHINES, **_ANY),
    click_option(replace(options_of(LoadingOptions)["backend"], heading=_MACHINES)),
)
_ENGINE: Options = (
    _machine(
        "--engine",
        type=click.Choice(ENGINES),
        default="local",
        show_default=True,
        help="`ray`: the workers of a Ray cluster, --jobs of them or as many as it has room for; the same bytes.",
    ),
    _machine("--address", metavar="ADDRESS", help=f"{ADDRESS['help']} [default: {ADDRESS['otherwise']}]"),
    _machine("--gpus", type=float, metavar="X", help=f"{GPUS['help']} [default: {GPUS['otherwise']}]"),
)
#: Any of these gives the engine's n-best list as it is, without merging texts.
_SEARCH_ITSELF: Options = (
    *_declared(SearchOptions, "semantics lenpen", _ITSELF, **_ANY),
    click.option(
        "--unnormalized",
        cls=HeadedOption,
        heading=_ITSELF,
        is_flag=True,
        default=None,
        help=options_of(SearchOptions)["normalize"].help,
    ),
    *_declared(SearchOptions, "unkpen min_len min_len_a max_len_a max_len_b", _ITSELF, **_ANY),
    *_declared(SearchOptions, "temperature no_repeat_ngram", _ITSELF, **_ANY),
    click.option(
        "--early-stopping",
        cls=HeadedOption,
        heading=_ITSELF,
        type=click.Choice(("true", "false", "never")),
        help="When a full group stops: at once, by Transformers' rule (hf), or when nothing better can come.",
    ),
    *_declared(SearchOptions, "sampling sampling_topk sampling_topp sampling_epsilon", _ITSELF, **_ANY),
)
_REWRITING: Options = (
    *_declared(RewritingOptions, "base_url plain_http prompt", _MODELS),
    *_declared(RewritingOptions, "form", _MODELS, name="answer_form"),
    *_declared(RewritingOptions, "max_tokens", _MODELS, **_ANY),
    _language_model("--body", metavar="JSON", help='More parts of every request: {"top_p": 0.9}; null takes one out.'),
    *_declared(RewritingOptions, "concurrency retries timeout", _MODELS, **_ANY),
    _language_model("--answers", metavar="FILE", help="Where answers are kept. [default: that of -o with .answers]"),
    *_declared(RewritingOptions, "retry_failed", _MODELS),
    _language_model(
        "--price", nargs=2, type=float, metavar="IN OUT", help="Of a million tokens; the summary has the cost."
    ),
)
#: For commands that read reference sets.
_SETS: Options = (
    _language_model(
        "--source", metavar="FILE", help="Sources, one a line, shown to language models; translated without REFS."
    ),
    *_declared(RewritingOptions, "context", _MODELS, **_ANY),
    _language_model(
        "--batch",
        nargs=2,
        type=(click.Choice(("write", "read")), str),
        metavar="write|read FILE",
        help="Write the requests as a batch instead of sending them, or read the answers of one.",
    ),
)
#: How long texts are split.
_SENTENCES = click.option(
    "--sentences",
    cls=HeadedOption,
    heading=_SEARCH,
    type=click.Choice(MODES),
    default="long",
    show_default=True,
    help=f"Which texts are paraphrased sentence by sentence: long ones (over {LONG} words), all, or none (whole).",
)


class GeneratingCommand(HeadedCommand):
    """A command whose help lists the generators that are installed.

    Where a command line begins with an option, each option takes one value and the words after it are files, as in
    ``--model DIR refs.en``; where it begins with files, as in ``refs.en --model A B``, an option may take several.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spread the values of options, or leave them as click takes them."""
        if args and args[0].startswith("-") and args[0] != "-":
            return click.Command.parse_args(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a generator."""
        with formatter.section("Generators (--model NAME or NAME:ARGUMENT)"):
            formatter.write_dl([(generator.name, generator.summary) for generator in generators()])


def generation_options(*, sets: bool) -> Callable[[F], F]:
    """Add the options of generators; the command gets ``sentences``, and dictionaries of the others by their kind.

    Args:
        sets: Take several models, an engine, sources, neighbours and batches; without, the length of a list.
    """
    model = _model(default="shipped", help=f"{_MODEL_HELP}.")
    if sets:
        model = _model(multiple=True, default=DEFAULT_MODELS, help=f"{_MODEL_HELP}; several are merged.")
    groups: dict[str, Options] = {
        "loading": (model, *_LOADING, *(_ENGINE if sets else ())),
        "search": (
            *_declared(DiverseBeam, "beam groups strength closeness", _SEARCH, **_ANY),
            *(() if sets else _declared(SearchOptions, "nbest nbest_per_group", _ITSELF, **_ANY)),
            *_SEARCH_ITSELF,
            *_declared(SearchOptions, "seed", _SEARCH, **_ANY),
        ),
        "rewriting": (*_REWRITING, *(_SETS if sets else ())),
    }

    def decorate(command: F) -> F:
        names: dict[str, list[str]] = {}

        @wraps(command)
        def gathered(**values: Any) -> Any:
            return command(**{group: {name: values.pop(name) for name in names[group]} for group in names}, **values)

        made: Any = _SENTENCES(gathered)
        for group, options in reversed(groups.items()):
            before = len(made.__click_params__)
            for option in reversed(options):
                made = option(made)
            names[group] = [parameter.name for parameter in made.__click_params__[before:]]
        return made  # type: ignore[no-any-return]

    return decorate


def refuse_idle(without: str, groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuse options of generators where an option says that there is none."""
    context = click.get_current_context()
    # A filter may have networks: whether threads have a use is known when it is read.
    names = {"sentences", *(name for group in groups for name in group)} - {"threads"}
    for option in context.command.params:
        if option.name in names and was_given(option.name or ""):
            flag = max(option.opts, key=len)
            raise UsageError(f"{flag} has no use: {without} loads no generator", remedy="leave it out")


def generators_from(
    k: int | None,
    asked: int,
    loading: Mapping[str, Any],
    search: Mapping[str, Any],
    rewriting: Mapping[str, Any],
    output: str,
) -> tuple[int, list[Wanted]]:
    """How many paraphrases are asked for, and the generators, checked before anything is loaded.

    ``asked`` is how many where neither ``k`` nor the search says it. The answers of language models go beside
    ``output``.
    """
    models = [loading["model"]] if isinstance(loading["model"], str) else loading["model"]
    ask = [is_language_model(model) for model in models]
    if sum(ask) > 1:
        for name in ("answers", "batch"):
            if rewriting.get(name) is not None:
                raise UsageError(f"--{name} is for one language model, but there are {sum(ask)}")
    searches = [Wanted(model).searches for model in models]
    found, wanted = [], asked
    for number, (model, asks, does) in enumerate(zip(models, ask, searches, strict=True), 1):
        given = rewriting if asks or not any(ask) else dict.fromkeys(rewriting)
        place = output if sum(ask) < 2 or is_stream(output) else f"{output}.{number}"
        # Options of a search are for those that search, if one does; language models have some of them too.
        asking = {name: search[name] for name in ("temperature", "seed")}
        own = search if does or not any(searches) else dict.fromkeys(search) | asking
        options = _rewriting_from(model, given, own, place)
        own = own if does or not any(ask) else {**own, "temperature": None}
        wanted, decoding = decoding_from(k, own, loading["backend"], asked)
        found.append(Wanted(model, decoding, options))
    return wanted, found


def loading_from(loading: Mapping[str, Any], semantics: str | None) -> Loading:
    """Keyword arguments of ``load_paraphraser``, checked before anything is loaded."""
    a, b = loading["prism_a"], loading["prism_b"]
    if b is not None and a is None:
        raise UsageError("--prism-b needs --prism-a")
    a, b = a or 0.0, PRISM_B if b is None else b
    check_penalty(a, b)
    if loading["backend"] == "fairseq":
        if a:
            raise UsageError("--prism-a is an option of polyref's own search, not of --backend fairseq")
        if semantics not in (None, "fairseq"):
            raise UsageError(f"--semantics is {semantics}, but --backend fairseq searches as fairseq does")
    own: Any = {name: value for name, value in loading.items() if name in Loading.__annotations__}
    found: Loading = own | {"prism_a": a, "prism_b": b}
    return found


def decoding_from(
    k: int | None, search: Mapping[str, Any], backend: str = "polyref", asked: int = 10
) -> tuple[int, DiverseBeam | SearchOptions]:
    """How many paraphrases are asked for, and the decoding that the options of the search ask for, checked."""
    given = {name: value for name, value in search.items() if value is not None}
    beam, groups, strength, closeness = (given.pop(name, None) for name in ("beam", "groups", "strength", "closeness"))
    nbest, per_group = given.get("nbest"), given.get("nbest_per_group", False)
    if nbest is not None and k is not None:
        raise UsageError("-k and --nbest both say how long the list is", remedy="name one of them")
    if per_group and nbest is None:
        raise UsageError("--nbest-per-group needs --nbest")
    for flag, value in (("-k", k), ("--nbest", nbest)):
        if value is not None and value < 1:
            raise UsageError(f"{flag} is {value}, expected 1 or more")
    for name in ("sampling_topk", "sampling_topp"):
        # SearchOptions takes 0 as "all tokens"; as a number to draw from it would say the opposite.
        if name in given and given[name] <= 0:
            raise UsageError(
                f"--{name.replace('_', '-')} is {given[name]}, expected more than 0",
                remedy="leave it out to draw from all tokens",
            )
    wanted: int = nbest or k or asked
    if strength and groups == 1:
        raise UsageError("--strength has no use with --groups 1", remedy="ask for more groups, or leave it out")
    if set(given) <= {"seed"}:
        # A search draws nothing: its seed would change no result.
        decoding = DiverseBeam(beam, groups, strength, closeness)
        decoding.resolve(wanted)
        return wanted, decoding
    if closeness is not None:
        raise UsageError("--closeness does not go with options of the search itself")
    if any(name.startswith("sampling_") for name in given):
        given["sampling"] = True
    if given.get("sampling") and strength is not None:
        raise UsageError("--strength is an option of the search: draws have no groups to keep apart")
    if backend == "fairseq":
        given.setdefault("semantics", "fairseq")
    if strength and groups is None:
        raise UsageError(
            "--strength has no use without --groups: options of the search itself make one group",
            remedy="add --groups, or leave it out",
        )
    if "unnormalized" in given and "lenpen" in given:
        raise UsageError("--lenpen has no use with --unnormalized", remedy="leave one of them out")
    if "no_repeat_ngram" in given and given.get("semantics") == "fairseq":
        raise UsageError(
            "--no-repeat-ngram has no use with --semantics fairseq, as in fairseq 0.12.2",
            remedy="leave one of them out",
        )
    if "early_stopping" in given:
        given["early_stopping"] = {"true": True, "false": False, "never": "never"}[given["early_stopping"]]
    if given.pop("unnormalized", False):
        given["normalize"] = False
    # What is named holds, also where a Hugging Face model was saved with another value.
    given["fixed"] = tuple(given)
    given |= {name: value for name, value in (("groups", groups), ("strength", strength)) if value is not None}
    parts = max(groups or 1, 1)
    if per_group:
        wanted *= parts
    # The smallest beam that can give the list: a multiple of the groups.
    least = -(-wanted // parts) * parts
    return wanted, SearchOptions(beam=least if beam is None else beam, **given).validate()


def _rewriting_from(
    model: str, given: Mapping[str, Any], search: Mapping[str, Any], output: str
) -> RewritingOptions | None:
    """How a language model is asked; None where the generator is none."""
    found = {name: value for name, value in given.items() if value is not None}
    if not is_language_model(model):
        if found:
            flag = f"--{next(iter(found)).replace('_', '-')}"
            raise UsageError(f"{flag} is an option of language models: --model openai:NAME or chat:DIR")
        return None
    of_search = [name for name, value in search.items() if value is not None and name not in ("temperature", "seed")]
    if of_search:
        raise UsageError(f"`{of_search[0]}` is an option of a search, but a language model does not search")
    if any(not 0 <= price < math.inf for price in found.pop("price", ())):
        raise UsageError(f"`price` is {given['price'][0]} {given['price'][1]}, expected two numbers from 0")
    way, file = found.pop("batch", (None, None))
    for name in ("base_url", "concurrency", "retries", "timeout"):
        if way == "write" and name in found:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"--batch write asks no server, but {flag} is given", remedy="leave one of them out")
    if way == "read":
        found["batch"] = file
    known_already = "answers" in found and Path(found["answers"]).is_file()
    if model.startswith("openai:") and "base_url" not in found and way is None and not known_already:
        raise UsageError("--model openai:NAME needs a server", remedy="--base-url http://localhost:8000/v1, or --batch")
    if "answer_form" in found:
        found["form"] = found.pop("answer_form")
    if "body" in found:
        found["body"] = parse_body(found["body"])
    if "answers" not in found and not is_stream(output):
        found["answers"] = f"{output}.answers"
    source = found.pop("source", None)
    if source is not None and Path(source).is_file():  # if it is none, its reader says why
        found["source"] = file_sha256(source)[:12]
    return RewritingOptions(**found, temperature=search["temperature"], seed=search["seed"] or 0)


def answers_of(generators: Sequence[Wanted]) -> list[str]:
    """The files in which the answers of language models are kept."""
    return [str(one.rewriting.answers) for one in generators if one.rewriting and one.rewriting.answers]


def note_language(file: str, language: Language) -> None:
    """Say how the language of texts was told, where no option names it."""
    tell("note", f"{file}: taken for {language.name}; --lang {language.code} says so, or names another language")


def summary(paraphraser: Paraphraser, given: Mapping[str, Any]) -> dict[str, Any]:
    """Say what was asked and what it cost; the same for programs, empty where nothing could be asked."""
    from polyref.paraphrase.rewriting.rewriter import Rewriter

    # Who splits texts has the generator inside.
    paraphraser = getattr(paraphraser, "inner", paraphraser)
    if not isinstance(paraphraser, Rewriter):
        return {}
    usage, price = paraphraser.answers.usage, given["price"]
    said, *warnings = paraphraser.asker.report(price, paraphraser.said)
    say(f"polyref: {said}")
    for warning in warnings:
        tell("warning", warning)
    cost = {} if price is None else {"cost": round(usage.cost(price), 6)}
    return {"requests": vars(usage).copy(), **cost}
