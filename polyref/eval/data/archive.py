"""The archive of the WMT20 metrics task: everyone's scores and the direct assessments, without the texts.

Layout (WMT-Metrics-task/wmt20-metrics): ``scores/METRIC.{sys,seg}.score.gz`` hold all language pairs;
``da/ad-sys-scores-PAIR.csv`` and ``da/metrics-ad-seg-scores-PAIR.csv`` the judgements. Relative rankings are made from
the latter as the organisers did: two systems' raw scores of a segment at least 25 points apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from os.path import realpath
from pathlib import Path
from typing import Final

import numpy as np

from polyref.errors import DataError, UsageError
from polyref.eval.data.evaluation_set import files_by_stem
from polyref.eval.data.score_files import (
    HUMAN_NAME,
    JUDGEMENT_RULE,
    FloatArray,
    Gold,
    RankingPairs,
    StoredScores,
    parse_score,
    table_rows,
)
from polyref.eval.data.task_files import read_rows
from polyref.languages import find_pair

#: Smallest difference of raw scores (0 to 100) that counts as a preference (WMT17 to WMT20).
DARR_MARGIN: Final = 25.0
#: The references that most scores were made with.
DEFAULT_REFERENCE: Final = "newstest2020"
_SYSTEM_SCORES: Final = ".sys.score.gz"


class MetricsTaskArchive:
    """One language pair of an archive with ``scores/`` and ``da/``; the counterpart of an ``EvalSet``."""

    has_texts = False

    def __init__(self, directory: str | Path, pair: str) -> None:
        self.directory = Path(directory)
        self.name = Path(realpath(directory)).name
        there = sorted(p.name[14:-4] for p in (self.directory / "da").glob("ad-sys-scores-*.csv"))
        self.pair = pair = find_pair(pair, there, directory) or pair
        self.system_file = self.directory / "da" / f"ad-sys-scores-{pair}.csv"
        self.segment_file = self.directory / "da" / f"metrics-ad-seg-scores-{pair}.csv"
        if not self.system_file.is_file() or not self.segment_file.is_file():
            raise DataError(f"nothing for the pair {pair!r}; pairs found: {', '.join(there) or 'none'}", file=directory)

    @property
    def segments(self) -> int:
        """Number of judged segments."""
        return len(self.segment_ids)

    @property
    def output_files(self) -> Mapping[str, Path]:
        """There are no texts."""
        return {}

    @staticmethod
    def is_human(system: str) -> bool:
        """Whether a translation was made by people."""
        return HUMAN_NAME.fullmatch(system) is not None

    @staticmethod
    def golds() -> list[str]:
        """Names of the judgements."""
        return ["darr", "wmt-z", "wmt-raw"]

    @cached_property
    def segment_ids(self) -> tuple[str, ...]:
        """``DOCUMENT::SEGMENT`` of every judged segment, in the order of the file."""
        return tuple(dict.fromkeys(segment for _, segment, _, _ in self._cells))

    def gold(
        self, name: str, *, system_gold: str | None = None, include_human: bool = False, pairs: str = "count"
    ) -> Gold:
        """Read human judgements, as ``EvalSet.gold`` does.

        Rankings are made here, from scores: none is repeated, and ``pairs`` changes nothing.
        """
        system_name = system_gold or ("wmt-z" if name == "darr" else name)
        for asked in (name, system_name):
            if asked not in self.golds():
                raise UsageError(f"no judgement {asked!r} for {self.pair}, there are: {', '.join(self.golds())}")
        column = {"wmt-raw": 0, "wmt-z": 1, "darr": 0}

        def kept(name: str) -> bool:
            return include_human or not self.is_human(name)

        system = {s: scores[column[system_name]] for s, scores in self._systems.items() if kept(s)}
        segment = {s: np.full(self.segments, np.nan) for s in self._judged if kept(s)}
        index = {segment_id: i for i, segment_id in enumerate(self.segment_ids)}
        for s, segment_id, raw, z in self._cells:
            if s in segment:
                segment[s][index[segment_id]] = (raw, z)[column[name]]
        if name == "darr":
            return Gold(name, system_name, system, {}, _rankings(segment))
        return Gold(name, system_name, system, segment)

    def stored_names(self, folder: str = "scores") -> list[str]:
        """Metrics with scores of systems."""
        return list(files_by_stem(self.directory / folder, (_SYSTEM_SCORES,)))

    def stored(self, name: str, references: Sequence[str] | None = None, folder: str = "scores") -> StoredScores:
        """Read a metric's scores of this pair, made with one reference; default ``newstest2020``.

        The name may be in any case that is unique.
        """
        there_are = files_by_stem(self.directory / folder, (_SYSTEM_SCORES,))
        names = list(there_are)
        found = [n for n in names if n == name] or [n for n in names if n.lower() == name.lower()]
        if len(found) != 1:
            raise UsageError(f"no scores of {name!r}, there are: {', '.join(found or names)}")
        if references is not None and len(references) > 1:
            raise UsageError("the archive has one reference set a score", remedy="give one `ref`")
        wanted = references[0] if references else DEFAULT_REFERENCE
        files = {"sys": there_are[found[0]]}
        rows = [row for row in read_rows(files["sys"], 2020, "sys") if row.fields["pair"] == self.pair]
        there = list(dict.fromkeys(row.fields["reference"] for row in rows))
        if wanted not in there:
            raise UsageError(f"no scores of {found[0]} with {wanted!r} for {self.pair}, there are: {', '.join(there)}")
        system = {row.fields["system"]: row.score for row in rows if row.fields["reference"] == wanted}
        segment: dict[str, FloatArray] = {}
        path = files["sys"].with_name(files["sys"].name.removesuffix(_SYSTEM_SCORES) + ".seg.score.gz")
        if path.is_file():
            segment = self._segment_scores(path, wanted)
            files |= {"seg": path} if segment else {}
        return StoredScores(found[0], wanted, system, segment, files)

    def _segment_scores(self, path: Path, reference: str) -> dict[str, FloatArray]:
        index = {segment_id: i for i, segment_id in enumerate(self.segment_ids)}
        scores: dict[str, FloatArray] = {}
        for row in read_rows(path, 2020, "seg"):
            if row.fields["pair"] == self.pair and row.fields["reference"] == reference:
                at = index.get(f"{row.fields['document']}::{row.fields['segment']}")
                if at is not None:
                    scores.setdefault(row.fields["system"], np.full(self.segments, np.nan))[at] = row.score
        if scores:
            for system, segment_id, _, _ in self._cells:
                if self.is_human(system):
                    continue
                if system not in scores or np.isnan(scores[system][index[segment_id]]):
                    raise DataError(f"no score of {system!r} for the judged segment {segment_id}", file=path)
        return scores

    @cached_property
    def _cells(self) -> list[tuple[str, str, float, float]]:
        """System, segment, raw and standardised score of every judged output."""
        rows, seen = [], set()
        for number, values in table_rows(self.segment_file, ("SYS", "SEGID", "RAW.SCR", "Z.SCR", "N", "SID")):
            key = (values[0], values[1])
            if key in seen:
                raise DataError(f"{values[0]!r} has a second score of {values[1]}", file=self.segment_file, line=number)
            seen.add(key)
            raw, z = (parse_score(text, self.segment_file, number, rule=JUDGEMENT_RULE) for text in values[2:4])
            rows.append((*key, raw, z))
        return rows

    @cached_property
    def _judged(self) -> list[str]:
        return sorted({system for system, _, _, _ in self._cells})

    @cached_property
    def _systems(self) -> dict[str, tuple[float, float]]:
        """System -> raw and standardised score, under the names of the segment file.

        The archive spells some names with a dash in one file and an underscore in the other.
        """
        spelling = {_folded(name): name for name in self._judged}
        scores: dict[str, tuple[float, float]] = {}
        for number, values in table_rows(self.system_file, ("RAW.SCR", "Z.SCR", "N", "SYS", "N.ALL")):
            system = spelling.get(_folded(values[3]), values[3])
            if system in scores:
                raise DataError(f"system {values[3]!r} has a second score", file=self.system_file, line=number)
            raw, z = (parse_score(text, self.system_file, number, rule=JUDGEMENT_RULE) for text in values[:2])
            scores[system] = (raw, z)
        return scores


def _folded(name: str) -> str:
    return name.replace("_", "-")


def _rankings(raw: Mapping[str, FloatArray]) -> RankingPairs:
    """Pairs of outputs whose raw scores are at least ``DARR_MARGIN`` apart, the better one first."""
    systems = tuple(raw)
    parts = []
    for a, b in itertools.permutations(range(len(systems)), 2):
        at = np.flatnonzero(raw[systems[a]] - raw[systems[b]] >= DARR_MARGIN)
        parts.append(np.stack([at, np.full_like(at, a), np.full_like(at, b)]))
    segment, better, worse = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), dtype=np.intp)
    order = np.argsort(segment, kind="stable")
    return RankingPairs(segment[order], better[order], worse[order], systems)
