"""What was used last, kept up to a bound on what it weighs."""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from weakref import WeakSet


class Recent:
    """Holds on to what was used last while it weighs at most `most` together.

    Beside a weak dictionary, which finds whatever lives: what someone else holds is found there
    though it is let go of here, so that nobody loses what is in use, and nothing is made twice.
    What alone weighs more than `most` is not held. Safe to share between threads.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[int, tuple[object, int]] = OrderedDict()
        self._weight = 0
        self._turn = Lock()
        _recent.add(self)

    def in_child(self) -> None:
        """Take the place of a lock that a thread of the parent may hold, in a forked child."""
        self._turn = Lock()

    def use(self, value: object, weight: int) -> None:
        """Hold on to a value, which was used just now; the longest unused go where that is much."""
        gone = []  # what goes is freed once others may enter
        with self._turn:
            _, before = self._held.pop(id(value), (value, 0))
            self._weight -= before
            if weight > self.most:
                return
            self._held[id(value)] = value, weight
            self._weight += weight
            while self._weight > self.most:
                _, last = self._held.popitem(last=False)
                gone.append(last)
                self._weight -= last[1]


_recent: WeakSet[Recent] = WeakSet()


def _in_child() -> None:
    for one in [*_recent]:
        one.in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(after_in_child=_in_child)
