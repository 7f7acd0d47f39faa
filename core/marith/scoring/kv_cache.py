"""Keys and values by lane: rows of different lengths side by side, rolled back at no cost.

Rows are preallocated and grow by doubling. A pass writes each row's new keys and values at the
row's own positions, and reads the first `seen` of them under an explicit mask; lowering a row's
length is a rollback, since the next write lies over what was there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class KVCache(Cache):
    """Keys and values [rows, heads, capacity + 1, dim] of every layer; the last slot is padding."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.capacity = 0
        self._index_now: slice | Tensor = slice(0)
        self._rows_now = torch.zeros(0, dtype=torch.long)
        self._slots_now = torch.zeros(0, 0, dtype=torch.long)
        self._seen_now = 0
        self._ragged = [_RaggedLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self._ragged))

    def reserve(self, rows: int, capacity: int) -> None:
        """Make room for at least so many rows and positions; what is kept stays."""
        if rows <= self.rows and capacity <= self.capacity:
            return
        if rows > self.rows:
            rows = max(rows, min(2 * self.rows, self.rows + 16))
        if capacity > self.capacity:
            capacity = max(capacity, 2 * self.capacity, 128)
        rows, capacity = max(rows, self.rows), max(capacity, self.capacity)
        grown = [layer.grown(rows, capacity) for layer in self._ragged]  # all, or none if it fails
        self.rows, self.capacity = rows, capacity
        for layer, (keys, values) in zip(self._ragged, grown, strict=True):
            layer.keys, layer.values = keys, values

    def aim(self, rows: Tensor, slots: Tensor, seen: int) -> None:
        """Where the next pass writes: row numbers [rows], slots [rows, count]; what it reads."""
        self._rows_now, self._slots_now, self._seen_now = rows, slots, seen
        in_order = torch.equal(rows, torch.arange(len(rows), device=rows.device))
        self._index_now = slice(0, len(rows)) if in_order else rows  # a slice needs no copy

    @property
    def padding_slot(self) -> int:
        """Where padding is written, out of sight of every row."""
        return self.capacity


class _RaggedLayer(CacheLayerMixin):
    """One layer's keys and values, addressed by its owner's aim."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: KVCache) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self.owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, capacity = self.owner.rows, self.owner.capacity
        self.keys = _empty(key_states, rows, capacity)
        self.values = _empty(value_states, rows, capacity)
        self.is_initialized = True

    def grown(self, rows: int, capacity: int) -> tuple[Tensor, Tensor]:
        """Larger keys and values with what is kept; the layer itself stays as it is."""
        if not self.is_initialized:
            return torch.empty(0), torch.empty(0)
        return _grown(self.keys, rows, capacity), _grown(self.values, rows, capacity)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        owner = self.owner
        rows, slots, seen = owner._rows_now, owner._slots_now, owner._seen_now
        self.keys[rows[:, None], :, slots] = key_states.transpose(1, 2)
        self.values[rows[:, None], :, slots] = value_states.transpose(1, 2)
        index = owner._index_now
        return self.keys[index, :, :seen], self.values[index, :, :seen]

    def get_seq_length(self) -> int:
        return self.owner._seen_now

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner._seen_now, 0

    def get_max_length(self) -> int:
        return self.owner.capacity

    def get_max_cache_shape(self) -> int:
        return self.owner.capacity

    def reset(self) -> None:
        self.is_initialized = False


def _empty(like: Tensor, rows: int, capacity: int) -> Tensor:
    _, heads, _, dim = like.shape
    return like.new_zeros(rows, heads, capacity + 1, dim)


def _grown(kept: Tensor, rows: int, capacity: int) -> Tensor:
    grown = _empty(kept, rows, capacity)
    grown[: kept.shape[0], :, : kept.shape[2] - 1] = kept[:, :, :-1]
    return grown
