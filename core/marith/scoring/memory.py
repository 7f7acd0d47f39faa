"""One account of memory: bytes that are free, held, and needed by texts that will be read."""

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

_GROUPS = Path("/sys/fs/cgroup")  # Linux's control groups (version 2), which bound a container
_OWN_GROUP = Path("/proc/self/cgroup")  # its line `0::/path` names this process's group
_clock = count(1)
BLOCK = 16  # tokens, by which prefixes are compared
COPIED = 63  # most tokens of a common prefix that SegmentLanes copies in place of sharing them


def free_memory(device: str = "cpu") -> int:
    """Bytes that this process may still take on a device; "cuda" is the current one."""
    if device.startswith("cuda"):
        import torch  # those who ask of the machine alone need not wait for it

        return _left_on_gpu(torch.device(device))
    return max(0, min(_left()))


def _left_on_gpu(device: torch.device) -> int:
    """Return what the driver has free, and what torch has reserved and does not use."""
    import torch

    index = torch.cuda.current_device() if device.index is None else device.index
    free, _ = torch.cuda.mem_get_info(index)
    unused = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    return int(free + unused)


def _left() -> Iterator[int]:
    """Yield what the machine has free, and what each limit leaves."""
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
    """Yield the folders of this process's control group, and of all groups around it.

    Within a container the process's own group is often the root, whatever its path says.
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
    """Return the bytes of files that the group has read, and that the system drops on demand."""
    try:
        lines = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        return next((int(line[1]) for line in lines if line[:1] == ["inactive_file"]), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    """The number in a file; None without file or number, as where nothing is limited."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


class Keeper(ABC):
    """A holder of the keys, values or states of one model, of lanes in use and of idle lanes.

    `used` orders the keepers by their last use: a keeper that was used later has a larger number.
    """

    def __init__(self, most_bytes: int) -> None:
        self.cache_limit = CacheLimit(most_bytes)
        self.used = 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return how many bytes the keeper holds."""

    @abstractmethod
    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all that idle lanes hold, the longest unused lane first."""


class CacheLimit:
    """At most `most_bytes` for all that have joined, beyond what their lanes in use weigh.

    Who has not joined another's limit has one of its own. Changes state: all who have joined run in
    one thread, which may drop what any of them keeps. So one joins once it was tried, and before it
    runs there; by one thread at a time, not always that one. Who is no longer in use anywhere else
    counts no more.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._joined: tuple[ref[Keeper], ...] = ()  # replaced, since another thread may read it

    def join(self, keeper: Keeper) -> None:
        """Let this limit hold for a keeper too; nothing happens where it does already."""
        keeper.cache_limit = self
        others = (one for one in self._alive() if one is not keeper)
        self._joined = (*map(ref, others), ref(keeper))

    def room(self, keeper: Keeper, needed: int) -> int:
        """Return how many bytes a keeper may hold that is used now and needs `needed` bytes.

        Idle lanes of the other keepers are dropped until it may hold as many. Negative where the
        lanes in use of the others weigh more than the limit.
        """
        keeper.used = next(_clock)
        others = [one for one in self._alive() if one is not keeper]
        left = self.most_bytes - sum(other.nbytes for other in others)
        return left if needed <= left else left + _drop(others, needed - left)

    @property
    def nbytes(self) -> int:
        """Return how many bytes all keepers hold together."""
        return sum(keeper.nbytes for keeper in self._alive())

    def room_alone(self, device: str, needed: int) -> int:
        """Return how many bytes a request may take on `device` while no other runs.

        What is kept of other texts is dropped for a request of `needed` bytes, if that is enough.
        """
        free, kept = free_memory(device), self.nbytes
        if free < needed <= free + kept:
            _drop(self._alive(), needed - free)
        return free + kept

    def _alive(self) -> list[Keeper]:
        return [keeper for one in self._joined if (keeper := one()) is not None]


def _drop(keepers: list[Keeper], extra: int) -> int:
    """Free `extra` bytes, or all that idle lanes hold. Returns how many were freed.

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
class Planned:
    """A prompt, and at most `more` tokens after it. Texts of the same `key` may share prefixes.

    `prefixes` are numbers of the prompt's first 16, 32, ... tokens: only equal prefixes of texts
    of the same key have the same.
    """

    key: Hashable
    prompt: Sequence[int]
    more: int
    prefixes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(_prefixes(self.key, self.prompt)))

    @property
    def length(self) -> int:
        """All its tokens."""
        return len(self.prompt) + self.more


def _prefixes(key: Hashable, prompt: Sequence[int]) -> Iterator[int]:
    """Others have the same number once in 2^64: bytes are hashed with a secret of the process."""
    number, tokens = hash(key), array("q", prompt)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        number = hash((number, tokens[end - BLOCK : end].tobytes()))
        yield number


def own_lengths(texts: Iterable[Planned]) -> Iterator[int]:
    """How many tokens of each text no other before it holds for it, at most.

    What prompts have in common counts once, but for what may be copied.
    """
    known: set[int] = set()
    for text in texts:
        shared = sum(number in known for number in text.prefixes)
        known.update(text.prefixes)
        yield text.length - max(0, BLOCK * shared - COPIED)


class Holder(Protocol):
    """A scorer, or a runner, that holds keys, values or states of texts."""

    def memory(self, texts: Sequence[Planned]) -> int:
        """Return how many bytes these texts take together at most."""
        ...


def bytes_needed(texts: Iterable[tuple[Holder, Planned]]) -> int:
    """Return how many bytes texts take together at most, each in its holder."""
    by_holder: dict[int, tuple[Holder, list[Planned]]] = {}
    for holder, text in texts:
        by_holder.setdefault(id(holder), (holder, []))[1].append(text)
    return sum(holder.memory(planned) for holder, planned in by_holder.values())


class StateSize:
    """The bytes of a state by the length of its text: a fixed part, and a part for each token.

    Learned from the first two lengths. Beyond a window a state weighs less than this says.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # bytes by length

    def learn(self, length: int, nbytes: Callable[[], int]) -> None:
        """Take in the weight of a state of `length` tokens, while that is news."""
        if len(self._known) < 2 and length not in self._known:
            self._known[length] = nbytes()

    def memory(self, texts: Sequence[Planned]) -> int:
        """Return how many bytes of states these texts take at most, each with a snapshot."""
        return 2 * sum(self.at(text.length) for text in texts)

    def at(self, length: int) -> int:
        """Return the bytes of a state of `length` tokens; 0 before two lengths are known."""
        if len(self._known) < 2:
            return 0
        (short, small), (long, large) = sorted(self._known.items())
        slope = max(0.0, (large - small) / (long - short))
        return round(max(0.0, small - slope * short) + slope * length)
