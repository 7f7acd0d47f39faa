"""Keys and values by row: texts of different lengths side by side, rolled back at no cost.

A pass writes each row's new keys and values at the row's own positions, and reads the first
`seen` of them under an explicit mask; lowering a row's length is a rollback, since the next write
lies over what was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class KVCache(Cache):
    """Keys and values [rows, heads, capacity + 1, dim] of every layer; the last slot is padding."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.capacity = 0
        self.version = 0  # another one wherever the keys and values lie elsewhere
        self._slot_bytes = 0  # what one position of one row weighs, once a pass was run
        self._view: slice | Tensor = slice(0)
        self._rows = torch.zeros(0, 1, dtype=torch.long)
        self._slots = torch.zeros(0, 0, dtype=torch.long)
        self._seen = 0
        self._ragged = [_RaggedLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self._ragged))

    @property
    def padding_slot(self) -> int:
        """Where padding is written, out of sight of every row."""
        return self.capacity

    def bytes_of(self, rows: int, capacity: int) -> int:
        """What a cache of this shape weighs; 0 before the first pass."""
        if not self._slot_bytes:
            self._slot_bytes = sum(layer.bytes_per_slot for layer in self._ragged)
        return rows * (capacity + 1) * self._slot_bytes

    def resize(self, rows: int, capacity: int) -> None:
        """Exactly so many rows and positions; what was in them, and still fits, stays."""
        if (rows, capacity) == (self.rows, self.capacity):
            return
        self.version += 1  # first: should memory run out halfway, what moved is known to have
        for layer in self._ragged:  # one by one: never two whole caches at a time
            layer.resize(rows, capacity)
        self.rows, self.capacity = rows, capacity

    def clear(self) -> None:
        """No rows and no positions, whatever a resize that failed has left of either."""
        self.version += 1
        for layer in self._ragged:
            layer.resize(0, 0)
        self.rows = self.capacity = 0

    def copy(self, source: int, target: int, length: int) -> None:
        """The first `length` positions of one row into another."""
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
                aside = kept[a, :, :length].clone()
                kept[a, :, :length] = kept[b, :, :length]
                kept[b, :, :length] = aside

    def aim(self, rows: Sequence[int], slots: Tensor, seen: int) -> None:
        """Where the next pass writes: rows in ascending order, slots [rows, count]; what it reads.

        Rows side by side are read as a view; others are copied out.
        """
        index = torch.tensor(rows, device=slots.device)
        beside = rows[-1] - rows[0] == len(rows) - 1
        view = slice(rows[0], rows[-1] + 1) if beside else index
        self.point(index[:, None], slots, seen, view)

    def point(self, rows: Tensor, slots: Tensor, seen: int, view: slice | Tensor) -> None:
        """Aim by tensors where the keys are: writes at rows [rows, 1], reads the rows of `view`."""
        self._rows, self._slots, self._seen, self._view = rows, slots, seen, view


class Addressed(Protocol):
    """A cache that says where its layers write in each pass, and how much they read."""

    capacity: int
    _seen: int


class AddressedLayer(CacheLayerMixin):
    """A layer whose keys and values are addressed by its owner, as transformers asks for it."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: Addressed) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self.owner = owner

    def get_seq_length(self) -> int:
        """How many positions the pass reads."""
        return self.owner._seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many positions a mask covers, and where it begins."""
        return self.owner._seen, 0

    def get_max_length(self) -> int:
        """How many positions a row has."""
        return self.owner.capacity

    def reset(self) -> None:
        """Take other memory with the next pass."""
        self.is_initialized = False


class _RaggedLayer(AddressedLayer):
    """One layer's keys and values, addressed by its owner's aim."""

    owner: KVCache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, capacity = self.owner.rows, self.owner.capacity
        self.keys = _empty(key_states, rows, capacity)
        self.values = _empty(value_states, rows, capacity)
        self.is_initialized = True

    @property
    def bytes_per_slot(self) -> int:
        """What one position of one row weighs here."""
        return sum(kept.shape[1] * kept.shape[3] * kept.element_size() for kept in self.kept())

    def kept(self) -> tuple[Tensor, ...]:
        """Keys and values, once there are any."""
        return (self.keys, self.values) if self.is_initialized else ()

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
        return self.keys[owner._view, :, : owner._seen], self.values[owner._view, :, : owner._seen]


def _empty(like: Tensor, rows: int, capacity: int) -> Tensor:
    _, heads, _, dim = like.shape
    return like.new_zeros(rows, heads, capacity + 1, dim)


def _resized(kept: Tensor, rows: int, capacity: int) -> Tensor:
    resized = _empty(kept, rows, capacity)
    rows, slots = min(rows, kept.shape[0]), min(capacity, kept.shape[2] - 1)
    resized[:rows, :, :slots] = kept[:rows, :, :slots]
    return resized
