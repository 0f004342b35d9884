"""COMET over reference sets: regression models, reference-free ones, UniTE and XCOMET, from their own checkpoints.

COMET defines no score against several references; its authors advise the average of the scores against each
(Unbabel/COMET, issues 20 and 140; Rei et al. 2020, WMT20 submission, section 10.4), which is what is done where nothing
else is said.

How it is fast: a regression model encodes every distinct source, output and reference once, whatever the number of
systems and references. UniTE and XCOMET encode an output together with its source and reference: every reference costs
another two passes, and all of them share the one with the source.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from polyref.cache import default_cache
from polyref.engine import MODELS, Engine
from polyref.errors import UsageError
from polyref.metrics.base import Texts
from polyref.metrics.combination import MEAN, Combination
from polyref.metrics.learned import in_pieces, without_references
from polyref.metrics.pairs import PairMetric, Windowed, placed, with_segments
from polyref.metrics.statistics import Floats
from polyref.models.device import arithmetic, own_device
from polyref.models.elsewhere import Elsewhere, worker_model
from polyref.models.forced import DTYPES
from polyref.options import option
from polyref.progress import telling, work

if TYPE_CHECKING:
    from polyref.metrics.windows import Windows
    from polyref.models.checkpoints.comet import Input, Row
    from polyref.models.networks.comet import CometModel

#: Tokens that make another process worth its start, and most of a piece of its work.
WORTH: Final = 100_000
_PIECE: Final = 16_384
#: Most bytes of what the network gave that are held from one set to the next.
_MEMORY: Final = 1 << 28
#: Inputs whose results are written to the disk in one go.
_WRITE: Final = 256
#: What a model may read beside the output.
READS: Final = ("src+ref", "src", "ref")
MODEL: Final[Mapping[str, Any]] = {
    "help": "The checkpoint: a hub name, a folder or a file. References count by the mean of their scores, as COMET's "
    "authors advise: the best of many noisy scores grows with their number. UniTE and XCOMET encode pairs, so that k "
    "references cost k runs.",
    "metavar": "MODEL",
}
#: A model, its encoder's place, device and type, and whether what is missing is fetched.
How = tuple[str, str | None, str, str, bool]
#: An output, its source and reference; None where they are not read.
Compared = tuple[str, str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class COMET(Windowed, PairMetric):
    """COMET. Higher is better; scores of different models cannot be compared."""

    combination: Combination = MEAN
    model: str = option("", otherwise="Unbabel/wmt22-comet-da, where it was fetched before", **MODEL)
    encoder: str | None = option(
        None, help="Where its encoder's config.json and tokeniser are.", metavar="DIR", otherwise="where it says"
    )
    reads: str | None = option(
        None, help="What UniTE and XCOMET read beside the output.", choices=READS, otherwise="all that they can"
    )
    dtype: str = option("float32", help="What the network computes in.", choices=DTYPES, flag="--dtype", heading=MODELS)

    family: ClassVar[str] = "comet"
    usual: ClassVar[str] = "Unbabel/wmt22-comet-da"
    name = "comet"
    label = "COMET"
    measures = ("score",)

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics: the model by its content, not by its place."""
        return {
            **self.combination.options("combine", "weights", "gamma"),
            "model": self._facts["name"],
            "digest": self._facts["digest"],
            "reads": "+".join(self._read),
            "dtype": self.dtype,
            **self._windows_option,
        }

    @cached_property
    def checkpoint(self) -> CometModel:
        """The model."""
        from polyref.models.networks.comet import load_comet

        name, encoder, device, dtype, fetch = self._how
        return load_comet(name, encoder, own_device(device), dtype, fetch=fetch)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """What the checkpoint says of itself; it need not be opened for that."""
        from polyref.models.checkpoints.comet import still_there, whereabouts

        name, encoder, _, _, fetch = self._how
        where = whereabouts(name, encoder, fetch=fetch)
        return self._remembered(where, lambda: self.checkpoint.facts(), still_there)

    @property
    def _how(self) -> How:
        # What nobody named is not fetched.
        return self.model or self.usual, self.encoder, self.device, self.dtype, bool(self.model)

    @property
    def _asked(self) -> str | None:
        return self.reads

    @cached_property
    def _read(self) -> tuple[str, ...]:
        """Of ``src`` and ``ref``, what is read."""
        can, asked = tuple(self._facts["reads"]), self._asked
        if asked is None:
            return can
        chosen = tuple(asked.split("+"))
        if not set(chosen) <= set(can) or (chosen != can and not self._facts["joint"]):
            raise UsageError(f"`reads` is {asked}, but {self._facts['name']} reads {'+'.join(can)}")
        return chosen

    @property
    def needs_references(self) -> bool:  # type: ignore[override]
        """Whether the model reads them."""
        return "ref" in self._read

    @property
    def needs_sources(self) -> bool:  # type: ignore[override]
        """Whether the model reads them."""
        return "src" in self._read

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        facts = self._facts
        return [
            *(self.combination.described() if self.needs_references else ()),
            f"model:{facts['name']}",
            f"sha256:{facts['digest'][:12]}",
            f"kind:{facts['kind'].removesuffix('_metric')}",
            f"reads:{'+'.join(self._read)}",
            f"longest:{facts['longest']}",
            f"dtype:{self.dtype}",
            f"torch:{version('torch')}",
            f"transformers:{version('transformers')}",
        ]

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        sources: Sequence[str | None] = texts.sources if self.needs_sources else [None] * len(texts.sources)
        if not self.needs_references:
            return np.repeat(self._compared(without_references(texts), sources), len(texts.cuts), axis=0)
        return self._compared(texts, sources)

    def _compared(self, texts: Texts, sources: Sequence[str | None]) -> npt.NDArray[Any]:
        """The statistics of outputs, each with its source and every reference, of those that are read."""

        def compared(n: int, reference: str, output: str) -> Compared:
            return output, sources[n], reference if self.needs_references else None

        distinct, places = placed(texts, compared)
        scored = self._averaged(distinct, self._scored)
        return with_segments(self._combined(scored, places, texts, texts.cuts), texts.cuts)

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        return self._averaged([(output, None, reference) for reference, output in pairs], self._scored)

    @cached_property
    def passes(self) -> Passes:
        """What goes through the network."""
        return Passes(self.checkpoint, self._how, self.workers, self.cache)

    def _scored(self, compared: Sequence[Compared]) -> Floats:
        """Scores, shape (P, 1)."""
        model = self.checkpoint
        texts = list(dict.fromkeys(text for one in compared for text in one if text is not None))
        read = dict(zip(texts, model.tokens(texts), strict=True))
        tokens = {text: ids for text, (ids, _) in read.items()}
        cut = {text for text, (_, long) in read.items() if long}
        if (room := self._room) is not None:
            inside = {one: sum(len(tokens[text]) - 2 for text in one if text is not None) for one in compared}
            cut |= {output for (output, *_), size in inside.items() if size > room}
        self._note_cut(model.name, model.longest if room is None else room, cut)
        score = self._regression if room is None else self._joint
        return np.asarray(score(compared, tokens), dtype=np.float64).reshape(-1, 1)

    @property
    def _room(self) -> int | None:
        """Most tokens of all texts together, where the model joins them."""
        return self.checkpoint.room(1 + len(self._read)) if self.checkpoint.settings.joint else None

    def _made_windows(self) -> Windows:
        from polyref.metrics.windows import Windows

        def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
            return [(len(ids), cut) for ids, cut in self.checkpoint.tokens(texts)]

        return Windows(read, (None, None, None), self._room)

    def _regression(self, compared: Sequence[Compared], tokens: Mapping[str, tuple[int, ...]]) -> Row:
        from polyref.models.checkpoints.comet import Input

        vectors = self.passes.of([Input(ids) for ids in tokens.values()])
        sides = [
            np.stack([vectors[Input(tokens[text])] for text in side if text is not None])
            for side in zip(*compared, strict=True)
            if side[0] is not None
        ]
        output, source, *reference = sides
        return self.checkpoint.compared(output, source, reference[0] if reference else None)

    def _joint(self, compared: Sequence[Compared], tokens: Mapping[str, tuple[int, ...]]) -> list[float]:
        joined = [
            [self.checkpoint.joined([tokens[text] for text in part]) for part in _parts(*one)] for one in compared
        ]
        rows = self.passes.of([part for parts in joined for part in parts])
        labels = self.checkpoint.settings.labels
        return [(_xcomet if labels else _unified)([rows[part] for part in parts]) for parts in joined]


