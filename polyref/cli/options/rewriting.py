"""The options of rewriting by a language model, for the commands that generate paraphrases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from polyref.augment.inputs import Inputs, InputsInContext, Untranslated
from polyref.augment.sources import Generated, Source
from polyref.cli.commands import HeadedOption
from polyref.cli.printing import say, tell
from polyref.errors import UsageError
from polyref.formats import Reading
from polyref.paraphrase import Paraphraser
from polyref.paraphrase.loading import find_generator
from polyref.paraphrase.rewriting.options import FORMS, GENERATORS, RewritingOptions, parse_body
from polyref.references import Segment
from polyref.store import file_sha256
from polyref.textfiles import is_stream

F = TypeVar("F", bound=Callable[..., Any])

#: What stands behind the name of the output, for the file of answers.
ANSWERS: Final = ".answers"
_option = partial(click.option, cls=HeadedOption, heading="Language models (--model openai:NAME, chat:DIR)")
_ANY = (
    _option("--base-url", metavar="URL", help="Server of openai:NAME, such as http://localhost:8000/v1."),
    _option(
        "--prompt",
        metavar="NAME|FILE",
        help="faithful, diverse, or a TOML file. [default: faithful, or one that translates]",
    ),
    _option(
        "--answer-form",
        type=click.Choice(FORMS),
        help="All paraphrases in one answer, as JSON, or one in each of several. [default: list]",
    ),
    _option("--max-tokens", type=int, metavar="N", help="Most tokens of an answer. [default: what it may need]"),
    _option("--body", metavar="JSON", help='More parts of every request: {"top_p": 0.9}; null takes one out.'),
    _option("--concurrency", type=int, metavar="N", help="Requests at a time. [default: 8]"),
    _option("--retries", type=int, metavar="N", help="Further tries of a request. [default: 6]"),
    _option("--timeout", type=float, metavar="S", help="Seconds for a whole answer. [default: 120]"),
    _option("--answers", metavar="FILE", help="Where answers are kept. [default: that of -o with .answers]"),
    _option("--retry-failed", is_flag=True, default=None, help="Ask again what the server did not answer."),
    _option("--price", nargs=2, type=float, metavar="IN OUT", help="Of a million tokens; the summary has the cost."),
)
#: Options that speak of a server that answers.
_ASKING: Final = ("base_url", "concurrency", "retries", "timeout")
_SETS = (
    _option(
        "--source",
        metavar="FILE",
        help="Sources, one a line, shown to language models; translated without REFS.",
    ),
    _option("--context", type=int, metavar="N", help="Neighbours on each side, shown to it too. [default: 0]"),
    _option(
        "--batch",
        nargs=2,
        type=(click.Choice(("write", "read")), str),
        metavar="write|read FILE",
        help="Write the requests as a batch instead of sending them, or read the answers of one.",
    ),
)


def rewriting_options(*, sets: bool = False) -> Callable[[F], F]:
    """Add the options of language models; the command gets them as a dictionary ``rewriting``.

    Args:
        sets: Add those of commands that read reference sets: sources, neighbours, batches.
    """

    def decorate(command: F) -> F:
        names: list[str] = []

        @wraps(command)
        def gathered(**values: Any) -> Any:
            return command(rewriting={name: values.pop(name) for name in names}, **values)

        made: Any = gathered
        before = len(getattr(made, "__click_params__", ()))
        for option in reversed((*_ANY, *_SETS) if sets else _ANY):
            made = option(made)
        names += (parameter.name for parameter in made.__click_params__[before:])
        return made  # type: ignore[no-any-return]

    return decorate


def rewriting_from(
    model: str, given: dict[str, Any], search: dict[str, Any], output: str, sources: str | None = None
) -> RewritingOptions | None:
    """How to rewrite, for ``load_paraphraser``; None where the generator is no language model.

    Args:
        model: As given.
        given: Values of the options of this module; None where one is not given.
        search: Options of the search. ``temperature`` is taken out of it: it is one of rewriting then.
        output: Where the paraphrases go: the answers go beside it.
        sources: Hash of the file of sources.
    """
    found = {name: value for name, value in given.items() if value is not None}
    generator = find_generator(model)
    if generator is None or generator[0].name not in GENERATORS:
        if found:
            flag = f"--{next(iter(found)).replace('_', '-')}"
            raise UsageError(f"{flag} is an option of language models: --model openai:NAME or chat:DIR")
        return None
    if searched := [
        name for name, value in search.items() if value is not None and name not in ("temperature", "seed")
    ]:
        raise UsageError(f"`{searched[0]}` is an option of a search, but a language model does not search")
    if any(not 0 <= price < math.inf for price in found.pop("price", ())):
        raise UsageError(f"`price` is {given['price'][0]} {given['price'][1]}, expected two numbers from 0")
    found.pop("source", None)
    way, file = found.pop("batch", (None, None))
    for name in _ASKING:
        if way == "write" and name in found:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"--batch write asks no server, but {flag} is given", remedy="leave one of them out")
    if way == "read":
        found["batch"] = file
    known_already = given.get("answers") is not None and Path(given["answers"]).is_file()
    if generator[0].name == "openai" and not {"base_url", "batch"} & found.keys() and way is None and not known_already:
        raise UsageError("--model openai:NAME needs a server", remedy="--base-url http://localhost:8000/v1, or --batch")
    if "answer_form" in found:
        found["form"] = found.pop("answer_form")
    if "body" in found:
        found["body"] = parse_body(found["body"])
    if "answers" not in found and not is_stream(output):
        found["answers"] = f"{output}{ANSWERS}"
    temperature, search["temperature"] = search["temperature"], None
    return RewritingOptions(**found, temperature=temperature, seed=search["seed"] or 0, source=sources)


def answer_files(models: Sequence[str], answers: str | None, output: str) -> list[str]:
    """The files in which the answers of these generators are kept, those that are no language models left out."""
    those = [number for number, model in enumerate(models)
             if (found := find_generator(model)) is not None and found[0].name in GENERATORS]  # fmt: skip
    if answers is not None or is_stream(output):
        return [] if answers is None else [answers]
    if len(those) == 1:
        return [f"{output}{ANSWERS}"]
    return [f"{output}.{number + 1}{ANSWERS}" for number in those]


def rewritings_from(
    models: Sequence[str], given: Mapping[str, Any], output: str
) -> list[Callable[[dict[str, Any]], RewritingOptions | None]]:
    """How each of several generators rewrites: functions of the options of its search, as :func:`rewriting_from`.

    Each language model has a file of answers of its own. The options are those of all of them.
    """
    is_one = [(found := find_generator(model)) is not None and found[0].name in GENERATORS for model in models]
    if sum(is_one) > 1:
        for name in ("answers", "batch"):
            if given.get(name) is not None:
                raise UsageError(f"--{name} is for one language model, but there are {sum(is_one)}")
    hashed = hash_of(given.get("source"))
    nothing = dict.fromkeys(given)
    made: list[Callable[[dict[str, Any]], RewritingOptions | None]] = []
    for number, (model, language) in enumerate(zip(models, is_one, strict=True)):
        options = given if language or not any(is_one) else nothing
        place = output if sum(is_one) < 2 or is_stream(output) else f"{output}.{number + 1}"
        made.append(partial(_rewriting, model, options, place, hashed))
    return made


def _rewriting(
    model: str, given: Mapping[str, Any], output: str, sources: str | None, search: dict[str, Any]
) -> RewritingOptions | None:
    return rewriting_from(model, dict(given), search, output, sources)


def hash_of(source: str | None) -> str | None:
    """What a signature says of the file of sources; None where there is none (its reader says why)."""
    return file_sha256(source)[:12] if source is not None and Path(source).is_file() else None


def open_inputs(references: Sequence[str], reading: Reading, models: Sequence[str], given: Mapping[str, Any]) -> Inputs:
    """The references; for a language model with what stands around them, and the sources that they bring.

    Without a human reference, the sources, which are to be translated.
    """
    neighbours = given["context"] or 0
    if not references:
        return Untranslated([given["source"]], None, neighbours, reading)
    inputs = _open_references(references, reading, models, given)
    if any(segment.originals for segment in inputs.segments()) or any(map(is_stream, references)):
        return inputs
    sources = Untranslated(references, given["source"], neighbours, reading)
    if not any(segment.source for segment in sources.segments()):
        sources.__exit__(None, None, None)
        return inputs
    inputs.__exit__(None, None, None)
    return sources


def _open_references(
    references: Sequence[str], reading: Reading, models: Sequence[str], given: Mapping[str, Any]
) -> Inputs:
    if any((found := find_generator(model)) is not None and found[0].name in GENERATORS for model in models):
        return InputsInContext(references, given["source"], given["context"] or 0, reading)
    return Inputs(references, reading)


def of_generators(references: Sequence[str], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of language models that generators are asked with: without references, sources are no such option."""
    return given if references else {**given, "source": None}


