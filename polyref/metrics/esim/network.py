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

from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

#: What stands for minus infinity where a maximum is taken.
_NEVER: Final = -1e7


@dataclass(frozen=True)
class EsimConfig:
    """Sizes of the network.

    Attributes:
        width: d, the length of the encoder's vectors.
        layers: L, how many of the encoder's layers are mixed.
        hidden: h, the size of an LSTM's state in one direction (300 in the original).
    """

    width: int
    layers: int
    hidden: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


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
        """Mix the layers of texts and run the first LSTM.

        Args:
            states: Shape (N, L, T, d), float32; what lies beyond a text's length has no influence.
            lengths: Shape (N,), int64 on the CPU, each 1 or more.

        Returns:
            Shape (N, T, 2h), zeros beyond the lengths.
        """
        x = self.gamma * torch.einsum("l,nltd->ntd", self.mixing.softmax(0), states)
        return _run(self.encoding, x, lengths)

    def compare(self, a: Tensor, b: Tensor, m: Tensor, n: Tensor) -> Tensor:
        """Scores of pairs.

        Args:
            a: Shape (P, M, 2h): the references, from :meth:`read`.
            b: Shape (P, N, 2h): the outputs.
            m: Shape (P,), int64 on the CPU: lengths of the references.
            n: Likewise, of the outputs.

        Returns:
            Shape (P,).
        """
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