@dataclass(frozen=True, kw_only=True)
class COMETSource(COMET):
    """COMET without references: a reference-free model such as CometKiwi, or UniTE or XCOMET with the source alone."""

    needs_references: ClassVar[bool] = False
    needs_sources: ClassVar[bool] = True

    model: str = option("", otherwise="Unbabel/wmt22-cometkiwi-da, where it was fetched before", **MODEL)

    usual: ClassVar[str] = "Unbabel/wmt22-cometkiwi-da"
    name = "comet-src"
    label = "COMET-src"

    @property
    def _asked(self) -> str | None:
        if self.reads not in (None, "src"):
            raise UsageError(f"{self.name}: `reads` is {self.reads}, expected src", remedy="comet reads references")
        return "src"


def _parts(output: str, source: str | None, reference: str | None) -> Iterator[tuple[str, ...]]:
    """What is encoded together, in COMET's order: with the source, with the reference, with both."""
    others = [text for text in (source, reference) if text is not None]
    yield from ((output, other) for other in others)
    if len(others) > 1:
        yield output, *others


def _unified(rows: Sequence[Row]) -> float:
    """The mean of the passes' scores."""
    return float(np.mean([row[0] for row in rows], dtype=np.float32))


#: XCOMET's weights: of the passes with source, reference and both, and of what the labels say.
_PASSES: Final = (0.12, 0.33, 0.33)
_LABELS: Final = 0.22
#: Of the passes' probabilities of labels.
_TOKENS: Final = (0.1667, 0.3333, 0.5)
#: What errors cost, by label; 0 is none.
_COSTS: Final = np.array([0, 1, 5, 10])
_MOST: Final = 25


