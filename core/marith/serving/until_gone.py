"""Runs work off the event loop, and stops waiting for it when the client leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import Request as WebRequest

from marith import Chunk, Engine, Request, Ticket, submit_with_inspection
from marith.serving.event_stream import gone
from marith.serving.wire.refusals import Refusal

T = TypeVar("T")
# These threads read bodies, render templates and count tokens. `ServingLimits` limits their work.
THREADS = 4
# The status of a request whose client has left. Only logs and metrics show it.
LEFT = 499


class WorkerPool:
    """Runs slow work on its own threads, so that the event loop stays free."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "marith-serve")

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run work on a thread of the pool, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def aside(self, work: Callable[[], T]) -> T:
        """Run work that may take minutes on a thread of its own, and return its result.

        A process that ends does not wait for this thread.
        """
        done: Future[T] = Future()

        def run() -> None:
            done.set_running_or_notify_cancel()
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="marith-serve-load", daemon=True).start()
        return await asyncio.wrap_future(done)

    async def begin(self, engine: Engine, requests: Sequence[Request]) -> list[Ticket]:
        """Submit all requests, or none if one of them is refused. Return their tickets."""

        def submit_all() -> list[Ticket]:
            tickets: list[Ticket] = []
            try:
                for request in requests:
                    submit = submit_with_inspection if request.inspect else Engine.submit
                    tickets.append(submit(engine, request))
            except BaseException:
                cancel(tickets)
                raise
            return tickets

        return await self._begun(submit_all, cancel)

    async def result_of(self, begin: Callable[[], Future[T]]) -> T:
        """Call `begin` on a thread, and return the result of the future that it returns."""
        future = await self._begun(begin, Future.cancel)
        return await asyncio.wrap_future(future)

    async def _begun(self, begin: Callable[[], T], cancel_begun: Callable[[T], object]) -> T:
        """Call `begin` on a thread, and return its result.

        If the caller stops waiting, the result is cancelled.
        """
        beginning = self._threads.submit(begin)
        try:
            return await asyncio.wrap_future(beginning)
        except asyncio.CancelledError:

            def undo(done: Future[T]) -> None:
                if not done.cancelled() and done.exception() is None:
                    cancel_begun(done.result())

            beginning.add_done_callback(undo)
            raise

    def close(self) -> None:
        """Accept no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def cancel(tickets: Sequence[Ticket]) -> None:
    """Cancel the tickets that have not ended."""
    for ticket in tickets:
        if not ticket.ended:
            ticket.cancel()


async def until_gone(web: WebRequest, work: Awaitable[T]) -> T:
    """Return the result of `work`. Raises Refusal if the client leaves first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(gone(web.receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refusal("the client has left", LEFT)
    finally:
        leaving.cancel()
        working.cancel()


async def chunks(tickets: Sequence[Ticket]) -> AsyncGenerator[tuple[int, Chunk]]:
    """Yield the chunks of all tickets as they come, each with the index of its ticket."""
    # The chunks of one ticket need no queue and no further task.
    if len(tickets) == 1:
        async with aclosing(tickets[0].__aiter__()) as only:  # type: ignore[type-var]  # a generator
            async for chunk in only:
                yield 0, chunk
        return
    arrived: asyncio.Queue[tuple[int, Chunk | BaseException | None]] = asyncio.Queue()

    async def read(index: int, ticket: Ticket) -> None:
        ended: BaseException | None = None
        try:
            async for chunk in ticket:
                arrived.put_nowait((index, chunk))
        except Exception as error:
            ended = error
        arrived.put_nowait((index, ended))

    readers = [asyncio.ensure_future(read(i, ticket)) for i, ticket in enumerate(tickets)]
    left = len(readers)
    try:
        while left:
            index, arrival = await arrived.get()
            if isinstance(arrival, BaseException):
                raise arrival
            if arrival is None:
                left -= 1
            else:
                yield index, arrival
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        cancel(tickets)
