"""Evaluation sets in the mt-metrics-eval directory layout, read strictly.

Any directory with that layout works; there is no registry of known sets. Line ``n`` of every file of a pair is segment
``n``. A missing system or segment is an error that names it, never a zero. Format: mt-metrics-eval v2
(``mt_metrics_eval/data.py``), with two additions: ``darr/PAIR.tsv`` holds relative rankings, and where it exists an
empty line in ``sources`` or ``system-outputs`` means that the text is unknown.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from os.path import realpath
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.eval.data.score_files import (
    HUMAN_NAME,
    FloatArray,
    Gold,
    RankingPairs,
    StoredScores,
    numbered_lines,
    read_segment_scores,
    read_system_scores,
)
from polyref.eval.judgements.rankings import read_pairs
from polyref.formats.documents import NO_REFERENCE as NO_REFERENCE
from polyref.json_files import parse_json
from polyref.tables import name_as_text
from polyref.textfiles import check_parallel, read_lines


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


class EvalSet:
    """One language pair of an evaluation set. Texts and scores are read when they are asked for.

    Args:
        directory: The set's directory.
        pair: Language pair, ``SRC-TGT``.

    Raises:
        DataError: The directory does not exist, or has nothing for this pair.
    """

    def __init__(self, directory: str | Path, pair: str) -> None:
        self.directory = Path(directory)
        self.pair = pair
        self.name = Path(realpath(directory)).name
        if not self.directory.is_dir():
            raise DataError("no such directory", file=directory, remedy="expected an mt-metrics-eval layout")
        self.reference_files = self._find_references()
        self.output_files = self._find_outputs()
        self.darr_file = self.directory / "darr" / f"{pair}.tsv"
        self.human_files = self._human_files()
        if not self.human_files and not self.output_files and not self.darr_file.is_file():
            found = ", ".join(pairs_in(self.directory)) or "none (expected an mt-metrics-eval layout)"
            raise DataError(f"nothing for the pair {pair!r}; pairs found: {found}", file=directory)

    def __repr__(self) -> str:
        references = ", ".join(self.reference_files) or "none"
        return f"EvalSet({self.directory} {self.pair}: {len(self.output_files)} outputs, references {references})"

    @property
    def has_texts(self) -> bool:
        """Whether systems can be scored here: there are references and outputs."""
        return bool(self.reference_files) and bool(self.output_files)

    @cached_property
    def source(self) -> tuple[str, ...] | None:
        """Source segments, or None if the set has none."""
        read = self._source
        return None if read is None else tuple(self._cut(read))

    @property
    def source_file(self) -> Path | None:
        """Where the source segments are."""
        files = [self.directory / "sources" / f"{self.pair}{suffix}" for suffix in (".txt", ".jsonl")]
        return next((path for path in files if path.is_file()), None)

    @cached_property
    def documents(self) -> tuple[tuple[str, str], ...] | None:
        """(domain, document) of every segment, or None if the set does not say."""
        path = self.directory / "documents" / f"{self.pair}.docs"
        if not path.is_file():
            return None
        rows = read_documents(path)
        if self.segments is not None and len(rows) != self.segments:
            reason = f"has {len(rows)} lines, but the set has {self.segments} segments"
            raise DataError(reason, file=path, remedy="one line a segment: DOMAIN DOCUMENT")
        return tuple(rows)

    def reference(self, name: str) -> tuple[str | None, ...]:
        """Texts of one reference, None if the segment has none."""
        texts = self._cut(self._texts[self.reference_files[name]])
        return tuple(None if text in NO_REFERENCE else text for text in texts)

    def choose_references(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Check reference names; without any, the only one there is.

        Raises:
            UsageError: An unknown or repeated name, or none was given and there are several.
            DataError: The set has no reference for this pair.
        """
        there = ", ".join(self.reference_files)
        if not self.reference_files:
            raise DataError(f"no references for {self.pair}", file=self.directory / "references")
        if not names:
            if len(self.reference_files) > 1:
                raise UsageError(f"{self.pair} has several references: {there}", remedy="choose with `ref`")
            return tuple(self.reference_files)
        for position, name in enumerate(names):
            if name not in self.reference_files:
                raise UsageError(f"no reference {name!r} for {self.pair}, there are: {there}")
            if name in names[:position]:
                raise UsageError(f"reference {name!r} is given twice")
        return tuple(names)

    def references(self, names: Sequence[str]) -> list[list[str | None]]:
        """Segment-major texts of the named references: ``[segment][reference]``.

        Raises:
            DataError: The files have different numbers of lines, or a segment has none of these references.
        """
        columns = [self.reference(name) for name in names]
        files = [(self.reference_files[name], len(texts)) for name, texts in zip(names, columns, strict=True)]
        check_parallel(files)
        rows = [list(row) for row in zip(*columns, strict=True)]
        for index, row in enumerate(rows):
            if all(text is None for text in row):
                raise DataError("the segment has no reference", file=files[0][0], line=index + 1)
        return rows

    def outputs(self, systems: Iterable[str]) -> list[list[str]]:
        """Outputs of the named systems: ``[system][segment]``, checked against the references' length.

        Raises:
            DataError: A system has no output file, or files differ in length.
        """
        texts, files = [], []
        for name in systems:
            if name not in self.output_files:
                folder, there = self.directory / "system-outputs" / self.pair, ", ".join(self.output_files)
                raise DataError(f"no output of system {name!r}", file=folder, remedy=f"there are: {there}")
            texts.append(self._output(name))
            files.append((self.output_files[name], len(texts[-1])))
        if self.reference_files:
            first = next(iter(self.reference_files))
            files.insert(0, (self.reference_files[first], len(self.reference(first))))
        if self.source is not None:
            files.append((self.source_file or self.directory, len(self.source)))
        check_parallel(files)
        return texts

    def known(self, outputs: Sequence[Sequence[str]]) -> npt.NDArray[np.bool_]:
        """Which of ``outputs`` are real texts, shape (systems, segments).

        All of them, except in a pair with relative rankings: there, an empty line means unknown.
        """
        mask = np.ones((len(outputs), len(outputs[0]) if outputs else 0), dtype=np.bool_)
        if self.darr_file.is_file():
            mask &= np.array([[text != "" for text in texts] for texts in outputs])
            if self.source is not None:
                mask &= np.array([text != "" for text in self.source])
        return mask

    def is_human(self, system: str) -> bool:
        """Whether an output was made by people: a reference that is scored, or one named so."""
        return system in self.reference_files or HUMAN_NAME.fullmatch(system) is not None

    def copies_of(self, references: Collection[str]) -> set[str]:
        """Systems that are one of these references: by name, or made by people and the same text (``ref-A`` of ``A``).

        The names of references that are not there are passed over.
        """
        texts = [self.reference(name) for name in references if name in self.reference_files]
        return {*references} | {
            system
            for system in self.output_files
            if self.is_human(system) and any(_equal(self._output(system), own) for own in texts)
        }

    @cached_property
    def segments(self) -> int | None:
        """Number of segments, in which all text files must agree; None for a set without texts."""
        if not self._texts:
            return None
        least = min(map(len, self._texts.values()))
        check_parallel(
            [(path, least if blank_line_more(own, least) else len(own)) for path, own in self._texts.items()]
        )
        return least

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the user has to know about the text files."""
        read = dict(self._texts)
        if self.source_file is not None and self._source is not None:
            read[self.source_file] = self._source
        marked, longer = [], []
        for path, texts in read.items():
            with path.open("rb") as stream:
                if stream.read(3) == codecs.BOM_UTF8:
                    marked.append(name_as_text(path.name))
            if len(self._cut(texts)) < len(texts):
                longer.append(name_as_text(path.name))
        found = []
        if marked:
            found.append(f"begins with a byte order mark, left out (sacreBLEU scores it as text): {', '.join(marked)}")
        if longer:
            found.append(f"ends in a blank line more than the others, left out: {', '.join(longer)}")
        return tuple(found)

    @cached_property
    def _texts(self) -> dict[Path, list[str]]:
        """What the files of references and outputs hold."""
        files = dict.fromkeys(self.reference_files.values(), "target")
        files |= dict.fromkeys(self.output_files.values(), "hypothesis")
        return {path: read_texts(path, key) for path, key in files.items()}

    @cached_property
    def _source(self) -> list[str] | None:
        """What the file of sources holds."""
        return None if self.source_file is None else read_texts(self.source_file, "source")

    def _cut(self, texts: list[str]) -> list[str]:
        """Without a blank line at the end that the other files do not have."""
        return texts[:-1] if self.segments is not None and blank_line_more(texts, self.segments) else texts

    def gold(
        self, name: str, *, system_gold: str | None = None, include_human: bool = False, pairs: str = "count"
    ) -> Gold:
        """Read human judgements.

        Args:
            name: ``darr``, or a name in ``human-scores``.
            system_gold: Name of the system-level judgement; default: the same, and for ``darr`` the only one there
                is, or ``wmt-z``.
            include_human: Keep translations made by people among the systems.
            pairs: What becomes of outputs that several lines of relative rankings compare, as
                :class:`~polyref.eval.judgements.rankings.Rankings` takes it.

        Raises:
            UsageError: No such judgement; the message lists those there are.
            DataError: A judgement of an unknown system, or of too few or too many segments.
        """
        available = self.golds()
        if name not in available:
            raise UsageError(f"no judgement {name!r} for {self.pair}, there are: {', '.join(available) or 'none'}")
        named = system_gold or ("" if name == "darr" else name)
        found = self.system_gold(named or None, include_human=True, optional=system_gold is None)
        system, system_name = found or ({}, None)
        segment = self._segment_gold(name) if (name, "seg") in self.human_files else {}
        segment = {s: v for s, v in segment.items() if not np.isnan(v).all()}
        kept = [s for s in self.output_files if include_human or not self.is_human(s)]
        ranked: RankingPairs | None = None
        notes: tuple[str, ...] = ()
        if name == "darr":
            if self.segments is None:
                raise DataError("relative rankings without texts", file=self.darr_file, remedy="add system-outputs")
            ranked, notes = read_pairs(self.darr_file, tuple(self.output_files), self.segments, pairs)
            ranked = ranked.of(kept)
        if not include_human:
            system = {s: v for s, v in system.items() if not self.is_human(s)}
            segment = {s: v for s, v in segment.items() if not self.is_human(s)}
        judged = system.keys() | segment.keys()
        unjudged = tuple(s for s in kept if s not in judged) if judged else ()
        return Gold(name, system_name if system else None, system, segment, ranked, unjudged, (*self.notes, *notes))

    def system_gold(
        self, name: str | None, *, include_human: bool = False, optional: bool = False
    ) -> tuple[dict[str, float], str] | None:
        """System-level scores and the name of their judgement; without a name the only one there is, or ``wmt-z``.

        None where no name was given and none is there.

        Raises:
            UsageError: No such judgement, unless ``optional``.
        """
        there = [one for one, level in self.human_files if level == "sys"]
        chosen = name or (there[0] if len(there) == 1 else "wmt-z")
        if chosen not in there:
            if name is not None and not optional:
                raise UsageError(f"no system-level judgement {name!r} for {self.pair}")
            return None
        system = self._system_gold(chosen)
        return {s: v for s, v in system.items() if include_human or not self.is_human(s)}, chosen

    def golds(self) -> list[str]:
        """Names of the judgements there are for this pair."""
        names = sorted({name for name, _ in self.human_files})
        return (["darr"] if self.darr_file.is_file() else []) + names

    def _segment_gold(self, name: str) -> dict[str, FloatArray]:
        """Scores of every judged output by the judgement of a name."""
        path = self.human_files[name, "seg"]
        scores = read_segment_scores(path, self.segments, allow_missing=True)
        self._check_systems((s for s, v in scores.items() if not np.isnan(v).all()), path)
        return scores

    def _system_gold(self, name: str) -> dict[str, float]:
        """Scores of every judged system by the judgement of a name."""
        path = self.human_files[name, "sys"]
        scores = {s: v for s, v in read_system_scores(path, allow_missing=True).items() if not np.isnan(v)}
        self._check_systems(scores, path)
        return scores

    def _find_references(self) -> dict[str, Path]:
        """``references/PAIR.NAME.txt`` by name, which holds neither dots nor dashes."""
        files = files_by_stem(self.directory / "references", (".txt", ".jsonl"))
        own = {
            stem.removeprefix(f"{self.pair}."): path for stem, path in files.items() if stem.startswith(f"{self.pair}.")
        }
        return {checked_reference_name(name, path): path for name, path in own.items()}

    def _find_outputs(self) -> dict[str, Path]:
        return files_by_stem(self.directory / "system-outputs" / self.pair, (".txt", ".jsonl"))

    def _output(self, system: str) -> list[str]:
        return self._cut(self._texts[self.output_files[system]])

    def _check_systems(self, judged: Iterable[str], path: Path) -> None:
        if not self.output_files:
            return
        for system in judged:
            if system not in self.output_files and not self.is_human(system):
                there = ", ".join(self.output_files)
                raise DataError(
                    f"judges the unknown system {system!r}", file=path, remedy=f"outputs there are: {there}"
                )

    def _human_files(self) -> dict[tuple[str, str], Path]:
        found: dict[tuple[str, str], Path] = {}
        for stem, path in files_by_stem(self.directory / "human-scores", (".score",)).items():
            if stem.startswith(f"{self.pair}."):
                name, _, level = stem[len(self.pair) + 1 :].rpartition(".")
                if name and level in {"sys", "seg"}:
                    found[name, level] = path
        return found

    def stored_names(self, folder: str = "metric-scores") -> dict[str, dict[str, dict[str, Path]]]:
        """Metric -> references -> level -> file, of the score files of this pair."""
        return metric_files(self.directory / folder / self.pair)

    def stored(self, name: str, references: Sequence[str] | None = None, folder: str = "metric-scores") -> StoredScores:
        """Read the scores of a metric that the set comes with.

        Args:
            name: The metric, exactly as in the file name.
            references: Its references; needed when the metric has files for several.
            folder: Folder of the score files.

        Raises:
            UsageError: No such metric or references; the message lists those there are.
        """
        metrics = self.stored_names(folder)
        if name not in metrics:
            there = f"there are in {folder}: {', '.join(metrics) or 'none'}"
            raise UsageError(f"no stored scores of {name!r} for {self.pair}, {there}")
        choices = metrics[name]
        if references:
            wanted = ".".join(references)
            if wanted not in choices and len(references) > 2 and set(references) == set(self.reference_files):
                wanted = "all"
            # A metric that reads the source alone has the same scores whatever the references.
            wanted = "src" if wanted not in choices and set(choices) == {"src"} else wanted
        elif len(choices) == 1:
            wanted = next(iter(choices))
        else:
            raise UsageError(f"{name!r} has several references: {', '.join(choices)}", remedy="choose with `ref`")
        if wanted not in choices:
            raise UsageError(f"no scores of {name!r} with {wanted!r}, there are: {', '.join(choices)}")
        files = {level: path for level, path in choices[wanted].items() if level in {"sys", "seg"}}
        system = read_system_scores(files["sys"], allow_missing=False) if "sys" in files else {}
        segment = read_segment_scores(files["seg"], self.segments, allow_missing=False) if "seg" in files else {}
        return StoredScores(name, wanted, system, segment, files)


def _equal(output: Sequence[str], reference: Sequence[str | None]) -> bool:
    """Whether they are the same text wherever the reference has one."""
    rows = [(one, other) for one, other in zip(output, reference, strict=False) if other is not None]
    return bool(rows) and all(one == other for one, other in rows)
