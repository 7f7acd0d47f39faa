"""Futures whose callbacks run off the engine's thread, where they may wait and fail."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from marith.engine.threads.deadline import Deadline
from marith.engine.threads.forking import require_not_forked

MOST_CALLBACKS = 1000  # how many callbacks may wait at the same time
_threads = ThreadPoolExecutor(MOST_CALLBACKS, "marith-callbacks")
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class EngineFuture(Future[Result]):
    """The result of a query. Its caller may cancel it at any time, or drop it.

    The engine's thread sets the result and runs no callback: callbacks run in their order on other
    threads, and no result waits for these threads.
    """

    keeper: object = None  # the engine, which lives as long as the future

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline
        self._callbacks: deque[Callable[[Future[Result]], object]] = deque()
        self._calling = threading.Lock()
        super().add_done_callback(_show_cancelled)

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        """Call `fn` with this future on another thread, or at once where the future is done."""
        if self.done():
            super().add_done_callback(fn)
        else:
            self._callbacks.append(fn)
            super().add_done_callback(_start_callback)

    def give(self, result: Result) -> None:
        """Complete the future, unless it was cancelled or failed meanwhile."""
        with suppress(InvalidStateError):
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fail the future, unless it was cancelled or completed meanwhile."""
        with suppress(InvalidStateError):
            self.set_exception(error)

    def wait(self) -> Result:
        """Return the result to the only holder of the future: to stop waiting is to cancel."""
        try:
            return self.result()
        except BaseException:
            self.cancel()
            raise

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result, until the deadline. Raises EngineClosed in a forked child."""
        require_not_forked()
        try:
            return super().result(self._deadline.within(timeout))
        except TimeoutError:
            self._deadline.check()
            raise


def _show_cancelled(future: Future[Any]) -> None:
    """Let `concurrent.futures.wait` and `as_completed` see a future that was cancelled."""
    if future.cancelled():
        future.set_running_or_notify_cancel()


def _start_callback(future: Future[Any]) -> None:
    """Start the next callback of a future that is done, on a thread of the pool."""
    with suppress(RuntimeError):  # the program ends, or a busy thread takes the callback later
        _threads.submit(_call_next, future)


def _call_next(future: Any) -> None:
    """Run the next callback of a future when the callbacks before it have returned."""
    with future._calling:
        callback = future._callbacks.popleft()
        try:
            callback(future)
        except BaseException:  # SystemExit too ends the callback alone
            _log.exception("a callback of %r failed", future)
