"""Futures whose callbacks run outside of the engine's thread, where they may wait and fail."""

from __future__ import annotations

import logging
import threading

# `threading.Thread.start` would wait until the thread runs.
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

from marith.engine.threads.deadline import Deadline
from marith.engine.threads.workers import require_not_forked

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class EngineFuture(Future[Result]):
    """The future result of a query. The caller may cancel or drop it at any time.

    The engine's thread sets the result, and runs no callback. The callbacks of a future run in
    order on a separate thread. Other futures do not wait for them, and the program may end before
    them. `result` and `exception` wait until the deadline at most. `concurrent.futures.wait` and
    `as_completed` do not know the deadline: after it, they wait until the running step ends.
    """

    # The engine, which thereby lives as long as the future.
    keeper: object = None

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline
        self._callbacks: deque[Callable[[Future[Result]], object]] = deque()
        self._lock = threading.Lock()
        self._calling = False  # True while a thread runs the callbacks
        super().add_done_callback(_show_cancelled)

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        """Call `fn` with this future on another thread, or at once if the future is done."""
        if self.done():
            super().add_done_callback(fn)
        else:
            self._callbacks.append(fn)
            super().add_done_callback(_start_callbacks)

    def give(self, result: Result) -> None:
        """Complete the future, unless it was cancelled or has failed."""
        with suppress(InvalidStateError):
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fail the future, unless it was cancelled or is complete."""
        with suppress(InvalidStateError):
            self.set_exception(error)

    def wait(self) -> Result:
        """Wait for the result, and cancel the query if the wait fails.

        Only for a future that nobody else holds.
        """
        try:
            return self.result()
        except BaseException:
            self.cancel()
            raise

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, until the deadline. Raises EngineClosed in a forked child."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error, until the deadline. Raises EngineClosed in a forked child."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait until the future is done, at most until the deadline and for `timeout` seconds."""
        require_not_forked()
        try:
            super().exception(self._deadline.within(timeout))
        except TimeoutError:
            if not self.done():
                self._deadline.check()
                raise


def _show_cancelled(future: Future[Any]) -> None:
    """Let `concurrent.futures.wait` and `as_completed` see a future that was cancelled."""
    if future.cancelled():
        future.set_running_or_notify_cancel()


def _start_callbacks(future: Any) -> None:
    """Start a thread for the callbacks of a future that is done, unless one runs."""
    with future._lock:
        if future._calling or not future._callbacks:
            return
        future._calling = True
    start_new_thread(_run_callbacks, (future,))


def _run_callbacks(future: Any) -> None:
    """Run the callbacks of a future one after another."""
    while True:
        with future._lock:
            if not future._callbacks:
                future._calling = False
                return
            callback = future._callbacks.popleft()
        try:
            callback(future)
        except BaseException:
            # SystemExit, too, ends only this callback.
            _log.exception("a callback of %r failed", future)
