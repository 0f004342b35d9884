"""MetricX-23 and -24 (Juraska et al. 2023, 2024, WMT metrics task): the error of an output, 0 (none) to 25.

An output is read beside one reference (``metricx``; MetricX-24 reads the source as well) or beside the source alone
(``metricx-src``, their QE). So k references are k runs, each distinct pair once, of all k in one pass.

References combine by the mean: the authors name no rule, a trained score is noisy, and the smallest of k noisy errors
falls as k grows, whatever the output; COMET's authors advise the mean for the same reason. ``max`` takes the reference
with the smallest error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.cache import default_cache
from polyref.engine import MODELS
from polyref.errors import ModelError, UsageError
from polyref.metrics.base import Texts
from polyref.metrics.combination import MEAN, Blend, Combination, Maximum, Mean
from polyref.metrics.learned import in_pieces, without_references
from polyref.metrics.pairs import PairMetric, Windowed, placed, with_segments
from polyref.metrics.statistics import Floats
from polyref.models.device import arithmetic, own_device
from polyref.models.elsewhere import Elsewhere
from polyref.models.forced import DTYPES
from polyref.options import option
from polyref.progress import tell, telling, work

if TYPE_CHECKING:
    from polyref.metrics.windows import Windows
    from polyref.models.networks.metricx import MetricXModel, Tokens

#: An output, its reference and source; None where they are not read.
Compared = tuple[str, str | None, str | None]
#: Most tokens that are read, the end of sentence included.
_LONGEST: Final = {"23": 1024, "24": 1536}
#: Tokens that make another process worth its start, and of a piece of its work.
_WORTH: Final = 100_000
_PIECE: Final = 16_384


@dataclass(frozen=True, kw_only=True)
class MetricX(Windowed, PairMetric):
    """MetricX against references."""

    higher_is_better: ClassVar[bool] = False
    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, Mean, Blend)
    family: ClassVar[str] = "metricx"

    combination: Combination = MEAN
    model: str = option(
        "", help="A folder, or a name on the Hugging Face hub: google/metricx-24-hybrid-xl-v2p6.", metavar="MODEL"
    )
    release: str | None = option(
        None, help="MetricX-23 or -24, which read texts differently.", choices=tuple(_LONGEST), otherwise="by its name"
    )
    tokenizer: str | None = option(
        None,
        help="Folder or hub name of mT5's tokeniser.",
        metavar="DIR",
        otherwise="the model's own, or google/mt5-xl for a model of the hub",
    )
    dtype: str = option("float32", help="What the network computes in.", choices=DTYPES, flag="--dtype", heading=MODELS)

    name = "metricx"
    label = "MetricX"
    measures = ("error",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise UsageError(
                f"{self.name} needs a model: a folder, or a name on the Hugging Face hub",
                remedy=f"name one: {self.name}(model=google/metricx-24-hybrid-xl-v2p6)",
            )
        self._release  # noqa: B018 - refused before anything is loaded

    @property
    def _release(self) -> str:
        if self.release is not None:
            return self.release
        name = self.model.rstrip("/")
        for label in (Path(name).name, Path(realpath(name)).name):
            if found := re.search(r"metricx[-_]?(23|24)", label.lower()):
                return found[1]
        raise UsageError(
            f"{self.name}: the name {self.model!r} does not say which MetricX it is",
            remedy=f"name the release: {self.name}(release=24)",
        )

    @property
    def needs_sources(self) -> bool:  # type: ignore[override]
        """Whether texts of this kind hold the source."""
        return self._release == "24" or not self.needs_references

    @cached_property
    def network(self) -> MetricXModel:
        """The model; its weights are read when the first text needs them."""
        from polyref.models.networks.metricx import MetricXModel

        return MetricXModel(self.model, self.tokenizer, own_device(self.device), self.dtype)

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics: the model by its content, not by its place."""
        combined = self.combination.options("combine", "weights", "gamma") if self.needs_references else {}
        about = {"model": self.network.name, "digest": self.network.digest, "release": self._release}
        return {**combined, **about, "dtype": self.dtype, **self._windows_option}

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        return [
            *(self.combination.described(lower=True) if self.needs_references else ()),
            f"model:{self.network.name.replace('|', '/')}",
            f"sha256:{self.network.digest[:12]}",
            f"release:{self._release}",
            f"longest:{_LONGEST[self._release]}",
            f"dtype:{self.dtype}",
        ]

    def _input(self, output: str, reference: str | None, source: str | None) -> str:
        """What the model reads."""
        if self._release == "23":
            return f"candidate: {output} reference: {reference}"
        return f"source: {source} candidate: {output} reference: {reference}"

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        def compared(n: int, reference: str, output: str) -> Compared:
            return (
                output,
                reference if self.needs_references else None,
                texts.sources[n] if self.needs_sources else None,
            )

        distinct, places = placed(texts, compared)
        errors = self._averaged(distinct, self._errors)
        return with_segments(self._combined(errors, places, texts, texts.cuts), texts.cuts)

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        return self._averaged([(output, reference, "") for reference, output in pairs], self._errors)

    def _errors(self, compared: Sequence[Compared]) -> Floats:
        """Errors of texts, shape (P, 1)."""
        inputs = [self._input(*one) for one in compared]
        tokens = self._tokens(inputs)
        cut = (text for text, (_, cut) in zip(inputs, tokens, strict=True) if cut)
        self._note_cut(self.network.name, _LONGEST[self._release], cut)
        found = self._computed(list(dict.fromkeys(ids for ids, _ in tokens)))
        return np.array([found[ids] for ids, _ in tokens], dtype=np.float64).reshape(-1, 1)

    def _tokens(self, inputs: Sequence[str]) -> list[tuple[Tokens, bool]]:
        return self.network.tokens(inputs, _LONGEST[self._release])

    def _made_windows(self) -> Windows:
        from polyref.metrics.windows import Windows

        def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
            return [(len(ids), cut) for ids, cut in self._tokens(texts)]

        def whole(compared: Sequence[Any]) -> list[bool]:
            return [not cut for _, cut in self._tokens([self._input(*one) for one in compared])]

        ((labels, _),) = self._tokens([self._input("", "", "")])
        return Windows(read, (None, None, None), _LONGEST[self._release] - 1 - len(labels), whole)

    @cached_property
    def _others(self) -> Elsewhere[list[Tokens], list[float]]:
        build = partial(_worker, self.model, self.tokenizer, self.device, self.dtype, self.network.digest)
        return Elsewhere(build, self.workers, _WORTH)

    def _computed(self, texts: Sequence[Tokens]) -> dict[Tokens, float]:
        """Errors of distinct texts: those that the cache has, and new ones, which are kept piece by piece."""
        others = self._others if self._others.pays(sum(map(len, texts))) else None
        cache = default_cache() if self.cache else None
        computed = arithmetic(self.device, 1 if others else None) if cache else ()
        about = f"metricx 1|{self.network.digest}|{self.dtype}|{','.join(computed)}|"
        keys = {ids: hashlib.sha256(f"{about}{ids}".encode()).digest() for ids in texts} if cache else {}
        known = cache.get(list(keys.values())) if cache else {}
        found = {ids: float(np.frombuffer(known[key], "<f4")[0]) for ids, key in keys.items() if key in known}
        pieces = in_pieces([ids for ids in texts if ids not in found], len, _PIECE)
        with work("scoring", "pairs", len(texts)) as advance, telling(advance):
            tell(len(found))
            done = others.map(pieces) if others else map(self.network.compute, pieces)
            for piece, errors in zip(pieces, done, strict=True):
                if not np.isfinite(errors).all():
                    raise ModelError(
                        f"{self.network.name} gives errors that are no numbers",
                        remedy="is the model damaged? With half precision, try float32",
                    )
                found.update(zip(piece, errors, strict=True))
                if cache:
                    cache.put({keys[ids]: np.array(found[ids], "<f4").tobytes() for ids in piece})
                if others and others.engine.elsewhere:  # processes of this machine tell of it themselves
                    tell(len(piece))
        return found


@dataclass(frozen=True, kw_only=True)
class MetricXSource(MetricX):
    """MetricX's quality estimation: output and source; no reference is read."""

    needs_references: ClassVar[bool] = False
    combinations: ClassVar[tuple[type[Combination], ...]] = (Mean,)

    name = "metricx-src"
    label = "MetricX-src"

    def _input(self, output: str, reference: str | None, source: str | None) -> str:
        if self._release == "23":
            return f"candidate: {output} source: {source}"
        return f"source: {source} candidate: {output}"

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        return np.repeat(super()._count(without_references(texts)), len(texts.cuts), axis=0)


def _worker(
    model: str, tokenizer: str | None, device: str, dtype: str, digest: str
) -> Callable[[list[Tokens]], list[float]]:
    """What a worker does."""
    from polyref.models.networks.metricx import worker

    made: Callable[[list[Tokens]], list[float]] = worker(model, tokenizer, device, dtype, digest)
    return made
