"""Tickets: what a caller holds while a request runs."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.threads.workers import forked, require_not_forked
from marith.errors import DeadlineExceeded, RequestError
from marith.request.completion import Chunk, Completion


class Ticket:
    """A running request: an iterable, an async iterable, and an awaitable, for one reader.

    If the reader stops reading or drops the ticket, the request is cancelled, and its lanes are
    free within one step. A reader never waits beyond the deadline, even during a long step. The
    reader and the engine's thread share the state under one lock. In a forked child, waiting and
    cancelling raise EngineClosed.
    """

    def __init__(self, keeper: object = None, deadline: Deadline = NEVER) -> None:
        self.cancelled = False
        self.deadline = deadline
        # This reference lets an engine live as long as its tickets.
        self._keeper = keeper
        # A reader of the whole answer waits for its end only, so no chunk wakes it.
        lock = threading.RLock()
        self._changed, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._chunks: deque[Chunk] = deque()
        self._end: Completion | BaseException | None = None
        self._sleepers: list[asyncio.Future[None]] = []
        self._end_sleepers: list[asyncio.Future[None]] = []

    @property
    def ended(self) -> bool:
        """True if the text is complete, failed or cancelled."""
        return self._end is not None

    def put(self, chunk: Chunk) -> None:
        """Add a chunk. The engine calls this."""
        with self._changed:
            if self._end is None:
                self._chunks.append(chunk)
                self._changed.notify_all()
                _wake(self._sleepers)

    def end(self, end: Completion | BaseException) -> None:
        """End with the completion or with an error. The engine calls this."""
        with self._changed:
            if self._end is None:
                self._end = end
            self._changed.notify_all()
            self._ended.notify_all()
            _wake(self._sleepers)
            _wake(self._end_sleepers)

    def cancel(self) -> None:
        """Cancel the request, unless it has ended. A waiting reader gets a RequestError."""
        # At its end, the interpreter closes generators after the globals of this file are gone, so
        # a ticket that has ended must not use them.
        if self._end is None:
            require_not_forked()
            self.cancelled = True
            self.end(RequestError("the request was cancelled"))

    def result(self, timeout: float | None = None) -> Completion:
        """Wait for the completion. After `timeout` seconds, cancel and raise TimeoutError."""
        require_not_forked()
        try:
            with self._changed:
                self._wait(self._ended, lambda: self._end is not None, timeout)
                return self._completion()
        finally:
            self._leave()

    def __iter__(self) -> Iterator[Chunk]:
        try:
            while True:
                require_not_forked()
                with self._changed:
                    self._wait(self._changed, self._can_read)
                    if not self._chunks:
                        self._completion()
                        return
                    chunk = self._chunks.popleft()
                yield chunk
        finally:
            self._leave()

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            while True:
                await self._until(self._can_read, self._sleepers)
                if not self._chunks:
                    self._completion()
                    return
                yield self._chunks.popleft()
        finally:
            self._leave()

    def __await__(self) -> Generator[Any, None, Completion]:
        return self._finished().__await__()

    async def _finished(self) -> Completion:
        try:
            await self._until(lambda: self._end is not None, self._end_sleepers)
            return self._completion()
        finally:
            self._leave()

    def _can_read(self) -> bool:
        """Return True if there is a chunk to read, or none will come."""
        return bool(self._chunks) or self._end is not None

    def _wait(
        self,
        changed: threading.Condition,
        ready: Callable[[], bool],
        timeout: float | None = None,
    ) -> None:
        """Sleep until a condition is true, or until the deadline has passed.

        Raises TimeoutError after `timeout`.
        """
        if not changed.wait_for(ready, self.deadline.within(timeout)):
            if timeout is not None and self.deadline.left > 0:
                raise TimeoutError(f"no completion within {timeout} seconds")
            self.end(self.deadline.exceeded())

    async def _until(self, ready: Callable[[], bool], sleepers: list[asyncio.Future[None]]) -> None:
        """Sleep in the event loop of this task until a condition is true, as one of `sleepers`."""
        loop = asyncio.get_running_loop()
        while not ready():
            require_not_forked()
            woken = loop.create_future()
            with self._changed:
                # A chunk that arrived after the check in `while` has woken nobody, so the condition
                # is checked again under the lock.
                if ready():
                    return
                sleepers.append(woken)
            try:
                await self.deadline.wait_for(woken)
            except DeadlineExceeded as error:
                self.end(error)

    def _completion(self) -> Completion:
        if isinstance(self._end, BaseException):
            raise self._end
        assert self._end is not None
        return self._end

    def _leave(self) -> None:
        """Stop reading: cancel the request, unless it has ended or this is a forked child."""
        if self._end is None and not forked():
            self.cancel()


def _wake(sleepers: list[asyncio.Future[None]]) -> None:
    """Wake all sleepers, and empty the list."""
    for woken in sleepers:
        # The event loop of a reader may be closed by now.
        with suppress(RuntimeError):
            woken.get_loop().call_soon_threadsafe(_complete, woken)
    sleepers.clear()


def _complete(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
