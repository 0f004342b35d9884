"""The options of the search itself, and the decoding that they ask for."""

from __future__ import annotations

from typing import Any

import click

from polyref.cli.commands import was_given
from polyref.errors import UsageError
from polyref.paraphrase import DiverseBeam, SearchOptions
from polyref.paraphrase.decoding import SEMANTICS
from polyref.paraphrase.sentences import LONG, MODES

DIVERSE_BEAM = (
    click.option("--beam", type=int, metavar="B", help="Beam over all groups. [default: as many as asked for]"),
    click.option("--groups", type=int, metavar="G", help="Diverse beam groups. [default: one for every 5 candidates]"),
    click.option("--strength", type=float, metavar="L", help="Diversity strength. [default: the model's own]"),
    click.option(
        "--closeness",
        type=int,
        metavar="0..3",
        help="How near to the source a shipped model stays: 0 free, 3 near copies. [default: the model's own]",
    ),
)
#: How long texts are split.
SENTENCES = click.option(
    "--sentences",
    type=click.Choice(MODES),
    default="long",
    show_default=True,
    help=f"Which texts are paraphrased sentence by sentence: long ones (over {LONG} words), all, or none (whole).",
)
#: Any of these gives the engine's n-best list as it is, without merging texts.
SEARCH = (
    click.option("--semantics", type=click.Choice(SEMANTICS), help="Whose diverse beam search. [default: paper]"),
    click.option("--lenpen", type=float, metavar="P", help="Length penalty: scores are divided by length ** P."),
    click.option("--unnormalized", is_flag=True, default=None, help="Rank by sums instead."),
    click.option("--unkpen", type=float, metavar="U", help="Subtracted from unknown tokens."),
    click.option("--min-len", type=int, metavar="N", help="Fewest tokens."),
    click.option("--min-len-a", type=float, metavar="A", help="At least A x source length more."),
    click.option("--max-len-a", type=float, metavar="A", help="At most A x source length + B tokens."),
    click.option("--max-len-b", type=int, metavar="B", help="See --max-len-a."),
    click.option("--temperature", type=float, metavar="T", help="Divides the logits; of language models too."),
    click.option("--no-repeat-ngram", type=int, metavar="N", help="No n-gram of tokens twice."),
    click.option(
        "--early-stopping",
        type=click.Choice(("true", "false", "never")),
        help="When a full group stops: at once, by Transformers' rule (hf), or when nothing better can come.",
    ),
    click.option("--sampling", is_flag=True, default=None, help="Draw instead of searching (--beam draws)."),
    click.option("--sampling-topk", type=int, metavar="K", help="Draw from the K most probable tokens."),
    click.option("--sampling-topp", type=float, metavar="P", help="Draw from the smallest set with probability P."),
    click.option("--sampling-epsilon", type=float, metavar="E", help="Draw from tokens at least that probable."),
    click.option(
        "--seed",
        type=int,
        metavar="S",
        help="Of the draws; each sentence has a stream of its own. Language models get it with every request.",
    ),
)
#: For commands that write the list of the search.
LISTS = (
    click.option("--nbest", type=int, metavar="N", help="Length of the list, instead of -k."),
    click.option("--nbest-per-group", is_flag=True, default=None, help="N of every group, in the order of the groups."),
)
#: Paraphrases where neither -k nor --nbest is given.
DEFAULT_K = 10


def decoding_from(
    k: int | None, search: dict[str, Any], backend: str = "polyref"
) -> tuple[int, DiverseBeam | SearchOptions]:
    """How many paraphrases are asked for, and the decoding that the options ask for, checked.

    Args:
        k: As given; None where it is not.
        search: The values of all options of this module that a command has; None where one is not given.
        backend: Whose search it is.
    """
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
    wanted: int = nbest or k or DEFAULT_K
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
        raise UsageError("--strength has no use without --groups: options of the search itself make one group",
                         remedy="add --groups, or leave it out")  # fmt: skip
    if "unnormalized" in given and "lenpen" in given:
        raise UsageError("--lenpen has no use with --unnormalized", remedy="leave one of them out")
    if "no_repeat_ngram" in given and given.get("semantics") == "fairseq":
        raise UsageError("--no-repeat-ngram has no use with --semantics fairseq, as in fairseq 0.12.2",
                         remedy="leave one of them out")  # fmt: skip
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


def check_list(decoding: DiverseBeam | SearchOptions, asked: object) -> None:
    """Refuse options of a search that change nothing in its list, where that is all that is written.

    Args:
        decoding: What they ask for.
        asked: How a language model is asked; None of a search.
    """
    if asked is None and was_given("seed") and not getattr(decoding, "sampling", False):
        raise UsageError("--seed has no use without --sampling: a search draws nothing", remedy="add --sampling")
    if was_given("sentences") and isinstance(decoding, SearchOptions):
        remedy = "leave --sentences out, or the options from --semantics to --sampling-epsilon"
        raise UsageError(
            "--sentences has no use with options of the search itself: its list is taken whole", remedy=remedy
        )
