"""Keys and values as one rectangle with a row for each lane. A rollback costs nothing.

A pass writes each row's new keys and values at the row's own positions, and reads the first `seen`
positions under an explicit mask. Lowering a row's length is a rollback, because the next write
overwrites the old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from marith.scoring.memory import LaneText
from marith.scoring.passes.lanes import Lane, Lanes, Rectangle, allocating
from marith.scoring.passes.layer_masks import LayerMasks, Mask

SPARE_ROWS = 8


class KVCache(Cache):
    """Keys and values [rows, heads, capacity + 1, dim] of every layer; the last slot is padding."""

    def __init__(self, layers: int) -> None:
        self.rows = 0
        self.capacity = 0
        self.version = 0  # changes when the keys and values move
        self._slot_bytes = 0  # bytes of one position of one row; 0 before the first pass
        self._view: slice | Tensor = slice(0)
        self._rows = torch.zeros(0, 1, dtype=torch.long)
        self._slots = torch.zeros(0, 0, dtype=torch.long)
        self._seen = 0
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
        self.version += 1  # first: if memory runs out halfway, some layers have moved already
        for layer in self._ragged:  # one by one, so that there are never two whole caches
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

    def aim(self, rows: Sequence[int], slots: Tensor, seen: int) -> None:
        """Set the rows and slots that the next pass writes, and the number of slots that it reads.

        `rows` are in ascending order, and `slots` are [rows, count]. Adjacent rows are read as a
        view. Other rows are copied.
        """
        index = torch.tensor(rows, device=slots.device)
        adjacent = rows[-1] - rows[0] == len(rows) - 1
        view = slice(rows[0], rows[-1] + 1) if adjacent else index
        self.point(index[:, None], slots, seen, view)

    def point(self, rows: Tensor, slots: Tensor, seen: int, view: slice | Tensor) -> None:
        """Aim by tensors on the cache's device: write `rows` [rows, 1], read the rows of `view`."""
        self._rows, self._slots, self._seen, self._view = rows, slots, seen, view


class Addressed(Protocol):
    """A cache that decides where its layers write in each pass, and how much they read."""

    capacity: int
    _seen: int


class AddressedLayer(CacheLayerMixin):
    """A layer of a transformers cache, whose owner decides where keys and values lie."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: Addressed) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self.owner = owner

    def get_seq_length(self) -> int:
        """Return the number of positions that the pass reads."""
        return self.owner._seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of positions that a mask covers, and the first of them."""
        return self.owner._seen, 0

    def get_max_length(self) -> int:
        """Return the number of positions of a row."""
        return self.owner.capacity

    def reset(self) -> None:
        """Allocate new memory in the next pass."""
        self.is_initialized = False


class _RaggedLayer(AddressedLayer):
    """The keys and values of one layer, which are written and read where its owner aims."""

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


