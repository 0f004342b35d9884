"""Evaluation sets in the forms that WMT releases them: text files (2021 to 2023) and XML (2021 to 2024).

The text release of 2024 has the layout of mt-metrics-eval already. Human scores, if there are any, are in
``human-scores/`` as in that layout, or come from a file of judgements.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Final

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import EvalSet, pairs_in
from polyref.eval.data.text_files import NO_REFERENCE, checked_reference_name
from polyref.formats.wmt.documents import UNNAMED
from polyref.formats.wmt.xml import read_xml
from polyref.languages import base, find_pair, split_pair
from polyref.tables import name_as_text

_NAMED: Final = re.compile(r"\.(?P<pair>[^.]+)(\.all)?\.xml(\.gz)?$")


def open_release(
    path: str | Path, pair: str, *, collection: str | None = None, test_suites: bool = False
) -> EvalSet:  # fmt: skip
    """The set of one language pair, in any of the forms.

    Args:
        path: A directory in the mt-metrics-eval layout or of a text release; a directory that holds one XML file of the
            pair (``NAME.SRC-TGT.xml``, ``NAME.SRC-TGT.all.xml``); or the XML file.
        pair: Language pair, ``SRC-TGT``.
        collection: Of an XML release, the collection to take; None takes all.
        test_suites: Of an XML release, whether to take documents of test suites as well.
    """
    place = Path(path)
    pair, files = _xml_files(place, pair)
    if files:
        if len(files) > 1:
            raise DataError(f"stands beside {files[0].name}: which one is meant?", file=files[1])
        return XmlRelease(files[0], pair, collection=collection, test_suites=test_suites)
    if collection is not None or test_suites:
        raise UsageError("`collection` and `test_suites` are for XML releases", remedy=f"{path} is none")
    released = [file.name.partition(".src.")[0].partition(".")[2] for file in (place / "sources").glob("*.*.src.*")]
    pair = find_pair(pair, [*released, *pairs_in(place)], place) or pair
    return (TextRelease if pair in released else EvalSet)(place, pair)


def is_xml(path: str | Path, pair: str) -> bool:
    """Whether a place is an XML release, or a directory with one for the pair."""
    return bool(_xml_files(Path(path), pair)[1])


def _xml_files(place: Path, pair: str) -> tuple[str, list[Path]]:
    """The pair as names of files have it, and the XML files of it; a file is one whatever its name."""
    named: dict[str, list[Path]] = {}
    for file in [place] if place.is_file() else sorted(place.glob("*.xml*")):
        if found := _NAMED.search(file.name):
            named.setdefault(found["pair"], []).append(file)
    there = find_pair(pair, named, place)
    return there or pair, [place] if place.is_file() else named.get(there or "", [])


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


class XmlRelease(EvalSet):
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
        self.file = Path(file)
        source, target = split_pair(pair) or (pair, "")
        read = read_xml(self.file, source)
        if other := next((d for d in read if d.target and base(d.target) != base(target)), None):
            reason = f"the texts are in {other.target!r}, expected {target!r}"
            raise DataError(reason, file=file, line=other.line)
        there = list(dict.fromkeys(d.collection for d in read if d.collection is not None))
        if collection is not None and collection not in there:
            raise DataError(
                f"no collection {collection!r}, there are: {', '.join(there) or 'none'}", file=file
            )  # fmt: skip
        self._documents = [
            d for d in read if (test_suites or not d.test_suite) and collection in {None, d.collection}
        ]  # fmt: skip
        if not self._documents:
            raise DataError("no documents", file=file, remedy="`test_suites` takes those of test suites")
        self._order = [(d, number) for d in self._documents for number in sorted(d.source)]
        if not self._order:
            raise DataError("no segments", file=file)
        self._names: dict[str, list[str]] = {
            "references": list(dict.fromkeys(name for d in self._documents for name in d.references)),
            "outputs": list(dict.fromkeys(name for d in self._documents for name in d.outputs)),
        }
        for document in self._documents:
            for system in self._names["outputs"]:
                lacking = sorted(document.source.keys() - document.outputs.get(system, {}).keys())
                if lacking:
                    raise DataError(
                        f"system {system!r} has no output of segment {lacking[0]} of document {document.name!r}",
                        file=file,
                        line=document.line,
                    )
        super().__init__(self.file.parent, pair)

    @property
    def source_file(self) -> Path | None:
        """The file itself."""
        return self.file

    @cached_property
    def source(self) -> tuple[str, ...] | None:
        """Source segments."""
        return tuple(document.source[number].rstrip() for document, number in self._order)

    @cached_property
    def documents(self) -> tuple[tuple[str, str], ...] | None:
        """(domain, document) of every segment."""
        return tuple((document.domain, document.name) for document, _ in self._order)

    def reference(self, name: str) -> tuple[str | None, ...]:
        """Texts of one reference, None where the segment lacks it."""
        texts = [document.references.get(name, {}).get(number) for document, number in self._order]
        return tuple(None if text is None or text.strip() in NO_REFERENCE else text.rstrip() for text in texts)

    @cached_property
    def segments(self) -> int | None:
        """Number of segments; None without references and outputs."""
        return len(self._order) if self.reference_files or self.output_files else None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Nothing: XML has no line ends to mind."""
        return ()

    def _output(self, system: str) -> list[str]:
        return [document.outputs[system][number].rstrip() for document, number in self._order]

    def _find_references(self) -> dict[str, Path]:
        return {checked_reference_name(name, self.file): self.file for name in self._names["references"]}

    def _find_outputs(self) -> dict[str, Path]:
        return dict.fromkeys(self._names["outputs"], self.file)
