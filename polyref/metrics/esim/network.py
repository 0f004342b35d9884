"""ESIM's network: layer mixing, two bidirectional LSTMs with soft alignment between them, pooling, a scoring head.

Chen et al. 2017 ("Enhanced LSTM for natural language inference"), as Mathur et al. 2019 ("Putting evaluation in
context") adapted it to translation. a is the reference, b the output; weights are shared between the two sides::

    x_t     = gamma * sum_l softmax(w)_l * h_t^(l)               h: the frozen encoder's layers
    a, b    = BiLSTM(x)                                          [tokens, 2h]
    e_ij    = a_i . b_j;  a~_i = sum_j softmax_j(e_ij) b_j;  b~_j = sum_i softmax_i(e_ij) a_i
    m_a     = [a; a~; a - a~; a * a~]                            [tokens, 8h]; likewise m_b
    v_a     = BiLSTM(ReLU(W m_a + c))                            [tokens, 2h]; likewise v_b
    score   = head([mean(v_a); max(v_a); mean(v_b); max(v_b)])

Sequences are packed, so that padding enters no LSTM and a score does not depend on the other pairs of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from polyref.errors import ModelError
from polyref.metrics.esim.card import CONFIG, LONGEST, WEIGHTS, EsimCard, EsimConfig, open_encoder
from polyref.metrics.statistics import Floats
from polyref.models.device import own_device, torch_device
from polyref.models.embeddings import Embeddings
from polyref.models.encoders import Encoder, Tokens
from polyref.models.opening import check_numbers
from polyref.progress import work

#: What stands for minus infinity where a maximum is taken.
_NEVER: Final = -1e7


class EsimNetwork(nn.Module):
    """The trained part. :meth:`read` depends on one text, :meth:`compare` on a pair."""

    def __init__(self, config: EsimConfig) -> None:
        super().__init__()
        self.config = config
        h = config.hidden
        self.mixing = nn.Parameter(torch.zeros(config.layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.encoding = nn.LSTM(config.width, h, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(8 * h, h)
        self.composition = nn.LSTM(h, h, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(8 * h, h)
        self.output = nn.Linear(h, 1)

    def read(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Mix the layers of texts ``[N, L, T, d]`` and run the first LSTM: ``[N, T, 2h]``, zeros beyond the lengths.

        What lies beyond a text's length has no influence. ``lengths`` are int64 on the CPU, each 1 or more.
        """
        x = self.gamma * torch.einsum("l,nltd->ntd", self.mixing.softmax(0), states)
        return _run(self.encoding, x, lengths)

    def compare(self, a: Tensor, b: Tensor, m: Tensor, n: Tensor) -> Tensor:
        """Scores ``[P]`` of references ``[P, M, 2h]`` and outputs ``[P, N, 2h]``, with their lengths."""
        in_a, in_b = _inside(m, a), _inside(n, b)
        energy = a @ b.transpose(1, 2)
        to_b = energy.masked_fill(~in_b[:, None, :], -torch.inf).softmax(2) @ b
        to_a = energy.masked_fill(~in_a[:, :, None], -torch.inf).softmax(1).transpose(1, 2) @ a
        v_a, v_b = self._compose(a, to_b, m), self._compose(b, to_a, n)
        pooled = torch.cat([*_pool(v_a, in_a), *_pool(v_b, in_b)], 1)
        hidden = torch.relu(self.hidden(pooled))
        return cast("Tensor", self.output(hidden)).squeeze(1)

    def _compose(self, own: Tensor, other: Tensor, lengths: Tensor) -> Tensor:
        enhanced = torch.cat([own, other, own - other, own * other], 2)
        x = torch.relu(self.projection(enhanced))
        return _run(self.composition, x, lengths)


def _run(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    found, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])
    return found


def _inside(lengths: Tensor, x: Tensor) -> Tensor:
    """Shape (P, T): which places of padded ``x`` are tokens."""
    return (torch.arange(x.shape[1]) < lengths[:, None]).to(x.device)


