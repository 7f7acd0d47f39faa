"""How much memory may still be taken: what the machine, its containers and limits leave."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

_GROUPS = Path("/sys/fs/cgroup")  # of Linux: what a container may take, and takes
_GROUP_FILES = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def free_memory(device: str) -> int:
    """Bytes that this process may still take on a device."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    return max(0, min(_left()))


def _left() -> Iterator[int]:
    """What the machine has, and what each limit leaves of it."""
    yield int(psutil.virtual_memory().available)
    if sys.platform != "win32":
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - int(psutil.Process().memory_info().vms)
    for most, taken in _GROUP_FILES:
        bound, used = _number(_GROUPS / most), _number(_GROUPS / taken)
        if bound is not None and used is not None:
            yield bound - used


def _number(path: Path) -> int | None:
    """The number in a file; None without file or number, as where nothing is limited."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
