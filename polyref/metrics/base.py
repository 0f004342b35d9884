"""The contract of every metric: text to statistics once, statistics to scores as often as you like.

How to use it::

    metric = get_metric("bleu")                              # polyref.metrics.registry
    stats = metric.statistics({"A": outputs_a, "B": outputs_b}, refset, ks=[0, 1, 5, 10])
    for k in (0, 1, 5, 10):
        scores = metric.aggregate(stats, k=k)
        scores.system                                        # (S,) corpus-level scores, in the order of the systems
        scores.segment                                       # (S, N) sentence-level scores
        scores.signature

    subset = metric.aggregate(stats, k=5, over=indices)      # only some segments (indices or a boolean mask)
    samples = metric.resample(stats, counts, k=5)            # (B, S) corpus scores of B resamplings

``ks=None`` stores every number of extra references there is. ``k`` counts extra references: ``k=0`` is the human
references alone and equals the plain metric. Segments with fewer than ``k`` use what they have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.errors import DataError, UsageError
from polyref.metrics.combination import Combination
from polyref.metrics.signature import described_sources, provenance, read_sources, span
from polyref.metrics.statistics import Choices, Floats, Integers, Scores, Statistics, check_finite, check_present
from polyref.options import check_fields, fields_of
from polyref.references import ReferenceSet
from polyref.values import wholes

#: Segments whose sentence-level scores are computed together.
_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True)
class Texts:
    """What a metric reads: the outputs of S systems and the references of N segments.

    Attributes:
        systems: ``systems[s][n]`` is a text.
        references: ``references[n]`` are the references of segment n, human ones first.
        cuts: Shape (K, N), rows ascending: for every k, how many of the references count.
        originals: Shape (N,): how many of them are human.
        weights: Shape (N, R), R the largest cut: unnormalised weights of the references.
        sources: Shape (N,): the source texts, None where a segment has none.
        chosen: Shape (K, S, N), to be filled by metrics that choose one reference for a sentence: which; -1 is none.
    """

    systems: Sequence[Sequence[str]]
    references: Sequence[Sequence[str]]
    cuts: Integers
    originals: Integers
    weights: Floats
    sources: Sequence[str | None]
    chosen: Choices | None = None


class Metric(ABC):
    """A metric with its options. Children are frozen dataclasses whose fields are the options.

    A metric whose references combine in more than one way lists the ways in :attr:`combinations`, and has a field
    ``combination``.
    """

    #: The ways to combine references that the metric can do.
    combinations: ClassVar[tuple[type[Combination], ...]] = ()
    #: How references combine; None where the metric itself decides.
    combination: Combination | None = None
    #: Those of the combination's options that statistics always hold, ``combine`` among them; none: all.
    stored: ClassVar[tuple[str, ...]] = ()
    #: Digits of a score that people are shown.
    digits: ClassVar[int] = 4
    #: What the flags of its options begin with, ``--FAMILY-OPTION``; empty: the metric's name.
    family: ClassVar[str] = ""
    #: Whether the statistics of a segment depend on nothing but its own texts and references, to the last digit: a
    #: large set is then read in stretches.
    by_segment: ClassVar[bool] = False
    #: Whether a larger score is a better translation.
    higher_is_better: ClassVar[bool] = True
    #: Whether a segment without a reference cannot be scored (no: the metric reads the source alone).
    needs_references: ClassVar[bool] = True
    #: Whether a segment without a source cannot be scored.
    needs_sources: ClassVar[bool] = False
    #: Whether an output may get no score: its sentence score is NaN, and its statistics are zeros.
    may_miss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self.name, self)
        if self.combination is not None and not isinstance(self.combination, self.combinations):
            known = ", ".join(kind.name for kind in self.combinations)
            raise UsageError(f"{self.name}: `combine` is {self.combination.name!r}, expected one of {known}")

    @property
    @abstractmethod
    def name(self) -> str:
        """The registry name, such as ``chrf++``."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What people call it, such as ``chrF++``."""

    @property
    def par_label(self) -> str:
        """What people call it where extra references take part."""
        return f"par{self.label.upper()}"

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that its model knows; empty: any, or the model does not say."""
        return ()

    def between(self, source: str, target: str) -> Metric:
        """The same for texts of these languages, where it asks for them and nobody named others."""
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics, as plain JSON values; here all options, and how references combine."""
        shared = {} if self.combination is None else self.combination.options(*self.stored)
        own = {name: getattr(self, name) for name in fields_of(type(self))}
        return {**shared, **{name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}}

    @property
    def weighed_by(self) -> str:
        """What references are weighed by: ``uniform``, ``given`` or ``logprob``; empty where they are not."""
        return "" if self.combination is None else self.combination.weighed_by

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the statistics of one segment, C of them."""

    @abstractmethod
    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        """Statistics of every output against the first references: shape (K, S, N, C); zeros where a cut is 0."""

    @abstractmethod
    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        """Scores from statistics of shape (..., C), of single sentences or summed over many: shape (...)."""

    @abstractmethod
    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        """``key:value`` parts of the signature; ``references`` is None when their number varies."""

    def _weighed(self, texts: Texts, references: ReferenceSet) -> npt.NDArray[Any]:
        """What :meth:`_count` gives with the weights of every cut; cuts whose weights agree are counted together."""
        cuts, how = texts.cuts, self.combination
        if how is None:
            return self._count(replace(texts, weights=np.ones((len(references), int(cuts[-1].max(initial=0))))))
        if how.weighed_by != "logprob":
            return self._count(replace(texts, weights=how.weigh(references, cuts)))
        # Relative to the best reference in use: those beyond k change nothing.
        weights = [how.weigh(references, cut[None]) for cut in cuts]
        parts, start = [], 0
        for end in range(1, len(cuts) + 1):
            if end < len(cuts):
                shared = weights[end][:, : weights[end - 1].shape[1]]
                shared = np.where(np.arange(shared.shape[1]) < cuts[end - 1, :, None], shared, 0.0)
                if np.array_equal(shared, weights[end - 1]):
                    continue
            parts.append(self._count(replace(texts, cuts=cuts[start:end], weights=weights[end - 1])))
            start = end
        return np.concatenate(parts)

    def statistics(
        self,
        systems: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        *,
        ks: Sequence[int] | None = None,
        allow_missing: bool = False,
    ) -> Statistics:
        """Read the text once.

        Args:
            systems: Name to outputs, one per segment of ``references`` and in that order.
            references: Ragged sets are fine.
            ks: The numbers of extra references to store, each >= 0; None stores all of them.
            allow_missing: Leave a segment that has no reference out of the corpus scores (its sentence scores are
                NaN) instead of refusing it.

        Raises:
            DataError: No system, no segment, a system of another length, an output that is no text, a segment without a
                reference or source that the metric needs, or a statistic that is no finite number.
            UsageError: ``systems`` is no mapping, or ``references`` is no set.
            ValueError: A ``k`` is negative, or outputs are one string.
        """
        _check_outputs(systems, references)
        extras = np.array([len(segment.extras) for segment in references], dtype=np.int64)
        originals = np.array([len(segment.originals) for segment in references], dtype=np.int64)
        most = int(extras.max())
        stored = tuple(range(most + 1)) if ks is None else tuple(sorted({min(k, most) for k in wholes("ks", ks)}))
        if not stored:
            raise ValueError("ks is empty, expected at least one number of references")
        cuts = np.stack([originals + np.minimum(extras, k) for k in stored])
        if self.needs_sources and (bare := next((one for one in references if one.source is None), None)) is not None:
            remedy = "give the sources (`sources`), or a reference set that holds them"
            raise DataError(f"segment {bare.id} has no source, which {self.label} reads", remedy=remedy)
        ids = tuple(segment.id for segment in references)
        if self.needs_references and not allow_missing:
            check_present(ids, cuts[0], stored[0])
        names = tuple(systems)
        texts = Texts(
            [systems[name] for name in names],
            [[ref.text for ref in (*segment.originals, *segment.extras)] for segment in references],
            cuts,
            originals,
            np.zeros((len(ids), 0)),
            tuple(segment.source for segment in references),
            chosen := np.full((len(stored), len(names), len(ids)), -1, dtype=np.int16),
        )
        values = self._weighed(texts, references)
        for part in values:
            check_finite(self.label, part, names, ids)
        by_segment = chosen.swapaxes(1, 2)
        by_segment[cuts == 0] = -1
        if self.needs_references:  # a single one is what every combination is of
            by_segment[cuts == 1] = 0
        meta = read_sources(references) if self.needs_sources else references.meta
        return Statistics(
            self.name, self.options, names, ids, stored, self.columns, values, originals, extras, meta, chosen
        )

    def aggregate(self, stats: Statistics, *, k: int, over: npt.ArrayLike | None = None) -> Scores:
        """Scores with the first ``k`` extra references.

        Args:
            stats: What :meth:`statistics` returned, of a metric with the same options.
            k: One of the stored numbers, or any number above what there is (which uses what there is).
            over: Indices of segments (repeats count) or a mask of shape (N,); None takes all segments.

        Raises:
            ValueError: The statistics are another metric's, or ``k`` was not stored.
            DataError: A score is no finite number.
        """
        values = self._checked(stats, k)
        counts = stats.counts(k)
        segments = stats.segments
        choices = None if stats.chosen is None else stats.at(k, stats.chosen)
        if over is not None:
            asked = np.asarray(over)
            chosen = np.arange(len(segments))[asked if asked.size else asked.astype(np.int64)]
            values, counts = values[:, chosen], counts[chosen]
            choices = None if choices is None else choices[:, chosen]
            segments = tuple(segments[index] for index in chosen)
        sentences = self._sentences(values)
        there = counts > 0 if self.needs_references else np.ones(len(counts), dtype=np.bool_)
        scored = there & ~np.isnan(sentences) if self.may_miss else there
        check_finite(self.label, np.where(scored, sentences, 0.0), stats.systems, segments)
        sentences[:, ~there] = np.nan
        used = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
        missing = int((~there).sum())
        return Scores(
            name=self.display_name(stats, k),
            k=k,
            systems=stats.systems,
            segments=segments,
            system=self._corpus(values, counts, stats.systems),
            segment=sentences,
            references=used,
            signature=self.signature_of(stats, k, used, missing, sentence=False),
            segment_signature=self.signature_of(stats, k, used, missing, sentence=True),
            missing=missing,
            chosen=choices,
        )

    def signature_of(
        self, stats: Statistics, k: int, references: tuple[int, int], missing: int, *, sentence: bool
    ) -> str:
        """Everything that made the scores of corpora, or of sentences.

        Args:
            stats: What they were made from.
            k: Extra references that were asked for.
            references: Smallest and largest number of references that a segment used.
            missing: Segments without any.
            sentence: Which of the two.
        """
        fewest, most = references
        own = self._describe(most if fewest == most and self.needs_references else None, sentence=sentence)
        sources = described_sources(stats.meta) if self.needs_sources else []
        parts = [self.display_name(stats, k), *self._described_model(stats, k), *own, *sources]
        if self.needs_references:
            available = int(stats.extras.min()), int(stats.extras.max())
            parts.append(f"k:{k}")
            # Some segment has fewer than were asked for: the number alone would claim too much.
            parts += [f"available:{span(available)}"] if k > available[0] else []
            parts.append(f"refs:{span(references)}")
            parts += [f"missing:{missing}"] if missing else []
            parts += provenance(stats.meta) if k > 0 else []
        return "|".join([*parts, f"polyref:{__version__}"])

    def _described_model(self, stats: Statistics, k: int) -> list[str]:
        """Parts of the signature that the statistics know of a model."""
        return []

    def corpus(self, stats: Statistics, *, k: int) -> Floats:
        """The corpus-level scores of :meth:`aggregate` alone, shape (S,): no sentence is scored."""
        return self._corpus(self._checked(stats, k), stats.counts(k), stats.systems)

    def details(self, stats: Statistics, *, k: int) -> list[dict[str, Any]]:
        """What else there is to say of the corpus-level score of every system, as plain values; here nothing."""
        return [{} for _ in stats.systems]

    def resample(self, stats: Statistics, counts: npt.ArrayLike, *, k: int) -> Floats:
        """Corpus-level scores of resampled test sets.

        Args:
            stats: As for :meth:`aggregate`.
            counts: Shape (B, N): how often each segment occurs in each of B resamplings.
            k: As for :meth:`aggregate`.

        Returns:
            Shape (B, S).
        """
        values = self._checked(stats, k)
        systems, segments, columns = values.shape
        # Sums of whole numbers below 2**53 are exact in float64, so this equals summing row by row.
        flat = values.transpose(1, 0, 2).reshape(segments, systems * columns).astype(np.float64, copy=False)
        sums = np.asarray(counts, dtype=np.float64) @ flat
        return self.score_sums(sums.reshape(-1, systems, columns))

    def score_sums(self, sums: npt.NDArray[Any]) -> Floats:
        """Corpus-level scores of statistics that were summed over segments: shape (..., C) to (...)."""
        return self._score(sums, sentence=False)

    def display_name(self, stats: Statistics, k: int) -> str:
        """The label, with ``par`` in front where extra references take part."""
        added = self.needs_references and min(k, stats.most_extras)
        return self.par_label if added else self.label

    def _checked(self, stats: Statistics, k: int) -> npt.NDArray[Any]:
        if stats.metric != self.name or dict(stats.options) != self.options:
            found = f"{stats.metric} {dict(stats.options)}"
            raise ValueError(f"the statistics are of {found}, not of {self.name} {self.options}")
        if tuple(stats.columns) != self.columns:
            raise ValueError(f"the statistics have columns {', '.join(stats.columns)}, not {', '.join(self.columns)}")
        if k < 0:
            raise ValueError(f"k is {k}, expected 0 or more")
        return stats.at(k)

    def _sentences(self, values: npt.NDArray[Any]) -> Floats:
        """Sentence-level scores of statistics of shape (S, N, C): shape (S, N)."""
        count = values.shape[1]
        if count <= _AT_ONCE:
            return self._score(values, sentence=True)
        # Some at a time: what is needed on the way takes several times the room of the statistics.
        scores = np.empty(values.shape[:2])
        for start in range(0, count, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            scores[:, part] = self._score(values[:, part], sentence=True)
        return scores

    def _corpus(self, values: npt.NDArray[Any], counts: Integers, systems: Sequence[str]) -> Floats:
        """Corpus-level scores; NaN where no segment has a reference to score against."""
        if not (counts.any() if self.needs_references else len(counts)):
            return np.full(len(values), np.nan)
        wide = np.int64 if np.issubdtype(values.dtype, np.integer) else np.float64
        scores = self.score_sums(values.sum(axis=1, dtype=wide))
        check_finite(self.label, scores, systems)
        return scores


def _check_outputs(systems: Mapping[str, Sequence[str]], references: ReferenceSet) -> None:
    """Refuse outputs that do not go with the references."""
    if not isinstance(systems, Mapping):
        raise UsageError(f"`systems` is of type {type(systems).__name__}, expected a mapping of names to outputs")
    if not isinstance(references, ReferenceSet):
        kind, remedy = type(references).__name__, "ReferenceSet.from_texts makes one of lists"  # type: ignore[unreachable]
        raise UsageError(f"`references` is of type {kind}, expected a ReferenceSet", remedy=remedy)
    total = len(references)
    if not systems or not total:
        raise DataError(f"{len(systems)} systems and {total} segments: nothing to score")
    for name, outputs in systems.items():
        if isinstance(outputs, str):
            raise ValueError(f"the outputs of {name!r} are one string, expected one string a segment")
        if len(outputs) != total:
            turned = total and all(len(segment.refs) == len(outputs) for segment in references)
            remedy = "a list for each stream, as sacreBLEU has them, is turned by list(zip(*refs))" if turned else None
            raise DataError(f"{name} has {len(outputs)} segments, but the references have {total}", remedy=remedy)
        for place, output in enumerate(outputs):
            if not isinstance(output, str):
                raise DataError(f"{name} has {output!r} for segment {references[place].id}, expected a text")
