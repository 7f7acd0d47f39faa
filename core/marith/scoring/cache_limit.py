"""One limit on the memory of all caches, and the order in which idle lanes are dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from weakref import ref

from marith.scoring.free_memory import free_memory

_clock = count(1)


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
    """A limit of `most_bytes` on the memory that all joined keepers hold together.

    Lanes in use stay even if they exceed the limit. Until a keeper joins a shared limit, it has a
    limit of its own. References to keepers are weak: a keeper that nothing else references no
    longer counts.

    Keeps state. All joined keepers run in one thread, which may drop the idle lanes of any of them.
    So a keeper joins after it was probed, and before it runs in that thread. Only one thread at a
    time calls `join`, but not always the same thread.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        # The tuple is replaced and never changed, because another thread may be reading it.
        self._joined: tuple[ref[Keeper], ...] = ()

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

    def room_alone(self, device: str) -> int:
        """Return the number of bytes that a request may take on `device` if it runs alone.

        Other texts are paused and their idle lanes are dropped while the request grows.
        """
        return free_memory(device) + self.nbytes

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
