"""The options of every command that generates paraphrases, declared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from polyref.errors import UsageError
from polyref.paraphrase import DiverseBeam, SearchOptions

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model",
        default="shipped",
        show_default=True,
        metavar="NAME|DIR",
        help="`shipped`, a model folder (polyref, fairseq, Hugging Face), or a hub name.",
    ),
    click.option("--beam", type=int, metavar="B", help="Beam over all groups. [default: twice the groups]"),
    click.option("--groups", type=int, metavar="G", help="Diverse beam groups. [default: half of the candidates]"),
    click.option("--strength", type=float, metavar="L", help="Diversity strength. [default: the model's own]"),
    click.option(
        "--closeness",
        type=int,
        metavar="0..3",
        help="How near to the source a shipped model stays: 0 free, 3 near copies. [default: the model's own]",
    ),
    click.option("--device", default="cpu", show_default=True, help="Torch device."),
    click.option("--threads", type=click.IntRange(min=1), metavar="N", help="CPU threads. [default: torch's]"),
)


def generation_options(command: F) -> F:
    """Add ``--model --beam --groups --strength --closeness --device --threads`` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_SEARCH = (
    click.option("--semantics", type=click.Choice(("paper", "fairseq", "hf")), help="Whose diverse beam search."),
    click.option("--lenpen", type=float, metavar="P", help="Length penalty: scores are divided by length ** P."),
    click.option("--unkpen", type=float, metavar="U", help="Subtracted from unknown tokens."),
    click.option("--min-len", type=int, metavar="N", help="Fewest tokens."),
    click.option("--max-len-a", type=float, metavar="A", help="At most A x source length + B tokens."),
    click.option("--max-len-b", type=int, metavar="B", help="See --max-len-a."),
    click.option("--temperature", type=float, metavar="T", help="Divides the logits."),
    click.option("--no-repeat-ngram", type=int, metavar="N", help="No n-gram of tokens twice."),
    click.option("--sampling", is_flag=True, default=None, help="Draw instead of searching (--beam draws)."),
    click.option("--sampling-topk", type=int, metavar="K", help="Draw from the K most probable tokens."),
    click.option("--sampling-topp", type=float, metavar="P", help="Draw from the smallest set with probability P."),
    click.option("--sampling-epsilon", type=float, metavar="E", help="Draw from tokens at least that probable."),
    click.option("--seed", type=int, metavar="S", help="Of the draws; each sentence has a stream of its own."),
)


def search_options(command: F) -> F:
    """Add the options of the engine itself; any of them gives its n-best list as it is, without merging texts."""
    for option in reversed(_SEARCH):
        command = option(command)
    return command


def decoding_from(
    k: int, beam: int | None, groups: int | None, strength: float | None, closeness: int | None, search: dict[str, Any]
) -> DiverseBeam | SearchOptions:
    """The decoding that the options ask for, checked.

    Raises:
        UsageError: A value is out of range or does not fit the others.
    """
    given = {name: value for name, value in search.items() if value is not None}
    if set(given) <= {"seed"}:
        # A search draws nothing: its seed would change no result.
        decoding = DiverseBeam(beam, groups, strength, closeness)
        decoding.resolve(k)
        return decoding
    if closeness is not None:
        raise UsageError("--closeness does not go with options of the search itself")
    if k < 1:
        raise UsageError(f"k is {k}, expected 1 or more")
    if any(name.startswith("sampling_") for name in given):
        given["sampling"] = True
    given |= {name: value for name, value in (("groups", groups), ("strength", strength)) if value is not None}
    return SearchOptions(beam=beam or max(k, groups or 1), **given).validate()
