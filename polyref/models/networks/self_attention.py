"""Self-attention of a beam whose hypotheses share their past.

Keys and values are written once, where they were computed, and never move: a hypothesis is the list of its ancestors'
places. Reordering a beam reorders these lists, not the cache, and rows with a common past read the same memory.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

#: Room for this many steps of the present number of rows when the cache grows.
_STEPS = 8


class AncestryCache:
    """Keys and values of all decoder layers.

    Args:
        layers: Number of decoder layers.
        heads: H, attention heads.
        dim: d, width of keys and values.
        rows: Rows before the first step.
        device: Where to keep it.
        dtype: Type of keys and values.
        inner: What dot products and their softmax are computed in (None: ``dtype``). A weighted sum adds its terms up
            one after the other, the same way on every processor.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        dim: int,
        rows: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
    ) -> None:
        self._heads = heads
        self._dim = dim
        # Keys (even) and values (odd) of the layers, [capacity, d] each.
        self._tables = [torch.empty((0, dim), device=device, dtype=of) for of in (inner or dtype, dtype)] * layers
        self._used = 0
        self._rows = rows
        # [R, t]: places of the t ancestors of every row, itself the last.
        self._paths = torch.empty((rows, 0), dtype=torch.int64, device=device)
        self._index = self._offsets = self._paths
        self._pattern: Tensor | None = None
        self._fused = device.type == "cpu" and dtype == torch.float32

    @property
    def length(self) -> int:
        """Tokens fed so far."""
        return self._paths.shape[1]

    def __len__(self) -> int:
        """Rows."""
        return len(self._paths)

    @property
    def nbytes(self) -> int:
        """Memory of keys and values."""
        return sum(table.nbytes for table in self._tables)

    def select(self, rows: Tensor) -> None:
        """Row i of the next step continues row ``rows[i]`` of the last one."""
        self._paths = self._paths.index_select(0, rows)

    def extend(self) -> None:
        """Make room for the keys and values of one more token of every row."""
        rows, length = self._paths.shape
        if self._used + rows > len(self._tables[0]):
            self._collect(rows)
        places = torch.arange(self._used, self._used + rows, device=self._paths.device)
        self._paths = torch.cat((self._paths, places[:, None]), dim=1)
        self._used += rows
        self._rows = rows
        if self._fused:
            heads = torch.arange(self._heads)[:, None]
            self._index = (self._paths[:, None] * self._heads + heads).flatten()
            offsets = torch.arange(rows * self._heads + 1) * (length + 1)
            self._offsets = offsets[:-1]
            # Which dot products are wanted, of all queries with all keys; each layer writes them into it.
            size = (rows * self._heads, len(self._tables[0]) * self._heads)
            wanted = torch.zeros(len(self._index), dtype=self._tables[0].dtype)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")  # said once a process
                self._pattern = torch.sparse_csr_tensor(offsets, self._index, wanted, size, check_invariants=False)

    def _collect(self, rows: int) -> None:
        """Drop what no row descends from, and leave room for some steps."""
        kept, inverse = torch.unique(self._paths, return_inverse=True)
        self._paths = inverse.view(self._paths.shape)
        capacity = len(kept) + max(_STEPS * rows, len(kept) // 2)
        for number, table in enumerate(self._tables):
            new = table.new_empty((capacity, self._dim))
            torch.index_select(table, 0, kept, out=new[: len(kept)])
            self._tables[number] = new
        self._used = len(kept)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Attention of one layer.

        Args:
            layer: 0-based.
            qkv: ``[R, 3d]`` queries (scaled), keys and values of the last token of every row.

        Returns:
            ``[R, d]``.
        """
        q, k, v = qkv.chunk(3, dim=1)
        keys, values = self._tables[2 * layer], self._tables[2 * layer + 1]
        new = slice(self._used - self._rows, self._used)
        keys[new] = k
        values[new] = v
        if self._fused:
            return self._gathered(q, keys, values)
        # [R, t, H, e]
        shape = (*self._paths.shape, self._heads, -1)
        past_keys, past_values = (table[self._paths].view(shape) for table in (keys, values))
        queries = q.reshape(len(q), self._heads, -1).to(keys.dtype)
        weights = torch.einsum("rhe,rthe->rht", queries, past_keys).softmax(dim=-1).to(values.dtype)
        return torch.einsum("rht,rthe->rhe", weights, past_values).flatten(1)

    def _gathered(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # Dot products with some places are a sampled product of matrices, and a weighted sum of places is an embedding
        # bag: PyTorch's kernels of both read the places directly, nothing is copied.
        size = self._dim // self._heads
        queries = q.reshape(-1, size).to(keys.dtype)
        assert self._pattern is not None
        keys = keys.view(-1, size).t()
        scores = torch.sparse.sampled_addmm(self._pattern, queries, keys, beta=0.0, out=self._pattern).values()
        weights = scores.view(len(queries), -1).softmax(dim=-1).flatten().to(values.dtype)
        # Without the checks of torch.nn.functional; 0: their sum.
        mixed = torch.embedding_bag(values.view(-1, size), self._index, self._offsets, False, 0, False, weights)[0]
        return mixed.view(len(q), self._dim)
