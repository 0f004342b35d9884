"""BERTScore (Zhang et al. 2020, arXiv:1904.09675), against any number of references.

Every token of one text is matched with the most similar token of the other, by the cosine of their vectors
(equations 1 and 2): precision is the mean over the output's tokens, recall over the reference's, F their harmonic
mean. Tokens weigh the same, or by inverse document frequency among the references (section 3, "importance
weighting"). Rescaling by a baseline (section 3) spreads the scores; it does not change who wins.

``combine="max-each"`` gives bert_score 0.3.13's numbers for the same encoder. ``max`` (the default, and the paper's
text) chooses the best reference once, by F. Special tokens can be matched, but have no weight. Where one side has no
token, P, R and F are 0. Long texts are cut, or compared in windows (:mod:`polyref.metrics.windows`).

How it is fast: every distinct text is encoded once, whatever the number of systems and references, and kept
(:mod:`polyref.models.embeddings`); all outputs of a segment meet its references in one matrix product.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from polyref.errors import DataError, UsageError
from polyref.metrics.base import Texts
from polyref.metrics.embedding.base import EncoderMetric
from polyref.metrics.pairs import Windowed, with_segments
from polyref.metrics.statistics import Floats
from polyref.models.device import own_device
from polyref.models.embeddings import DTYPES, Embeddings, VectorWork
from polyref.models.encoders import Encoder, PointerEncoder, Tokens, TransformersEncoder, default_layers
from polyref.options import option
from polyref.progress import work
from polyref.textfiles import read_lines

if TYPE_CHECKING:
    from torch import Tensor

    from polyref.metrics.windows import Windows


IDF: Final = ("none", "human", "all")
MEASURES: Final = ("precision", "recall", "f")
#: Most bytes of vectors in use at a time (float32).
_CHUNK: Final = 1 << 27

#: Outputs and references of one segment.
Group = tuple[Sequence[str], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class BERTScore(Windowed, EncoderMetric):
    """BERTScore. Without a layer, the one is taken that is known to do best.

    Attributes:
        idf: Weights of tokens: ``none``; ``all``, by document frequency among the references in use, extra ones
            included, for every k anew (bert_score's rule); or ``human``, among the human references.
        baseline: A baseline file, which rescales the scores: (x - b) / (1 - b) of each measure; None leaves them.
        measure_name: What the score is: ``precision``, ``recall`` or ``f``. Statistics hold all three.
    """

    idf: str = option("none", help="Among which references words are counted to weigh them.", choices=IDF)
    baseline: str | None = option(
        None, help="A baseline file to rescale by.", flag="--bertscore-rescale", metavar="FILE"
    )
    measure_name: str = option("f", help="What the score is.", choices=MEASURES, flag="--bertscore-measure")
    dtype: str = option("float32", help="Of kept vectors.", choices=DTYPES)

    name = "bertscore"
    label = "BERTScore"
    measures = MEASURES

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics."""
        return {
            **super().options,
            "longest": self.longest,
            "idf": self.idf,
            "baseline": None if self.rescaling is None else self.rescaling.digest,
            "dtype": self.dtype,
            **self._windows_option,
        }

    def _made_windows(self) -> Windows:
        from polyref.metrics.windows import Windows

        def read(side: int, texts: Sequence[str]) -> list[tuple[int, bool]]:
            return [(len(one), one.cut) for one in self.encoder.tokens(texts)]

        return Windows(read, self.languages[:1] * 2 or (None, None))

    def _own_layer(self) -> int:
        return default_layer(self.encoder, self.model)

    @cached_property
    def rescaling(self) -> Baseline | None:
        """The baseline in use."""
        return None if self.baseline is None else read_baseline(self.baseline, self.depth)

    @cached_property
    def vectors(self) -> VectorWork:
        """The vectors, and who encodes and matches where there is much to do."""
        return VectorWork(self._encoding(self.dtype), self.workers)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        parts = [
            *self.combination.described(),
            *self._described_encoder(),
            f"idf:{self.idf}",
            f"rescale:{'no' if self.rescaling is None else self.rescaling.digest[:12]}",
            f"measure:{self.measure_name}",
            f"longest:{self.longest}",
            f"dtype:{self.dtype}",
            f"torch:{version('torch')}",
        ]
        if isinstance(self.encoder, TransformersEncoder):
            parts.append(f"transformers:{version('transformers')}")
        return parts

    def _score(self, values: npt.NDArray[Any], *, sentence: bool) -> Floats:
        sums, segments = values[..., MEASURES.index(self.measure_name)], values[..., -1]
        means: Floats = np.divide(sums, segments, out=np.full(sums.shape, np.nan), where=segments > 0)
        return means

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        groups = [((output,), (reference,)) for reference, output in pairs]
        documents = [Counter(reference for reference, _ in pairs)]
        scored = [block[0, 0, 0] for block in self._matched(groups, documents if self.idf != "none" else None)]
        return np.array(scored).reshape(-1, len(MEASURES))

    def _count(self, texts: Texts) -> npt.NDArray[Any]:
        cuts = texts.cuts
        used = cuts[-1]
        groups: list[Group] = [
            (list(dict.fromkeys(system[n] for system in texts.systems)), list(dict.fromkeys(refs[: int(used[n])])))
            for n, refs in enumerate(texts.references)
        ]
        places = np.full((len(texts.systems), len(groups), int(used.max(initial=0))), -1, dtype=np.int64)
        first = 0
        for n, (outputs, references) in enumerate(groups):
            column = {text: v for v, text in enumerate(references)}
            row = {text: first + u * len(references) for u, text in enumerate(outputs)}
            columns = [column[text] for text in texts.references[n][: int(used[n])]]
            for s, system in enumerate(texts.systems):
                places[s, n, : len(columns)] = row[system[n]] + np.array(columns, dtype=np.int64)
            first += len(outputs) * len(references)
        blocks = self._matched(groups, self._documents(texts))
        # (J, P, M): J is K where tokens weigh otherwise for every number of references, else 1.
        scored = np.concatenate([block.reshape(len(block), -1, len(MEASURES)) for block in blocks], axis=1)
        if len(scored) == 1:
            values = self._combined(scored[0], places, texts, cuts)
        else:
            values = np.concatenate(
                [self._combined(scored[j], places, _only(texts, j), cuts[j : j + 1]) for j in range(len(cuts))]
            )
        return with_segments(values, cuts)

    def _documents(self, texts: Texts) -> list[Counter[str]] | None:
        """Among which texts document frequencies are counted: once, or for every number of references."""
        if self.idf == "none":
            return None
        cuts = texts.cuts if self.idf == "all" else [texts.originals]
        return [
            Counter(text for refs, used in zip(texts.references, cut, strict=True) for text in refs[: int(used)])
            for cut in cuts
        ]

    def _matched(self, groups: Sequence[Group], documents: list[Counter[str]] | None) -> list[Floats]:
        """P, R and F of every output of a group with every reference of it: shapes (J, U, V, M).

        Where windows are asked for, P is the mean over the windows' of the output, weighted by its pieces in each, and
        R that over those of the reference. Document frequencies are those of what is read of whole references.
        """
        found = self._in_windows(groups, documents) if self.windows else self._compared(groups, documents)
        return found if self.rescaling is None else [self.rescaling.rescale(block) for block in found]

    def _in_windows(self, groups: Sequence[Group], documents: list[Counter[str]] | None) -> list[Floats]:
        pairs = list(dict.fromkeys(pair for group in groups for pair in product(*group)))
        divided = {pair: found for pair, found in zip(pairs, self._divided(pairs), strict=True) if len(found) > 1}
        if not divided:
            return self._compared(groups, documents)
        windows = list(dict.fromkeys(window for each in divided.values() for window in each))
        told = {text for pair in divided for text in pair}.difference(*windows)
        scores = self._compared([((output,), (reference,)) for output, reference in windows], documents, told)
        by_window = {window: block[:, 0, 0] for window, block in zip(windows, scores, strict=True)}
        # Short pairs stay beside the long ones of their group, without which their last digits might be others.
        kept = [group if any(pair not in divided for pair in product(*group)) else ((), ()) for group in groups]
        found = self._compared(kept, documents, told)
        for n, (outputs, references) in enumerate(groups):
            if kept[n] != groups[n]:
                found[n] = np.zeros((len(scores[0]), len(outputs), len(references), len(MEASURES)))
            for (u, output), (v, reference) in product(enumerate(outputs), enumerate(references)):
                if each := divided.get((output, reference)):
                    found[n][:, u, v] = self._mean(each, [by_window[window] for window in each])
        return found

    def _mean(self, windows: Sequence[tuple[str, str]], scores: Sequence[Floats]) -> Floats:
        """P, R and F, shape (J, M), of windows with these."""
        pieces = np.array([[self._windows.pieces(side, text) for side, text in enumerate(one)] for one in windows])
        p, r = np.einsum("wjs,ws->sj", np.array(scores)[..., :2], pieces / np.maximum(pieces.sum(axis=0), 1))
        return _with_f(p, r)

    def _compared(
        self, groups: Sequence[Group], documents: list[Counter[str]] | None, told: Collection[str] = frozenset()
    ) -> list[Floats]:
        """P, R and F of texts as far as they are read; those that are cut are counted, but not what is ``told``."""
        distinct = list(dict.fromkeys([*_texts(groups), *chain.from_iterable(documents or ())]))
        tokens = dict(zip(distinct, self.encoder.tokens(distinct), strict=True))
        cut = (text for text in distinct if tokens[text].cut and text not in told)
        self._note_cut(self.encoder.name, self.longest, cut)
        weights = _idf(documents, tokens) if documents is not None else None
        piece = self.vectors.piece(sum(map(len, tokens.values())))
        chunks = list(self._chunks(groups, tokens, piece or _CHUNK // (4 * self.encoder.width)))
        uses = Counter(text for chunk in chunks for text in _texts(chunk))
        tasks = []
        for chunk in chunks:
            here = _texts(chunk)
            uses.subtract(here)
            again = frozenset(text for text in here if uses[text])
            match = Match(chunk, {text: tokens[text] for text in here}, weights, self.device, again)
            tasks.append((match, len(chunk)))
        done = self.vectors.do(tasks, "comparing", "segments", by_others=piece is not None, works=2)
        return [block for blocks in done for block in blocks]

    def _chunks(self, groups: Sequence[Group], tokens: Mapping[str, Tokens], most: int) -> Iterator[list[Group]]:
        """Groups whose vectors are held together, ``most`` tokens of them: enough for batches of one length each."""
        chunk: list[Group] = []
        size = 0
        for group in groups:
            chunk.append(group)
            size += sum(len(tokens[text]) for side in group for text in side)
            if size >= most:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


@dataclass(frozen=True)
class Match:
    """A piece of work: P, R and F of every output of a group with every reference of it, shapes (J, U, V, M).

    Attributes:
        weights: Of token ids, shape (J, ids); None: all the same.
        again: Texts that will be asked for again.
    """

    groups: Sequence[Group]
    tokens: Mapping[str, Tokens]
    weights: Floats | None
    device: str
    again: frozenset[str] = frozenset()

    def __call__(self, embeddings: Embeddings) -> list[Floats]:
        """One array a group."""
        device = own_device(self.device)
        here = _texts(self.groups)
        vectors = embeddings.encode(here, [self.tokens[text] for text in here], keep=self.again)
        sides = {
            text: Side.of(array[0], self.tokens[text], self.weights) for text, array in zip(here, vectors, strict=True)
        }
        results = []
        with work("matching", "segments", len(self.groups)) as matched:
            for outputs, references in self.groups:
                results.append(match([sides[t] for t in outputs], [sides[t] for t in references], device))
                matched(1)
        return results


def _texts(groups: Sequence[Group]) -> list[str]:
    """The distinct texts of groups."""
    return list(dict.fromkeys(text for group in groups for side in group for text in side))


def _only(texts: Texts, j: int) -> Texts:
    """The texts with one number of references, the ``j``-th."""
    return replace(texts, chosen=None if texts.chosen is None else texts.chosen[j : j + 1])


def default_layer(encoder: Encoder, model: str) -> int:
    """The layer that correlates best with judgements, where that is known: by development data, or by bert_score."""
    own, known = default_layers("polyref"), default_layers("bert_score")
    if isinstance(encoder, PointerEncoder):
        return min(own["shipped"], encoder.layers)
    if model in own:
        return own[model]
    origin = encoder.origin if isinstance(encoder, TransformersEncoder) else ""
    for name in (model, encoder.name, origin):
        if name in known:
            return known[name]
    raise UsageError(
        f"no default layer is known for {encoder.name}, which has layers 0 to {encoder.layers}", remedy="name a layer"
    )


def _idf(documents: Sequence[Counter[str]], tokens: dict[str, Tokens]) -> Floats:
    """Inverse document frequencies log((D + 1) / (d + 1)) of token ids: shape (J, ids), as bert_score counts them."""
    ids = 1 + max((int(entry.ids.max(initial=0)) for entry in tokens.values()), default=0)
    weights = np.zeros((len(documents), ids))
    for j, counter in enumerate(documents):
        parts = [np.unique(tokens[text].ids) for text in counter]
        times = np.repeat(list(counter.values()), [len(part) for part in parts]) if parts else np.zeros(0)
        seen = np.bincount(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64), times, minlength=ids)
        weights[j] = np.log((counter.total() + 1) / (seen + 1))
    return weights


#: Most similarities held at once (float32: 64 MB).
_CELLS = 1 << 24


@dataclass(frozen=True)
class Side:
    """A text, ready to be matched.

    Attributes:
        vectors: Shape (T, d): token vectors of length 1.
        weights: Shape (J, T): weights of its tokens, each row with sum 1, under J weightings; zeros for a text in
            which nothing has weight.
    """

    vectors: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], tokens: Tokens, idf: Floats | None) -> Side:
        """Normalise vectors (T, d); ``idf`` (J, ids) are weights by token id. Special tokens weigh nothing."""
        raw = np.ones((1, len(tokens))) if idf is None else idf[:, tokens.ids]
        raw = np.where(tokens.special, 0.0, raw)
        total = raw.sum(axis=1, keepdims=True)
        weights = np.divide(raw, total, out=np.zeros_like(raw), where=total > 0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return cls(np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0), weights.astype(np.float32))


