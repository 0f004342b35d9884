"""Files that commands read and write: what they are told of their forms, and that nothing is written over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from itertools import combinations
from os.path import realpath
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from polyref.cli.options import HeadedOption
from polyref.errors import UsageError
from polyref.formats import Reading, takes_lang, takes_pair
from polyref.formats.test_sets import FOLDER, SCHEME
from polyref.formats.writing import PLACE, matching
from polyref.store import is_journal
from polyref.textfiles import display_name, is_remote, without_scheme

F = TypeVar("F", bound=Callable[..., Any])

#: The heading of the help.
FILES: Final = "Files"
#: What forms are called.
FORMS: Final = (
    "plain, normal, simple, nbest, json, lists, tsv, csv, sacrebleu-tsv, xml, sgml, xliff, tmx, general, "
    "human-evaluation, metrics-task or a plug-in's"
)
_option = partial(click.option, cls=HeadedOption, heading=FILES)
fields_option = _option(
    "--fields",
    multiple=True,
    metavar="KEY=ROLE",
    help="What a column (name or number) or key is: id, reference, paraphrase, source, output, doc or lang; of XML, "
    "SGML and folders, the references to take.",
)


def format_option(flag: str = "--format", what: str = "the references", name: str = "form") -> Callable[[F], F]:
    """``--format``, or what a command calls it."""
    return _option(flag, name, metavar="NAME", help=f"Form of {what}: {FORMS}. [default: told by content]")


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


def reading_options(
    *, flag: str = "--format", sets: bool = True, sources: bool = False, lang: bool = False
) -> Callable[[F], F]:
    """Add ``--format``, ``--fields`` and ``-l``; the command gets them as a ``reading``.

    Args:
        flag: What the first one is called, where that name is taken.
        sets: Add ``-t`` for test sets by name too. The command then has references in the parameter ``references``, to
            which the set that is named is added.
        sources: Whether ``--source`` may stand in the place of references.
        lang: Add ``--lang`` too. A command without it says the language of texts itself, by an option ``lang``, or as
            one of those for making references.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def gathered(**values: Any) -> Any:
            test_set = values.pop("test_set", None)
            reading = Reading(values.pop("form"), fields_from(values.pop("fields")), values.pop("pair"))
            making = values.get("making")
            code = values.pop("lang") if lang else making.language if making else values["lang"]
            reading = replace(reading, lang=code)
            if sets:
                instead = values.get("source") if sources else None
                what = "IN... OUT" if "target" in values else "REFS..."
                values["references"] = _references(values["references"], test_set, instead, what)
            files = values["references"] if sets else (values["file"],)
            # Names of files hold it, and where no option does it names the language of the references.
            named = values.get("to") == FOLDER.name or values.get("lang", "") is None
            if reading.pair is not None and files and not named:
                _check_pair(files, reading, values)
            if lang or (making and not (making.model or making.candidates)):
                _check_lang([*files, *values.get("inputs", ())], reading, making)
            return command(reading=reading, **values)

        made: Any = gathered
        if lang:
            made = _option("--lang", metavar="CODE", help="Language of the texts, of XLIFF and TMX.")(made)
        made = _option("-l", "--language-pair", "pair", metavar="PAIR", help="Of a set with several.")(made)
        if sets:
            what = "References of a test set that sacreBLEU has, instead of REFS."
            made = _option("-t", "--test-set", metavar="NAME", help=what)(made)
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


def _check_lang(paths: Sequence[str], reading: Reading, making: object) -> None:
    """Refuse a language of files that do not say theirs."""
    if reading.lang is not None and not takes_lang(paths, replace(reading, fields={})):
        where = "without --model or --candidates," if making else f"with {display_name(paths[0])},"
        raise UsageError(f"--lang has no use {where} but with XLIFF and TMX", remedy="leave it out")


def _references(references: Sequence[str], test_set: str | None, source: str | None, what: str) -> tuple[str, ...]:
    if test_set is not None:
        if references:
            raise UsageError(f"-t {test_set} and {references[0]} both name references", remedy="leave one of them out")
        return (f"{SCHEME}{test_set}",)
    if not references and source is None:
        raise UsageError(f"Missing argument '{what}'", remedy="the files of references; or name a test set: -t")
    twice = next((one for one in references if one != "-" and references.count(one) > 1), None)
    if twice is not None:
        raise UsageError(f"{display_name(twice)} is named twice", remedy="name each file of references once")
    return tuple(references)


def refuse_second_reader(paths: Sequence[str | None]) -> None:
    """Refuse inputs of which more than one is standard input, which can be read once."""
    if paths.count("-") > 1:
        raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")


def refuse_overwriting(
    inputs: Iterable[str | None], *outputs: str | None, journals: Iterable[str | None] = (), models: Iterable[str] = ()
) -> None:
    """Refuse an output that is an input, a journal, a part of a model or another output, by whatever path or link.

    ``-``, None and what is not there are no file.

    Args:
        inputs: Files that are read.
        outputs: Files that are written anew. With ``{}`` in its name, one stands for all files that fit it.
        journals: Files that are added to, and so may be there.
        models: Models as they were named: files, folders, or names with ``backend:`` before them.
    """
    read = [path for path in inputs if path is not None]
    folders = [(name, Path(realpath(path))) for name in models for path in (name, name.partition(":")[2]) if path]
    fresh, kept = list(filter(None, outputs)), list(filter(None, journals))
    for output in (*fresh, *kept):
        for file in _files(output):
            if any(_same_file(file, path) for path in read):
                raise UsageError(f"{file} is also an input", remedy="choose another output")
            place = Path(realpath(without_scheme(file)))
            within = [name for name, folder in folders if place.is_relative_to(folder)] if _is_file(file) else []
            if any(not _is_generator(name) for name in within):
                raise UsageError(f"{file} is part of a model", remedy="choose another output")
            if output in fresh and _is_file(file) and is_journal(without_scheme(file)):
                raise UsageError(f"{file} holds finished work", remedy="choose another output, or move it away")
    for one, other in combinations((*fresh, *kept), 2):
        if _same_place(one, other):
            raise UsageError(f"{other} is named for two outputs", remedy="choose another file for one of them")


def _is_generator(name: str) -> bool:
    """Whether a name is that of a generator, such as ``lexical``, and not of a folder."""
    from polyref.paraphrase.loading import find_generator

    found = find_generator(name)
    return found is not None and found[1] is None


def _files(output: str) -> list[str]:
    """The file that an output is, or those that are there where it is the pattern of several."""
    if PLACE not in output or is_remote(output):
        return [output]
    pattern = Path(without_scheme(output))
    return [str(file) for file in matching(pattern)] if pattern.parent.is_dir() else []


def _is_file(path: str) -> bool:
    return path != "-" and not is_remote(path) and Path(without_scheme(path)).is_file()


def _same_place(one: str, other: str) -> bool:
    """Whether two outputs would be one file, which need not be there yet; devices and pipes may be named twice."""
    if "-" in (one, other) or is_remote(one) or is_remote(other):
        return one == other != "-"
    first, second = (Path(realpath(without_scheme(path))) for path in (one, other))
    return _same_file(one, other) or (first == second and (first.is_file() or not first.exists()))


def _same_file(one: str, other: str) -> bool:
    if "-" in (one, other) or is_remote(one):
        return one == other != "-"
    one, other = str(without_scheme(one)), str(without_scheme(other))
    try:
        # Devices are no files: /dev/stdin and /dev/stdout are the same terminal.
        return Path(one).is_file() and Path(one).samefile(other)
    except OSError:
        return False
