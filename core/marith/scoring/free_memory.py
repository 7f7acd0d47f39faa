"""Count the bytes of memory that this process may still take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import torch

# Linux's control groups (version 2) limit the memory of a container.
_GROUPS = Path("/sys/fs/cgroup")
# The line `0::/path` of this file names this process's group.
_OWN_GROUP = Path("/proc/self/cgroup")


def free_memory(device: str = "cpu") -> int:
    """Return the bytes that this process may still take on a device. "cuda" is the current GPU."""
    if device.startswith("cuda"):
        # torch is imported late, because the free memory of the machine is known without it.
        import torch

        return _left_on_gpu(torch.device(device))
    return max(0, min(_left()))


def _left_on_gpu(device: torch.device) -> int:
    """Return the free bytes of a GPU, plus the bytes that torch has reserved and does not use."""
    import torch

    index = torch.cuda.current_device() if device.index is None else device.index
    free, _ = torch.cuda.mem_get_info(index)
    unused = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    return int(free + unused)


def _left() -> Iterator[int]:
    """Yield the free bytes of the machine, and the bytes that each limit leaves to this process."""
    yield int(psutil.virtual_memory().available)
    if sys.platform != "win32":
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            # The limit is on address space, so reserved memory counts too.
            yield limit - int(psutil.Process().memory_info().vms)
    for group in _groups():
        limited, taken = _number(group / "memory.max"), _number(group / "memory.current")
        if limited is not None and taken is not None:
            yield limited - max(0, taken - _unused(group))


def _groups() -> Iterator[Path]:
    """Yield the folders of this process's control group and of all groups around it.

    Inside a container, the process's own group is often the root, although its path says otherwise.
    """
    try:
        lines = _OWN_GROUP.read_text().splitlines()
    except OSError:
        lines = []
    paths = (line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    own = PurePosixPath(next(paths, ""))
    for path in (own, *own.parents):
        if ".." not in path.parts:
            yield _GROUPS / path


def _unused(group: Path) -> int:
    """Return the bytes of files that the group has read and that the system can drop."""
    try:
        lines = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        return next((int(line[1]) for line in lines if line[:1] == ["inactive_file"]), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    """Return the number in a file; None if the file is absent, or says that there is no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def bytes_text(size: int | None) -> str:
    """Return a number of bytes in a suitable unit, or "-" for None."""
    if size is None:
        return "-"
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} {units[0]}" if number >= 10 else f"{number:.2g} {units[0]}"
