"""Keeps the values that were used last, up to a bound on their weight."""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from weakref import WeakSet


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
        _instances.add(self)

    def in_child(self) -> None:
        """Replace the lock in a forked child, since a thread of the parent may hold it."""
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


_instances: WeakSet[Recent] = WeakSet()


def _in_child() -> None:
    for recent in [*_instances]:
        recent.in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
