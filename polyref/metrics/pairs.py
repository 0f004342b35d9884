"""Metrics that compare an output with one reference at a time: BERTScore, ESIM, Prism, BARTScore.

A child says what a pair of texts scores; this module finds the pairs of all systems and references, has every distinct
pair scored once, and combines the references of a segment for every number of references. What is kept is the pair
matrix: adding a number of references costs no further scoring.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref import __version__
from polyref.cache import default_cache
from polyref.engine import ADDRESS, CACHE, DEVICE, ENGINE, GPUS, JOBS, MODELS, Engine
from polyref.errors import PolyrefWarning
from polyref.json_files import try_json
from polyref.metrics.base import Metric, Texts
from polyref.metrics.combination import MAXIMUM, Blend, Combination, Compared, Maximum, MaximumEach, Mean
from polyref.metrics.statistics import Floats, Integers, Statistics
from polyref.models.device import usual_arithmetic
from polyref.models.opening import hash_files
from polyref.options import option
from polyref.references import ReferenceSet

if TYPE_CHECKING:
    from polyref.metrics.windows import Windows

#: What ``--target-lang`` and ``--source-lang`` say, at every metric that has them.
TARGET_LANG: Final = (
    "Language of the outputs, for BLEU's tokeniser (zh, ja, ko), judges and models of several languages."
)
SOURCE_LANG: Final = "Language of the sources, for judges and for models that mark it."
#: Key of the statistics' ``meta`` under which is how many texts were divided.
_WINDOWS: Final = "texts_in_windows"
#: What kinds of texts begin with that are cut.
_CUT: Final = "cut after "


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A metric that is a function of (reference, output).

    A segment's score combines its references by ``max`` (the reference with the best score, all columns from it),
    ``max-each`` (every column its own best reference), ``mean`` (weighted) or ``blend`` (the human references as
    where nothing is said, and the weighted mean of the others). A system's score is the mean of its segments'.
    """

    combinations: ClassVar[tuple[type[Combination], ...]] = (Maximum, MaximumEach, Mean, Blend)
    stored: ClassVar[tuple[str, ...]] = ("combine", "weights", "gamma", "temperature")

    combination: Combination = MAXIMUM

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """What a pair has: one or more columns, such as precision, recall and F."""

    @property
    def measure(self) -> int:
        """Index of the column that is the score, and by which ``max`` chooses the reference."""
        return len(self.measures) - 1

    @abstractmethod
    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Scores of distinct (reference, output) pairs: shape (P, M), M measures."""

    @property
    def par_label(self) -> str:
        return f"par{self.label}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The measures, and 1 for a segment that has a reference."""
        return (*self.measures, "segments")

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        pairs, places = placed(texts, lambda _, reference, output: (reference, output))
        return with_segments(self._combined(self._pairs(pairs), places, texts, texts.cuts), texts.cuts)

    def _combined(self, scored: Floats, places: Integers, texts: Texts, cuts: Integers) -> npt.NDArray[np.float64]:
        """Combine the references of every segment, ``cuts`` of them: shape (K, S, N, M), zeros where there is none.

        ``scored`` of shape (P, M) are the measures of distinct pairs, ``places`` of shape (S, N, R) the pair of every
        cell, -1 where there is no reference. ``texts`` knows the weights, and is told which reference is chosen.
        """
        systems, segments, most = places.shape
        if not most or not len(scored):
            return np.zeros((len(cuts), systems, segments, scored.shape[1] if scored.ndim == 2 else 0))
        single = scored[np.maximum(places, 0)]
        single[places < 0] = 0.0
        usual, better = type(self).combination or MAXIMUM, 1 if self.higher_is_better else -1
        pairs = _Pairs(single.transpose(1, 0, 2, 3), self.measure, texts.originals, usual, better)
        values, chosen = self.combination.count(pairs, cuts, texts.weights)
        if chosen is not None and texts.chosen is not None:
            texts.chosen[:] = chosen
        return np.asarray(values, dtype=np.float64)

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        return mean_of(values[..., self.measure], values[..., -1])


