"""Evaluation sets in the JSON of the general task: its human evaluation, or a test set with a folder of outputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from lzma import LZMAError
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.eval.data.held_set import Held, HeldSet
from polyref.eval.data.score_files import mean_score
from polyref.eval.data.text_files import files_by_stem
from polyref.formats import opened_lines
from polyref.formats.base import Format, Reading, looks
from polyref.formats.wmt import general, human_evaluation
from polyref.formats.wmt.documents import HUMAN_NAME, check_name
from polyref.json_files import Record
from polyref.textfiles import open_unpacked

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
    """The file of such a set: a file that is no markup, or the only one in a folder of no other layout.

    Args:
        place: A file or folder.
        with_systems: Whether outputs are given apart, so that a test set is meant.

    Raises:
        DataError: Several files of a folder are sets.
    """
    if not place.is_dir():
        return place if place.is_file() and not is_markup(place) else None
    if any((place / name).is_dir() for name in ("system-outputs", "references", "darr", "da")):
        return None
    wanted = (general.FORMAT,) if with_systems else (general.FORMAT, human_evaluation.FORMAT)
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
        outputs = form is general.FORMAT and '"src_text"' not in first
        return form if form in (general.FORMAT, human_evaluation.FORMAT) and not outputs else None


def open_json(file: Path, pair: str, systems: str | Path | None = None) -> HeldSet:
    """The set of one language pair.

    Args:
        file: Of the human evaluation, or a test set of the general task, possibly packed.
        pair: Language pair, ``SRC-TGT``.
        systems: Folder with the outputs on a test set, ``NAME.jsonl``; None for ``systems`` beside it.

    Raises:
        DataError: A file is broken, in another form, or has nothing of the pair; outputs are missing.
        UsageError: Several pairs fit, or ``systems`` is given for what holds outputs.
    """
    form = _form(file)
    name = file.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".jsonl")
    with ExitStack() as stack:
        if form is None:
            lines, _ = opened_lines(file, stack, Reading())
            first = next((line for line in lines.lines if line.strip()), "")
            raise DataError(
                f"is no evaluation set: the first line is {looks(first)}", file=file, line=1, remedy=_EXPECTED
            )
        lines, _ = opened_lines(file, stack, Reading(form.name, pair=pair))
        if form is human_evaluation.FORMAT:
            if systems is not None:
                raise UsageError(f"{file} holds outputs, but `systems` is given too", remedy="leave it out")
            return HeldSet(file, _evaluation(*human_evaluation.read_items(lines)), name)
        there, texts = general.read_texts(lines)
        return HeldSet(file, _test_set(there or pair, texts, _outputs(file, there or pair, systems)), name)


def _evaluation(pair: str, items: Sequence[human_evaluation.Item]) -> Held:
    texts = human_evaluation.outputs_in(items)
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
        raise DataError(
            f"no outputs NAME.jsonl for the test set {file.name}",
            file=folder,
            remedy="name the folder of outputs: `systems`",
        )
    found = {}
    for name, path in named.items():
        check_name(name, Record({}, path))
        with ExitStack() as stack:
            lines, form = opened_lines(path, stack, Reading(pair=pair))
            if form is not general.FORMAT:
                first = next(lines.lines)
                raise DataError(f"is no output of a system: the first line is {looks(first)}", file=path, line=1,
                                remedy='expected JSON lines with "doc_id" and "hypothesis"')  # fmt: skip
            found[name] = path, dict(general.read_hypotheses(lines))
    return found


def _test_set(
    pair: str, texts: Sequence[general.Text], systems: Mapping[str, tuple[Path, Mapping[str, Sequence[str]]]]
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
    names = dict.fromkeys(name for text in texts for name in text.references)
    references: dict[str, list[str | None]] = {name: [] for name in names}
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
