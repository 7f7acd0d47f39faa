"""Keeps the most recently used values, up to a limit on their total weight."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock


class Recent:
    """Keeps references to the most recently used values, of at most `limit` weight together.

    It is used with a weak dictionary, which finds every living value. If this class drops a value
    that somebody still uses, the dictionary still finds the value, so it is not made twice. A value
    that weighs more than `limit` is not kept. Safe to share between threads.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: OrderedDict[int, tuple[object, int]] = OrderedDict()  # value and weight, by id
        self._weight = 0
        self._lock = Lock()

    def use(self, value: object, weight: int) -> None:
        """Keep a value that was used just now, and drop the least recently used if needed."""
        dropped = []  # freed after the lock is released
        with self._lock:
            _, weight_before = self._kept.pop(id(value), (value, 0))
            self._weight -= weight_before
            if weight > self.limit:
                return
            self._kept[id(value)] = value, weight
            self._weight += weight
            while self._weight > self.limit:
                _, oldest = self._kept.popitem(last=False)
                dropped.append(oldest)
                self._weight -= oldest[1]
