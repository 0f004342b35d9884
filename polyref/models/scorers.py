"""The networks behind :mod:`polyref.models.forced`: the lean one, the shipped kind's, and Transformers' own.

Encoder states of a stretch of jobs are kept, targets are batched by length, matrix products go through
:mod:`polyref.models.networks.matmul`, and the projection onto the vocabulary is done a slice at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyref.errors import UsageError
from polyref.models.checkpoints import huggingface
from polyref.models.checkpoints.fairseq import load_fairseq
from polyref.models.checkpoints.pointer import PointerModel, load_pointer
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
from polyref.models.device import own_device, torch_device
from polyref.models.forced import DTYPES, ForcedScorer, Tokens
from polyref.models.networks.attention import Layer
from polyref.models.networks.hugging_face import HuggingFaceModel
from polyref.models.networks.matmul import Product, packs
from polyref.models.networks.pointer import PointerTransformer
from polyref.models.networks.transformer import Transformer
from polyref.models.opening import LONGEST_SOURCE, find
from polyref.progress import tell

#: Most target positions of a batch, padding included.
_BATCH: Final = 1024
#: Most logits held at once (float32: 64 MB).
_LOGITS: Final = 1 << 24

Row = npt.NDArray[np.float32]


def _picked(hidden: Tensor, project: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Log-probabilities of ``tokens`` ``[M]`` after states ``[M, d]``, in float32."""
    size = project(hidden[:1]).shape[-1]
    flat = []
    for first in range(0, len(hidden), step := max(_LOGITS // size, 1)):
        logits = project(hidden[first : first + step]).float()
        chosen = logits.gather(1, tokens[first : first + step, None])[:, 0]
        flat.append(chosen - logits.logsumexp(dim=1))
    return torch.cat(flat)


class _BatchedScorer(ForcedScorer):
    """Batches by length, and encoder states once a distinct source, for networks with a forward of their own."""

    #: Most target positions of a batch, padding included.
    _positions = _BATCH

    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[Row]:
        with torch.inference_mode():
            states = self._states(sorted(set(sources), key=lambda tokens: (-len(tokens), tokens)))
            order = sorted(range(len(targets)), key=lambda i: (-len(targets[i]), -len(sources[i]), sources[i]))
            results: dict[int, Row] = {}
            place = 0
            while place < len(order):
                batch = order[place : place + max(self._positions // len(targets[order[place]]), 1)]
                place += len(batch)
                scored = self._batch([sources[i] for i in batch], states, [targets[i] for i in batch], start)
                results.update(zip(batch, scored, strict=True))
                tell(len(batch))
        return [results[i] for i in range(len(targets))]

    def _states(self, sources: list[Tokens]) -> dict[Tokens, Tensor]:
        """Encoder states ``[L, d]`` of distinct sources, longest first."""
        states: dict[Tokens, Tensor] = {}
        start = 0
        while start < len(sources):
            batch = sources[start : start + max(_BATCH // len(sources[start]), 1)]
            start += len(batch)
            encoded = self._encode(_padded(batch, self._pad), torch.tensor([len(tokens) for tokens in batch]))
            states.update((tokens, row[: len(tokens)].clone()) for tokens, row in zip(batch, encoded))
        return states

    def _batch(
        self, sources: list[Tokens], states: dict[Tokens, Tensor], targets: list[Tokens], start: int | None
    ) -> Sequence[Row]:
        memory = torch.nn.utils.rnn.pad_sequence([states[tokens] for tokens in sources], batch_first=True)
        lengths = torch.tensor([len(tokens) for tokens in sources])
        wanted = _padded(targets, self._pad)
        sizes = torch.tensor([len(tokens) for tokens in targets])
        real = torch.arange(wanted.shape[1]) < sizes[:, None]
        flat = self._decode(_padded(sources, self._pad), lengths, memory, wanted, real, start)
        return np.split(flat.cpu().numpy(), np.cumsum(sizes.numpy())[:-1])

    @property
    @abstractmethod
    def _pad(self) -> int:
        """The padding token."""

    @abstractmethod
    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        """Encoder states ``[N, L, d]`` of padded sources."""

    @abstractmethod
    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        """Log-probabilities of the real tokens of ``wanted`` ``[N, T]``, row by row: ``[M]``."""


def _padded(rows: Sequence[Tokens], pad: int) -> Tensor:
    padded = torch.full((len(rows), max(map(len, rows))), pad, dtype=torch.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row)
    return padded


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


class LeanScorer(ForcedScorer):
    """fairseq's transformer, Marian, M2M100, NLLB, BART, mBART, on polyref's own network."""

    def __init__(self, network: Transformer, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        limits = (min(network.max_source, LONGEST_SOURCE), min(network.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=network.config.dim, **about)
        self._network = network
        self._scorer = Scorer(network, max_tokens=_BATCH, cache_bytes=1 << 29)

    def _score(self, sources: list[Tokens], targets: list[Tokens], start: int | None) -> list[Row]:
        # A stretch begins without states, as it does in a fresh worker: those of a batch depend on it, in last digits.
        self._scorer.forget()
        return self._scorer.score(sources, targets, start)

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        network = NoisyTransformer(self._network, dropout(rate, seed))
        states, bias = network.encode_states([source] * samples)
        tokens = torch.tensor(target, device=network.device).expand(samples, -1)
        first = network.start if start is None else start
        inputs = torch.cat((torch.full_like(tokens[:, :1], first), tokens[:, :-1]), dim=1)
        hidden = network.decode(states, bias, inputs)
        scores = _picked(hidden.flatten(0, 1), network.project, tokens.flatten())
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


#: Most logits held at once (float32: 64 MB).
_LOGITS_OF_LEAN = 1 << 24


class Scorer:
    """Token log-probabilities under one network.

    Args:
        network: The network.
        max_tokens: Most target positions of a batch, padding included (an encoder batch has as many source ones).
        cache_bytes: Most memory for kept encoder states; the longest unused go first.
        temperature: Divides the logits (> 0).

    Raises:
        UsageError: ``temperature`` or ``max_tokens`` is out of range.
    """

    def __init__(
        self,
        network: Transformer,
        *,
        max_tokens: int = 4096,
        cache_bytes: int = 1 << 28,
        temperature: float = 1.0,
    ) -> None:
        if not temperature > 0:
            raise UsageError(f"the temperature is {temperature}, expected more than 0")
        if max_tokens < 1:
            raise UsageError(f"the batch is {max_tokens} tokens, expected 1 or more")
        self._network = network
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._cache_bytes = cache_bytes
        self._held = 0
        self._states: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()
        self.encoded = 0  # sources encoded so far, for those who want to know what the cache saves

    @torch.inference_mode()
    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int | None = None
    ) -> list[npt.NDArray[np.float32]]:
        """Log-probabilities of ``targets[i]`` given ``sources[i]``.

        Args:
            sources: Token ids, each with its end of sentence.
            targets: Token ids, each with its end of sentence (and its language tag in front, where the model has one),
                without the start token. May be empty.
            start: The decoder's first input (None: the network's own).

        Returns:
            One array a pair, as long as its target, in nats.

        Raises:
            UsageError: The lists differ in length, a target is longer than the network's positions, a source is
                empty, or a source or target holds what the network does not know.
        """
        network = self._network
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources but {len(targets)} targets")
        for index, source in enumerate(sources):
            if not len(source):
                raise UsageError(f"source {index} has no tokens, expected the end of sentence at least")
        for target in targets:
            if len(target) > network.max_target:
                raise UsageError(f"a target has {len(target)} tokens, expected at most {network.max_target}")
            if len(target) and not 0 <= min(target) <= max(target) < network.vocab_size:
                raise UsageError(f"a target token is not in the vocabulary of {network.vocab_size}")
        results = [np.empty(0, dtype=np.float32) for _ in targets]
        # Longest first: a batch that does not fit shows at once.
        order = [i for i in range(len(targets)) if len(targets[i])]
        tell(len(targets) - len(order))
        order.sort(key=lambda i: (-len(targets[i]), -len(sources[i]), tuple(sources[i])))
        first = network.start if start is None else start
        place = 0
        while place < len(order):
            size = max(self._max_tokens // len(targets[order[place]]), 1)
            batch = order[place : place + size]
            scored = self._batch([sources[i] for i in batch], [targets[i] for i in batch], first)
            for index, scores in zip(batch, scored):
                results[index] = scores
            tell(len(batch))
            place += size
        return results

    def _batch(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
    ) -> list[npt.NDArray[np.float32]]:
        network = self._network
        keys = [tuple(source) for source in sources]
        distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        states, bias = self._encoded(list(distinct))
        rows = torch.tensor([distinct[key] for key in keys], device=network.device)
        lengths = [len(target) for target in targets]
        wanted = torch.full((len(targets), max(lengths)), network.pad, dtype=torch.int64)
        for row, target in enumerate(targets):
            wanted[row, : len(target)] = torch.tensor(list(target))
        wanted = wanted.to(network.device)
        inputs = torch.cat((torch.full_like(wanted[:, :1], start), wanted[:, :-1]), dim=1)
        real = torch.arange(max(lengths), device=network.device) < torch.tensor(lengths, device=network.device)[:, None]
        hidden = network.decode(states, bias, inputs, rows)[real]
        flat, tokens = [], wanted[real]
        step = max(_LOGITS_OF_LEAN // network.vocab_size, 1)
        for first in range(0, len(hidden), step):
            logits = network.project(hidden[first : first + step])
            if self._temperature != 1.0:
                logits /= self._temperature
            chosen = logits.gather(1, tokens[first : first + step, None])[:, 0]
            flat.append(chosen - logits.logsumexp(dim=1))
        return list(np.split(torch.cat(flat).cpu().numpy(), np.cumsum(lengths)[:-1]))

    def _encoded(self, sources: list[tuple[int, ...]]) -> tuple[Tensor, Tensor | None]:
        """States ``[N, L, d]`` of distinct sources and their bias, from the cache where it has them."""
        network = self._network
        found: dict[tuple[int, ...], Tensor] = {}
        for key in sources:
            if key in self._states:
                self._states.move_to_end(key)
                found[key] = self._states[key]
        missing = sorted((key for key in sources if key not in found), key=len)
        while missing:
            size = max(self._max_tokens // len(missing[-1]), 1)
            part, missing = missing[-size:], missing[:-size]
            states, _ = network.encode_states(part)
            self.encoded += len(part)
            for key, state in zip(part, states):
                found[key] = state[: len(key)].clone()
                self._keep(key, found[key])
        length = max(len(key) for key in sources)
        batch = torch.nn.utils.rnn.pad_sequence([found[key] for key in sources], batch_first=True)
        if all(len(key) == length for key in sources):
            return batch, None
        mask = torch.arange(length) >= torch.tensor([len(key) for key in sources])[:, None]
        bias = torch.zeros(mask.shape).masked_fill_(mask, float("-inf"))[:, None, None]
        return batch, bias.to(device=network.device, dtype=network.dtype)

    def forget(self) -> None:
        """Drop the kept encoder states."""
        self._states.clear()
        self._held = 0

    def _keep(self, key: tuple[int, ...], state: Tensor) -> None:
        self._states[key] = state
        self._held += state.nbytes
        while self._held > self._cache_bytes:
            self._held -= self._states.popitem(last=False)[1].nbytes


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


class PointerScorer(_BatchedScorer):
    """A model of the shipped kind, at its own closeness."""

    monolingual = True
    _pad = PointerTransformer.pad

    def __init__(self, model: PointerModel, device: str) -> None:
        network = model.network.place(device)
        codec = _OneLanguage(SentencePieceCodec(model.spm, network.eos), model.language)
        super().__init__(
            codec,
            Segmenter(model.spm, lambda side, pieces: [model.spm.PieceToId(piece) for piece in pieces], squeezed),
            name=model.name,
            digest=model.digest,
            dtype="float32",
            limits=(network.config.max_source, network.config.max_target),
            width=network.config.d_model,
            note=f"closeness:{network.closeness}",
        )
        self._network: PointerTransformer = network
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
        inputs = torch.cat((torch.full_like(wanted[:, :1], network.start), wanted[:, :-1]), dim=1)

        def vocabulary(hidden: Tensor, embedding: Tensor, tokens: Tensor) -> Tensor:
            return _picked(hidden, self._vocabulary, tokens)

        return network(sources.to(network.device), inputs, wanted, vocabulary, drop, memory)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        rows = _padded([source], self._pad).expand(samples, -1), _padded([target], self._pad).expand(samples, -1)
        scores = self._forward(*rows, drop=dropout(rate, seed))
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


class _OneLanguage:
    """A codec whose source and target sides are one, of a model without language tags."""

    def __init__(self, codec: SentencePieceCodec, language: str) -> None:
        self.languages = (language,)
        self._codec = codec

    def encode(self, text: str, lang: str | None = None) -> list[int]:
        return self._codec.encode(text)

    encode_target = encode

    def prefix(self, lang: str | None) -> list[int]:
        return []


class HuggingFaceScorer(_BatchedScorer):
    """Any other encoder-decoder (T5 and so on), through Transformers' own forward."""

    def __init__(self, model: HuggingFaceModel, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        width = int(getattr(model.model.config, "d_model", None) or model.model.config.hidden_size)
        limits = (min(model.max_source, LONGEST_SOURCE), min(model.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=width, **about)
        self._model = model
        # What the encoder gives: some decoders ask for more of it than the states.
        self._kind: type[Any] = dict
        # Here the logits of all positions of a batch are held at once.
        self._positions = min(_BATCH, max(4 * _LOGITS // model.vocab_size, 1))
        _packed(model.model)

    @property
    def _pad(self) -> int:
        return self._model.pad

    def _mask(self, lengths: Tensor) -> Tensor:
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        return mask.to(device=self._model.device, dtype=torch.int64)

    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        encoder = self._model.model.get_encoder()
        ids, mask = sources.to(self._model.device), self._mask(lengths)
        encoded = encoder(input_ids=ids, attention_mask=mask, return_dict=True)
        self._kind = type(encoded)
        states: Tensor = encoded.last_hidden_state
        return states

    def _decode(
        self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor, start: int | None
    ) -> Tensor:
        wanted = wanted.to(self._model.device)
        first = self._model.start if start is None else start
        inputs = torch.cat((torch.full_like(wanted[:, :1], first), wanted[:, :-1]), dim=1)
        logits = self._model.model(
            attention_mask=self._mask(lengths),
            encoder_outputs=self._kind(last_hidden_state=memory),
            decoder_input_ids=inputs,
            use_cache=False,
            return_dict=True,
        ).logits
        real = real.to(self._model.device)
        return _picked(logits[real], lambda rows: rows, wanted[real])

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, start: int | None, samples: int, rate: float, seed: int) -> Row:
        model = self._model.model
        for module in model.modules():
            # Modules hold rates as nn.Dropout or, where they call the function, as a number.
            if isinstance(module, torch.nn.Dropout):
                module.p = rate
            elif isinstance(getattr(module, "dropout", None), float):
                module.dropout = rate
        sources = _padded([source], self._pad).expand(samples, -1)
        wanted = _padded([target], self._pad).expand(samples, -1)
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
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


def load_scorer(name_or_path: str | Path = "shipped", *, device: str = "cpu", dtype: str = "float32") -> ForcedScorer:
    """Load a model for forced scoring; names and kinds are those of :func:`polyref.paraphrase.load_paraphraser`.

    Args:
        name_or_path: ``shipped``, a folder of a model of that kind, a fairseq folder (Prism's is one), a Hugging Face
            folder of any encoder-decoder, or a name on the Hugging Face hub (the only case that uses the network).
        device: A torch device; of several, :func:`polyref.models.device.own_device`.
        dtype: ``float32``, ``bfloat16`` or ``float16``; models of the shipped kind compute in float32 only.

    Raises:
        ModelError: There is no such model, or it is broken.
        UsageError: The device or type cannot be used.
    """
    if dtype not in DTYPES:
        raise UsageError(f"the type is {dtype!r}, expected one of {', '.join(DTYPES)}")
    device = own_device(device)
    torch_device(device)
    found = find(name_or_path, "forced scores")
    if found.kind == "shipped":
        if dtype != "float32":
            raise UsageError(f"{name_or_path} computes in float32 only, not in {dtype}")
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
    if found.family in huggingface.FAMILIES:
        network = huggingface.load_network(found.folder, device=device, dtype=kind)
        return LeanScorer(network, codec, sampler, **about)
    loaded = huggingface.load_transformers(found.folder).to(device=device, dtype=kind)
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
