"""Keys and values in segments: only slots that were written take memory.

Each segment has its own row, and each token the slot of its position. Memory is reserved at once,
and taken page by page as it is written.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from marith.scoring.passes.addressed_layer import AddressedLayer
from marith.scoring.passes.lanes import roomy
from marith.scoring.passes.segments.kernel_shapes import BLOCK

# This is MAP_NORESERVE, for which `mmap` has no name: Linux counts a page only when it is written.
_NORESERVE = 0x4000
# With this overcommit setting, Linux counts every reserved page.
_STRICT = "2"
# The capacity grows in steps of this number of tokens, because growing copies what is held.
STEP = 256
# This number of positions follows the longest text, because a read may end after the text.
SLACK = BLOCK
# The padding of shorter texts in a pass is written to this row, which is never read.
PADDING_ROW = 0
# Where reserving takes no memory, these numbers of rows and of positions are reserved at once.
ROWS = 1024
LONG = 2**18
# At most this number of bytes of addresses is reserved. A process has 2**47.
SPACE = 2**44
# The three numbers are a row, its first position, and one past its last position.
Filled = tuple[int, int, int]


class Reserved:
    """A tensor [rows, heads, capacity, dim] whose slots take memory only after they are written.

    `capacity` is rounded up, so that the positions of a head begin and end at page boundaries.
    Slots that were not written are zero. If memory cannot be reserved (see `lazy`), all of it is
    taken at once.
    """

    def __init__(self, like: Tensor, rows: int, capacity: int) -> None:
        _, heads, _, dim = like.shape
        self._position = dim * like.element_size()  # bytes
        step = mmap.PAGESIZE // math.gcd(mmap.PAGESIZE, self._position)
        capacity = -(-capacity // step) * step
        shape = rows, heads, capacity, dim
        self._map: mmap.mmap | None = None
        if lazy(like.device):
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            self._map = mmap.mmap(-1, math.prod(shape) * like.element_size(), flags=flags)
            # A huge page would take 2 MB for one position. Not every system knows this advice.
            with suppress(OSError):
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
            self.tensor = torch.frombuffer(self._map, dtype=like.dtype).view(shape)
        else:
            self.tensor = like.new_zeros(shape)

    def give_back(self, row: int, first: int, last: int | None) -> None:
        """Free the pages that hold only positions from `first` to `last` (exclusive) of a row.

        If `last` is None, free the pages up to the end of the row.
        """
        if self._map is None:
            return
        _, heads, capacity, _ = self.tensor.shape
        rows = [row * heads + head for head in range(heads)]
        # The heads of a row lie one after another, so one call frees them all.
        if first == 0 and last is None:
            rows, capacity = [row], heads * capacity
        last = capacity if last is None else min(last, capacity)
        for one in rows:
            base = one * capacity
            start = -(-(base + first) * self._position // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (base + last) * self._position // mmap.PAGESIZE * mmap.PAGESIZE
            if end > start:
                self._map.madvise(mmap.MADV_DONTNEED, start, end - start)


def lazy(device: torch.device) -> bool:
    """Return True if memory of a device can be reserved without being taken."""
    return device.type == "cpu" and _unbounded()


@cache
def _unbounded() -> bool:
    """Return True if the system does not limit the memory that this process may reserve."""
    if sys.platform != "linux":
        return False
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return False
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() != _STRICT
    except OSError:
        return True


class SegmentCache(Cache):
    """Keys and values of every layer. Slots that were never written take no memory.

    A pass is aimed at rows and slots, and its new keys are written there. The `reads` of its
    attention mask say what the pass reads (see `segment_attention`). `windowed` is True for each
    layer that sees only a window or a chunk.
    """

    def __init__(self, windowed: Sequence[bool], device: torch.device, context_length: int) -> None:
        self._lazy = lazy(device)
        capacity = roomy(min(context_length, LONG), STEP, growth=0.0) + SLACK
        self.rows, self.capacity = (ROWS, capacity) if self._lazy else (0, 0)
        self._windowed = windowed
        self._slot_bytes: tuple[int, int] | None = None
        self._at: tuple[Tensor, Tensor] | None = None
        self._only: tuple[int, int] | None = None
        self._seen = 0
        self._layers = [_SegmentLayer(self) for _ in windowed]
        super().__init__(layers=list(self._layers))

    def bytes_of(self, whole: int, windowed: int) -> int:
        """Return the bytes of positions; 0 before the first pass.

        `whole` counts the positions in layers that see the whole text, and `windowed` the positions
        in layers with a window.
        """
        if self._slot_bytes is None:
            pairs = [*zip(self._layers, self._windowed, strict=True)]
            if not all(layer.slot_bytes for layer in self._layers):
                return 0
            self._slot_bytes = (
                sum(layer.slot_bytes for layer, narrow in pairs if not narrow),
                sum(layer.slot_bytes for layer, narrow in pairs if narrow),
            )
        return whole * self._slot_bytes[0] + windowed * self._slot_bytes[1]

    def limit_rows(self, slot_bytes: int) -> None:
        """Reserve fewer rows if all would not fit into the address space.

        `slot_bytes` are the bytes of one position in one layer.
        """
        row = slot_bytes * len(self._layers) * max(1, self.capacity)
        if self._lazy:
            self.rows = min(self.rows, max(8, SPACE // row))

    def grow(self, rows: int, longest: int, held: Iterable[Filled]) -> None:
        """Grow to at least `rows` rows of `longest` tokens. The `held` positions stay."""
        capacity = longest + SLACK
        if rows <= self.rows and capacity <= self.capacity:
            return
        # The rows double, because growing copies all of them.
        self.rows = self.rows if rows <= self.rows else max(rows, 2 * self.rows)
        if capacity > self.capacity:
            self.capacity = roomy(longest, STEP, growth=1.0) + SLACK
        spans = list(held)
        # Layers grow one by one, so that there are never two whole caches.
        for layer in self._layers:
            layer.resize(self.rows, self.capacity, spans)

    def clear(self) -> None:
        """Free all memory, also after growing failed halfway."""
        for layer in self._layers:
            layer.clear()
        if not self._lazy:
            self.rows = self.capacity = 0

    def give_back(self, row: int, first: int = 0, last: int | None = None) -> None:
        """Free the memory of positions that no lane reads any more; by default of a whole row."""
        for layer in self._layers:
            layer.give_back(row, first, last)

    def pass_by(self, row: int, first: int, last: int) -> None:
        """Free the memory of positions of a row that no window will see again."""
        for layer, narrow in zip(self._layers, self._windowed, strict=True):
            if narrow:
                layer.give_back(row, first, last)

    def copy(self, source: int, target: int, first: int, last: int, lost: int) -> None:
        """Copy the positions from `first` to `last` (exclusive) of one row into another row.

        Layers with windows no longer hold the positions before `lost`.
        """
        for layer, narrow in zip(self._layers, self._windowed, strict=True):
            layer.copy(source, target, max(first, lost) if narrow else first, last)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write a layer's new keys and values [texts, heads, width, dim], and return them."""
        return self._layers[layer_idx].update(key_states, value_states)

    def aim(self, rows: Tensor, slots: Tensor, seen: int) -> None:
        """Set where the next pass writes: `rows` and `slots`, [rows, width] each.

        `seen` is the length of the longest text of the pass.
        """
        self._at, self._seen = (rows, slots), seen
        self._only = (int(rows), int(slots)) if rows.numel() == 1 else None


