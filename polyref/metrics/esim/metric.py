"""ESIM and parESIM as a metric: a trained score of each (reference, output) pair, averaged over the references.

parESIM is the mean over the human reference and the first k paraphrases (Bawden et al. 2020); ``max`` is offered too.
Scores have no bounds, and those of different models cannot be compared.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from polyref.cache import default_cache
from polyref.engine import CACHE, DEVICE
from polyref.errors import PolyrefWarning
from polyref.metrics.combination import MEAN, Combination
from polyref.metrics.esim.card import EsimCard, find_model, open_encoder, read_card
from polyref.metrics.pairs import Kept, PairMetric
from polyref.metrics.statistics import Floats, Statistics
from polyref.models.device import arithmetic
from polyref.options import option
from polyref.progress import Part, listening, work
from polyref.references import ReferenceSet

if TYPE_CHECKING:
    from torch import Tensor

    from polyref.metrics.esim.network import EsimNetwork, Reader

#: The kind of pairs of which a side is empty.
_EMPTY: Final = "empty"
#: Pairs that are scored between two visits to the encoder.
_CHUNK: Final = 8192
#: Most bytes of read texts kept from one chunk to the next.
_MEMORY: Final = 1 << 29


@dataclass(frozen=True, kw_only=True)
class ESIM(Kept, PairMetric):
    """ESIM (Mathur et al. 2019).

    Neither ``batch`` nor ``cache`` moves a score by more than 1e-6; on the CPU the cache moves none.
    """

    combination: Combination = MEAN
    model: str = option("esim-en", help="A model that polyref ships, or its folder.", metavar="NAME|DIR")
    encoder: str | None = option(None, help="Where the model's encoder is, if it moved.", metavar="DIR")
    device: str = option("cpu", **DEVICE)
    batch: int = option(64, help="Most pairs compared at a time.", least=1)
    cache: bool = option(True, **CACHE)

    name = "esim"
    label = "ESIM"
    measures = ("score",)

    @property
    def options(self) -> dict[str, Any]:
        """What decides the statistics: the model by its content, not by its place."""
        return {
            **self.combination.options("combine", "weights", "gamma"),
            "model": self.card.name,
            "sha256": self.card.sha256,
            "encoder": self.card.encoder["sha256"],
            "layers": list(self.card.layers),
            "longest": self.card.longest,
            "lowercase": self.card.lowercase,
        }

    @cached_property
    def card(self) -> EsimCard:
        """What the model says of itself."""
        return read_card(find_model(self.model))

    @property
    def _decided_by(self) -> Any:
        """A wrong encoder is refused even where the cache knows every score."""
        return self.options, open_encoder(self.card, self.encoder, self.device).digest

    @cached_property
    def _reader(self) -> Reader:
        from polyref.metrics.esim.network import load_reader

        return load_reader(self.card, self.encoder, self.device)

    @cached_property
    def _network(self) -> EsimNetwork:
        from polyref.metrics.esim.network import load_network

        return load_network(self.card, self.device)

    def _describe(self, references: int | None, *, sentence: bool) -> list[str]:
        card = self.card
        return [
            *self.combination.described(),
            f"model:{card.name}",
            f"sha256:{card.sha256[:12]}",
            f"data:{'+'.join(card.data)}",
            f"encoder:{card.encoder['name']}",
            f"encoder-sha256:{card.encoder['sha256'][:12]}",
            f"layers:{','.join(map(str, card.layers))}",
            f"h:{card.config.hidden}",
            f"longest:{card.longest}",
            f"case:{'lc' if card.lowercase else 'mixed'}",
        ]

    def statistics(self, systems: Mapping[str, Sequence[str]], references: ReferenceSet, **options: Any) -> Statistics:
        """As :meth:`Metric.statistics`; a warning counts the pairs of which a side is empty."""
        stats = super().statistics(systems, references, **options)
        if empty := len(self._noted.get(_EMPTY, ())):
            some = "1 pair has" if empty == 1 else f"{empty} pairs have"
            warnings.warn(f"{some} an empty side: ESIM reads the end mark in its place", PolyrefWarning, stacklevel=2)
        return stats

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        reader = self._reader  # a wrong encoder is refused even where the cache knows every text
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        cut = (text for text, read in zip(texts, reader.tokens(texts), strict=True) if read.cut)
        self._note_cut(reader.encoder.name, reader.longest, cut)
        self._note(_EMPTY, (f"{ref}\n{output}" for ref, output in pairs if not ref.strip() or not output.strip()))
        scores = np.empty((len(pairs), 1))
        with work("comparing", "pairs", len(pairs)) as advance:
            for start in range(0, len(pairs), _CHUNK):
                chunk = pairs[start : start + _CHUNK]
                part = Part(advance, len(chunk), works=2)
                with listening(part):
                    scores[start : start + _CHUNK, 0] = self._compared(chunk, reader)
                part.end()
        return scores

    def _compared(self, pairs: Sequence[tuple[str, str]], reader: Reader) -> Floats:
        from polyref.metrics.esim.network import compare_texts

        read = self._read(list(dict.fromkeys(text for pair in pairs for text in pair)), reader)
        return compare_texts(self._network, read, pairs, self.batch)

    @cached_property
    def _held(self) -> OrderedDict[str, Tensor]:
        """Texts that were read, the latest used last."""
        return OrderedDict()

    def _read(self, texts: Sequence[str], reader: Reader) -> dict[str, Tensor]:
        """What the first LSTM makes of texts: shape (T, 2h) each."""
        import torch

        from polyref.metrics.esim.network import read_texts

        held = self._held
        found = {text: held[text] for text in texts if text in held}
        missing = {text: self._key(text) for text in texts if text not in found}
        if self.cache and missing:
            kept = default_cache().get(list(missing.values()))
            for text, key in missing.items():
                if key in kept:
                    values = np.frombuffer(kept[key], np.float32).reshape(-1, 2 * self.card.config.hidden)
                    found[text] = torch.from_numpy(values.copy()).to(self._network.gamma.device)
        # Like lengths together; a few hundred at a time, for the vectors of all layers are large.
        fresh = sorted((text for text in missing if text not in found), key=len)
        with work("encoding", "texts", len(fresh)) as advance:
            for start in range(0, len(fresh), 512):
                chunk = fresh[start : start + 512]
                part = Part(advance, len(chunk))
                with listening(part):
                    new = dict(zip(chunk, read_texts(self._network, reader(chunk)), strict=True))
                part.end()
                found |= new
                if self.cache:
                    default_cache().put({missing[text]: value.cpu().numpy().tobytes() for text, value in new.items()})
        for text in texts:
            held[text] = found[text]
            held.move_to_end(text)
        size = sum(value.numel() for value in held.values()) * 4
        while size > _MEMORY:
            size -= held.popitem(last=False)[1].numel() * 4
        return found

    def _key(self, text: str) -> bytes:
        card, computed = self.card, ",".join(arithmetic(self.device))
        model = f"{card.sha256}|{card.encoder['sha256']}|{card.layers}|{card.longest}|{card.lowercase}"
        options = f"esim 2|{model}|{computed}|"
        return hashlib.sha256(options.encode() + text.encode()).digest()
