"""A cache of the most recently used values, up to a limit on their total weight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock


class WeightedLRU:
    """References to the most recently used values, whose weights add up to at most `limit`.

    It is used with a weak dictionary, which finds every living value. A value that was dropped
    here but is still in use elsewhere is found in that dictionary, so it is not made twice. A value
    that weighs more than `limit` is not kept. Safe to share between threads.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Value, weight and name, by id.
        self._kept: OrderedDict[int, tuple[object, int, Hashable]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def use(self, value: object, weight: int, name: Hashable = None) -> None:
        """Keep a value that was used just now, and drop the least recently used if needed.

        Another value of the same `name`, such as an older version of a file, is dropped too.
        """
        # The dropped values are freed after the lock is released.
        dropped = []
        with self._lock:
            older = [] if name is None else self._named(name)
            for key in {*older, id(value)} & self._kept.keys():
                dropped.append(self._kept.pop(key))
                self._weight -= dropped[-1][1]
            if weight > self.limit:
                return
            self._kept[id(value)] = value, weight, name
            self._weight += weight
            while self._weight > self.limit:
                _, oldest = self._kept.popitem(last=False)
                dropped.append(oldest)
                self._weight -= oldest[1]

    def _named(self, name: Hashable) -> list[int]:
        return [key for key, (_, _, its_name) in self._kept.items() if its_name == name]
