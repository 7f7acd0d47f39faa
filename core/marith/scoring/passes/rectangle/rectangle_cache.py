"""Keys and values as one rectangle of rows. A rollback costs nothing.

A pass writes each row's new keys and values at the row's own positions, and reads the first `seen`
positions under an explicit mask. A rollback only lowers a row's length, because the next write
overwrites the old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from marith.scoring.passes.addressed_layer import AddressedLayer


class KVCache(Cache):
    """Keys and values [rows, heads, capacity + 1, dim] of every layer; the last slot is padding."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.capacity = 0
        # The version changes when the keys and values move.
        self.version = 0
        # These are the bytes of one position of one row; 0 before the first pass.
        self._slot_bytes = 0
        self._view: slice | Tensor = slice(0)
        self._rows = torch.zeros(0, 1, dtype=torch.long)
        self._slots = torch.zeros(0, 0, dtype=torch.long)
        self._seen = 0
        self._fresh = False
        self._ragged = [_RaggedLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self._ragged))

    @property
    def padding_slot(self) -> int:
        """The slot to which padding is written. No row reads it."""
        return self.capacity

    def bytes_of(self, rows: int, capacity: int) -> int:
        """Return the bytes of a cache of this shape; 0 before the first pass."""
        if not self._slot_bytes:
            self._slot_bytes = sum(layer.bytes_per_slot for layer in self._ragged)
        return rows * (capacity + 1) * self._slot_bytes

    def resize(self, rows: int, capacity: int) -> None:
        """Resize to exactly `rows` rows and `capacity` positions. Contents that still fit stay."""
        if (rows, capacity) == (self.rows, self.capacity):
            return
        # The version changes first: if memory runs out halfway, some layers have moved already.
        self.version += 1
        # Layers move one by one, so that there are never two whole caches.
        for layer in self._ragged:
            layer.resize(rows, capacity)
        self.rows, self.capacity = rows, capacity

    def clear(self) -> None:
        """Drop all rows and positions, also after a resize that failed halfway."""
        self.version += 1
        for layer in self._ragged:
            layer.resize(0, 0)
        self.rows = self.capacity = 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one row into another row."""
        if length == 0:
            return
        for layer in self._ragged:
            for kept in layer.kept():
                kept[target, :, :length] = kept[source, :, :length]

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` positions of two rows."""
        if length == 0:
            return
        for layer in self._ragged:
            for kept in layer.kept():
                copy = kept[a, :, :length].clone()
                kept[a, :, :length] = kept[b, :, :length]
                kept[b, :, :length] = copy

    def aim(self, rows: Sequence[int], slots: Tensor, seen: int, fresh: bool = False) -> None:
        """Set the rows and slots that the next pass writes, and the number of slots that it reads.

        `rows` are in ascending order, and `slots` are [rows, count]. Adjacent rows are read as a
        view. Other rows are copied. If `fresh` is True, the pass reads the keys and values that it
        computes itself, and nothing of the cache.
        """
        index = torch.tensor(rows, device=slots.device)
        adjacent = rows[-1] - rows[0] == len(rows) - 1
        view = slice(rows[0], rows[-1] + 1) if adjacent else index
        self.point(index[:, None], slots, seen, view)
        self._fresh = fresh

    def point(self, rows: Tensor, slots: Tensor, seen: int, view: slice | Tensor) -> None:
        """Set what the next pass writes and reads, by tensors on the cache's device.

        It writes `slots` of `rows` [rows, 1], and reads the first `seen` slots of the rows in
        `view`.
        """
        self._rows, self._slots, self._seen, self._view = rows, slots, seen, view
        self._fresh = False


class _RaggedLayer(AddressedLayer):
    """The keys and values of one layer. Its owner sets where the next pass writes and reads."""

    owner: KVCache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, capacity = self.owner.rows, self.owner.capacity
        self.keys = _empty(key_states, rows, capacity)
        self.values = _empty(value_states, rows, capacity)
        self.is_initialized = True

    @property
    def bytes_per_slot(self) -> int:
        """The bytes of one position of one row in this layer."""
        return sum(kept.shape[1] * kept.shape[3] * kept.element_size() for kept in self.kept())

    def kept(self) -> tuple[Tensor, ...]:
        """Return the keys and the values; an empty tuple before the first pass."""
        return (self.keys, self.values) if self.is_initialized else ()

    def get_seq_length(self) -> int:
        """Return the number of positions that the pass reads from the cache."""
        return 0 if self.owner._fresh else self.owner._seen

    def resize(self, rows: int, capacity: int) -> None:
        if self.is_initialized:
            self.keys = _resized(self.keys, rows, capacity)
            self.values = _resized(self.values, rows, capacity)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        owner = self.owner
        rows, slots = (one.to(self.keys.device) for one in (owner._rows, owner._slots))
        self.keys[rows, :, slots] = key_states.transpose(1, 2)
        self.values[rows, :, slots] = value_states.transpose(1, 2)
        if owner._fresh:
            return key_states, value_states
        return self.keys[owner._view, :, : owner._seen], self.values[owner._view, :, : owner._seen]


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def _empty(like: Tensor, rows: int, capacity: int) -> Tensor:
    _, heads, _, dim = like.shape
    # A position that a mask hides is multiplied by 0, which must not meet an inf or a NaN.
    return like.new_zeros(rows, heads, capacity + 1, dim)


def _resized(kept: Tensor, rows: int, capacity: int) -> Tensor:
    resized = _empty(kept, rows, capacity)
    rows, slots = min(rows, kept.shape[0]), min(capacity, kept.shape[2] - 1)
    resized[:rows, :, :slots] = kept[:rows, :, :slots]
    return resized
