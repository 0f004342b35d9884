"""Test sets by name: folders (mt-metrics-eval's layout, WMT's text releases), and sets in sacreBLEU's cache.

In mt-metrics-eval, ``references/PAIR.NAME.txt`` (or ``.jsonl`` with the key ``target``); in a text release
``references/TESTSET.PAIR.ref.NAME.LANGUAGE``. A line that says ``NO TRANSLATION AVAILABLE`` is an absent reference.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from polyref.errors import DataError, PolyrefWarning, UsageError
from polyref.formats.base import Format, Lines, Opened, never
from polyref.formats.columns import (
    DEFAULT_NAME,
    NO_DOCUMENT,
    NO_REFERENCE,
    DocumentWriting,
    Row,
    SetInColumns,
    added_kind,
    counted,
    one_line,
)
from polyref.formats.documents import segment_of_set
from polyref.json_files import Record
from polyref.languages import find_pair
from polyref.references import Segment
from polyref.textfiles import check_parallel

_LAYOUT: Final = re.compile(r"(?P<pair>[^.]+)\.(?P<name>[^.]+)\.(txt|jsonl)")
_RELEASE: Final = re.compile(r"[^.]+\.(?P<pair>[^.]+)\.ref\.(?:(?P<name>.+)\.)?[^.]+")
#: What stands for a reference that a segment lacks.
_ABSENT: Final = "NO TRANSLATION AVAILABLE"
#: What a path to such a set starts with: ``sacrebleu:wmt22``.
SCHEME: Final = "sacrebleu:"
#: Whether sacreBLEU may download, as it may for its tokenisers.
DOWNLOAD: Final = "POLYREF_DOWNLOAD"
_KEYS: Final = {"references": "target", "sources": "source"}


def files_in(folder: Path, pair: str | None, wanted: Sequence[str], *, whole: bool) -> list[Path]:
    """The files of one language pair: references by name (all if none is wanted), then, if ``whole``, what is none."""
    if not (folder / "references").is_dir():
        raise DataError(
            "is a directory without references/, expected a file or a test set of mt-metrics-eval or WMT", file=folder
        )
    found: dict[str, dict[str, Path]] = {}
    for path in sorted((folder / "references").iterdir()):
        match = _LAYOUT.fullmatch(path.name) or _RELEASE.fullmatch(path.name)
        if match and not path.name.startswith("."):
            found.setdefault(match["pair"], {})[match["name"] or DEFAULT_NAME] = path
    if pair is None and len(found) > 1:
        raise UsageError(f"several language pairs: {', '.join(found)}", file=folder, remedy="choose one: `pair`")
    pair = (find_pair(pair, found, folder) or pair) if pair else next(iter(found), "")
    if pair not in found:
        raise DataError(f"no references for {pair or 'any pair'}, there are: {', '.join(found) or 'none'}", file=folder)
    there = found[pair]
    for name in wanted:
        if name not in there:
            raise DataError(f"no reference {name!r} of {pair}, there are: {', '.join(there)}", file=folder)
    chosen = [there[name] for name in wanted or sorted(there, key=_place)]
    if whole:
        chosen += [
            path for path in (folder / "sources" / f"{pair}{suffix}" for suffix in (".txt", ".jsonl")) if path.is_file()
        ][:1]
        chosen += sorted((folder / "sources").glob(f"*.{pair}.src.*"))[:1]
        chosen += [path for path in [folder / "documents" / f"{pair}.docs"] if path.is_file()]
    return chosen


def _place(name: str) -> tuple[bool, str, int, str]:
    """People's references come first, then ranks in the order of their numbers."""
    kind = added_kind(name) or ""
    return bool(kind), kind, int(re.sub(r"\D", "", name) or 0) if kind else 0, name


def _open(files: Sequence[Lines]) -> Opened:
    return Opened("mt-metrics-eval", {}, _segments(files))


def _kind_and_name(file: Lines) -> tuple[str, str]:
    path = Path(file.name)
    folder = path.parent.name
    if folder in {"sources", "documents"}:
        return folder, ""
    match = _LAYOUT.fullmatch(path.name) or _RELEASE.fullmatch(path.name)
    return "references", (match["name"] if match else None) or DEFAULT_NAME


def _segments(files: Sequence[Lines]) -> Iterator[Segment]:
    columns = [_kind_and_name(file) for file in files]
    whole = files[0].reading.whole
    counts = [0] * len(files)
    uneven = False
    for position, row in enumerate(zip_longest(*map(_texts, files)), 1):
        for column, text in enumerate(row):
            counts[column] += text is not None
        uneven = uneven or None in row
        if uneven:
            # An editor's blank line at the end of some files is none of theirs.
            for column, text in enumerate(row):
                counts[column] -= text == ""
            continue
        pairs = list(zip(columns, row, strict=True))
        there = [
            (name, text or "") for (kind, name), text in pairs if kind == "references" and text not in NO_REFERENCE
        ]
        more = {kind: text for (kind, _), text in pairs if kind != "references"}
        domain, document = _domain_and_document(more.get("documents") or "")
        about = {} if domain is None else {"domain": domain}
        source = more.get("sources")
        yield segment_of_set(position, there, source, document or NO_DOCUMENT, None, about, whole=whole)
    check_parallel([(file.name, count) for file, count in zip(files, counts, strict=True)])


