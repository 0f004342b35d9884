"""MetricX's network (Juraska et al. 2023, 2024): mT5, of which one decoder step gives a number instead of a word.

The number is the logit of one unused word after the decoder's start; everything else of the vocabulary is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from polyref.errors import ModelError
from polyref.models.checkpoints.learned import split_as_before, taken
from polyref.models.checkpoints.text import load_tokenizer
from polyref.models.device import own_device, torch_device
from polyref.models.elsewhere import worker_model
from polyref.models.opening import (
    HUB_NAME,
    check_numbers,
    downloaded,
    faults_of,
    find,
    from_folder,
    hash_files,
    hash_model,
    read_weights,
)
from polyref.progress import tell

if TYPE_CHECKING:
    from torch import Tensor

#: ``<extra_id_10>``, whose logit is the error.
_NUMBER: Final = 250_089
#: The worst error, and MQM's scale.
_MOST: Final = 25.0
#: Most tokens of a batch on devices that need batches.
_BATCH: Final = 4096
#: Where models of the hub have their tokeniser: their own folders hold none.
_TOKENIZER: Final = "google/mt5-xl"
_FILES: Final = ("tokenizer.json", "spiece.model")

Tokens = tuple[int, ...]


class MetricXModel:
    """A checkpoint with its tokeniser.

    Attributes:
        name: For signatures.
        digest: SHA-256 over weights, settings and the tokeniser's files, 64 hex digits.
    """

    def __init__(self, model: str, tokenizer: str | None, device: str, dtype: str) -> None:
        found = find(model, "forced scores")
        if found.family != "mt5":
            raise ModelError(f"its model_type is {found.family!r}, expected mt5, which MetricX is", file=found.folder)
        self.name, self._folder = found.name, found.folder
        words = _words(found.folder, tokenizer, named=not Path(model).is_dir())
        own = [words / name for name in ("tokenizer.json", "tokenizer_config.json", "spiece.model")]
        parts = (hash_model(found.folder), hash_files([file for file in own if file.is_file()]))
        self.digest = hashlib.sha256("|".join(parts).encode()).hexdigest()
        self._words, self._device, self._dtype = words, device, dtype

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = load_tokenizer(self._words)
        if not (self._words / "tokenizer.json").is_file():
            split_as_before(tokenizer.backend_tokenizer)
        return tokenizer

    def tokens(self, texts: Sequence[str], longest: int) -> list[tuple[Tokens, bool]]:
        """Ids of texts, and whether one is cut: ``longest`` with the end of sentence, which is then taken off."""
        if not texts:
            return []
        found = self._tokenizer(list(texts))["input_ids"]
        return [(tuple(ids[:-1][: longest - 1]), len(ids) > longest) for ids in found]

    def compute(self, texts: Sequence[Tokens]) -> list[float]:
        """Errors of texts, 0 to 25: alone on the CPU, else with others of their length, so that nothing is padded."""
        import torch

        found = dict.fromkeys(texts, 0.0)
        waiting = sorted(found, key=len)
        while waiting:
            size = 1 if torch_device(self._device).type == "cpu" else max(1, _BATCH // len(waiting[-1]))
            batch = [text for text in waiting[-size:] if len(text) == len(waiting[-1])]
            del waiting[-len(batch) :]
            with torch.inference_mode():
                found.update(zip(batch, self._errors(batch), strict=True))
            tell(len(batch))
        return [found[text] for text in texts]

    def _errors(self, batch: Sequence[Tokens]) -> list[float]:
        import torch

        encoder, decoder, row = self._network
        states = encoder(input_ids=torch.tensor(batch, device=self._device)).last_hidden_state
        start = torch.zeros((len(batch), 1), dtype=torch.int64, device=self._device)
        hidden = decoder(input_ids=start, encoder_hidden_states=states, use_cache=False).last_hidden_state[:, 0]
        errors: list[float] = (hidden @ row).float().clamp(0.0, _MOST).tolist()
        return errors

    @cached_property
    def _network(self) -> tuple[Any, Any, Tensor]:
        """Encoder, decoder, and the weights of the one word."""
        import torch
        import transformers

        folder, device = self._folder, torch_device(self._device)
        weights = read_weights(folder)
        shared = next((weights[name] for name in _SHARED if name in weights), None)
        if shared is not None:
            weights |= dict.fromkeys(_SHARED, shared)
        with faults_of(folder):
            # Written out, attention adds up as the original's does.
            config = from_folder("AutoConfig", folder, attn_implementation="eager")
            with torch.device("meta"):
                network: Any = transformers.MT5ForConditionalGeneration(config)
        wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        with faults_of(folder):
            weights = taken(wanted, weights)
        check_numbers(weights.items(), folder)
        network.load_state_dict(weights, assign=True)
        network = network.to(dtype=getattr(torch, self._dtype)).eval().requires_grad_(False)
        head = network.lm_head.weight
        if len(head) <= _NUMBER:
            raise ModelError(f"lm_head.weight has {len(head)} rows, expected more than {_NUMBER}", file=folder)
        row = head[_NUMBER].clone().to(device)
        network.lm_head = None
        network.to(device)
        return network.get_encoder(), network.get_decoder(), row


_SHARED: Final = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def _words(folder: Path, tokenizer: str | None, *, named: bool) -> Path:
    """Where the tokeniser is."""
    if tokenizer is not None:
        return _named(tokenizer)
    if any((folder / name).is_file() for name in _FILES):
        return folder
    if named:
        return _named(_TOKENIZER)
    raise ModelError(
        f"no tokeniser, expected {' or '.join(_FILES)}",
        file=folder,
        remedy=f"`tokenizer` names a folder with mT5's, or {_TOKENIZER}",
    )


def _named(name: str) -> Path:
    """The folder of a tokeniser that is named."""
    if Path(name).is_dir():
        return Path(name)
    if not HUB_NAME.fullmatch(name):
        raise ModelError("no such folder of a tokeniser", file=name, remedy="give a folder, or a hub name owner/model")
    return downloaded(name, ("*.json", "*.model", "*.txt"))


def worker(model: str, tokenizer: str | None, device: str, dtype: str, digest: str) -> Any:
    """What a worker does: :meth:`MetricXModel.compute` of the same model."""
    load = partial(MetricXModel, model, tokenizer, own_device(device), dtype)
    return worker_model(load, model, digest).compute
