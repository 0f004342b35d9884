"""Evaluation sets in the forms that WMT releases them: text files (2021 to 2023), XML (2021 to 2024), JSON (2024 on).

The text release of 2024 has the layout of mt-metrics-eval already. Human scores, if there are any, are in
``human-scores/`` as in that layout, or come from a file of judgements.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from lzma import LZMAError
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.eval.data.archive import MetricsTaskArchive
from polyref.eval.data.evaluation_set import NO_REFERENCE, EvalSet, checked_reference_name, files_by_stem, pairs_in
from polyref.eval.data.score_files import FloatArray, mean_score
from polyref.formats import general_task, opened_lines
from polyref.formats.base import Format, Reading, looks
from polyref.formats.columns import DEFAULT_NAME
from polyref.formats.documents import HUMAN_NAME, check_name
from polyref.formats.xml import read_xml
from polyref.json_files import Record
from polyref.languages import base, find_pair, split_pair
from polyref.tables import name_as_text
from polyref.textfiles import open_unpacked


class _Unknown(str):
    """An output that nobody has, told from one that is empty."""

    __slots__ = ()


_UNKNOWN: Final = _Unknown()


@dataclass(frozen=True)
class Held:
    """Texts and judgements of one language pair, segment by segment; white space at the ends does not count.

    None stands for a reference that a segment lacks, and for an unknown output. Scores are by judgement and system,
    shape (segments,), NaN where nobody judged; the score of a system is the mean of its judged segments.
    """

    pair: str
    source: Sequence[str]
    documents: Sequence[tuple[str, str]]
    references: Mapping[str, Sequence[str | None]]
    outputs: Mapping[str, Sequence[str | None]]
    scores: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class HeldSet(EvalSet):
    """A set whose texts, and perhaps judgements, were read from files that hold more than one text a segment.

    Scores of metrics, and further judgements, may lie beside its file as in mt-metrics-eval's layout.
    """

    def __init__(self, file: str | Path, held: Held, name: str | None = None) -> None:
        self.file = Path(file)
        self._held = held
        super().__init__(self.file.parent, held.pair)
        self.name = name or self.name
        self.source = tuple(text.rstrip() for text in held.source)
        self.documents = tuple(held.documents)
        self.notes = held.notes
        self.segments = len(held.source) if self.reference_files or self.output_files else None

    @property
    def source_file(self) -> Path | None:
        """The file itself."""
        return self.file

    def reference(self, name: str) -> tuple[str | None, ...]:
        """Texts of one reference, None where the segment lacks it."""
        texts = self._held.references[name]
        return tuple(None if text is None or text.strip() in NO_REFERENCE else text.rstrip() for text in texts)

    def known(self, outputs: Sequence[Sequence[str]]) -> npt.NDArray[np.bool_]:
        """Which of ``outputs`` are real texts, shape (systems, segments)."""
        there = np.array([[text is not _UNKNOWN for text in texts] for texts in outputs], dtype=np.bool_)
        mask: npt.NDArray[np.bool_] = super().known(outputs) & there
        return mask

    def _output(self, system: str) -> list[str]:
        return [_UNKNOWN if text is None else text.rstrip() for text in self._held.outputs[system]]

    def _find_references(self) -> dict[str, Path]:
        return dict.fromkeys(self._held.references, self.file)

    def _find_outputs(self) -> dict[str, Path]:
        return dict.fromkeys(self._held.outputs, self.file)

    def _human_files(self) -> dict[tuple[str, str], Path]:
        own = {(name, level): self.file for name in self._held.scores for level in ("sys", "seg")}
        return {**super()._human_files(), **own}

    def _segment_gold(self, name: str) -> dict[str, FloatArray]:
        return dict(self._held.scores[name]) if name in self._held.scores else super()._segment_gold(name)

    def _system_gold(self, name: str) -> dict[str, float]:
        if name not in self._held.scores:
            return super()._system_gold(name)
        return {s: float(np.nanmean(v)) for s, v in self._held.scores[name].items() if not np.isnan(v).all()}


#: What the judgements of the human evaluation are called: error span annotation.
ESA: Final = "esa"
#: Where outputs are, beside a test set, if nobody says.
_SYSTEMS: Final = "systems"
_PACKED: Final = (".jsonl", ".jsonl.gz", ".jsonl.xz")
_EXPECTED: Final = (
    "expected JSON lines of the general task's human evaluation (wmt25-genmt-humeval.jsonl, wmt24_esa.jsonl) or of its "
    "test set, WMT's XML, or a folder"
)


def is_markup(file: Path) -> bool:
    """Whether a file begins as XML does, in any encoding."""
    try:
        with open_unpacked(file) as stream:
            return stream.read(256).lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"
    except (OSError, EOFError, zlib.error, LZMAError, DataError):
        return ".xml" in file.name  # whose reader says what is wrong


def json_file(place: Path, *, with_systems: bool = False) -> Path | None:
    """A file that is no markup, or the only set in JSON in a folder of no other layout.

    ``with_systems`` says that outputs are given apart, so that a test set is meant.
    """
    if not place.is_dir():
        return place if place.is_file() and not is_markup(place) else None
    if any((place / name).is_dir() for name in ("system-outputs", "references", "darr", "da")):
        return None
    wanted = (general_task.GENERAL,) if with_systems else (general_task.GENERAL, general_task.EVALUATION)
    found = [path for path in sorted(place.iterdir()) if path.name.endswith(_PACKED) and _form(path) in wanted]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(f"holds several evaluation sets: {names}", file=place, remedy="name one of them")
    return found[0] if found else None


def _form(file: Path) -> Format | None:
    """The form of a file, if it is that of a set."""
    with ExitStack() as stack:
        try:
            lines, form = opened_lines(file, stack, Reading())
        except DataError:
            return None
        first = next(lines.lines)
        outputs = form is general_task.GENERAL and '"src_text"' not in first
        return form if form in (general_task.GENERAL, general_task.EVALUATION) and not outputs else None


def open_json(file: Path, pair: str, systems: str | Path | None = None) -> HeldSet:
    """The set of one language pair, from a file of the human evaluation or a test set, possibly packed.

    ``systems`` is the folder with the outputs on a test set, ``NAME.jsonl``; None for ``systems`` beside it.
    """
    form = _form(file)
    name = file.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".jsonl")
    with ExitStack() as stack:
        if form is None:
            lines, _ = opened_lines(file, stack, Reading())
            first = next((line for line in lines.lines if line.strip()), "")
            reason = f"is no evaluation set: the first line is {looks(first)}"
            raise DataError(reason, file=file, line=1, remedy=_EXPECTED)
        lines, _ = opened_lines(file, stack, Reading(form.name, pair=pair))
        if form is general_task.EVALUATION:
            if systems is not None:
                raise UsageError(f"{file} holds outputs, but `systems` is given too", remedy="leave it out")
            return HeldSet(file, _evaluation(*general_task.read_items(lines)), name)
        there, texts = general_task.read_texts(lines)
        return HeldSet(file, _test_set(there or pair, texts, _outputs(file, there or pair, systems)), name)


def _evaluation(pair: str, items: Sequence[general_task.JudgedSegment]) -> Held:
    texts = general_task.outputs_in(items)
    scores = {}
    for system in dict.fromkeys(name for item in items for name in item.scores):
        means = [mean_score(item.scores.get(system, ())) for item in items]
        if not all(map(math.isnan, means)):
            scores[system] = np.array(means)
    return Held(
        pair,
        [item.source for item in items],
        [(item.domain, item.document) for item in items],
        {name: own for name, own in texts.items() if HUMAN_NAME.fullmatch(name)},
        texts,
        {ESA: scores} if scores else {},
    )


def _outputs(file: Path, pair: str, systems: str | Path | None) -> dict[str, tuple[Path, dict[str, list[str]]]]:
    """System -> its file, and its paragraphs by document."""
    folder = file.parent / _SYSTEMS if systems is None else Path(systems)
    named = files_by_stem(folder, _PACKED)
    if not named:
        reason = f"no outputs NAME.jsonl for the test set {file.name}"
        raise DataError(reason, file=folder, remedy="name the folder of outputs: `systems`")
    found = {}
    for name, path in named.items():
        check_name(name, Record({}, path))
        with ExitStack() as stack:
            lines, form = opened_lines(path, stack, Reading(pair=pair))
            if form is not general_task.GENERAL:
                reason = f"is no output of a system: the first line is {looks(next(lines.lines))}"
                expected = 'expected JSON lines with "doc_id" and "hypothesis"'
                raise DataError(reason, file=path, line=1, remedy=expected)
            found[name] = path, dict(general_task.read_hypotheses(lines))
    return found


def _test_set(
    pair: str, texts: Sequence[general_task.Text], systems: Mapping[str, tuple[Path, Mapping[str, Sequence[str]]]]
) -> Held:
    outputs: dict[str, list[str | None]] = {}
    notes = []
    for system, (path, found) in systems.items():
        own = outputs[system] = []
        unfit = 0
        for text in texts:
            paragraphs = found.get(text.name)
            if paragraphs is None:
                raise DataError(f'no "hypothesis" for the document {text.name!r}', file=path)
            fits = len(paragraphs) == len(text.sources)
            unfit += not fits
            own += paragraphs if fits else [None] * len(text.sources)
        if unfit:
            notes.append(f"{system}: documents with another number of paragraphs than the source, unknown: {unfit}")
    references: dict[str, list[str | None]] = {name: [] for text in texts for name in text.references}
    for text in texts:
        for name, column in references.items():
            column += text.references.get(name) or [None] * len(text.sources)
    return Held(
        pair,
        [source for text in texts for source in text.sources],
        [text.place for text in texts for _ in text.sources],
        references,
        outputs,
        notes=tuple(notes),
    )


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
            pair (``NAME.SRC-TGT.xml``, ``NAME.SRC-TGT.all.xml``) or one set in JSON lines; or such a file.
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
        return {checked_reference_name(name or DEFAULT_NAME, path): path for name, path in found.items()}

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
    """An XML file of one language pair (wmt-conference/wmt-format-tools, ``wmt-schema.rnc``), possibly ``.gz``.

    Segments are those of ``src``, in the order of documents and then of their ids. A reference may lack documents or
    segments; a system may not.
    """

    def __init__(
        self, file: str | Path, pair: str, *, collection: str | None = None, test_suites: bool = False
    ) -> None:
        source, target = split_pair(pair) or (pair, "")
        read = read_xml(Path(file), source)
        if other := next((d for d in read if d.target and base(d.target) != base(target)), None):
            raise DataError(f"the texts are in {other.target!r}, expected {target!r}", file=file, line=other.line)
        there = list(dict.fromkeys(d.collection for d in read if d.collection is not None))
        if collection is not None and collection not in there:
            raise DataError(f"no collection {collection!r}, there are: {', '.join(there) or 'none'}", file=file)
        documents = [d for d in read if (test_suites or not d.test_suite) and collection in {None, d.collection}]
        if not documents:
            raise DataError("no documents", file=file, remedy="`test_suites` takes those of test suites")
        order = [(d, number) for d in documents for number in sorted(d.source)]
        if not order:
            raise DataError("no segments", file=file)
        systems = dict.fromkeys(name for d in documents for name in d.outputs)
        for document in documents:
            for system in systems:
                if lacking := sorted(document.source.keys() - document.outputs.get(system, {}).keys()):
                    what = f"segment {lacking[0]} of document {document.name!r}"
                    raise DataError(f"system {system!r} has no output of {what}", file=file, line=document.line)
        named = dict.fromkeys(name for d in documents for name in d.references)
        references = [checked_reference_name(name, Path(file)) for name in named]
        held = Held(
            pair,
            [d.source[number] for d, number in order],
            [(d.domain, d.name) for d, _ in order],
            {name: [d.references.get(name, {}).get(number) for d, number in order] for name in references},
            {name: [d.outputs[name][number] for d, number in order] for name in systems},
        )
        super().__init__(file, held)


EvaluationSet: TypeAlias = EvalSet | MetricsTaskArchive


def open_sets(
    folders: Sequence[str | Path],
    pairs: Sequence[str],
    collection: str | None = None,
    test_suites: bool = False,
    systems: str | Path | None = None,
) -> list[EvaluationSet]:
    """Every requested pair of every set that has it.

    ``folders`` may also be files of XML or JSON lines. ``collection`` and ``test_suites`` are of the XML releases among
    them, ``systems`` is the folder of outputs on the test sets in JSON.
    """
    for what, values in (("data", folders), ("pairs", pairs)):
        if not values:
            raise UsageError(f"`{what}` is empty, expected at least one")
    of_xml = [folder for folder in folders if any(is_xml(folder, pair) for pair in pairs)]
    if (collection is not None or test_suites) and not of_xml:
        raise UsageError("`collection` and `test_suites` are for XML releases", remedy=f"{folders[0]} is none")
    opened = [
        (folder, pair, _opened(folder, pair, collection, test_suites, systems))
        for folder in dict.fromkeys(folders)
        for pair in dict.fromkeys(pairs)
    ]
    found = [(folder, pair, one) for folder, pair, one in opened if not isinstance(one, DataError)]
    have_pair, have_set = {pair for _, pair, _ in found}, {folder for folder, _, _ in found}
    for folder, pair, one in opened:
        if isinstance(one, DataError) and (pair not in have_pair or folder not in have_set):
            raise one
    # One pair may be asked for under two names.
    return list({(folder, one.pair): one for folder, _, one in found}.values())


def _opened(
    folder: str | Path, pair: str, collection: str | None, test_suites: bool, systems: str | Path | None
) -> EvaluationSet | DataError:
    try:
        if is_archive(folder):
            return MetricsTaskArchive(folder, pair)
        xml = is_xml(folder, pair)
        asked = collection if xml else None
        return open_release(folder, pair, collection=asked, test_suites=test_suites and xml, systems=systems)
    except DataError as error:
        return error


def is_archive(directory: str | Path) -> bool:
    """Whether a directory has the layout of a metrics-task archive."""
    return (Path(directory) / "scores").is_dir() and (Path(directory) / "da").is_dir()


def set_name(evalset: EvaluationSet) -> str:
    """What a set is called: its folder, or its file."""
    return name_as_text(evalset.name)


def filled(pattern: str, evalset: EvaluationSet) -> str:
    """A file name with the set and the language pair put in for ``{set}`` and ``{pair}``."""
    return pattern.replace("{pair}", evalset.pair).replace("{set}", evalset.name)


def check_patterns(files: Sequence[str], sets: Sequence[EvaluationSet], parameter: str) -> None:
    """Refuse one file for several sets or pairs; ``parameter`` is where it was given."""
    for file in files:
        pairs, folders = {one.pair for one in sets}, {(one.directory, one.name) for one in sets}
        if (len(pairs) > 1 and "{pair}" not in file) or (len(folders) > 1 and "{set}" not in file):
            raise UsageError(
                f"one {parameter} file for several sets or language pairs: {file}",
                remedy="write {set} and {pair} where the names differ",
            )
