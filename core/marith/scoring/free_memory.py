"""How much memory may still be taken: what the machine, its containers and limits leave."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    import torch

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3  # its name in malloc.h is M_MMAP_THRESHOLD
_GROUPS = Path("/sys/fs/cgroup")  # of Linux: what a container may take, and takes
_OWN_GROUPS = Path("/proc/self/cgroup")  # a line for each hierarchy, `number:controllers:/path`


class _Hierarchy(NamedTuple):
    """A version of Linux's control groups: in which files a group says what it may take, and takes.

    What it takes counts the files that it has read. Those unused, `unused` in `memory.stat`, go
    where memory is asked for.
    """

    controller: str
    folder: str
    most: str
    taken: str
    unused: str


_HIERARCHIES = (
    _Hierarchy("", "", "memory.max", "memory.current", "inactive_file"),
    _Hierarchy(
        "memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
)


def free_memory(device: str) -> int:
    """Bytes that this process may still take on a device; "cuda" is the current one."""
    if device.startswith("cuda"):
        import torch  # those who ask of the machine alone need not wait for it

        return _left_on_gpu(torch.device(device))
    return max(0, min(_left()))


def _left_on_gpu(device: torch.device) -> int:
    """What the driver has, and what torch has taken of it and does not use."""
    import torch

    index = torch.cuda.current_device() if device.index is None else device.index
    free, _ = torch.cuda.mem_get_info(index)
    unused = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    return int(free + unused)


def _left() -> Iterator[int]:
    """What the machine has, and what each limit leaves of it."""
    yield int(psutil.virtual_memory().available)
    if sys.platform != "win32":
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - int(psutil.Process().memory_info().vms)
    for hierarchy in _HIERARCHIES:
        for group in _groups(hierarchy):
            most, taken = _number(group / hierarchy.most), _number(group / hierarchy.taken)
            if most is not None and taken is not None:
                yield most - max(0, taken - _unused(group, hierarchy))


def _groups(hierarchy: _Hierarchy) -> Iterator[Path]:
    """The folders of the group that this process is in, and of all groups that this one is in.

    In a container its own group is often the root, by whatever path the machine knows it.
    """
    top, own = _GROUPS / hierarchy.folder, _own_group(hierarchy.controller)
    for path in (own, *own.parents):
        yield top / path


def _own_group(controller: str) -> PurePosixPath:
    """The path of this process's group below the root; the root itself where there is no other."""
    try:
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
    except OSError:
        lines = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controller in controllers.split(",") and ".." not in PurePosixPath(path).parts:
            return PurePosixPath(path.lstrip("/"))
    return PurePosixPath()


def _unused(group: Path, hierarchy: _Hierarchy) -> int:
    """Bytes of files that the group has read, and that go where memory is asked for."""
    try:
        lines = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        return next((int(line[1]) for line in lines if line[:1] == [hierarchy.unused]), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    """The number in a file; None without file or number, as where nothing is limited."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@contextmanager
def returning_freed() -> Iterator[None]:
    """While the block runs, what is freed goes back to the system at once.

    glibc keeps freed blocks of up to 32 MB, in which what comes later leaves holes: a model that is
    read tensor by tensor would take several times its size. Afterwards glibc keeps such blocks
    again, by numbers that are set and no longer follow what is freed. Elsewhere nothing changes.
    """
    set_option = _mallopt()
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, 2**20)
    try:
        yield
    finally:
        if set_option is not None:
            # To which glibc itself goes, as blocks are freed.
            set_option(_MMAP_THRESHOLD, 2**25)
            set_option(_TRIM_THRESHOLD, 2**26)


@cache
def _mallopt() -> Callable[[int, int], int] | None:
    """That of the C library, where it has one."""
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return found