class RectangleLanes(Lanes):
    """Lanes as adjacent rows of one cache. A common prefix is copied.

    The bytes of the whole rectangle count, also rows and positions that no lane needs.
    """

    def __init__(
        self, cache: KVCache, most_bytes: int, masks: LayerMasks, device: torch.device
    ) -> None:
        super().__init__(most_bytes)
        self.cache: KVCache = cache
        self.masks = masks
        self._device = device  # where positions are compared

    @property
    def nbytes(self) -> int:
        """The bytes of the rectangle."""
        return self.cache.bytes_of(self.cache.rows, self.cache.capacity)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes that lanes of these texts take, each as many as the longest."""
        longest = max((text.length for text in texts), default=0)
        return self.cache.bytes_of(len(texts), _roomy(longest))

    def aim(self, rectangles: Sequence[Rectangle]) -> Mask:
        """Point the next pass at the lanes of one rectangle, and return its attention mask."""
        [rectangle] = rectangles
        places = rectangle.places.to(self._device)
        slots = places.clone()
        for i, count in enumerate(rectangle.padding):
            slots[i, :count] = self.cache.padding_slot
        seen = int(places[:, -1].max()) + 1
        self.cache.aim([lane.row for lane in rectangle.lanes], slots, seen)
        return self.masks.of(places, seen)

    def make_room(self, longest: int) -> None:
        """Make room for every lane and for `longest` positions. Drops idle lanes over the limit."""
        cache, needed = self.cache, self._bytes(longest)
        suffices = len(self._all) <= cache.rows and longest <= cache.capacity
        limit = self.cache_limit.room(self, min(needed, self.nbytes) if suffices else needed)
        if (suffices and self.nbytes <= limit) or self._shrink(longest, limit):
            return
        rows, capacity = len(self._all), self._longest(longest)
        capacity = cache.capacity if capacity <= cache.capacity else _roomy(capacity)
        if rows <= cache.rows:
            rows = cache.rows
        elif cache.bytes_of(rows + SPARE_ROWS, capacity) <= limit:
            rows += SPARE_ROWS
        with allocating(self, longest):
            cache.resize(rows, capacity)

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all that idle lanes took, the least recently used lane first.

        If all lanes are in use, nothing changes, because they would take the memory again.
        """
        if not self.held or any(lane.owner is None for lane in self._all):
            self._shrink(0, self.nbytes - extra)

    def settle(self, lanes: Sequence[Lane], front: bool = False) -> None:
        """Move these lanes to adjacent rows, so that a pass reads them without a copy.

        With `front`, move them to the first rows, where a pass of fixed shape expects them.
        """
        rows = sorted(lane.row for lane in lanes)
        if not rows or (rows[-1] - rows[0] == len(rows) - 1 and (rows[0] == 0 or not front)):
            return
        first = 0 if front else min(rows[0], len(self._all) - len(rows))
        inside = range(first, first + len(rows))
        asked = {lane.row for lane in lanes}
        strays = [lane for lane in lanes if lane.row not in inside]
        others = [self._all[row] for row in inside if row not in asked]
        for stray, other in zip(strays, others, strict=True):
            self.cache.swap(stray.row, other.row, max(len(stray.tokens), len(other.tokens)))
            self._all[stray.row], self._all[other.row] = other, stray
            stray.row, other.row = other.row, stray.row

    def forget(self) -> None:
        """Drop all lanes and their keys and values. An owner's next question gets a new lane."""
        self._all, self.held = [], {}
        self.cache.clear()

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        capacity = max(self.cache.capacity, _roomy(length))
        weight = self.cache.bytes_of(len(self._all) + 1, capacity)
        full = not needed and weight > self.cache_limit.room(self, weight)
        return None if full else Lane(row=len(self._all))

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self.cache.copy(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        return length

    def _was_cut(self, lane: Lane, before: int) -> None:
        """Do nothing: the next pass overwrites the truncated positions."""

    def _longest(self, asked: int) -> int:
        return max([asked, *(len(lane.tokens) for lane in self._all)])

    def _bytes(self, asked: int) -> int:
        return self.cache.bytes_of(len(self._all), _roomy(self._longest(asked)))

    def _shrink(self, longest: int, limit: int) -> bool:
        """Drop idle lanes while the other lanes need more than `limit` bytes.

        Return True if the rectangle was larger than `limit`, and is smaller now.
        """
        idle = sorted((lane for lane in self._all if lane.owner is None), key=lambda n: -n.used)
        while idle and self._bytes(longest) > limit:
            self._drop(idle.pop())
        if not self._bytes(longest) < self.nbytes > limit:
            return False
        with allocating(self, longest):
            self.cache.resize(len(self._all), _roomy(self._longest(longest)))
        return True

    def _drop(self, lane: Lane) -> None:
        """Drop a lane. The last row moves into its place."""
        last = self._all[-1]
        if last is not lane:
            self.cache.copy(last.row, lane.row, len(last.tokens))
            self._all[lane.row], last.row = last, lane.row
        self._all.pop()


def _roomy(positions: int) -> int:
    """Round up with room to grow: a cache that grew at every token would be copied every time."""
    return -(-max(64, positions * 5 // 4) // 64) * 64
