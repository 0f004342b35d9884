"""Evaluation sets in the forms that WMT releases them: text files (2021 to 2023), XML (2021 to 2024), JSON (2024 on).

The text release of 2024 has the layout of mt-metrics-eval already. Human scores, if there are any, are in
``human-scores/`` as in that layout, or come from a file of judgements.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.held_set import Held, HeldSet
from polyref.eval.data.json_sets import is_markup, json_file, open_json
from polyref.eval.data.text_files import checked_reference_name, pairs_in
from polyref.formats.wmt.documents import UNNAMED
from polyref.formats.wmt.xml import read_xml
from polyref.languages import base, find_pair, split_pair
from polyref.tables import name_as_text

_NAMED: Final = re.compile(r"\.(?P<pair>[^.]+)(\.all)?\.xml(\.gz)?$")


def open_release(
    path: str | Path,
    pair: str,
    *,
    collection: str | None = None,
    test_suites: bool = False,
    systems: str | Path | None = None,
) -> EvalSet:
    """The set of one language pair, in any of the forms.

    Args:
        path: A directory in the mt-metrics-eval layout or of a text release; a directory that holds one XML file of the
            pair (``NAME.SRC-TGT.xml``, ``NAME.SRC-TGT.all.xml``); or the XML file; or a file of JSON lines that
            :func:`~polyref.eval.data.json_sets.open_json` reads, or a directory that holds one.
        pair: Language pair, ``SRC-TGT``, as the set names it or in other codes of the languages.
        collection: Of an XML release, the collection to take; None takes all.
        test_suites: Of an XML release, whether to take documents of test suites as well.
        systems: Of a test set in JSON, the folder of outputs.
    """
    place = Path(path)
    named, files = _xml_files(place, pair)
    if files:
        if len(files) > 1:
            raise DataError(f"stands beside {files[0].name}: which one is meant?", file=files[1])
        if systems is None:
            return XmlRelease(files[0], named, collection=collection, test_suites=test_suites)
    elif collection is not None or test_suites:
        raise UsageError("`collection` and `test_suites` are for XML releases", remedy=f"{path} is none")
    elif (file := json_file(place, with_systems=systems is not None)) is not None:
        return open_json(file, pair, systems)
    if systems is not None:
        raise UsageError("`systems` is for test sets of the general task in JSON", remedy=f"{path} is none")
    released = [file.name.partition(".src.")[0].partition(".")[2] for file in (place / "sources").glob("*.*.src.*")]
    pair = find_pair(pair, [*released, *pairs_in(place)], place) or pair
    return (TextRelease if pair in released else EvalSet)(place, pair)


def is_xml(path: str | Path, pair: str) -> bool:
    """Whether a place is an XML release, or a directory with one for the pair."""
    return bool(_xml_files(Path(path), pair)[1])


def _xml_files(place: Path, pair: str) -> tuple[str, list[Path]]:
    """The pair as names of files have it, and the XML files of it; markup is one whatever its name."""
    named: dict[str, list[Path]] = {}
    for file in [place] if place.is_file() else sorted(place.glob("*.xml*")):
        if found := _NAMED.search(file.name):
            named.setdefault(found["pair"], []).append(file)
    there = find_pair(pair, named, place)
    if place.is_file():
        return there or pair, [place] if is_markup(place) else []
    return there or pair, named.get(there or "", [])


class TextRelease(EvalSet):
    """Text files named ``TESTSET.SRC-TGT.KIND.NAME.LANGUAGE``; system names may hold dots."""

    @property
    def source_file(self) -> Path | None:
        """Where the source segments are."""
        return next(iter(sorted((self.directory / "sources").glob(f"*.{self.pair}.src.*"))), None)

    def _find_references(self) -> dict[str, Path]:
        found = self._files("references", "ref")
        return {checked_reference_name(name or UNNAMED, path): path for name, path in found.items()}

    def _find_outputs(self) -> dict[str, Path]:
        for folder in ("system-outputs", "system_outputs"):
            if found := self._files(folder, "hyp"):
                return found
        return {}

    def _files(self, folder: str, kind: str) -> dict[str, Path]:
        found: dict[str, Path] = {}
        marker = f".{self.pair}.{kind}."
        if (self.directory / folder).is_dir():
            for path in sorted((self.directory / folder).iterdir()):
                testset, has, rest = path.name.partition(marker)
                if has and "." not in testset:
                    name = name_as_text(rest.rpartition(".")[0])  # without the language
                    if name in found:
                        raise DataError(f"stands beside {found[name].name}: which one is meant?", file=path)
                    found[name] = path
        return found


class XmlRelease(HeldSet):
    """An XML file of one language pair (wmt-conference/wmt-format-tools, ``wmt-schema.rnc``).

    Segments are those of ``src``, in the order of documents and then of their ids. A reference may lack documents or
    segments; a system may not.

    Args:
        file: The file, possibly ``.gz``.
        pair: Language pair.
        collection: As for :func:`open_release`.
        test_suites: As for :func:`open_release`.
    """

    def __init__(
        self, file: str | Path, pair: str, *, collection: str | None = None, test_suites: bool = False
    ) -> None:  # fmt: skip
        source, target = split_pair(pair) or (pair, "")
        read = read_xml(Path(file), source)
        if other := next((d for d in read if d.target and base(d.target) != base(target)), None):
            reason = f"the texts are in {other.target!r}, expected {target!r}"
            raise DataError(reason, file=file, line=other.line)
        there = list(dict.fromkeys(d.collection for d in read if d.collection is not None))
        if collection is not None and collection not in there:
            raise DataError(
                f"no collection {collection!r}, there are: {', '.join(there) or 'none'}", file=file
            )  # fmt: skip
        documents = [d for d in read if (test_suites or not d.test_suite) and collection in {None, d.collection}]
        if not documents:
            raise DataError("no documents", file=file, remedy="`test_suites` takes those of test suites")
        order = [(d, number) for d in documents for number in sorted(d.source)]
        if not order:
            raise DataError("no segments", file=file)
        systems = dict.fromkeys(name for d in documents for name in d.outputs)
        for document in documents:
            for system in systems:
                lacking = sorted(document.source.keys() - document.outputs.get(system, {}).keys())
                if lacking:
                    raise DataError(
                        f"system {system!r} has no output of segment {lacking[0]} of document {document.name!r}",
                        file=file,
                        line=document.line,
                    )
        references = [
            checked_reference_name(name, Path(file))
            for name in dict.fromkeys(n for d in documents for n in d.references)
        ]
        held = Held(
            pair,
            [d.source[number] for d, number in order],
            [(d.domain, d.name) for d, _ in order],
            {name: [d.references.get(name, {}).get(number) for d, number in order] for name in references},
            {name: [d.outputs[name][number] for d, number in order] for name in systems},
        )
        super().__init__(file, held)
