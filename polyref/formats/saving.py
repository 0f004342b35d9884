"""Writes a reference set in any form, whole or not at all, and says what that form cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, UsageError
from polyref.formats import writers
from polyref.formats.base import unpacked
from polyref.formats.columns import (
    ALL,
    DEFAULT_NAME,
    Layout,
    added_kind,
    layout,
    losses,
    names_in_documents,
    names_in_tables,
)
from polyref.formats.own import checked, write_segments
from polyref.publishing import publish_together, published_folder
from polyref.references import Segment
from polyref.textfiles import check_writable, display_name, write_atomically


@dataclass(frozen=True)
class _Form:
    """A form that can be written: what it cannot hold, and keys of segments that it holds although unknown to us."""

    lacks: frozenset[str]
    keys: frozenset[str] = frozenset()
    #: What the first reference without a name is called.
    first: str = "reference"
    #: Which names of references come back from it.
    readable: Callable[[str], bool] = lambda name: added_kind(name) is None

    @property
    def holds(self) -> frozenset[str]:
        return ALL - self.lacks


def _lacking(*lacks: str, keys: Sequence[str] = ()) -> _Form:
    # The normal form alone holds all that polyref says of a reference.
    return _Form(frozenset({*lacks, "generator"} if lacks else ()), frozenset(keys))


def _table(*lacks: str) -> _Form:
    return replace(_lacking(*lacks), readable=names_in_tables)


def _documents(*lacks: str, keys: Sequence[str] = ()) -> _Form:
    return replace(_lacking(*lacks, keys=keys), first=DEFAULT_NAME, readable=names_in_documents)


_DOCUMENTS: Final = ("domain", "origlang", "collection", "seg", "src_lang")
_FORMS: Final[Mapping[str, _Form]] = {
    "normal": _lacking(),
    "plain": _lacking(*(ALL - {"several", "extras", "returns", "tabs", "spaces", "empty"})),
    "simple": _lacking("several", "names", "kinds", "logprob", "meta"),
    "nbest": _lacking("none", "source", "doc", "lang", "several", "names", "kinds", "keys", "meta"),
    "json": _lacking("names", "kinds", "logprob", "meta"),
    "lists": _lacking("id", "source", "doc", "lang", "names", "kinds", "paraphrases", "logprob", "keys", "meta"),
    "tsv": _table("none", "empty", "lines", "tabs", "logprob", "keys", "meta"),
    "csv": _table("none", "empty", "returns", "logprob", "keys", "meta"),
    "sacrebleu-tsv": _lacking(*(ALL - {"several", "extras", "returns", "spaces", "empty"})),
    "comet": _lacking("id", "doc", "lang", "several", "extras", "names", "kinds", "paraphrases", "logprob", "keys",
                      "meta"),
    "xml": _documents("id", "lines", "logprob", "keys", "meta", keys=_DOCUMENTS),
    "sgml": _documents("id", "source", "lines", "spaces", "logprob", "keys", "meta",
                     keys=("domain", "origlang", "seg", "src_lang")),
    "general": _documents("id", "logprob", "meta"),
    "mt-metrics-eval": _documents("id", "lang", "lines", "spaces", "logprob", "keys", "meta",
                                keys=("domain",)),
}  # fmt: skip
_LINES: Final[Mapping[str, Callable[[Layout], Any]]] = {
    **writers.LINES,
    "xml": writers.xml,
    "sgml": writers.sgml,
    "general": writers.general,
}
_SUFFIXES: Final = {
    ".jsonl": "normal",
    ".json": "comet",
    ".tsv": "tsv",
    ".csv": "csv",
    ".xml": "xml",
    ".sgm": "sgml",
    ".sgml": "sgml",
}
#: Where the names of references go in the name of a file for each.
PLACE: Final = "{}"

#: Names of the forms that can be written.
WRITTEN: Final = tuple(_FORMS)


def form_of(path: str | Path) -> str:
    """The form that the name of a file says: that of its suffix, the normal one for ``-``, or else plain text."""
    if str(path) == "-":
        return "normal"
    return _SUFFIXES.get(Path(unpacked(str(path))).suffix, "plain")


def save(
    segments: Sequence[Segment],
    meta: Mapping[str, Any],
    path: str | Path,
    form: str | None = None,
    pair: str | None = None,
) -> list[str]:
    """Write segments in a form.

    Args:
        segments: In the order of the test set.
        meta: What the set says about itself.
        path: The file; for several plain text files a name with ``{}``, where the names of the references are put in,
            or a folder (that ends in ``/`` or is there); for mt-metrics-eval's layout a folder. Folders must be empty.
        form: One of :data:`WRITTEN`; None takes what the name says.
        pair: Language pair, for the layout of mt-metrics-eval.

    Returns:
        What the form cannot hold of the set, one phrase each.
    """
    form = form_of(path) if form is None else form
    if form not in _FORMS:
        raise UsageError(f"`to` is {form!r}, expected one of {', '.join(WRITTEN)}")
    about = _FORMS[form]
    if form == "normal":
        write_segments(segments, meta, path)
        return []
    try:
        segments = list(checked(segments, ids="id" in about.holds))
        made = layout(segments, meta, about.first, about.readable)
        lost = losses(made, about.holds, about.keys, writers.TAKEN.get(form))
        if form == "mt-metrics-eval":
            _write_folder(path, writers.folder(made, pair))
        elif form == "plain":
            _write_plain(path, made)
        else:
            with write_atomically(path) as stream:
                stream.writelines(_LINES[form](made))
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(error.message, file=display_name(path), remedy=error.remedy) from None
    return lost + writers.lost_in_documents(made) if form == "general" else lost


def _write_plain(path: str | Path, made: Layout) -> None:
    files = writers.plain(made)
    if str(path).endswith("/") or Path(path).is_dir():
        _write_folder(path, {f"{column}.txt": text for column, text in files.items()})
    elif PLACE in str(path):
        named = {Path(str(path).replace(PLACE, _file_name(column))): text for column, text in files.items()}
        for file in named:
            check_writable(file)
        if others := sorted(set(matching(Path(path))) - set(named)):
            raise UsageError(
                f"{others[0]} is there already, and no reference of this set",
                remedy="remove it, or choose another name",
            )
        publish_together({file: text.encode() for file, text in named.items()})
    elif len(files) > 1:
        raise UsageError(
            f"{path} is one file, but there are {len(files)} references: {', '.join(files)}",
            remedy=f"put {PLACE} into the name (refs.{PLACE}.txt), name a folder with / at its end, or choose "
            "another form (`to`)",
        )
    else:
        with write_atomically(path) as stream:
            stream.writelines(files.values())


def matching(pattern: Path) -> list[Path]:
    """The files that are there whose name fits a name with ``{}``."""
    start, _, end = pattern.name.partition(PLACE)
    return [file for file in pattern.parent.iterdir() if file.name.startswith(start) and file.name.endswith(end)
            and len(file.name) > len(start) + len(end)]  # fmt: skip


def _file_name(column: str) -> str:
    if "/" in column or column.startswith("."):
        raise DataError(f"the reference name {column!r} cannot be part of a file name")
    return column


def _write_folder(path: str | Path, files: Mapping[str, str]) -> None:
    target = Path(path)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{path} is there and not empty", remedy="name a new or an empty folder")
    with published_folder(target) as fresh:
        for name, text in files.items():
            file = fresh.joinpath(*(_file_name(part) for part in name.split("/")))
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(text.encode())
