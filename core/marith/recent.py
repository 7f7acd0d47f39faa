"""Keeps the values that were used last, up to a bound on their weight."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock


class Recent:
    """Keeps references to the values that were used last, of at most `most` weight together.

    Used with a weak dictionary, which finds every value that is alive: a value that is dropped here
    is still found there while somebody uses it, and so is not made twice. A value that weighs more
    than `most` is not kept. Safe to share between threads.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[int, tuple[object, int]] = OrderedDict()  # value and weight, by id
        self._weight = 0
        self._lock = Lock()

    def use(self, value: object, weight: int) -> None:
        """Keep a value that was used just now, and drop those unused for longest if needed."""
        dropped = []  # they are freed after the lock is released
        with self._lock:
            _, weight_before = self._kept.pop(id(value), (value, 0))
            self._weight -= weight_before
            if weight > self.most:
                return
            self._kept[id(value)] = value, weight
            self._weight += weight
            while self._weight > self.most:
                _, oldest = self._kept.popitem(last=False)
                dropped.append(oldest)
                self._weight -= oldest[1]
