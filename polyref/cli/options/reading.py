"""The options of every command that reads references or texts, declared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import click

from polyref.errors import UsageError
from polyref.formats import Reading, takes_pair
from polyref.formats.wmt.folder import FORMAT as FOLDER
from polyref.formats.wmt.sacrebleu import SCHEME
from polyref.textfiles import display_name

F = TypeVar("F", bound=Callable[..., Any])

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
    return click.option(flag, name, metavar="NAME", help=_FORMAT_HELP.format(what=what))


fields_option = click.option("--fields", multiple=True, metavar="KEY=ROLE", help=_FIELDS_HELP)


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
        made = click.option("-l", "--language-pair", "pair", metavar="PAIR", help="Of a set with several.")(made)
        if sets:
            made = click.option(
                "-t", "--test-set", metavar="NAME", help="References of a test set that sacreBLEU has, instead of REFS."
            )(made)
        return format_option(flag)(fields_option(made))  # type: ignore[no-any-return]

    return decorate


def _check_pair(references: Sequence[str], reading: Reading, values: Mapping[str, Any]) -> None:
    """Refuse a language pair of files that hold one each."""
    of_outputs = Reading(values.get("input_form"), encoding=values.get("encoding"))
    reading = replace(reading, fields={}, encoding=values.get("encoding"))
    others = [*values.get("inputs", ()), *getattr(values.get("origin"), "candidates", ())]
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