def _domain_and_document(line: str) -> tuple[str | None, str | None]:
    """What a line of the file of documents says."""
    domain, _, document = line.rstrip().replace("\t", " ").partition(" ")
    return None if domain in {"", "all"} else domain, None if document in {"", NO_DOCUMENT} else document


def _texts(file: Lines) -> Iterator[str]:
    """Texts without white space at their ends, as sacreBLEU and mt-metrics-eval read them."""
    key = _KEYS.get(_kind_and_name(file)[0])
    for number, line in enumerate(file.lines, 1):
        if key is None or not file.name.endswith(".jsonl"):
            yield line.rstrip()
            continue
        text = Record.parse(line, file.name, number).text(key)
        if text is None:
            raise DataError(f"expected an object with the text {key!r}", file=file.name, line=number)
        yield text.rstrip()


def set_files(name: str, pair: str | None) -> list[Path]:
    """The references of a test set (``wmt22``), which are plain text files."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise UsageError(f"sacreBLEU has no test set {name!r}, it has: {', '.join(DATASETS)}")
    known: Any = DATASETS[name]
    pair = pair and (find_pair(pair, known.langpairs, name) or pair)
    if pair is None or pair not in known.langpairs:
        pairs = ", ".join(known.langpairs)
        if pair is None:
            raise UsageError(f"the test set {name} needs a language pair, it has: {pairs}", remedy="name it: `pair`")
        raise UsageError(f"the test set {name} has no pair {pair!r}, it has: {pairs}")
    folder = Path(vars(known)["_outdir"])
    found = _cached(folder, known, pair)
    if not found:
        if os.environ.get(DOWNLOAD, "") in ("", "0"):
            raise DataError(
                f"the test set {name} {pair} is not on this machine, and nothing is downloaded unasked",
                file=folder,
                remedy=f"set the environment variable {DOWNLOAD}=1 to let sacreBLEU download it once",
            )
        warnings.warn(f"sacreBLEU downloads the test set {name} {pair} to {folder}", PolyrefWarning, stacklevel=2)
        try:
            found = [Path(path) for path in known.get_reference_files(pair)]
        except (SystemExit, OSError) as error:
            raise DataError(f"the test set {name} could not be downloaded: {error}", file=folder) from None
    return found


def _cached(folder: Path, known: Any, pair: str) -> list[Path]:
    """The references as far as sacreBLEU has them: what it downloaded, or the texts that it made of that."""
    archives = [Path(known._rawdir, known._get_tarball_filename(url)) for url in known.data]
    if all(path.is_file() and path.stat().st_size for path in archives):
        return [Path(path) for path in known.get_reference_files(pair)]
    start = f"{known.name.replace('/', '_')}.{pair}."
    texts = sorted(folder.glob(f"{start}ref*"))
    if not hasattr(known, "_get_langpair_allowed_refs"):
        return texts
    allowed = {f"{start}{field.replace(':', '-')}" for field in known._get_langpair_allowed_refs(pair)}
    return [path for path in texts if path.name in allowed]


def layout_files(made: SetInColumns, pair: str | None) -> Mapping[str, Callable[[Segment, Row], str]]:
    """Path of every file of mt-metrics-eval's layout -> its line of a segment."""
    if pair is None or not re.fullmatch(r"[^./-]+-[^./]+", pair):
        raise UsageError(f"`pair` is {pair}, expected SRC-TGT such as zh-en", remedy="the names of the files hold it")
    files: dict[str, Callable[[Segment, Row], str]] = {}
    for column in made.columns:
        if not column or re.search(r"[./-]|\s", column) or column in {"all", "src"}:
            raise DataError(f"the reference name {column!r} is not allowed in the layout of mt-metrics-eval")
        files[f"references/{pair}.{column}.txt"] = partial(_text, column)
    if "source" in made.parts:
        files[f"sources/{pair}.txt"] = lambda one, _: one.source or ""
    if "doc" in made.parts or any("domain" in one.extra for one in made.segments):
        files[f"documents/{pair}.docs"] = lambda one, _: _about(one)
    return files


def _about(one: Segment) -> str:
    """The line of a segment in the file of documents."""
    return f"{one.extra.get('domain') or 'all'} {one.doc or NO_DOCUMENT}"


def _lost(made: SetInColumns) -> Sequence[str]:
    differ = sum(
        _domain_and_document(one_line(_about(one))) != (one.extra.get("domain"), one.doc) for one in made.segments
    )
    return [counted("what domains and documents are called", differ, "segment")]


def _text(column: str, _: Segment, row: Row) -> str:
    return row[column].text if column in row else _ABSENT


FOLDER: Final = Format(
    "mt-metrics-eval",
    never,
    _open,
    several=True,
    writing=DocumentWriting(
        frozenset({"id", "lang", "bare sources", "mark", "order", "lines", "spaces", "logprob", "keys", "meta"}),
        keys=frozenset({"domain"}),
        exact=lambda name: True,
        order=_place,
        more=_lost,
    ),
)
