"""Language models that say how likely a text is by itself: log-probability of its tokens, the end included."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from polyref.errors import PolyrefWarning, UsageError
from polyref.models.device import own_device, torch_device
from polyref.models.forced import DTYPES
from polyref.models.opening import Found, find, load_network, most_positions
from polyref.progress import work

if TYPE_CHECKING:
    from torch import nn

    from polyref.models.forced import ForcedScorer


Floats = npt.NDArray[np.float64]
#: Most tokens of a batch.
_BATCH: Final = 2048
#: For models that name no limit of their own.
_LONGEST: Final = 1024


class LanguageModel(ABC):
    """Log-probabilities of texts, each distinct text once.

    Attributes:
        languages: Empty where nothing is stated.
        longest: Most tokens of a text that are read.
        cut: Texts so far that are longer: their end is ignored.
    """

    name: str
    digest: str
    longest: int
    languages: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.cut: set[str] = set()
        self._known: dict[str, float] = {}

    def fluency(self, texts: Sequence[str]) -> Floats:
        """Shape (N,): nats per token, 0 at most."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            found = self._sums(missing)
            self._known |= {text: sum_ / count if count else 0.0 for text, (sum_, count) in zip(missing, found)}
        return np.array([self._known[text] for text in texts], dtype=np.float64)

    def totals(self, texts: Sequence[str]) -> Floats:
        """Shape (N,): nats of the whole text, 0 at most. Nothing is kept; a warning counts the texts that are cut."""
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, self._sums(distinct), strict=True)) if distinct else {}
        if count := len(self.cut.intersection(distinct)):
            some = "1 text is" if count == 1 else f"{count} texts are"
            said = f"{some} longer than {self.name} reads: scored from the beginning"
            warnings.warn(said, PolyrefWarning, stacklevel=3)
        return np.array([found[text][0] for text in texts], dtype=np.float64)

    @abstractmethod
    def _sums(self, texts: list[str]) -> list[tuple[float, int]]:
        """Nats of distinct texts, and of how many tokens that is; adds to :attr:`cut`."""


def load_language_model(name: str = "shipped", device: str = "cpu", dtype: str = "float32") -> LanguageModel:
    """Find a language model.

    Args:
        name: ``shipped``, the folder of a causal or sequence-to-sequence model, or a name on the Hugging Face hub.
        device: A torch device.
        dtype: What it computes in: ``float32``, ``bfloat16`` or ``float16``.
    """
    if dtype not in DTYPES:
        raise UsageError(f"the type is {dtype!r}, expected one of {', '.join(DTYPES)}")
    found = find(name, "language model")
    return _opened(name, found, found.digest, own_device(device), dtype)


@lru_cache(maxsize=2)
def _opened(name: str, found: Found, _digest: str, device: str, dtype: str) -> LanguageModel:
    """The model, shared by those who name the same one, while its files stay the same."""
    from polyref.models.scorers import load_scorer

    if found.kind == "huggingface" and not found.config.get("is_encoder_decoder"):
        return Causal(found, device, dtype)
    return Unconditional(load_scorer(name, device=device, dtype=dtype))


class Unconditional(LanguageModel):
    """A sequence-to-sequence model with an empty source. It was not trained for this, so do not expect much."""

    def __init__(self, scorer: ForcedScorer) -> None:
        super().__init__()
        self._scorer = scorer
        self.name = f"{scorer.name}(unconditional)"
        self.digest = scorer.digest
        self.longest = scorer.max_target
        written = scorer.written(None)
        self.languages = () if written is None else (written,)

    def _sums(self, texts: list[str]) -> list[tuple[float, int]]:
        written = self._scorer.written(None)
        empty = self._scorer.source("", written if self._scorer.marks_sources else None)
        jobs = [(empty, self._scorer.target(text, written)) for text in texts]
        self.cut.update(text for text in texts if self._scorer.is_cut("target", text, written))
        return [(float(np.sum(row, dtype=np.float64)), len(row)) for row in self._scorer.score(jobs, written)]


class Causal(LanguageModel):
    """A causal language model that Transformers can load.

    The first token is predicted from the start token (or, where there is none, the end token; where there is neither,
    it is not counted), and the end token is counted where there is one.
    """

    def __init__(self, found: Found, device: str, dtype: str = "float32") -> None:
        super().__init__()
        self._found = found
        self._device = device
        self._dtype = dtype
        self.name = found.name
        self._positions = most_positions(found.folder, found.config)

    @cached_property
    def digest(self) -> str:  # type: ignore[override]
        return self._found.digest + ("" if self._dtype == "float32" else f"|dtype:{self._dtype}")

    @cached_property
    def longest(self) -> int:  # type: ignore[override]
        return int(min(self._tokenizer.model_max_length, self._positions or _LONGEST))

    @cached_property
    def _tokenizer(self) -> Any:
        from polyref.models.checkpoints.text import load_tokenizer

        return load_tokenizer(self._found.folder)

    @cached_property
    def _model(self) -> nn.Module:
        import torch

        network: Any = load_network("AutoModelForCausalLM", self._found.folder, "causal language model")
        return cast("nn.Module", network.to(torch_device(self._device), getattr(torch, self._dtype)))

    def _sums(self, texts: list[str]) -> list[tuple[float, int]]:
        start, end = self._tokenizer.bos_token_id, self._tokenizer.eos_token_id
        head = [token for token in (end if start is None else start,) if token is not None]
        tail = [] if end is None else [end]
        room = self.longest - len(head) - len(tail)
        read = self._tokenizer([text.strip() for text in texts], add_special_tokens=False, verbose=False)["input_ids"]
        rows = [[*head, *ids[:room], *tail] for ids in read]
        self.cut.update(text for text, ids in zip(texts, read, strict=True) if len(ids) > room)
        sums = [(0.0, 0)] * len(rows)
        # Longest first, filled up on the right, which no earlier token sees.
        order = sorted((n for n, row in enumerate(rows) if len(row) > 1), key=lambda n: -len(rows[n]))
        with work("reading", "texts", len(order)) as advance:
            while order:
                size = max(1, _BATCH // len(rows[order[0]]))
                batch, order = order[:size], order[size:]
                for n, nats in zip(batch, self._batch([rows[n] for n in batch]), strict=True):
                    sums[n] = (nats, len(rows[n]) - 1)  # the first token is given
                advance(len(batch))
        return sums

    def _batch(self, rows: list[list[int]]) -> list[float]:
        import torch

        lengths = torch.tensor([len(row) for row in rows])
        longest = int(lengths.max())
        ids = torch.tensor([row + row[-1:] * (longest - len(row)) for row in rows])
        real = torch.arange(longest) < lengths[:, None]
        with torch.inference_mode():
            tokens, mask = ids.to(torch_device(self._device)), real.to(torch_device(self._device))
            logits = self._model(tokens, attention_mask=mask.long()).logits[:, :-1].float()
            chosen = logits.gather(2, tokens[:, 1:, None])[..., 0] - logits.logsumexp(2)
            return [float(value) for value in chosen.double().where(mask[:, 1:], 0.0).sum(1).cpu()]