def _xcomet(rows: Sequence[Row]) -> float:
    """The passes' scores, none above 1, and 1 less the cost of the errors that the labels mark."""
    alone = len(rows) == 1
    weights, of_tokens = ((sum(_PASSES),), (1.0,)) if alone else (_PASSES, _TOKENS)
    score = sum(weight * min(float(row[0]), 1.0) for weight, row in zip(weights, rows, strict=True))
    labels = sum(row[1:] * np.float32(weight) for row, weight in zip(rows, of_tokens, strict=True))
    return score + _LABELS * (1 - errors_cost(np.asarray(labels).reshape(-1, len(_COSTS))) / _MOST)


def errors_cost(probabilities: npt.NDArray[np.floating]) -> int:
    """What the errors in a text cost, 0 to 25, from the probabilities (T, 4) of its tokens' labels.

    A run of tokens with any labels but the first is an error, as grave as its first token. One that reaches the last
    token, the end of the text, does not count: COMET waits for a token without error.
    """
    labels = probabilities.argmax(axis=1)
    wrong = labels > 0
    begins = wrong & ~np.concatenate([[False], wrong[:-1]])
    if len(wrong) and wrong[-1]:
        begins[np.flatnonzero(begins)[-1]] = False
    return min(int(_COSTS[labels[begins]].sum()), _MOST)


class Passes:
    """What a network makes of inputs. Each distinct one goes through it once; results are kept.

    Attributes:
        encoded: Inputs that went through the network so far.
    """

    def __init__(self, model: CometModel, how: How, engine: Engine, cache: bool) -> None:
        self._model, self._how, self._cache = model, how, cache
        self._others: Elsewhere[list[Input], list[Row]] = Elsewhere(partial(_worker, how, model.digest), engine, WORTH)
        self._held: OrderedDict[Input, Row] = OrderedDict()
        self.encoded = 0

    def of(self, inputs: Sequence[Input]) -> dict[Input, Row]:
        """The results of inputs."""
        distinct = list(dict.fromkeys(inputs))
        found = {one: self._held[one] for one in distinct if one in self._held}
        missing = [one for one in distinct if one not in found]
        by_others = self._others.pays(sum(len(one.ids) for one in missing))
        keys = self._keys(missing, by_others) if self._cache and missing else {}
        kept = default_cache().get(list(keys.values())) if keys else {}
        found |= {one: np.frombuffer(kept[key], "<f4") for one, key in keys.items() if key in kept}
        missing = [one for one in missing if one not in found]
        waiting: dict[bytes, bytes] = {}
        with work("encoding", "texts", len(missing)) as advance, telling(advance):
            for one, row in self._computed(missing, by_others):
                found[one] = row
                if keys:
                    waiting[keys[one]] = row.astype("<f4").tobytes()
                if len(waiting) >= _WRITE:
                    default_cache().put(waiting)
                    waiting = {}
        if waiting:
            default_cache().put(waiting)
        self._hold({one: found[one] for one in distinct})
        return found

    def _computed(self, missing: list[Input], by_others: bool) -> Iterator[tuple[Input, Row]]:
        self.encoded += len(missing)
        if not by_others:
            yield from self._model.compute(missing)
            return
        pieces = in_pieces(missing, lambda one: len(one.ids), _PIECE)
        for piece, rows in zip(pieces, self._others.map(pieces), strict=True):
            yield from zip(piece, rows, strict=True)

    def _keys(self, inputs: Sequence[Input], by_others: bool) -> dict[Input, bytes]:
        computed = arithmetic(self._how[2], 1 if by_others else None)
        how = repr(("comet 1", self._model.digest, self._how[3], computed))
        return {one: hashlib.sha256(f"{how}{tuple(one)}".encode()).digest() for one in inputs}

    def _hold(self, found: Mapping[Input, Row]) -> None:
        for one, row in found.items():
            self._held[one] = row
            self._held.move_to_end(one)
        size = sum(row.nbytes for row in self._held.values())
        while size > _MEMORY:
            size -= self._held.popitem(last=False)[1].nbytes


def _worker(how: How, digest: str) -> Callable[[list[Input]], list[Row]]:
    """What a worker does."""
    from polyref.models.networks.comet import load_comet

    name, encoder, device, dtype, fetch = how
    model = worker_model(lambda: load_comet(name, encoder, own_device(device), dtype, fetch=fetch), name, digest)

    def compute(inputs: list[Input]) -> list[Row]:
        rows = dict(model.compute(inputs))
        return [rows[one] for one in inputs]

    return compute
