"""Count the bytes of memory that are free, that caches hold, and that texts will need."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol
from weakref import ref

import psutil

if TYPE_CHECKING:
    import torch

_GROUPS = Path("/sys/fs/cgroup")  # Linux's control groups (version 2), which limit a container
_OWN_GROUP = Path("/proc/self/cgroup")  # its line `0::/path` names this process's group
_clock = count(1)
BLOCK = 16  # tokens; prefixes are compared in blocks of this length
COPIED = 63  # the longest common prefix that SegmentLanes copies instead of sharing, in tokens


def free_memory(device: str = "cpu") -> int:
    """Return the bytes that this process may still take on a device. "cuda" is the current GPU."""
    if device.startswith("cuda"):
        import torch  # imported late: the machine's own memory needs no torch

        return _left_on_gpu(torch.device(device))
    return max(0, min(_left()))


def _left_on_gpu(device: torch.device) -> int:
    """Return the free bytes of a GPU, with those that torch has reserved and does not use."""
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
    """Return the number in a file, or None.

    The file may be absent. It has no number if nothing is limited.
    """
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


class Keeper(ABC):
    """A cache of one model: keys, values or states of lanes in use and of idle lanes.

    `used` orders the keepers by their last use: a keeper that was used later has a larger number.
    """

    def __init__(self, most_bytes: int) -> None:
        self.cache_limit = CacheLimit(most_bytes)
        self.used = 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The number of bytes that the keeper holds."""

    @abstractmethod
    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all bytes of idle lanes, the least recently used lane first."""


class CacheLimit:
    """A limit of `most_bytes` on the memory of all keepers that have joined it.

    Lanes in use stay even if they exceed the limit. A keeper that has not joined a shared limit has
    a limit of its own. A keeper that is not in use anywhere else no longer counts.

    Keeps state. All joined keepers run in one thread, which may drop the idle lanes of any of them.
    So a keeper joins after it was probed, and before it runs in that thread. Only one thread at a
    time calls `join`, but not always the same thread.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._joined: tuple[ref[Keeper], ...] = ()  # replaced, because another thread may read it

    def join(self, keeper: Keeper) -> None:
        """Apply this limit to a keeper too. A keeper that has already joined stays joined."""
        keeper.cache_limit = self
        others = (one for one in self._alive() if one is not keeper)
        self._joined = (*map(ref, others), ref(keeper))

    def room(self, keeper: Keeper, needed: int) -> int:
        """Return the number of bytes that a keeper may hold, and mark the keeper as used.

        Idle lanes of other keepers are dropped until the keeper may hold `needed` bytes. The result
        is negative if the other keepers' lanes in use exceed the limit.
        """
        keeper.used = next(_clock)
        others = [one for one in self._alive() if one is not keeper]
        left = self.most_bytes - sum(other.nbytes for other in others)
        return left if needed <= left else left + _drop(others, needed - left)

    @property
    def nbytes(self) -> int:
        """The number of bytes that all keepers hold together."""
        return sum(keeper.nbytes for keeper in self._alive())

    def room_alone(self, device: str, needed: int) -> int:
        """Return the number of bytes that a request may take on `device` if it runs alone.

        If dropping idle lanes of other texts frees enough for `needed` bytes, they are dropped.
        """
        free, kept = free_memory(device), self.nbytes
        if free < needed <= free + kept:
            _drop(self._alive(), needed - free)
        return free + kept

    def _alive(self) -> list[Keeper]:
        return [keeper for one in self._joined if (keeper := one()) is not None]


def _drop(keepers: list[Keeper], extra: int) -> int:
    """Free `extra` bytes, or all bytes of idle lanes. Return the number of bytes that were freed.

    The lanes of the model that was used longest ago are dropped first.
    """
    freed = 0
    for keeper in sorted(keepers, key=lambda keeper: keeper.used):
        if freed >= extra:
            break
        before = keeper.nbytes
        keeper.drop_idle(extra - freed)
        freed += before - keeper.nbytes
    return freed


@dataclass(frozen=True, eq=False, slots=True)
class LaneText:
    """A prompt, and at most `more` tokens after it. Texts with equal `key` may share prefixes.

    `prefixes` are hashes of the prompt's first 16, 32, … tokens. Two texts have a hash in common
    only if their keys and these tokens are equal.
    """

    key: Hashable
    prompt: Sequence[int]
    more: int
    prefixes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(_prefixes(self.key, self.prompt)))

    @property
    def length(self) -> int:
        """The number of tokens, the prompt included."""
        return len(self.prompt) + self.more


def _prefixes(key: Hashable, prompt: Sequence[int]) -> Iterator[int]:
    """Yield a hash of the first 16, 32, … tokens of a prompt.

    Different prefixes have equal hashes with a probability of 2^-64, because bytes are hashed with
    a secret of the process.
    """
    number, tokens = hash(key), array("q", prompt)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        number = hash((number, tokens[end - BLOCK : end].tobytes()))
        yield number


def own_lengths(texts: Iterable[LaneText]) -> Iterator[int]:
    """Yield, for each text, the most tokens that no earlier text holds for it.

    A common prefix of prompts counts once, except for the tokens that may be copied.
    """
    known: set[int] = set()
    for text in texts:
        shared = sum(number in known for number in text.prefixes)
        known.update(text.prefixes)
        yield text.length - max(0, BLOCK * shared - COPIED)


class Holder(Protocol):
    """A scorer, or a runner, that holds keys, values or states of texts."""

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes that these texts take together."""
        ...


def bytes_needed(texts: Iterable[tuple[Holder, LaneText]]) -> int:
    """Return the most bytes that texts take together, each in its holder."""
    by_holder: dict[int, tuple[Holder, list[LaneText]]] = {}
    for holder, text in texts:
        by_holder.setdefault(id(holder), (holder, []))[1].append(text)
    return sum(holder.memory(planned) for holder, planned in by_holder.values())


class StateSize:
    """Estimates the bytes of a state: a fixed part, and a part for each token of its text.

    The estimate is learned from the first two lengths. The state of a text that is longer than a
    window takes less.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # bytes by length

    def learn(self, length: int, nbytes: Callable[[], int]) -> None:
        """Record the bytes of a state of `length` tokens, until two lengths are known."""
        if len(self._known) < 2 and length not in self._known:
            self._known[length] = nbytes()

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes that the states of these texts take, each with a snapshot."""
        return 2 * sum(self.at(text.length) for text in texts)

    def at(self, length: int) -> int:
        """Return the bytes of a state of `length` tokens; 0 before two lengths are known."""
        if len(self._known) < 2:
            return 0
        (short, small), (long, large) = sorted(self._known.items())
        slope = max(0.0, (large - small) / (long - short))
        return round(max(0.0, small - slope * short) + slope * length)
