"""How many bytes the models of one engine may keep together, and which idle lanes are dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from weakref import ref

_clock = count(1)


class Keeper(ABC):
    """What holds keys, values or states of one model: of lanes in use, and of idle ones.

    `used` says when it was asked last, in no unit; what was asked later has more.
    """

    def __init__(self, most_bytes: int) -> None:
        self.cache_limit = CacheLimit(most_bytes)
        self.used = 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes it holds."""

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
        """How many bytes a keeper may hold that is used now, and holds or needs so many.

        While it may not hold as many, idle lanes of the others are dropped. Negative where the
        others' lanes in use weigh more than the limit.
        """
        keeper.used = next(_clock)
        others = [one for one in self._alive() if one is not keeper]
        left = self.most_bytes - sum(other.nbytes for other in others)
        return left + _drop(others, needed - left)

    @property
    def nbytes(self) -> int:
        """How many bytes all hold."""
        return sum(keeper.nbytes for keeper in self._alive())

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all that idle lanes hold."""
        _drop(self._alive(), extra)

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
