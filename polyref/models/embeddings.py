"""Token vectors of texts: each distinct text is encoded once, and kept.

How to use it::

    embeddings = Embeddings(load_encoder("shipped"), layers=(5,))
    vectors = embeddings.encode(["a text", "another"])     # one array a text: [layers, tokens, width], float32
    tokens = embeddings.tokens(["a text", "another"])      # their ids, and which are special

Texts are batched with others of exactly their length, so there is no padding and a text's vectors depend on nothing
but the text: on the CPU to the last bit with the shipped encoder and those of BERT's family (heads of 16 or wider),
otherwise to 1e-6. They are kept in memory, the latest used of them, and in the cache on the disk
(:class:`polyref.cache.Cache`) under the hash of model, layers, options, what computes them and text.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from polyref.cache import Cache, default_cache
from polyref.engine import Engine
from polyref.errors import ModelError, PolyrefWarning, UsageError
from polyref.models.device import arithmetic
from polyref.models.elsewhere import Elsewhere, worker_model
from polyref.models.encoders import Encoder, Tokens, load_encoder
from polyref.progress import Part, listening, work
from polyref.values import as_texts

DTYPES: Final = ("float32", "float16")
Vectors = npt.NDArray[np.float32]
R_co = TypeVar("R_co", covariant=True)
#: Tokens that make another process worth its start. With fewer, the threads of one process are faster.
WORTH: Final = 200_000
#: Most tokens of a piece of work, and how many pieces a worker is given at least where there is enough to do.
_PIECE: Final = 32_768
_PIECES: Final = 8
#: Texts whose vectors are written to the disk in one go.
_WRITE: Final = 256


class Embeddings:
    """Token vectors of one encoder.

    Attributes:
        layers: The layers, L of them, in this order.
        encoded: Texts that went through the network so far. This shows what the caches save.
        cut: Distinct texts so far that are longer than the encoder reads: their end is ignored.
    """

    def __init__(
        self,
        encoder: Encoder,
        layers: Sequence[int],
        *,
        longest: int | None = None,
        dtype: str = "float32",
        cache: Cache | None = None,
        memory: int = 1 << 28,
        batch_tokens: int = 2048,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            encoder: The encoder.
            layers: Each 0 to ``encoder.layers``.
            longest: Most tokens of a text, special ones included (None: the encoder's own limit).
            dtype: ``float32``, or ``float16``: vectors are rounded to it wherever they come from, and take half the
                room on the disk.
            cache: The cache on the disk; None does without one.
            memory: Most bytes of vectors kept in memory beside those asked for.
            batch_tokens: Most tokens of a batch.
        """
        if not layers:
            raise UsageError("no layer is named, expected at least one")
        for layer in layers:
            encoder.check_layer(layer)
        if dtype not in DTYPES:
            raise UsageError(f"dtype {dtype!r}, expected one of {', '.join(DTYPES)}")
        self.encoder = encoder
        self.layers = tuple(layers)
        self.encoded = 0
        self.cut: set[str] = set()
        self._longest = longest
        self._dtype = np.dtype(dtype)
        self._cache = cache
        self._memory = memory
        self._batch_tokens = batch_tokens
        self._held: OrderedDict[str, Vectors] = OrderedDict()
        self._bytes = 0

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Ids of the texts' tokens. A text that is too long is cut, counted in :attr:`cut`, and warned of once."""
        found = self.encoder.tokens(texts, self._longest)
        fresh = {text for text, tokens in zip(texts, found, strict=True) if tokens.cut} - self.cut
        if fresh:
            self.cut |= fresh
            limit = min(self._longest or self.encoder.longest, self.encoder.longest)
            some = "1 text is" if len(fresh) == 1 else f"{len(fresh)} texts are"
            warnings.warn(
                f"{some} longer than {self.encoder.name} reads: {limit} tokens of it are scored, from its beginning",
                PolyrefWarning,
                stacklevel=2,
            )
        return found

    def encode(
        self, texts: Sequence[str], tokens: Sequence[Tokens] | None = None, *, keep: Collection[str] | None = None
    ) -> list[Vectors]:
        """Vectors of texts.

        Args:
            texts: Any texts; repeated ones share one array. An empty text has its special tokens.
            tokens: What :meth:`tokens` says of them, if it is known already.
            keep: Those that will be asked for again and are worth keeping in memory (None: all of them).

        Returns:
            One read-only array a text, shape (L, T, width), with special tokens (:attr:`Tokens.special` says which).
        """
        texts = as_texts(texts, "`texts`")
        found: dict[str, Vectors] = {}
        for text in dict.fromkeys(texts):
            if text in self._held:
                self._held.move_to_end(text)
                found[text] = self._held[text]
        keys = self._keys([text for text in dict.fromkeys(texts) if text not in found]) if self._cache else {}
        found |= self._kept(keys)
        known = dict(zip(texts, tokens, strict=True)) if tokens is not None else None
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            found |= self._encode(missing, keys, known)
        self._hold(found if keep is None else {text: found[text] for text in keep})
        return [found[text] for text in texts]

    def _encode(
        self, texts: list[str], keys: Mapping[str, bytes], known: Mapping[str, Tokens] | None
    ) -> dict[str, Vectors]:
        read = dict(zip(texts, self.tokens(texts), strict=True)) if known is None else known
        found: dict[str, Vectors] = {}
        waiting: dict[bytes, bytes] = {}
        with work("encoding", "texts", len(texts)) as advance:
            for batch in self._batches(texts, read):
                vectors = self.encoder.states(np.stack([read[text].ids for text in batch]), self.layers)
                self.encoded += len(batch)
                with np.errstate(over="ignore"):  # of float16: refused below
                    rounded = vectors.astype(self._dtype, copy=False)
                for text, array in zip(batch, rounded, strict=True):
                    if not _are_numbers(array):
                        raise ModelError(
                            f"{self.encoder.name} gives vectors that are no finite {self._dtype} for {text[:80]!r}",
                            remedy="is the model damaged? With float16, try float32",
                        )
                    if self._cache is not None:
                        waiting[keys[text]] = array.tobytes()
                    found[text] = _frozen(array)
                if self._cache is not None and len(waiting) >= _WRITE:
                    self._cache.put(waiting)
                    waiting = {}
                advance(len(batch))
        if self._cache is not None and waiting:
            self._cache.put(waiting)
        return found

    def _batches(self, texts: Sequence[str], read: Mapping[str, Tokens]) -> Iterator[list[str]]:
        """Texts of one length each, the longest first: a batch that does not fit shows at once."""
        by_length: dict[int, list[str]] = {}
        for text in texts:
            by_length.setdefault(len(read[text]), []).append(text)
        for length in sorted(by_length, reverse=True):
            size = max(1, self._batch_tokens // max(1, length))
            for start in range(0, len(by_length[length]), size):
                yield by_length[length][start : start + size]

    def _keys(self, texts: Sequence[str]) -> dict[str, bytes]:
        if not texts:  # torch need not be loaded to find nothing
            return {}
        longest = min(self._longest or self.encoder.longest, self.encoder.longest)
        layers = ",".join(map(str, self.layers))
        computed = ",".join(arithmetic(self.encoder.device))
        options = f"embeddings 2|{self.encoder.digest}|{layers}|{longest}|{self._dtype}|{computed}|"
        return {text: hashlib.sha256(options.encode() + text.encode()).digest() for text in texts}

    def _kept(self, keys: Mapping[str, bytes]) -> dict[str, Vectors]:
        if self._cache is None:
            return {}
        values = self._cache.get(list(keys.values()))
        shape = (len(self.layers), -1, self.encoder.width)
        kept = {text: np.frombuffer(values[key], dtype=self._dtype) for text, key in keys.items() if key in values}
        return {text: _frozen(array.reshape(shape)) for text, array in kept.items() if _are_numbers(array)}

    def _hold(self, found: Mapping[str, Vectors]) -> None:
        for text, array in found.items():
            if text not in self._held:
                # A copy: a row of a batch would keep the whole batch alive.
                self._held[text] = array if array.base is None else _frozen(array.copy())
                self._bytes += array.nbytes
        while self._bytes > self._memory:
            _, array = self._held.popitem(last=False)
            self._bytes -= array.nbytes


class Task(Protocol[R_co]):
    """A piece of work on vectors. It can be pickled, and so can its result."""

    def __call__(self, embeddings: Embeddings) -> R_co:
        """Do it with these vectors. They are the same for any piece that a text is in."""


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors, with every worker alike; ``digest`` is that of the encoder that is meant."""

    model: str
    digest: str
    layer: int
    device: str = "cpu"
    dtype: str = "float32"
    cache: bool = True

    def embeddings(self, memory: int = 1 << 28) -> Embeddings:
        """The vectors."""
        cache = default_cache() if self.cache else None
        encoder = load_encoder(self.model, self.device)
        return Embeddings(encoder, (self.layer,), dtype=self.dtype, cache=cache, memory=memory)

    def __call__(self) -> Callable[[Task[Any]], Any]:
        """What a worker does."""
        encoder = worker_model(partial(load_encoder, self.model, self.device), self.model, self.digest)
        encoder.states(np.zeros((1, 1), dtype=np.int32), (self.layer,))  # processes share a network that is loaded
        return partial(_do, self.embeddings(memory=0))


def _do(embeddings: Embeddings, task: Task[Any]) -> Any:
    return task(embeddings)


class VectorWork:
    """Work on vectors, by this process or by others. Vectors stay there: they are larger than what is made of them."""

    def __init__(self, encoding: Encoding, engine: Engine, memory: int = 1 << 28) -> None:
        self.embeddings = encoding.embeddings(memory)
        self._cache, self._engine = encoding.cache, engine
        self._others: Elsewhere[Task[Any], Any] = Elsewhere(encoding, engine, WORTH)

    def piece(self, tokens: int) -> int | None:
        """How many of so many tokens make a piece of work for others; None: this process does it all."""
        if not self._others.pays(tokens):
            return None
        return min(_PIECE, max(1, tokens // ((self._engine.jobs or 1) * _PIECES)))

    def do(
        self, tasks: Sequence[tuple[Task[R_co], int]], what: str, unit: str, *, by_others: bool, works: int = 1
    ) -> Iterator[R_co]:
        """The results of tasks, each with its number of units, in order; a task tells of so many works of its own."""
        with work(what, unit, sum(size for _, size in tasks)) as advance:
            if not by_others:
                for task, size in tasks:
                    part = Part(advance, size, works)
                    with listening(part):
                        found = task(self.embeddings)
                    part.end()
                    yield found
                return
            if self._cache:
                default_cache().try_out()
            for (_, size), found in zip(tasks, self._others.map(task for task, _ in tasks), strict=True):
                yield found
                advance(size)


def _are_numbers(array: npt.NDArray[np.floating]) -> bool:
    """Whether all values are finite, and small enough for their squares to be added up in float32."""
    flat = array.astype(np.float32, copy=False).ravel()
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.vdot(flat, flat)))


def _frozen(array: npt.NDArray[np.floating]) -> Vectors:
    values = array.astype(np.float32, copy=False)
    values.flags.writeable = False
    return values