def _pool(v: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    kept = inside[:, :, None]
    mean = (v * kept).sum(1) / inside.sum(1, keepdim=True)
    return mean, v.masked_fill(~kept, _NEVER).amax(1)


class Reader:
    """Vectors of texts, without those of special tokens.

    An empty text keeps the vector of its last special token (the separator or end), so that every pair has a score.
    """

    def __init__(self, encoder: Encoder, layers: Sequence[int], *, lowercase: bool, longest: int = LONGEST) -> None:
        """Nothing is loaded yet. ``longest`` counts no special tokens."""
        self.encoder = encoder
        self.layers = tuple(layers)
        self._lowercase = lowercase
        self._longest = longest

    @cached_property
    def longest(self) -> int:
        """Most tokens of a text that are read, special ones included."""
        return self._longest + len(self.encoder.tokens([""])[0])

    @cached_property
    def _embeddings(self) -> Embeddings:
        # Kept by those who ask, after what they do with them: here they would take a hundred times the room.
        return Embeddings(self.encoder, self.layers, longest=self.longest, memory=0)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Texts as they are read."""
        return self.encoder.tokens([text.lower() for text in texts] if self._lowercase else texts, self.longest)

    def __call__(self, texts: Sequence[str]) -> list[Tensor]:
        """Vectors of texts: shape (L, T, d) each, T at least 1, float32."""
        tokens = self.tokens(texts)
        read = [text.lower() for text in texts] if self._lowercase else list(texts)
        found = []
        for vectors, token in zip(self._embeddings.encode(read, tokens), tokens, strict=True):
            places = [place for place, special in enumerate(token.special) if not special] or [len(token) - 1]
            found.append(torch.from_numpy(vectors[:, places]))
        return found


def padded(states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Texts of shape (L, T, d) as one tensor (N, L, longest T, d), float32, and their lengths."""
    lengths = torch.tensor([state.shape[1] for state in states])
    together = pad_sequence([state.transpose(0, 1) for state in states], batch_first=True)
    return together.transpose(1, 2).float(), lengths


#: Most pairs, and most tokens of their longer sides with padding, in one batch.
PAIRS: Final = 64
TOKENS: Final = 4096


def read_texts(network: EsimNetwork, states: Sequence[Tensor], tokens: int = TOKENS) -> list[Tensor]:
    """The first LSTM's outputs for texts of shape (L, T, d): shape (T, 2h) each, in their order.

    On the CPU each is read alone, for the last digits of a product depend on how many rows it has: so they do not
    depend on the other texts, nor on what a cache holds. Elsewhere they do, below 1e-6.
    """
    found: list[Tensor] = [torch.empty(0)] * len(states)
    order = sorted(range(len(states)), key=lambda place: states[place].shape[1])
    device = network.gamma.device
    with torch.inference_mode():
        size = 1 if device.type == "cpu" else len(order)
        for chosen in _batches(order, [states[place].shape[1] for place in order], size, tokens):
            batch, lengths = padded([states[place] for place in chosen])
            read = network.read(batch.to(device), lengths)
            for row, place in enumerate(chosen):
                found[place] = read[row, : lengths[row]].clone()
    return found


def compare_texts(
    network: EsimNetwork,
    read: Mapping[str, Tensor],
    pairs: Sequence[tuple[str, str]],
    size: int = PAIRS,
    tokens: int = TOKENS,
) -> Floats:
    """Scores ``[P]`` of pairs of texts that :func:`read_texts` has read; most pairs and tokens of a batch."""
    sizes = [(len(read[ref]), len(read[output])) for ref, output in pairs]
    order = sorted(range(len(pairs)), key=lambda place: sizes[place])
    scores = np.empty(len(pairs))
    with torch.inference_mode(), work("comparing", "texts", len(pairs)) as advance:
        for chosen in _batches(order, [max(sizes[place]) for place in order], size, tokens):
            sides = [[read[pairs[place][side]] for place in chosen] for side in (0, 1)]
            m, n = (torch.tensor([len(text) for text in side]) for side in sides)
            a, b = (pad_sequence(side, batch_first=True) for side in sides)
            scores[chosen] = network.compare(a, b, m, n).double().cpu().numpy()
            advance(len(chosen))
    return scores


def _batches(order: Sequence[int], lengths: Sequence[int], size: int, tokens: int) -> Iterator[list[int]]:
    """``order`` in pieces of at most ``size`` entries, and ``tokens`` with padding, but of at least one entry."""
    batch: list[int] = []
    longest = 0
    for place, length in zip(order, lengths, strict=True):
        if batch and (len(batch) == size or max(longest, length) * (len(batch) + 1) > tokens):
            yield batch
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, length)
    if batch:
        yield batch


def load_network(card: EsimCard, device: str = "cpu") -> EsimNetwork:
    """The trained part, in float32 and inference mode."""
    path = card.folder / WEIGHTS
    # Before the memory is taken: an LSTM in two directions, of two bytes a weight.
    least = 2 * 8 * card.config.hidden * (card.config.width + card.config.hidden)
    if (found := path.stat().st_size) < least:
        raise ModelError(f"no weights that fit {CONFIG}: {found} bytes, expected at least {least}", file=path)
    network = EsimNetwork(card.config)
    try:
        weights = load(path.read_bytes())
        network.load_state_dict({name: weight.float() for name, weight in weights.items()})
        check_numbers(network.named_parameters(), path)
    except (SafetensorError, OSError, RuntimeError) as error:
        # PyTorch names the class first, then, line by line, what does not fit.
        reason = next((line.strip() for line in str(error).splitlines() if not line.endswith(":")), str(error))
        raise ModelError(f"no weights that fit {CONFIG}: {reason}", file=path) from None
    return network.to(torch_device(own_device(device))).eval().requires_grad_(False)


def load_reader(card: EsimCard, encoder: str | None = None, device: str = "cpu") -> Reader:
    """The vectors of a model, by :func:`polyref.metrics.esim.card.open_encoder`."""
    return Reader(open_encoder(card, encoder, device), card.layers, lowercase=card.lowercase, longest=card.longest)
