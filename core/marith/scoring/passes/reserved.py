"""Memory that is reserved at once and taken page by page, as it is written."""

from __future__ import annotations

import math
import mmap
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

# Linux counts no page of such a mapping before it is written; the module has no name for it yet.
_NORESERVE = 0x4000
_STRICT = "2"  # the setting by which Linux counts every page that is reserved


class Reserved:
    """A tensor [rows, heads, capacity, dim] of which only what is written takes memory.

    `capacity` is rounded up, so that the positions of a head begin and end with a page. What is
    read before it is written is zero. On systems without such memory, and on other devices than
    the CPU, all of it is taken at once: see `lazy`.
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
            with suppress(OSError):  # of a system without huge pages: one holds 2 MB for a position
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
            self.tensor = torch.frombuffer(self._map, dtype=like.dtype).view(shape)
        else:
            self.tensor = like.new_zeros(shape)

    def give_back(self, row: int, first: int, last: int | None) -> None:
        """Free the pages that hold only positions from `first` until `last` of a row.

        Until its end, where `last` is None.
        """
        if self._map is None:
            return
        _, heads, capacity, _ = self.tensor.shape
        rows = [row * heads + head for head in range(heads)]
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
    """Whether memory of a device can be reserved without being taken."""
    return device.type == "cpu" and _unbounded()


@cache
def _unbounded() -> bool:
    """Whether the system gives this process as many addresses as it asks for."""
    if sys.platform != "linux":
        return False
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return False
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() != _STRICT
    except OSError:
        return True
