"""How segments lie in files: one module a form or family of forms, told by what is in a file or chosen by name.

:class:`~polyref.references.ReferenceSet` reads whole sets; what is here reads segment by segment, and
:mod:`polyref.formats.writing` writes. Each form is a :class:`~polyref.formats.base.Format`, which tells, reads and
writes it. Other packages add forms by entry points of the group ``polyref.formats``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice
from pathlib import Path
from typing import Final

from polyref.errors import DataError, PolyrefError, UsageError
from polyref.formats.base import AS_TOLD, Format, Lines, Opened, Outputs, Reading, Start, check_roles, unpacked
from polyref.formats.general_task import EVALUATION, GENERAL
from polyref.formats.json_lists import COMET, KEYED, LISTS
from polyref.formats.metrics_task import METRICS_TASK
from polyref.formats.own import NBEST, NORMAL, PLAIN, SIMPLE, header_line, segment_line, write_segments
from polyref.formats.table import CSV, SACREBLEU, TSV
from polyref.formats.test_sets import FOLDER, SCHEME, files_in, set_files
from polyref.formats.xml import SGML, XML
from polyref.plugins import Plugins, described, tried
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
    "segment_line",
    "takes_lang",
    "takes_pair",
    "write_segments",
]

#: Most characters and lines that are looked at to tell a format.
_LOOKED_AT: Final = 1 << 20
LOOKED_AT: Final = 100

#: polyref's own forms.
OWN_FORMS: Final = (
    *(PLAIN, NORMAL, SIMPLE, NBEST, KEYED, LISTS, TSV, CSV, SACREBLEU, COMET, XML, SGML, GENERAL),
    *(EVALUATION, METRICS_TASK, FOLDER),
)
#: Forms whose module is opened for markup alone.
_TRANSLATIONS: Final = {name: f"polyref.formats.translations:{name.upper()}" for name in ("xliff", "tmx")}
#: Every form that can be read, by name, and those of other packages.
FORMATS: Final = Plugins(
    "file format",
    "polyref.formats",
    {form.name: form for form in OWN_FORMS if form is not COMET} | _TRANSLATIONS,
    "a Format of that name",
    lambda name, found: isinstance(found, Format) and found.name == name,
)
#: A file is in the first of these that matches it. Forms of other packages are asked between the two.
_FIRST: Final = (NBEST, SIMPLE, NORMAL)
_LAST: Final = (GENERAL, EVALUATION, METRICS_TASK, KEYED, LISTS, SGML, XML, TSV, CSV, PLAIN)


def by_name(name: str) -> Format:
    """The format of a name, polyref's own or another package's."""
    if name not in FORMATS:
        raise UsageError(f"`form` is {name!r}, expected one of {', '.join(FORMATS.names())}")
    form: Format = FORMATS.load(name)
    return form


def _detected(name: str, lines: Sequence[str]) -> Format:
    start = Start.of(lines)
    found = _matching(_FIRST, name, start)
    for added, form in () if found else FORMATS.loaded().items():
        if tried(_matching, (form,), name, start, where=f"the file format {added} on {name}"):
            return form  # type: ignore[no-any-return]
    translations = [FORMATS.load_own(form) for form in _TRANSLATIONS] if start.sign == "<" else []
    return found or _matching((*translations, *_LAST), name, start) or PLAIN


def _matching(forms: Sequence[Format], name: str, start: Start) -> Format | None:
    first = start.written[0] if start.written else ""
    for form in forms:
        begins = not form.begins or start.sign in form.begins
        if begins and (form.holds in first or unpacked(name).endswith(form.suffixes)) and form.matches(name, start):
            return form
    return None


def is_text(name: str, lines: Sequence[str]) -> bool:
    """Whether a file is neither JSON nor markup, from its name and first lines."""
    return _matching((*_FIRST, *_LAST), name, Start.of(lines)) in (TSV, CSV, PLAIN)


def open_references(paths: Sequence[str | Path], stack: ExitStack, reading: Reading = AS_TOLD) -> Opened:
    """Open the files of one reference set; segments are read as they are asked for.

    Args:
        paths: One file in any of the forms; or several plain text or SGML files, which are several human references
            per segment; or one folder of a test set; or ``sacrebleu:NAME``. ``-`` is standard input, ``.gz`` and
            ``.xz`` are unpacked.
        stack: Closes the files.
        reading: What the files do not say themselves.
    """
    for path in paths:
        if not isinstance(path, (str, Path)):
            raise TypeError(f"{path!r} is given as a path, expected a string or a Path")
    if not paths:
        raise UsageError("no reference file given, expected at least one")
    if sum(str(path) == "-" for path in paths) > 1:
        raise UsageError("standard input (-) is named twice", remedy="it can be read once: use a file")
    check_roles(reading.fields)
    paths, reading = located(paths, reading)
    files = [opened_lines(path, stack, reading) for path in paths]
    first_file, first = files[0]
    for lines, form in files if len(files) > 1 else ():
        if not form.several or form is not first:
            odd, name = (first, first_file.name) if form is PLAIN else (form, lines.name)
            raise UsageError(
                f"{name} is in the {odd.name} form: several reference files must all be plain text, or all SGML",
                remedy="name that file alone",
            )
    try:
        return first.open([lines for lines, _ in files])
    except Exception as error:
        if isinstance(error, PolyrefError) or first.name in FORMATS.own:
            raise
        found = f"the file format {first.name} of another package cannot read it: {described(error)}"
        raise DataError(found, file=first_file.name, remedy="name another form, or uninstall that package") from error


def located(paths: Sequence[str | Path], reading: Reading) -> tuple[list[str | Path], Reading]:
    """The files that paths stand for: those of a folder or of one of sacreBLEU's sets, or the paths themselves."""
    for path in paths:
        named = str(path).startswith(SCHEME) and not Path(path).exists()
        if not named and (str(path) == "-" or not Path(path).is_dir()):
            continue
        if len(paths) > 1:
            raise UsageError(f"{path} is a test set beside other references", remedy="name it alone")
        if named:
            files = set_files(str(path).removeprefix(SCHEME), reading.pair)
            return list(files), Reading(form=PLAIN.name, whole=reading.whole)
        found = files_in(Path(path), reading.pair, list(reading.fields), whole=reading.whole)
        return list(found), Reading(form=FOLDER.name, whole=reading.whole, encoding=reading.encoding)
    return [without_scheme(path) for path in paths], reading


