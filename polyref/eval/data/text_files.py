"""The files of an evaluation set: which there are, and what the lines of texts mean."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

from polyref.errors import DataError
from polyref.eval.data.score_files import numbered_lines
from polyref.formats.wmt.documents import NO_REFERENCE as NO_REFERENCE
from polyref.json_files import parse_json
from polyref.tables import name_as_text
from polyref.textfiles import read_lines


def checked_reference_name(name: str, path: Path) -> str:
    """The name of a reference."""
    if not name or "." in name or "-" in name or name in {"all", "src"}:
        raise DataError(
            f"the reference name {name!r} is not allowed",
            file=path,
            remedy="a name without '.' and '-', and neither 'all' nor 'src'",
        )
    return name


def files_by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """Files of a folder by name without suffix, sorted; system names may hold dots, so only one suffix is cut.

    A name that is not UTF-8 is written as :func:`polyref.tables.name_as_text` writes it.
    """
    found: dict[str, Path] = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            for suffix in suffixes:
                if path.name.endswith(suffix) and not path.name.startswith("."):
                    stem = name_as_text(path.name.removesuffix(suffix))
                    if stem in found:
                        raise DataError(f"stands beside {found[stem].name}: which one is meant?", file=path)
                    found[stem] = path
    return found


def metric_files(folder: Path) -> dict[str, dict[str, dict[str, Path]]]:
    """Metric -> references -> level -> file, of the score files in a folder."""
    found: dict[str, dict[str, dict[str, Path]]] = {}
    for stem, path in files_by_stem(folder, (".score",)).items():
        rest, _, level = stem.rpartition(".")
        name, _, reference = rest.rpartition("-")
        if not name or level not in {"sys", "seg", "doc", "domain"}:
            raise DataError("the file name is not METRIC-REFERENCE.LEVEL.score", file=path)
        found.setdefault(name, {}).setdefault(reference, {})[level] = path
    return found


def pairs_in(directory: Path) -> list[str]:
    """The language pairs for which a directory has any file."""
    pairs = {path.name.split(".")[0] for path in (directory / "human-scores").glob("*.score")}
    pairs |= {path.name for path in (directory / "system-outputs").glob("*") if path.is_dir()}
    pairs |= {path.stem for path in (directory / "darr").glob("*.tsv")}
    return sorted(map(name_as_text, pairs))


def read_documents(path: Path) -> list[tuple[str, str]]:
    """(domain, document) of every line."""
    rows = []
    for number, line in numbered_lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) != 2:
            raise DataError(f"{len(fields)} columns, expected 2: DOMAIN DOCUMENT", file=path, line=number)
        rows.append((fields[0], fields[1]))
    return rows


def read_texts(path: Path, key: str) -> list[str]:
    """Segments of a text file, without white space at their ends, as sacreBLEU and mt-metrics-eval read them."""
    if path.suffix != ".jsonl":
        return [line.rstrip() for line in read_lines(path)]
    texts = []
    for number, line in numbered_lines(path):
        value = parse_json(line, path, number)
        if not isinstance(value.get(key), str):
            raise DataError(f"expected an object with the text {key!r}", file=path, line=number)
        texts.append(value[key].rstrip())
    if not texts:
        raise DataError("the file is empty, expected one segment a line", file=path)
    return texts


def blank_line_more(texts: Sequence[str], segments: int) -> bool:
    """Whether a file has one segment too many, and that is empty: what an editor leaves at the end."""
    return len(texts) == segments + 1 and not texts[-1]


def has_byte_order_mark(path: Path) -> bool:
    """Whether a file begins with the mark of UTF-8."""
    with path.open("rb") as stream:
        return stream.read(3) == codecs.BOM_UTF8