def write_requests(source: Source, segments: Iterable[Segment], path: str) -> None:
    """Write what would be asked for these references as a batch, and say so."""
    from polyref.paraphrase.rewriting.answers import write_batch
    from polyref.paraphrase.rewriting.rewriter import Rewriter

    paraphraser = source.paraphraser if isinstance(source, Generated) else None
    if not isinstance(source, Generated) or not isinstance(paraphraser, Rewriter):
        raise UsageError(
            "--batch write is for one language model that reads whole texts: no --candidates, no --sentences all"
        )
    texts = [ref.text for segment in segments for ref in segment.originals if ref.text.strip()]
    for _ in paraphraser.paraphrase(texts, source.asked):
        pass
    count = write_batch(paraphraser.unanswered.values(), path)
    say(f"polyref: {count} requests for {len(texts)} references are in {path}")


def summaries(loaded: Sequence[Paraphraser], given: dict[str, Any]) -> dict[str, Any]:
    """:func:`summary` of one language model; of several, one after another under ``models``."""
    rows = [row for row in (summary(one, given) for one in loaded) if row]
    if len(rows) < 2:
        return rows[0] if rows else {}
    return {"models": rows}


def summary(paraphraser: Paraphraser, given: dict[str, Any]) -> dict[str, Any]:
    """Say what was asked and what it cost; the same for programs, empty where nothing could be asked."""
    from polyref.paraphrase.rewriting.rewriter import Rewriter

    # Who splits texts has the generator inside.
    paraphraser = getattr(paraphraser, "inner", paraphraser)
    if not isinstance(paraphraser, Rewriter):
        return {}
    usage = paraphraser.answers.usage
    row: dict[str, Any] = {"requests": vars(usage).copy()}
    said = (
        f"polyref: {usage.requests} requests answered, {usage.known} known before, {usage.repairs} repairs, "
        f"{usage.retries} sent again, {usage.failures} failed; "
        f"in all runs {usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written"
    )
    if given["price"] is not None:
        row["cost"] = round(usage.cost(given["price"]), 6)
        said += f", cost {row['cost']:.4f}"
    say(said)
    if paraphraser.without:
        tell("warning", f"the server refuses {', '.join(paraphraser.without)}: requests were sent without")
    if paraphraser.said:
        tell("warning", f"of a request that failed the server says: {paraphraser.said} (--body changes requests)")
    if usage.other:
        tell("warning", f"the server changed meanwhile: {usage.other} answers have another system_fingerprint")
    return row
