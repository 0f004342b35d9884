"""The networks behind :mod:`polyref.models.forced`: the lean one, the shipped kind's, and Transformers' own.

Encoder states of a stretch of jobs are kept, targets are batched by length, matrix products go through
:mod:`polyref.models.networks.matmul`, and the projection onto the vocabulary is done a slice at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyref.cache import Cache
from polyref.engine import Engine
from polyref.errors import UsageError
from polyref.models import forced
from polyref.models.checkpoints import seq2seq
from polyref.models.checkpoints.pointer import PointerModel, load_pointer
from polyref.models.checkpoints.seq2seq import load_fairseq
from polyref.models.checkpoints.text import (
    FairseqCodec,
    HuggingFaceCodec,
    Segmenter,
    SentencePieceCodec,
    TextCodec,
    load_sentencepiece,
    load_tokenizer,
    squeezed,
)
from polyref.models.device import own_device, spare_memory, torch_device
from polyref.models.elsewhere import Elsewhere, worker_model
from polyref.models.forced import DTYPES, ForcedScorer, Rows, Stretch, Tokens
from polyref.models.networks.attention import Layer, padded
from polyref.models.networks.hugging_face import HuggingFaceModel
from polyref.models.networks.matmul import Product, packs
from polyref.models.networks.pointer import PointerTransformer
from polyref.models.networks.transformer import Transformer
from polyref.models.opening import LONGEST_SOURCE, Found, find
from polyref.progress import tell

#: Most positions of a batch on the CPU, padding included.
_BATCH: Final = 1024
#: The same on a GPU, whatever its memory, and how many vectors and weights of attention a position holds there.
_MOST, _VECTORS, _WEIGHTS = 1 << 16, 64, 1 << 12
#: Lengths are rounded up to a multiple of this.
_ROUND: Final = 8
#: Most logits held at once (float32: 64 MB).
_LOGITS: Final = 1 << 24

Row = npt.NDArray[np.float32]
T = TypeVar("T")


def _log_probabilities(hidden: Tensor, project: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Log-probabilities of ``tokens`` ``[M]`` after states ``[M, d]``, in float32."""
    size = project(hidden[:1]).shape[-1]
    flat = []
    for first in range(0, len(hidden), step := max(_LOGITS // size, 1)):
        logits = project(hidden[first : first + step]).float()
        torch._log_softmax(logits, 1, False, out=logits)
        flat.append(logits.gather(1, tokens[first : first + step, None])[:, 0])
    return torch.cat(flat)


def alike(items: Iterable[T], lengths: Callable[[T], tuple[int, ...]], most: int) -> Iterator[tuple[int, list[T]]]:
    """Batches of items whose lengths are the same when rounded up, and the first length rounded, the longest first.

    ``most`` are positions by the first length. What is alone in a batch comes twice.
    """
    shapes: dict[tuple[int, ...], list[T]] = {}
    for item in items:
        shapes.setdefault(tuple(-(-length // _ROUND) * _ROUND for length in lengths(item)), []).append(item)
    for shape in sorted(shapes, reverse=True):  # what does not fit shows at once
        size = max(most // shape[0], 2)
        for first in range(0, len(shapes[shape]), size):
            batch = shapes[shape][first : first + size]
            yield shape[0], batch if len(batch) > 1 else batch * 2


class _BatchedScorer(ForcedScorer):
    """Jobs in batches of one shape: on the CPU, a job's numbers are the same to the last bit in all of them.

    BLAS adds up small products otherwise where there is one, or its numbers begin at other places of a vector.
    """

    #: Most positions of a batch of sources, and of targets, padding included.
    _read = _positions = _BATCH
    _pad: int

    def _fill(self, device: str, width: int) -> None:
        """On a GPU, as many as its memory is good for."""
        if (spare := spare_memory(device)) is not None:
            most = max(spare // (4 * (_VECTORS * width + _WEIGHTS)), _BATCH)
            self._read = self._positions = min(most, _MOST)

    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[Row]:
        with torch.inference_mode():
            states = self._states(sources)
            order = sorted(range(len(targets)), key=lambda i: sources[i])
            results: dict[int, Row] = {}
            for width, batch in alike(order, lambda i: (len(targets[i]), len(sources[i])), self._positions):
                wanted = padded([targets[i] for i in batch], self._pad, min(width, self.max_target))
                sizes = torch.tensor([len(targets[i]) for i in batch])
                real = torch.arange(wanted.shape[1]) < sizes[:, None]
                flat = self._picked([sources[i] for i in batch], states, wanted, real, start)
                rows = np.split(flat.cpu().numpy(), np.cumsum(sizes.numpy())[:-1])
                tell(len(set(batch) - results.keys()))
                results.update(zip(batch, rows, strict=True))
        return [results[i] for i in range(len(targets))]

    def _states(self, sources: list[Tokens]) -> dict[Tokens, Tensor]:
        """Encoder states ``[L, d]`` by source, filled up, or none of them yet."""
        return {}

    @abstractmethod
    def _picked(
        self, sources: list[Tokens], states: dict[Tokens, Tensor], wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        """Log-probabilities of the real tokens of ``wanted`` ``[N, T]`` given N sources, row by row: ``[M]``."""


class _EncodedFirst(_BatchedScorer):
    """Networks with a forward of their own: all sources are encoded before the first target is scored."""

    def _states(self, sources: list[Tokens]) -> dict[Tokens, Tensor]:
        states: dict[Tokens, Tensor] = {}
        for width, batch in alike(dict.fromkeys(sources), lambda tokens: (len(tokens),), self._read):
            filled = padded(batch, self._pad, min(width, self.max_source))
            encoded = self._encode(filled, torch.tensor([len(tokens) for tokens in batch]))
            states.update(zip(batch, encoded))
        return states

    def _picked(
        self, sources: list[Tokens], states: dict[Tokens, Tensor], wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        memory = torch.stack([states[tokens] for tokens in sources])
        lengths = torch.tensor([len(tokens) for tokens in sources])
        return self._decode(padded(sources, self._pad, memory.shape[1]), lengths, memory, wanted, real, start)

    @abstractmethod
    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        """Encoder states ``[N, L, d]`` of padded sources."""

    @abstractmethod
    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        """As :meth:`_picked`, with the sources' states ``[N, L, d]``."""


def _shifted(wanted: Tensor, start: int) -> Tensor:
    """The decoder's inputs ``[N, T]`` for targets: each token's is the one before it."""
    return torch.cat((torch.full_like(wanted[:, :1], start), wanted[:, :-1]), dim=1)


def _numbers(scores: Tensor, samples: int) -> Row:
    """Scores of samples: shape (S, T)."""
    return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


#: Multiplies activations by a random mask.
Drop = Callable[[Tensor], Tensor]


def dropout(rate: float, seed: int) -> Drop:
    """Inverted dropout with a generator of its own, on the CPU, so that masks are the same on every device."""
    generator = torch.Generator().manual_seed(seed)

    def drop(x: Tensor) -> Tensor:
        mask = torch.empty(x.shape).bernoulli_(1 - rate, generator=generator) / (1 - rate)
        return x * mask.to(device=x.device, dtype=x.dtype)

    return drop


class NoisyTransformer(Transformer):
    """A network with the weights of another, and dropout."""

    def __init__(self, network: Transformer, drop: Drop) -> None:
        self.__dict__.update(network.__dict__)
        self._drop = drop
        self.encoder_layers = [self._noisy(layer) for layer in network.encoder_layers]
        self.decoder_layers = [self._noisy(layer) for layer in network.decoder_layers]

    def _noisy(self, layer: Layer) -> Layer:
        out, fc2 = _NoisyProduct(layer.attention_out, self._drop), _NoisyProduct(layer.fc2, self._drop)
        cross = None if layer.cross is None else replace(layer.cross, out=_NoisyProduct(layer.cross.out, self._drop))
        return replace(layer, attention_out=out, fc2=fc2, cross=cross)

    def _embed(self, side: str, table: Tensor, tokens: Tensor, places: slice) -> Tensor:
        return self._drop(super()._embed(side, table, tokens, places))


class _NoisyProduct(Product):
    def __init__(self, product: Product, drop: Drop) -> None:
        self._product, self._drop = product, drop

    def __call__(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        out = self._drop(self._product(x))
        return out if add is None else add + out


class LeanScorer(_BatchedScorer):
    """fairseq's transformer, Marian, M2M100, NLLB, BART, mBART, on polyref's own network."""

    def __init__(self, network: Transformer, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        limits = (min(network.max_source, LONGEST_SOURCE), min(network.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=network.config.dim, **about)
        self._network = network
        self._pad = network.pad
        self._fill(str(network.device), network.config.dim)

    def _picked(
        self, sources: list[Tokens], states: dict[Tokens, Tensor], wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        network = self._network
        if int(wanted.max()) >= network.vocab_size:
            raise UsageError(f"a target token is not in the vocabulary of {network.vocab_size}")
        distinct = {tokens: number for number, tokens in enumerate(dict.fromkeys(sources))}
        # Sources are encoded with the first batch that needs them.
        missing = [tokens for tokens in distinct if tokens not in states]
        for width, batch in alike(missing, lambda tokens: (len(tokens),), self._read):
            states.update(zip(batch, network.encode_states(batch, min(width, self.max_source))[0]))
        memory = torch.stack([states[tokens] for tokens in distinct])
        padding = torch.arange(memory.shape[1]) >= torch.tensor([len(tokens) for tokens in distinct])[:, None]
        bias = torch.where(padding, float("-inf"), 0.0)[:, None, None].to(device=network.device, dtype=network.dtype)
        wanted, real = wanted.to(network.device), real.to(network.device)
        rows = torch.tensor([distinct[tokens] for tokens in sources], device=network.device)
        hidden = network.decode(memory, bias, _shifted(wanted, network.start if start is None else start), rows)
        return _log_probabilities(hidden[real], network.project, wanted[real])

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        network = NoisyTransformer(self._network, dropout(rate, seed))
        states, bias = network.encode_states([source] * samples)
        tokens = torch.tensor(target, device=network.device).expand(samples, -1)
        hidden = network.decode(states, bias, _shifted(tokens, network.start if start is None else start))
        return _numbers(_log_probabilities(hidden.flatten(0, 1), network.project, tokens.flatten()), samples)


class _PackedLinear(torch.nn.Module):
    """A linear layer as a :class:`Product`; its weights stay readable, because some models ask for their type."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self._product = Product(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return self._product(x)


def _packed(network: torch.nn.Module) -> None:
    """Replace the linear layers of a network that is not trained any more, where products can be packed."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear and packs(child.weight):
                setattr(module, name, _PackedLinear(child))


class PointerScorer(_EncodedFirst):
    """A model of the shipped kind, at its own closeness."""

    _pad = PointerTransformer.pad

    def __init__(self, model: PointerModel, device: str) -> None:
        network = model.network.place(device)
        codec = SentencePieceCodec(model.spm, network.eos, (model.language,))
        super().__init__(
            codec,
            Segmenter(model.spm, lambda side, pieces: [model.spm.PieceToId(piece) for piece in pieces], squeezed),
            name=model.name,
            digest=model.digest,
            dtype="float32",
            limits=(network.config.max_source, network.config.max_target),
            width=network.config.d_model,
            monolingual=True,
            note=f"closeness:{network.closeness}",
        )
        self._network: PointerTransformer = network
        self._fill(device, network.config.d_model)
        self._vocabulary = Product(network.embedding.weight.detach(), None)
        _packed(network)

    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        return self._network.encode_batch(sources.to(self._network.device))

    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        return self._forward(sources, wanted, memory=memory)

    def _forward(
        self, sources: Tensor, wanted: Tensor, drop: Drop | None = None, memory: Tensor | None = None
    ) -> Tensor:
        network = self._network
        wanted = wanted.to(network.device)
        inputs = _shifted(wanted, network.start)

        def vocabulary(hidden: Tensor, embedding: Tensor, tokens: Tensor) -> Tensor:
            return _log_probabilities(hidden, self._vocabulary, tokens)

        return network(sources.to(network.device), inputs, wanted, vocabulary, drop, memory)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        rows = padded([source], self._pad).expand(samples, -1), padded([target], self._pad).expand(samples, -1)
        return _numbers(self._forward(*rows, drop=dropout(rate, seed)), samples)


class HuggingFaceScorer(_EncodedFirst):
    """Any other encoder-decoder (T5 and so on), through Transformers' own forward."""

    def __init__(self, model: HuggingFaceModel, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        width = int(getattr(model.model.config, "d_model", None) or model.model.config.hidden_size)
        limits = (min(model.max_source, LONGEST_SOURCE), min(model.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=width, **about)
        self._model = model
        self._pad = model.pad
        # What the encoder gives: some decoders ask for more of it than the states.
        self._kind: type[Any] = dict
        self._positions = min(_BATCH, max(4 * _LOGITS // model.vocab_size, 1))
        self._fill(str(model.device), width + 2 * model.vocab_size // _VECTORS)
        _packed(model.model)

    def _mask(self, lengths: Tensor, width: int) -> Tensor:
        mask = torch.arange(width) < lengths[:, None]
        return mask.to(device=self._model.device, dtype=torch.int64)

    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        encoder = self._model.model.get_encoder()
        ids, mask = sources.to(self._model.device), self._mask(lengths, sources.shape[1])
        encoded = encoder(input_ids=ids, attention_mask=mask, return_dict=True)
        self._kind = type(encoded)
        states: Tensor = encoded.last_hidden_state
        return states

    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        wanted = wanted.to(self._model.device)
        inputs = _shifted(wanted, self._model.start if start is None else start)
        logits = self._model.model(
            attention_mask=self._mask(lengths, memory.shape[1]),
            encoder_outputs=self._kind(last_hidden_state=memory),
            decoder_input_ids=inputs,
            use_cache=False,
            return_dict=True,
        ).logits
        real = real.to(self._model.device)
        return _log_probabilities(logits[real], lambda rows: rows, wanted[real])

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        model = self._model.model
        for module in model.modules():
            # Modules hold rates as nn.Dropout or, where they call the function, as a number.
            if isinstance(module, torch.nn.Dropout):
                module.p = rate
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = rate
        sources = padded([source], self._pad).expand(samples, -1)
        wanted = padded([target], self._pad).expand(samples, -1)
        lengths = torch.full((samples,), len(source))
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            model.train()
            try:
                memory = self._encode(sources, lengths)
                real = torch.ones_like(wanted, dtype=torch.bool)
                scores = self._decode(sources, lengths, memory, wanted, real, start)
            finally:
                model.eval()
        return _numbers(scores, samples)


def load_scorer(
    name: str | Path = "shipped",
    *,
    device: str = "cpu",
    dtype: str = "float32",
    engine: Engine | None = None,
    cache: Cache | None = None,
) -> ForcedScorer:
    """Load a model for forced scoring.

    Args:
        name: ``shipped``, a folder of a model of that kind, a fairseq folder (Prism's is one), a Hugging Face folder of
            any encoder-decoder, or a name on the Hugging Face hub (the only case that uses the network).
        device: A torch device, or several, for the processes of ``engine``.
        dtype: ``float32``, ``bfloat16`` or ``float16``; models of the shipped kind compute in float32 only.
        engine: Whose workers compute where there is much to do; None: this process computes.
        cache: Where scores are kept; None keeps none.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used.
    """
    if dtype not in DTYPES:
        raise UsageError(f"the type is {dtype!r}, expected one of {', '.join(DTYPES)}")
    own = own_device(device)
    torch_device(own)
    found = find(name, "forced scores")
    if found.kind == "shipped" and dtype != "float32":
        raise UsageError(f"{name} computes in float32 only, not in {dtype}")
    scorer = _opened(found, own, dtype)
    scorer.device, scorer.cache = device, cache
    if engine is not None:
        scorer.others = Elsewhere(partial(_compute, name, device, dtype, scorer.digest), engine, forced.WORTH)
    return scorer


def _compute(name: str | Path, device: str, dtype: str, digest: str) -> Callable[[Stretch], Rows]:
    """What a worker does."""
    return worker_model(partial(load_scorer, name, device=device, dtype=dtype), str(name), digest).compute


def _opened(found: Found, device: str, dtype: str) -> ForcedScorer:
    if found.kind == "shipped":
        return PointerScorer(load_pointer(found.folder), device)
    kind: torch.dtype = getattr(torch, dtype)
    if found.kind == "fairseq":
        model = load_fairseq(found.folder, device=device, dtype=kind)
        assert isinstance(model.codec, FairseqCodec)
        segmenter = _fairseq_segmenter(found.folder, model.codec)
        return LeanScorer(model.network, model.codec, segmenter, name=model.name, digest=model.fingerprint, dtype=dtype)
    tokenizer = load_tokenizer(found.folder)
    about: dict[str, Any] = {
        "name": found.name,
        "digest": found.digest,
        "dtype": dtype,
        "marks_sources": hasattr(tokenizer, "src_lang"),
    }
    codec = HuggingFaceCodec(tokenizer)
    sampler = _hf_segmenter(tokenizer)
    if found.family in seq2seq.FAMILIES:
        network = seq2seq.load_family(found.folder, device=device, dtype=kind)
        return LeanScorer(network, codec, sampler, **about)
    loaded = seq2seq.load_transformers(found.folder).to(device=device, dtype=kind)
    return HuggingFaceScorer(HuggingFaceModel(loaded.eval()), codec, sampler, **about)


def _fairseq_segmenter(folder: Path, codec: FairseqCodec) -> Segmenter:
    names = ("spm.model", "sentencepiece.bpe.model")
    file = next((folder / name for name in names if (folder / name).is_file()), folder / names[0])

    def to_ids(side: str, pieces: Sequence[str]) -> list[int]:
        dictionary = codec.source if side == "source" else codec.target
        return [dictionary.index.get(piece, dictionary.unk) for piece in pieces]

    return Segmenter(load_sentencepiece(file), to_ids)


def _hf_segmenter(tokenizer: Any) -> Segmenter | None:
    pieces = getattr(tokenizer, "sp_model", None)
    if pieces is None or not hasattr(pieces, "NBestEncodeAsPieces"):
        return None
    return Segmenter(pieces, lambda side, found: [int(i) for i in tokenizer.convert_tokens_to_ids(list(found))])