def takes_pair(paths: Sequence[str | Path], reading: Reading) -> bool:
    """Whether one of some paths may hold several language pairs, so that ``reading.pair`` has a use."""
    return any(str(path).startswith(SCHEME) or Path(without_scheme(path)).is_dir() for path in paths) or _some(
        paths, reading, lambda form: form.pairs
    )


def takes_lang(paths: Sequence[str | Path], reading: Reading) -> bool:
    """Whether one of some paths may say the languages of its texts, so that ``reading.lang`` has a use."""
    return _some(paths, reading, lambda form: form.langs)


def _some(paths: Sequence[str | Path], reading: Reading, fits: Callable[[Format], bool]) -> bool:
    """Whether one of some files is in a form that fits. Of what can be read once only, that is taken to be so."""
    for path in paths:
        local = without_scheme(path)
        if is_remote(path) or not (Path(local).is_file() or Path(local).is_dir() or str(path).startswith(SCHEME)):
            return True
        if Path(local).is_file():
            with ExitStack() as stack:
                if fits(opened_lines(local, stack, reading)[1]):
                    return True
    return False


def read_outputs(path: str | Path, reading: Reading = AS_TOLD) -> Outputs:
    """The outputs of systems in a file."""
    check_roles(reading.fields)
    with ExitStack() as stack:
        lines, form = opened_lines(path, stack, reading)
        if form.outputs is None:
            raise UsageError(
                f"is in the {form.name} form, which holds references, not the outputs of a system",
                file=lines.name,
                remedy=f"name a file of outputs; references come first: polyref score {lines.name} -i SYS",
            )
        return form.outputs(lines)


def open_plain_outputs(path: str | Path, stack: ExitStack, reading: Reading = AS_TOLD) -> Iterator[str] | None:
    """The outputs of a system in a plain text file, line by line; None where the file has another form."""
    check_roles(reading.fields)
    lines, form = opened_lines(path, stack, reading)
    return lines.lines if form is PLAIN else None


def opened_lines(path: str | Path, stack: ExitStack, reading: Reading = AS_TOLD) -> tuple[Lines, Format]:
    """The lines of a file, and the form that they are in; ``stack`` closes it."""
    name = display_name(path)
    lines = stack.enter_context(closing(iter_lines(path, reading.encoding or "utf-8")))  # type: ignore[type-var]
    sample: list[str] = []
    size = 0
    for line in islice(lines, LOOKED_AT):
        sample.append(line)
        size += len(line)
        if size > _LOOKED_AT:
            break
    if not sample:
        raise DataError("the file is empty, expected one segment a line", file=name, remedy="check how it was made")
    form = _detected(name, sample) if reading.form is None else by_name(reading.form)
    if reading.encoding is not None and form.json:
        kind = "a reference set" if form in (SIMPLE, NORMAL) else "JSON, which is UTF-8"
        raise UsageError(f"{name} is {kind}: `encoding` is for plain text", remedy="leave it out")
    if reading.fields and form in (SIMPLE, NORMAL):
        form = KEYED
    if reading.fields and form is PLAIN:
        raise UsageError(
            "is plain text, but `fields` is given", file=name, remedy="tables and JSON have columns and keys"
        )
    return Lines(name, chain(sample, lines), reading), form
