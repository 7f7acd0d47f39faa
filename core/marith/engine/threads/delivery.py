"""Futures whose callbacks run off the engine's thread, where they may wait and fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from marith.engine.threads.forking import require_not_forked

SPARE = 2  # threads that wait for work; those above it end
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class EngineFuture(Future[Result]):
    """The result of a query. Its caller may cancel it at any time, or drop it.

    The engine's thread completes it and runs none of its callbacks: these run in their order on a
    thread of `Delivery`. It keeps its engine alive, as a ticket does.
    """

    def __init__(self, keeper: object = None) -> None:
        super().__init__()
        self._keeper = keeper
        self._callbacks = _Callbacks()
        super().add_done_callback(self._callbacks.start)

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        """Call `fn` with this future on another thread, or at once where it is done."""
        if not self._callbacks.add(fn):
            super().add_done_callback(fn)

    def give(self, result: Result) -> None:
        """Complete it, unless it was cancelled or failed meanwhile."""
        with suppress(InvalidStateError):
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fail it, unless it was cancelled or completed meanwhile."""
        with suppress(InvalidStateError):
            self.set_exception(error)

    def wait(self) -> Result:
        """The result, where nobody else has the future: to stop waiting is to cancel."""
        try:
            return self.result()
        except BaseException:
            self.cancel()
            raise

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result. Raises EngineClosed in a forked child, which never gets it."""
        require_not_forked()
        return super().result(timeout)


class _Callbacks:
    """The callbacks of one future, in the order in which they were added."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._all: list[Callable[[Future[Any]], object]] = []
        self._begun = False

    def add(self, fn: Callable[[Future[Any]], object]) -> bool:
        """Keep a callback; False where the future is done already."""
        with self.lock:
            if not self._begun:
                self._all.append(fn)
            return not self._begun

    def start(self, future: Future[Any]) -> None:
        """The future is done or cancelled; `wait` and `as_completed` see a cancelled one too."""
        with self.lock:
            self._begun = True
        if future.cancelled():
            future.set_running_or_notify_cancel()
        if self._all:
            _delivery.start(partial(self._run, future))

    def _run(self, future: Future[Any]) -> None:
        for fn in self._all:
            try:
                fn(future)
            except BaseException:  # SystemExit too ends the callback alone
                _log.exception("a callback of %r failed", future)
        self._all.clear()


class Delivery:
    """Runs calls on threads of its own, one more than there are calls that have not returned.

    So a thread always waits for the next call, and no call waits for another to return.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0

    def start(self, call: Callable[[], None]) -> None:
        """Run a call soon, on another thread."""
        self._calls.put(call)
        self._keep_one_waiting()

    def _keep_one_waiting(self) -> None:
        with self._lock:
            if self._waiting:
                return
            self._waiting += 1
        try:
            threading.Thread(target=self._work, name="marith-delivery", daemon=True).start()
        except RuntimeError:  # the system has no more threads: a busy one comes back
            with self._lock:
                self._waiting -= 1

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            with self._lock:
                self._waiting -= 1
            self._keep_one_waiting()
            call()
            del call  # and with it the future, and the engine that it keeps
            with self._lock:
                if self._waiting >= SPARE:
                    return
                self._waiting += 1


_delivery = Delivery()