def match(outputs: Sequence[Side], references: Sequence[Side], device: str = "cpu") -> Floats:
    """Precision, recall and F of U outputs with V references, which have as many weightings: shape (J, U, V, 3).

    A pair in which a side has no weight has 0 throughout.
    """
    import torch

    if not outputs or not references:
        weightings = len((*outputs, *references)[0].weights) if outputs or references else 1
        return np.zeros((weightings, len(outputs), len(references), 3))
    hypotheses, precision_weights = _padded(outputs, device)
    rows, width = hypotheses.shape[0] * hypotheses.shape[1], hypotheses.shape[2]
    precision = np.empty((len(precision_weights), len(outputs), len(references)), dtype=np.float32)
    recall = np.empty_like(precision)
    # References of similar length together: little padding, and no more similarities at once than fit.
    order = sorted(range(len(references)), key=lambda v: len(references[v].vectors))
    while order:
        longest = len(references[order[-1]].vectors)
        block = order[-max(1, _CELLS // (rows * longest)) :]
        order = order[: len(order) - len(block)]
        targets, recall_weights = _padded([references[v] for v in block], device)
        similar = hypotheses.reshape(rows, width) @ targets.reshape(-1, width).T
        similar = similar.view(len(outputs), -1, len(block), longest)
        precision[:, :, block] = torch.einsum("ulv,jul->juv", similar.amax(3), precision_weights).cpu().numpy()
        recall[:, :, block] = torch.einsum("uvl,jvl->juv", similar.amax(1), recall_weights).cpu().numpy()
    weighed = np.stack([side.weights.any(axis=1) for side in outputs], 1)[:, :, None]
    weighed = weighed & np.stack([side.weights.any(axis=1) for side in references], 1)[:, None, :]
    return _with_f(*(np.where(weighed, found, 0).astype(np.float64) for found in (precision, recall)))


def _with_f(p: Floats, r: Floats) -> Floats:
    """Precision, recall and their harmonic mean: shape (..., 3)."""
    f = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r != 0)
    return np.stack([p, r, f], axis=-1)


def _padded(sides: Sequence[Side], device: str) -> tuple[Tensor, Tensor]:
    """Vectors [N, T, d] and weights [J, N, T] of texts of several lengths.

    A short text is filled up with its own first token, without weight: no maximum changes.
    """
    import torch

    longest = max(len(side.vectors) for side in sides)
    vectors = np.empty((len(sides), longest, sides[0].vectors.shape[1]), dtype=np.float32)
    weights = np.zeros((len(sides[0].weights), len(sides), longest), dtype=np.float32)
    for n, side in enumerate(sides):
        length = len(side.vectors)
        vectors[n, :length] = side.vectors
        vectors[n, length:] = side.vectors[0]
        weights[:, n, :length] = side.weights
    return torch.from_numpy(vectors).to(device), torch.from_numpy(weights).to(device)


HEADER: Final = ["LAYER", "P", "R", "F"]


@dataclass(frozen=True)
class Baseline:
    """Mean precision, recall and F of unrelated texts: shape (3,), each below 1."""

    values: Floats

    @property
    def digest(self) -> str:
        """SHA-256 over the values, 64 hex digits."""
        return hashlib.sha256(",".join(map(repr, self.values.tolist())).encode()).hexdigest()

    def rescale(self, scores: Floats) -> Floats:
        """(x - b) / (1 - b) of scores of shape (..., 3): unrelated texts get about 0, equal ones stay at 1."""
        rescaled: Floats = (scores - self.values) / (1 - self.values)
        return rescaled


def read_baseline(path: str | Path, layer: int) -> Baseline:
    """The line of a layer."""
    lines = read_lines(path)
    try:
        header, *rows = csv.reader(lines)
    except csv.Error as error:
        raise DataError(f"no lines of a layer and three numbers: {error}", file=path) from None
    if header != HEADER:
        raise DataError(f"the header is {lines[0]!r}, expected {','.join(HEADER)}", file=path, line=1)
    for number, row in enumerate(rows, 2):
        try:
            found, *values = int(row[0]), *map(float, row[1:])
        except (ValueError, IndexError):
            raise DataError(f"{','.join(row)!r}, expected a layer and three numbers", file=path, line=number) from None
        if found != number - 2 or len(values) != 3 or not all(math.isfinite(value) and value < 1 for value in values):
            raise DataError(
                f"{','.join(row)!r}, expected layer {number - 2} and three numbers below 1", file=path, line=number
            )
        if found == layer:
            return Baseline(np.array(values))
    raise DataError(
        f"has layers 0 to {len(rows) - 1}, but layer {layer} is used",
        file=path,
        remedy="is it a baseline of this encoder? scripts/bertscore_baseline.py in the repository makes one",
    )
