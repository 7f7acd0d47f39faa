"""Futures of an event loop, completed from other threads: one call of the loop for many."""

from __future__ import annotations

import asyncio
import threading
import weakref
from weakref import WeakKeyDictionary


class _Batch(list["asyncio.Future[None]"]):
    """Futures that one call of their loop completes.

    The loop holds it until then, and nobody else: a loop that closes before is not kept by it.
    """

    __slots__ = ("__weakref__",)


class LoopWaker:
    """Completes futures of one event loop, from any thread.

    A step of the engine wakes the readers of all its tickets: together they take the loop one call,
    and the engine's thread one for the first of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)  # which is the key that this is kept under
        self._lock = threading.Lock()
        self._next: weakref.ref[_Batch] | None = None  # whose call is still to come

    def wake(self, woken: asyncio.Future[None]) -> None:
        """Complete a future soon. Any thread may ask."""
        with self._lock:
            batch = None if self._next is None else self._next()
            if batch is not None:
                batch.append(woken)
                return
            batch, loop = _Batch([woken]), self._loop()
            try:
                if loop is not None:
                    loop.call_soon_threadsafe(self._complete, batch)
            except RuntimeError:  # a loop that has closed waits for nothing
                return
            self._next = weakref.ref(batch)

    def _complete(self, batch: _Batch) -> None:
        with self._lock:  # whoever wakes from here on makes another call
            self._next = None
        for woken in batch:
            if not woken.done():
                woken.set_result(None)


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker] = WeakKeyDictionary()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """The one waker of a loop, for the loop's own thread."""
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = LoopWaker(loop)
    return waker
