"""A fork falls between two steps; its child makes anew what the parent's threads had.

Of all threads only the one that forks goes on in the child. A lock that another held is never
released there, and a pass that another ran is never finished.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something with threads or locks of its own."""

    def before_fork(self) -> None:
        """Come to a place where no thread changes anything."""
        ...

    def after_fork(self) -> None:
        """Go on, in the parent."""
        ...

    def in_child(self) -> None:
        """Begin anew, in the child."""
        ...


class Turns:
    """A lock for one thread at a time, which may take it again; free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        follow(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """Nothing to wait for: who loads a model may take minutes."""

    def after_fork(self) -> None:
        """Nothing was changed."""

    def in_child(self) -> None:
        """Take the place of a lock that is held by a thread of the parent."""
        if self._lock.acquire(blocking=False):
            self._lock.release()  # free, or held by the thread that forks
        else:
            self._lock = threading.RLock()


_followed: WeakSet[Forked] = WeakSet()
_following = threading.Lock()
_forks = threading.local()  # of each thread that forks: those that it has asked to stop


def follow(one: Forked) -> None:
    """See to it that `one` is asked at each fork, for as long as it is used."""
    with _following:
        _followed.add(one)


def _all() -> list[Forked]:
    with _following:
        return list(_followed)


def _before_fork() -> None:
    asked = _forks.asked = []
    while new := [one for one in _all() if one not in asked]:  # some are made meanwhile
        for one in new:
            asked.append(one)
            one.before_fork()


def _after_fork() -> None:
    """Those that were asked go on: another one may have been made since."""
    for one in _forks.__dict__.pop("asked", []):
        one.after_fork()


def _in_child() -> None:
    global _following
    _following = threading.Lock()
    _forks.__dict__.pop("asked", None)
    for one in _all():
        one.in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
