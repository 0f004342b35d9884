"""How segments lie in files: one module a format, told by content or chosen by name.

:class:`~polyref.references.ReferenceSet` reads whole sets and writes them; what is here reads segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice
from pathlib import Path
from typing import Final

from polyref.errors import DataError, UsageError
from polyref.formats import general_task, json_lists, metrics_task, own, registry, test_sets, xml
from polyref.formats.base import Format, Lines, Opened, Outputs, Reading
from polyref.formats.columns import check_fields
from polyref.formats.own import header_line, segment_line, write_segments
from polyref.formats.saving import save
from polyref.textfiles import display_name, is_remote, iter_lines, without_scheme

__all__ = [
    "Outputs",
    "Reading",
    "header_line",
    "located",
    "open_plain_outputs",
    "open_references",
    "opened_lines",
    "read_outputs",
    "save",
    "segment_line",
    "takes_pair",
    "write_segments",
]

#: Most characters that are looked at to tell a format.
_LOOKED_AT: Final = 1 << 20


def open_references(paths: Sequence[str | Path], stack: ExitStack, reading: Reading = Reading()) -> Opened:  # noqa: B008 (frozen)
    """Open the files of one reference set; segments are read as they are asked for.

    Args:
        paths: One file in any of the forms; or several plain text or SGML files, which are several human references
            per segment; or one folder of a test set; or ``sacrebleu:NAME``. ``-`` is standard input, ``.gz`` and
            ``.xz`` are unpacked.
        stack: Closes the files.
        reading: What the files do not say themselves.

    Raises:
        DataError: A file is missing, empty or broken (file, line and reason are named), in no form that can be read, or
            lengths differ.
        UsageError: No path, ``-`` twice, several files of a form that has one, or an unknown form or role.
    """
    for path in paths:
        if not isinstance(path, (str, Path)):
            raise TypeError(f"{path!r} is given as a path, expected a string or a Path")
    if not paths:
        raise UsageError("no reference file given, expected at least one")
    if sum(str(path) == "-" for path in paths) > 1:
        raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")
    check_fields(reading.fields)
    paths, reading = located(paths, reading)
    files = [_peek(path, stack, reading) for path in paths]
    formats = [_form(lines, sample) for lines, sample in files]
    if len(files) > 1:
        for (lines, _), form in zip(files, formats, strict=True):
            if not form.several or form is not formats[0]:
                odd, name = (formats[0], files[0][0].name) if form is own.PLAIN else (form, lines.name)
                raise UsageError(
                    f"{name} is in the {odd.name} form: several reference files must all be plain text, or all SGML",
                    remedy="name that file alone",
                )
    return formats[0].open([lines for lines, _ in files])


def located(paths: Sequence[str | Path], reading: Reading) -> tuple[list[str | Path], Reading]:
    """The files that paths stand for: those of a folder or of one of sacreBLEU's sets, or the paths themselves.

    Raises:
        DataError: A folder or set is not there, or has nothing of the pair.
        UsageError: A folder or set beside other paths, or a pair that is missing or unknown.
    """
    for path in paths:
        named = str(path).startswith(test_sets.SCHEME) and not Path(path).exists()
        if not named and (str(path) == "-" or not Path(path).is_dir()):
            continue
        if len(paths) > 1:
            raise UsageError(f"{path} is a test set beside other references", remedy="name it alone")
        if named:
            name = str(path).removeprefix(test_sets.SCHEME)
            files = test_sets.set_files(name, reading.pair)
            return list(files), Reading(form=own.PLAIN.name, whole=reading.whole)
        found = test_sets.files_in(Path(path), reading.pair, list(reading.fields), whole=reading.whole)
        return list(found), Reading(form=test_sets.FOLDER.name, whole=reading.whole, encoding=reading.encoding)
    return [without_scheme(path) for path in paths], reading


def takes_pair(paths: Sequence[str | Path], reading: Reading) -> bool:
    """Whether one of some paths may hold several language pairs, so that ``reading.pair`` has a use.

    Of what can be read once only that is not known, and taken to be so.
    """
    for path in paths:
        local = without_scheme(path)
        if str(path).startswith(test_sets.SCHEME) or is_remote(path) or not Path(local).is_file():
            return True
        with ExitStack() as stack:
            pairs = (general_task.GENERAL, general_task.EVALUATION, metrics_task.FORMAT, xml.XML)
            if _form(*_peek(local, stack, reading)) in pairs:
                return True
    return False


def read_outputs(path: str | Path, reading: Reading = Reading()) -> Outputs:  # noqa: B008 (frozen)
    """The outputs of systems in a file.

    Raises:
        DataError: The file is missing, empty or broken, in no form that can be read, or holds no outputs.
        UsageError: Its form has no outputs, or there is no such form or role.
    """
    check_fields(reading.fields)
    with ExitStack() as stack:
        lines, sample = _peek(path, stack, reading)
        form = _form(lines, sample)
        if form.outputs is None:
            raise UsageError(
                f"is in the {form.name} form, which holds references, not the outputs of a system",
                file=lines.name,
                remedy=f"name a file of outputs; `form` {own.PLAIN.name} reads every line as one",
            )
        return form.outputs(lines)


def open_plain_outputs(path: str | Path, stack: ExitStack, reading: Reading = Reading()) -> Iterator[str] | None:  # noqa: B008 (frozen)
    """The outputs of a system in a plain text file, line by line; None where the file has another form.

    Args:
        path: The file.
        stack: Closes it.
        reading: What the file does not say itself.

    Raises:
        DataError: As :func:`read_outputs`.
        UsageError: As :func:`read_outputs`.
    """
    check_fields(reading.fields)
    lines, sample = _peek(path, stack, reading)
    return lines.lines if _form(lines, sample) is own.PLAIN else None


def opened_lines(path: str | Path, stack: ExitStack, reading: Reading = Reading()) -> tuple[Lines, Format]:  # noqa: B008 (frozen)
    """The lines of a file, and the form that they are in; ``stack`` closes it.

    Raises:
        DataError: The file is missing, empty or broken, or in no form that can be read.
    """
    lines, sample = _peek(path, stack, reading)
    return lines, _form(lines, sample)


def _form(lines: Lines, sample: Sequence[str]) -> Format:
    reading = lines.reading
    form = registry.detect(lines.name, sample) if reading.form is None else registry.by_name(reading.form)
    if reading.encoding is not None and form.name in registry.JSON:
        kind = "a reference set" if form in (own.SIMPLE, own.NORMAL) else "JSON, which is UTF-8"
        raise UsageError(f"{lines.name} is {kind}: `encoding` is for plain text", remedy="leave it out")
    if reading.fields and form in (own.SIMPLE, own.NORMAL):
        return json_lists.KEYED
    if reading.fields and form is own.PLAIN:
        raise UsageError(
            "is plain text, but `fields` is given", file=lines.name, remedy="tables and JSON have columns and keys"
        )
    return form


def _peek(path: str | Path, stack: ExitStack, reading: Reading) -> tuple[Lines, list[str]]:
    name = display_name(path)
    lines = stack.enter_context(closing(iter_lines(path, reading.encoding or "utf-8")))  # type: ignore[type-var]
    sample: list[str] = []
    size = 0
    for line in islice(lines, registry.LOOKED_AT):
        sample.append(line)
        size += len(line)
        if size > _LOOKED_AT:
            break
    if not sample:
        raise DataError("the file is empty, expected one segment a line", file=name, remedy="check how it was made")
    rest: Iterator[str] = chain(sample, lines)
    return Lines(name, rest, reading), sample
