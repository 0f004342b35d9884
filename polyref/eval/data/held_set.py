"""Evaluation sets whose texts, and perhaps judgements, were read from files that hold more than one text a segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from polyref.eval.data.evaluation_set import EvalSet
from polyref.eval.data.score_files import FloatArray
from polyref.eval.data.text_files import NO_REFERENCE


class _Unknown(str):
    """An output that nobody has, told from one that is empty."""

    __slots__ = ()


_UNKNOWN: Final = _Unknown()


@dataclass(frozen=True)
class Held:
    """One language pair, segment by segment; white space at the ends of texts does not count.

    Attributes:
        pair: As the file names it.
        source: Sources.
        documents: (domain, document) of every segment.
        references: Name -> texts; None where a segment has none.
        outputs: System -> texts; None where the output is unknown.
        scores: Judgement -> system -> scores of shape (segments,), NaN where nobody judged. The score of a system is
            the mean of its judged segments.
        notes: What the user has to know.
    """

    pair: str
    source: Sequence[str]
    documents: Sequence[tuple[str, str]]
    references: Mapping[str, Sequence[str | None]]
    outputs: Mapping[str, Sequence[str | None]]
    scores: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class HeldSet(EvalSet):
    """Such a set. Scores of metrics, and further judgements, may lie beside its file as in mt-metrics-eval's layout.

    Args:
        file: Where it is from.
        held: What is in it.
        name: What the set is called; None for the name of the folder.
    """

    def __init__(self, file: str | Path, held: Held, name: str | None = None) -> None:
        self.file = Path(file)
        self._held = held
        super().__init__(self.file.parent, held.pair)
        self.name = name or self.name

    @property
    def source_file(self) -> Path | None:
        """The file itself."""
        return self.file

    @cached_property
    def source(self) -> tuple[str, ...] | None:
        """Source segments."""
        return tuple(text.rstrip() for text in self._held.source)

    @cached_property
    def documents(self) -> tuple[tuple[str, str], ...] | None:
        """(domain, document) of every segment."""
        return tuple(self._held.documents)

    def reference(self, name: str) -> tuple[str | None, ...]:
        """Texts of one reference, None where the segment lacks it."""
        texts = self._held.references[name]
        return tuple(None if text is None or text.strip() in NO_REFERENCE else text.rstrip() for text in texts)

    @cached_property
    def segments(self) -> int | None:
        """Number of segments; None without references and outputs."""
        return len(self._held.source) if self.reference_files or self.output_files else None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the user has to know about the files."""
        return self._held.notes

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
