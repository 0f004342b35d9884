"""The networks behind :mod:`polyref.paraphrase.forced`: the lean one, the shipped kind's, and Transformers' own.

Encoder states of a stretch of jobs are kept, targets are batched by length, matrix products go through
:mod:`polyref.paraphrase.products`, and the projection onto the vocabulary is done a slice at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polyref.paraphrase import hf_checkpoints
from polyref.paraphrase.checkpoints import is_fairseq_directory, load_fairseq, locate
from polyref.paraphrase.forced import ForcedScorer, Tokens
from polyref.paraphrase.forced_dropout import Drop, NoisyTransformer, dropout
from polyref.paraphrase.hf import HuggingFaceModel
from polyref.paraphrase.loading import LONGEST_SOURCE, SentencePieceCodec
from polyref.paraphrase.pointer import PointerTransformer
from polyref.paraphrase.pointer_files import PointerModel, load_pointer
from polyref.paraphrase.products import Product, packs
from polyref.paraphrase.scoring import Scorer
from polyref.paraphrase.segmentations import Segmenter
from polyref.paraphrase.transformer import Transformer
from polyref.paraphrase.vocabulary import FairseqCodec, TextCodec, load_sentencepiece

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


class LeanScorer(ForcedScorer):
    """fairseq's transformer, Marian, M2M100, NLLB, BART, mBART, on polyref's own network."""

    def __init__(self, network: Transformer, codec: TextCodec, segmenter: Segmenter | None, **about: Any) -> None:
        limits = (min(network.max_source, LONGEST_SOURCE), min(network.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=network.config.dim, **about)
        self._network = network
        self._scorer = Scorer(network, max_tokens=_BATCH, cache_bytes=1 << 29)

    def _score(self, sources: list[Tokens], targets: list[Tokens]) -> list[Row]:
        return self._scorer.score(sources, targets)

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, samples: int, rate: float, seed: int) -> Row:
        network = NoisyTransformer(self._network, dropout(rate, seed))
        states, bias = network.encode_states([source] * samples)
        tokens = torch.tensor(target, device=network.device).expand(samples, -1)
        inputs = torch.cat((torch.full_like(tokens[:, :1], network.start), tokens[:, :-1]), dim=1)
        hidden = network.decode(states, bias, inputs)
        scores = _picked(hidden.flatten(0, 1), network.project, tokens.flatten())
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


class _BatchedScorer(ForcedScorer):
    """Batches by length, and encoder states once a distinct source, for networks with a forward of their own."""

    #: Most target positions of a batch, padding included.
    _positions = _BATCH

    def _score(self, sources: list[Tokens], targets: list[Tokens]) -> list[Row]:
        with torch.inference_mode():
            states = self._states(sorted(set(sources), key=lambda tokens: (-len(tokens), tokens)))
            order = sorted(range(len(targets)), key=lambda i: (-len(targets[i]), -len(sources[i]), sources[i]))
            results: dict[int, Row] = {}
            start = 0
            while start < len(order):
                batch = order[start : start + max(self._positions // len(targets[order[start]]), 1)]
                start += len(batch)
                scored = self._batch([sources[i] for i in batch], states, [targets[i] for i in batch])
                results.update(zip(batch, scored, strict=True))
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

    def _batch(self, sources: list[Tokens], states: dict[Tokens, Tensor], targets: list[Tokens]) -> Sequence[Row]:
        memory = torch.nn.utils.rnn.pad_sequence([states[tokens] for tokens in sources], batch_first=True)
        lengths = torch.tensor([len(tokens) for tokens in sources])
        wanted = _padded(targets, self._pad)
        sizes = torch.tensor([len(tokens) for tokens in targets])
        real = torch.arange(wanted.shape[1]) < sizes[:, None]
        flat = self._decode(_padded(sources, self._pad), lengths, memory, wanted, real)
        return np.split(flat.cpu().numpy(), np.cumsum(sizes.numpy())[:-1])

    @property
    @abstractmethod
    def _pad(self) -> int:
        """The padding token."""

    @abstractmethod
    def _encode(self, sources: Tensor, lengths: Tensor) -> Tensor:
        """Encoder states ``[N, L, d]`` of padded sources."""

    @abstractmethod
    def _decode(self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor) -> Tensor:
        """Log-probabilities of the real tokens of ``wanted`` ``[N, T]``, row by row: ``[M]``."""


def _padded(rows: Sequence[Tokens], pad: int) -> Tensor:
    padded = torch.full((len(rows), max(map(len, rows))), pad, dtype=torch.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row)
    return padded


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
            Segmenter(model.spm, lambda side, pieces: [model.spm.PieceToId(piece) for piece in pieces]),
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

    def _decode(self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor) -> Tensor:
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
    def _noisy(self, source: Tokens, target: Tokens, samples: int, rate: float, seed: int) -> Row:
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
        limits = (min(model.max_target, LONGEST_SOURCE), min(model.max_target, LONGEST_SOURCE))
        super().__init__(codec, segmenter, limits=limits, width=width, **about)
        self._model = model
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
        states: Tensor = encoder(input_ids=ids, attention_mask=mask, return_dict=True).last_hidden_state
        return states

    def _decode(self, sources: Tensor, lengths: Tensor, memory: Tensor, wanted: Tensor, real: Tensor) -> Tensor:
        from transformers.modeling_outputs import BaseModelOutput

        wanted = wanted.to(self._model.device)
        inputs = torch.cat((torch.full_like(wanted[:, :1], self._model.start), wanted[:, :-1]), dim=1)
        logits = self._model.model(
            attention_mask=self._mask(lengths),
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            decoder_input_ids=inputs,
            use_cache=False,
            return_dict=True,
        ).logits
        real = real.to(self._model.device)
        return _picked(logits[real], lambda rows: rows, wanted[real])

    @torch.inference_mode()
    def _noisy(self, source: Tokens, target: Tokens, samples: int, rate: float, seed: int) -> Row:
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
                scores = self._decode(sources, lengths, memory, wanted, torch.ones_like(wanted, dtype=torch.bool))
            finally:
                model.eval()
        return np.asarray(scores.view(samples, -1).cpu().numpy(), dtype=np.float32)


def load_pointer_scorer(folder: Path, device: str) -> ForcedScorer:
    """A model of the shipped kind."""
    return PointerScorer(load_pointer(folder), device)


def load_checkpoint_scorer(name: str, device: str, dtype: str) -> ForcedScorer:
    """A fairseq or Hugging Face model."""
    kind: torch.dtype = getattr(torch, dtype)
    folder = locate(name)
    if is_fairseq_directory(folder):
        model = load_fairseq(folder, device=device, dtype=kind)
        assert isinstance(model.codec, FairseqCodec)
        segmenter = _fairseq_segmenter(folder, model.codec)
        return LeanScorer(model.network, model.codec, segmenter, name=model.name, digest=model.fingerprint, dtype=dtype)
    label = folder.resolve().name if Path(name).is_dir() else name
    tokenizer = hf_checkpoints.load_tokenizer(folder)
    about: dict[str, Any] = {
        "name": label,
        "digest": hf_checkpoints.fingerprint(folder),
        "dtype": dtype,
        "marks_sources": hasattr(tokenizer, "src_lang"),
    }
    # Texts are cut here, not by the tokeniser, so that they can be counted.
    codec = hf_checkpoints.HuggingFaceCodec(tokenizer, 1 << 30)
    sampler = _hf_segmenter(tokenizer)
    if hf_checkpoints.read_config(folder).get("model_type") in hf_checkpoints.FAMILIES:
        network = hf_checkpoints.load_network(folder, device=device, dtype=kind)
        return LeanScorer(network, codec, sampler, **about)
    loaded = hf_checkpoints.load_transformers(folder).to(device=device, dtype=kind)
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
