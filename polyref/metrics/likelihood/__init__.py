"""What metrics made of a sequence-to-sequence model's log-probabilities share: Prism, BARTScore and peer evaluation.

Every distinct (source, target) job is scored once for all systems and references, and every distinct source text is
encoded once. An empty text is a real one: as a target it is its end of sentence, whose log-probability is its score.
Texts longer than the model takes are cut at the end and counted in the signature, or scored in windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.cache import default_cache
from polyref.engine import MODELS, Engine
from polyref.errors import UsageError
from polyref.metrics.base import Texts
from polyref.metrics.pairs import SOURCE_LANG, TARGET_LANG, Networked, Windowed, mean_of
from polyref.metrics.signature import flat
from polyref.metrics.statistics import Floats, Statistics
from polyref.models.forced import DTYPES, ScorerFacts
from polyref.models.opening import Found, find
from polyref.options import option
from polyref.references import ReferenceSet

if TYPE_CHECKING:
    from polyref.metrics.windows import Windows
    from polyref.models.forced import ForcedScorer, Job


#: Key of the statistics' ``meta`` under which the model's part of the signature is kept.
_MODEL: Final = "sequence_model"
#: The texts of a job: what is read, what is written.
TextPair = tuple[str, str]


@lru_cache(maxsize=1)
def _loaded(model: str, digest: str, device: str, dtype: str, engine: Engine, cache: bool) -> ForcedScorer:
    """The model, shared by metrics of one run that name the same one, while its files stay the same."""
    from polyref.models.scorers import load_scorer

    return load_scorer(model, device=device, dtype=dtype, engine=engine, cache=default_cache() if cache else None)


@dataclass(frozen=True, kw_only=True)
class SequenceMetric(Windowed):
    """A metric that asks a sequence-to-sequence model how likely texts are; without a name of one it cannot be made.

    How the model is named is said at :func:`polyref.models.scorers.load_scorer`.
    """

    model: str = option("", help="The model: a folder, or a name on the Hugging Face hub.", metavar="MODEL")
    lang: str | None = option(
        None,
        help=TARGET_LANG,
        flag="--target-lang",
        metavar="LANG",
        common=True,
        otherwise="en",
    )
    dtype: str = option("float32", help="What the network computes in.", choices=DTYPES, flag="--dtype", heading=MODELS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise UsageError(
                f"{self.name} needs a model: a folder with a fairseq or Hugging Face encoder-decoder, or a name on the "
                "Hugging Face hub",
                remedy=f"name one: {self.name}(model=...)",
            )

    @property
    def options(self) -> dict[str, Any]:
        """The options that scores depend on: not where they are computed."""
        where = {*Networked.__dataclass_fields__, *(() if self.windows else ("windows",))}
        return {name: value for name, value in super().options.items() if name not in where}

    @property
    def languages(self) -> tuple[str, ...]:
        """The one that the model is told to write."""
        return () if self._target_lang is None else (self._target_lang,)

    def between(self, source: str, target: str) -> SequenceMetric:
        return replace(self, lang=self.lang or target) if len(self.facts.languages) > 1 else self

    @cached_property
    def facts(self) -> ScorerFacts:
        """What the model says of itself; it need not be loaded for that."""

        def ask() -> dict[str, Any]:
            return {one.name: getattr(self.scorer, one.name) for one in fields(ScorerFacts)}

        found = self._found
        return ScorerFacts(**self._remembered((found.name, found.kind, found.digest, self.dtype), ask))

    @property
    def _decided_by(self) -> Any:
        return self.options, self.facts.digest, self.facts.note

    @cached_property
    def scorer(self) -> ForcedScorer:
        """The model, loaded at the first use."""
        return _loaded(self.model, self._found.digest, self.device, self.dtype, self.workers, self.cache)

    @cached_property
    def _found(self) -> Found:
        return find(self.model, "forced scores")

    def statistics(
        self,
        systems: Mapping[str, Sequence[str]],
        references: ReferenceSet,
        *,
        ks: Sequence[int] | None = None,
        allow_missing: bool = False,
    ) -> Statistics:
        """Read the texts once; ``meta`` has the model's name and hash, and how many texts were cut."""
        self._check_model()
        stats = super().statistics(systems, references, ks=ks, allow_missing=allow_missing)
        return replace(stats, meta={**stats.meta, _MODEL: self._model_parts()})

    def _described_model(self, stats: Statistics, k: int) -> list[str]:
        found = stats.meta.get(_MODEL, ())
        parts = [flat(part) for part in (found if isinstance(found, (list, tuple)) else [found])]
        return [*parts, *super()._described_model(stats, k)]

    def _check_model(self) -> None:
        """Refuse languages the model does not know, and what the metric cannot use, before any work."""
        self.facts.read(self._source_lang)

    @property
    def _target_lang(self) -> str | None:
        return self.facts.written(self.lang)

    @property
    def _source_lang(self) -> str | None:
        """Language of what the model reads."""
        return self._target_lang

    def _model_parts(self) -> list[str]:
        facts = self.facts
        parts = [f"model:{facts.name.replace('|', '/')}", f"sha:{facts.digest}"]
        if facts.note:
            parts.append(facts.note)
        if self._target_lang is not None:
            parts.append(f"lang:{self._target_lang}")
        parts.append(f"dtype:{facts.dtype}")
        cut = sum(map(len, self._cut.values()))
        return [*parts, f"max:{facts.max_source}/{facts.max_target}", f"cut:{cut}"]

    def _jobs(self, pairs: Sequence[TextPair]) -> list[Job]:
        """Token ids of (source text, target text) pairs; what is cut is written down."""
        scorer, written = self.scorer, self._target_lang
        read = scorer.read(self._source_lang)
        for side, lang, most, texts in (
            ("source", read, scorer.max_source, {source for source, _ in pairs}),
            ("target", written, scorer.max_target, {target for _, target in pairs}),
        ):
            self._note_cut(scorer.name, most, (text for text in texts if scorer.is_cut(side, text, lang)), side)
        return [(scorer.source(source, read), scorer.target(target, written)) for source, target in pairs]

    def _asked(self, pair: TextPair) -> Sequence[TextPair]:
        """What the model reads in place of a pair: itself, or with each of several prompts."""
        return (pair,)

    def _made_windows(self) -> Windows:
        from polyref.metrics.windows import Windows

        scorer = self.scorer
        langs = scorer.read(self._source_lang), self._target_lang

        def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
            name, tokens = (("source", scorer.source), ("target", scorer.target))[side]
            asked = [[pair[side] for pair in self._asked((text, text))] for text in texts]
            longest = [max(one, key=lambda text: len(tokens(text, langs[side]))) for one in asked]
            return [(len(tokens(text, langs[side])), scorer.is_cut(name, text, langs[side])) for text in longest]

        return Windows(read, (self._source_lang, self._target_lang))

    def _means(self, pairs: Sequence[TextPair]) -> Floats:
        """Mean token log-probability of every target text given its source text, in nats: shape (P,).

        With windows it is the mean over the tokens of all of a text's windows.
        """
        asked = [[*zip(*map(self._asked, windows), strict=True)] for windows in self._divided(pairs)]
        jobs = self._jobs([pair for ways in asked for windows in ways for pair in windows])
        scored = iter(self.scorer.score(jobs, self._target_lang))
        rows = [[np.concatenate([next(scored) for _ in windows]) for windows in ways] for ways in asked]
        return np.array([np.mean([row.mean(dtype=np.float64) for row in ways]) for ways in rows], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class SourceMetric(SequenceMetric):
    """A metric of (source, output): no reference is read, and their number changes nothing.

    A system's score is the mean of its segments'. ``source`` may be any text that stands for it, such as a translation
    into a pivot language: name that language.
    """

    needs_references: ClassVar[bool] = False
    needs_sources: ClassVar[bool] = True

    #: The score, and 1 for every segment.
    columns = ("score", "segments")

    source_lang: str | None = option(
        None,
        help=SOURCE_LANG,
        flag="--source-lang",
        metavar="LANG",
        heading=MODELS,
        otherwise="not said",
    )

    def between(self, source: str, target: str) -> SourceMetric:
        marked = replace(self, source_lang=self.source_lang or source) if self.facts.marks_sources else self
        return replace(marked, lang=self.lang or target) if len(self.facts.languages) > 1 else marked

    @property
    def _source_lang(self) -> str | None:
        return self.source_lang

    def _check_model(self) -> None:
        super()._check_model()
        facts = self.facts
        if facts.monolingual and self.source_lang not in facts.languages:
            language = facts.languages[0]
            raise UsageError(
                f"{self.label} reads sources, but {facts.name} reads {language!r} and no other language",
                remedy=f"name a model that translates, or source language {language!r} for pivot texts in it",
            )

    def _model_parts(self) -> list[str]:
        parts = super()._model_parts()
        return parts if self.source_lang is None else [*parts, f"from:{self.source_lang}"]

    def _pair_scores(self, pairs: Sequence[TextPair]) -> Floats:
        """Scores of distinct (source, output) pairs: shape (P,)."""
        return self._means(pairs)

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        sources = [source for source in texts.sources if source is not None]
        pairs = [list(zip(sources, system, strict=True)) for system in texts.systems]
        # Distinct ones, segment by segment: those that share a source stay together.
        known = {
            pair: i for i, pair in enumerate(dict.fromkeys(pair for row in zip(*pairs, strict=True) for pair in row))
        }
        values = np.ones((len(texts.cuts), len(texts.systems), len(sources), 2))
        values[..., 0] = self._pair_scores(list(known))[[[known[pair] for pair in row] for row in pairs]]
        return values

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return mean_of(values[..., 0], values[..., -1])


def both_ways(pairs: Sequence[TextPair], score: Callable[[Sequence[TextPair]], Floats]) -> Floats:
    """Scores of (reference, output) pairs: output given reference, the reverse, and their mean: shape (P, 3)."""
    if not pairs:
        return np.zeros((0, 3))
    # Both directions side by side, so that the texts of a segment stay together.
    jobs = [job for reference, output in pairs for job in ((reference, output), (output, reference))]
    scored = score(jobs).reshape(-1, 2)
    return np.column_stack([scored, scored.mean(axis=1)])
