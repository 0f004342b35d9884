"""What the command line no longer has, or never had, and what to do instead: where click only calls it unknown."""

from __future__ import annotations

from typing import Final

import click

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