class Kept(Metric):
    """A metric that asks a network, and keeps what came of it: the same texts once more need neither it nor torch.

    What single texts and pairs gave is kept besides, by those who compute it: for other texts, some of them new.
    """

    #: What a warning of cut texts ends with.
    _remedy: ClassVar[str] = ""

    @property
    @abstractmethod
    def device(self) -> str:
        """Where the network computes."""

    @property
    @abstractmethod
    def cache(self) -> bool:
        """Whether anything is kept."""

    @property
    def _decided_by(self) -> Any:
        """What decides the statistics beside the texts and the options as they were given: contents of files."""
        return self.options

    @cached_property
    def _noted(self) -> dict[str, dict[str, None]]:
        """What :meth:`_note` was told of."""
        return {}

    def _note(self, kind: str, texts: Iterable[str]) -> None:
        """Remember, while statistics are made and with them, which texts are of a kind: by their hashes, once each."""
        marks = (hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() for text in texts)
        self._noted.setdefault(kind, {}).update(dict.fromkeys(marks))

    def _remembered(
        self, model: Any, ask: Callable[[], dict[str, Any]], valid: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """What a model says of itself when it is opened, as plain JSON values; it is not opened where the cache has it.

        ``model`` holds the hash of its content, or ``valid`` says of what is kept whether it holds for the content now.
        """
        if not self.cache:
            return ask()
        computed = usual_arithmetic(self.device, default_cache())  # before anything loads torch
        key = hashlib.sha256(repr(("facts 1", _versions(), computed[:2], model)).encode()).digest()
        kept = default_cache().get([key])
        if (found := try_json(kept[key]) if kept else None) is None or not valid(found):
            default_cache().put({key: json.dumps(found := ask()).encode()})
        return dict(found)

    @property
    def _cut(self) -> dict[str, dict[str, None]]:
        """By a number of tokens, the model that reads no more, and a side: the texts that are cut."""
        return {kind.removeprefix(_CUT): marks for kind, marks in self._noted.items() if kind.startswith(_CUT)}

    def _note_cut(self, model: str, longest: int, texts: Iterable[str], side: str = "") -> None:
        """Remember that so many tokens of texts are read, and no more."""
        self._note("|".join((f"{_CUT}{longest}", side, model)), texts)

    @cached_property
    def _told(self) -> set[tuple[str, str]]:
        """Models, and texts cut for them that a warning has counted."""
        return set()

    def statistics(self, *args: Any, **options: Any) -> Statistics:
        """As :meth:`Metric.statistics`, and say how many texts are cut."""
        stats = super().statistics(*args, **options)
        by_model: dict[str, dict[str, dict[str, None]]] = {}
        for kind, marks in self._cut.items():
            longest, _, model = kind.split("|", 2)
            if marks:
                by_model.setdefault(model, {}).setdefault(longest, {}).update(marks)
        for model, found in by_model.items():
            new = {(model, mark) for marks in found.values() for mark in marks} - self._told
            some = "1 text is" if len(new) == 1 else f"{len(new)} texts are"
            said = f"{some} longer than {model} reads: {'/'.join(found)} tokens of it are scored, from its beginning"
            if new:
                warnings.warn(said + self._remedy, PolyrefWarning, stacklevel=2)
            self._told.update(new)
        return stats

    def _weighed(self, texts: Texts, references: ReferenceSet) -> npt.NDArray[Any]:
        self._noted.clear()
        # The code of a plug-in can change.
        if not self.cache or not type(self).__module__.startswith("polyref."):
            return self._counted(texts, references)
        assert texts.chosen is not None
        cache, key = default_cache(), self._run_key(texts, references)
        if kept := cache.get([key]):
            parts = np.load(io.BytesIO(zlib.decompress(kept[key])), allow_pickle=False)
            values, texts.chosen[:] = parts["values"], parts["chosen"]
            self._noted.update(try_json(parts["noted"].tobytes()))
            return np.asarray(values)
        values = self._counted(texts, references)
        if np.isfinite(values).all():
            noted = np.frombuffer(json.dumps(self._noted).encode(), np.uint8)
            np.savez(packed := io.BytesIO(), values=values, chosen=texts.chosen, noted=noted)
            cache.put({key: zlib.compress(packed.getvalue(), 1)})
        return values

    def _counted(self, texts: Texts, references: ReferenceSet) -> npt.NDArray[Any]:
        return super()._weighed(texts, references)

    def _run_key(self, texts: Texts, references: ReferenceSet) -> bytes:
        """A hash of everything that the statistics depend on, and of what moves their last digits."""
        given = [getattr(self, one.name) for one in fields(self)]  # type: ignore[arg-type]
        computed = usual_arithmetic(self.device, default_cache())
        known = ("network 1", _versions(), computed, type(self), given, self._decided_by)
        digest = hashlib.sha256(repr(known).encode())
        refs = [[(one.original, one.text, one.weight, one.logprob) for one in segment.refs] for segment in references]
        for part in (texts.systems, texts.cuts.tolist(), refs, texts.sources if self.needs_sources else ()):
            digest.update(json.dumps(part).encode())
        return digest.digest()


@lru_cache
def _versions() -> tuple[str, ...]:
    """Of this package with a hash of its code, which in a checkout changes alone, and of libraries."""
    code = hash_files(sorted(Path(__file__).parents[1].rglob("*.py")))
    return (__version__, code, *map(version, ("numpy", "sentencepiece", "tokenizers", "sentencex")))


@dataclass(frozen=True, kw_only=True)
class Networked(Kept):
    """The options of metrics that ask a network: where it computes, who else does, and what is kept."""

    device: str = option("cpu", **DEVICE)
    jobs: int | None = option(None, **JOBS)
    engine: str = option("local", **ENGINE)
    address: str | None = option(None, **ADDRESS)
    gpus: float | None = option(None, **GPUS)
    cache: bool = option(True, **CACHE)

    @property
    def workers(self) -> Engine:
        """Who computes."""
        return Engine.on(self.device, self.engine, self.jobs, self.address, self.gpus)


@dataclass(frozen=True, kw_only=True)
class Windowed(Networked):
    """A metric whose model reads so many pieces of a text: the rest is cut, or long texts are scored in windows."""

    windows: bool = option(
        False,
        help="Score texts that are longer than the model reads in windows of whole sentences, aligned by length "
        "between output, reference and source: for translations, not for summaries. Otherwise the end is cut.",
        flag="--windows",
        heading=MODELS,
    )

    @property
    def _windows_option(self) -> dict[str, Any]:
        """Its part of :attr:`options`: none by default, as before there were windows."""
        return {"windows": True} if self.windows else {}

    @property
    def _remedy(self) -> str:  # type: ignore[override]
        return "" if self.windows else "; `windows` scores all of it"

    @abstractmethod
    def _made_windows(self) -> Windows:
        """For what the model reads side by side."""

    @cached_property
    def _windows(self) -> Windows:
        return self._made_windows()

    def _divided(self, items: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """The windows of every item; without them, the item itself."""
        found: Sequence[Sequence[Any]] = self._windows.of(items) if self.windows else [[item] for item in items]
        return found

    def _averaged(self, items: Sequence[Any], score: Callable[[Sequence[Any]], Floats]) -> Floats:
        """Scores of distinct items, shape (P, M): the mean over their windows, where there are several."""
        scored: Floats = self._windows.mean(items, score) if self.windows and items else score(items)
        return scored

    def _counted(self, texts: Texts, references: ReferenceSet) -> npt.NDArray[Any]:
        if not self.windows:
            return super()._counted(texts, references)
        self._windows.several.clear()
        values = super()._counted(texts, references)
        self._note(_WINDOWS, self._windows.several)
        return values

    def statistics(self, *args: Any, **options: Any) -> Statistics:
        """As :meth:`Metric.statistics`; with windows, ``meta`` has the number of texts of which there are several."""
        stats = super().statistics(*args, **options)
        if not self.windows:
            return stats
        return replace(stats, meta={**stats.meta, _WINDOWS: len(self._noted[_WINDOWS])})

    def _described_model(self, stats: Statistics, k: int) -> list[str]:
        return [f"windows:{stats.meta[_WINDOWS]}"] if _WINDOWS in stats.meta else []


class _Pairs(Compared):
    """The measures of every pair: shape (N, S, R, M)."""

    linear = True

    def __init__(self, single: Floats, measure: int, originals: Integers, usual: Combination, better: int) -> None:
        super().__init__(originals, usual)
        self._single, self._measure, self._better = single, measure, better

    @property
    def single(self) -> Floats:
        return self._single

    def score(self, values: npt.NDArray[Any]) -> Floats:
        found: Floats = self._better * values[..., self._measure]  # it only says which reference is best
        return found


def placed(texts: Texts, compared: Callable[[int, str, str], Any]) -> tuple[list[Any], Integers]:
    """What ``compared`` makes of segments, references and outputs, once each, and where (S, N, R); -1 is nothing."""
    known: dict[Any, int] = {}
    used = texts.cuts[-1]
    places = np.full((len(texts.systems), len(texts.references), int(used.max(initial=0))), -1, dtype=np.int64)
    for n, refs in enumerate(texts.references):
        for s, system in enumerate(texts.systems):
            for r in range(int(used[n])):
                places[s, n, r] = known.setdefault(compared(n, refs[r], system[n]), len(known))
    return list(known), places


def with_segments(values: npt.NDArray[np.float64], cuts: Integers) -> npt.NDArray[np.float64]:
    """Append the column that counts segments with a reference: shape (K, S, N, M) to (K, S, N, M + 1)."""
    present = np.broadcast_to((cuts > 0)[:, None, :, None], (*values.shape[:3], 1))
    return np.concatenate([values, present], axis=3)


def mean_of(sums: npt.NDArray[Any], segments: npt.NDArray[Any]) -> Floats:
    """Sums over segments divided by their number; NaN where there is none."""
    return np.asarray(np.divide(sums, segments, out=np.full(sums.shape, np.nan), where=segments > 0))
