"""Futures of an event loop, completed from other threads: one call of the loop for many."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from weakref import WeakKeyDictionary


class LoopWaker:
    """Completes futures of one event loop, from any thread.

    A step of the engine wakes the readers of all its tickets: together they take the loop one call,
    and the engine's thread one for the first of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)  # which is the key that this is kept under
        # Weakly: a loop that ends before its last call would be kept by its futures.
        self._due: deque[weakref.ref[asyncio.Future[None]]] = deque()
        self._called = False

    def wake(self, woken: asyncio.Future[None]) -> None:
        """Complete a future soon. Any thread may ask."""
        self._due.append(weakref.ref(woken))
        if not self._called:  # else the call is still to come, and finds what was appended
            self._called = True
            loop = self._loop()
            try:
                if loop is not None:
                    loop.call_soon_threadsafe(self._complete)
            except BaseException as error:
                self._called = False
                if not isinstance(error, RuntimeError):  # of a loop that has closed
                    raise

    def _complete(self) -> None:
        self._called = False  # first: whoever appends from here on calls again
        while self._due:
            woken = self._due.popleft()()
            if woken is not None and not woken.done():
                woken.set_result(None)


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker] = WeakKeyDictionary()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """The one waker of a loop, for the loop's own thread."""
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = LoopWaker(loop)
    return waker