class _SegmentLayer(AddressedLayer):
    """The keys and values of one layer, [rows, heads, capacity, dim] each."""

    owner: SegmentCache

    def __init__(self, owner: SegmentCache) -> None:
        super().__init__(owner)
        self._kept: list[Reserved] = []

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        like = key_states, value_states
        self.owner.limit_rows(sum(one.shape[1] * one.shape[3] * one.element_size() for one in like))
        self._take([Reserved(one, self.owner.rows, self.owner.capacity) for one in like])

    def _take(self, kept: list[Reserved]) -> None:
        self._kept = kept
        self.keys, self.values = (one.tensor for one in kept)
        self.is_initialized = True

    @property
    def slot_bytes(self) -> int:
        """The bytes of one position of one row in this layer."""
        kept = [one.tensor for one in self._kept]
        return sum(one.shape[1] * one.shape[3] * one.element_size() for one in kept)

    def resize(self, rows: int, capacity: int, held: Iterable[Filled]) -> None:
        """Allocate memory of another size, and copy the `held` spans into it."""
        if not self._kept:
            return
        larger = [Reserved(one.tensor, rows, capacity) for one in self._kept]
        for old, new in zip(self._kept, larger, strict=True):
            for row, first, last in held:
                new.tensor[row, :, first:last] = old.tensor[row, :, first:last]
        self._take(larger)

    def clear(self) -> None:
        self._kept, self.is_initialized = [], False

    def give_back(self, row: int, first: int, last: int | None) -> None:
        for one in self._kept:
            one.give_back(row, first, last)

    def copy(self, source: int, target: int, first: int, last: int) -> None:
        for one in self._kept:
            one.tensor[target, :, first:last] = one.tensor[source, :, first:last]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the new keys and values, and return them. `kept_in` of the keys is this layer."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.owner._at is not None
        # One token is written without tensors of indices, which take several times longer.
        if self.owner._only is not None:
            row, slot = self.owner._only
            self.keys[row, :, slot] = key_states[0, :, 0]
            self.values[row, :, slot] = value_states[0, :, 0]
        else:
            rows, slots = self.owner._at
            self.keys[rows, :, slots] = key_states.transpose(1, 2)
            self.values[rows, :, slots] = value_states.transpose(1, 2)
        key_states.kept_in = self  # type: ignore[attr-defined]
        return key_states, value_states
