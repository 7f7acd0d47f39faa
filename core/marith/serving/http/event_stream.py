"""Streams of server-sent events: pings, readers that leave, readers that take nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from marith import MarithError
from marith.serving.wire.refusals import refusal

ABORT = "marith.abort"  # in the scope: what ends the connection at once
PING_SECONDS = 15.0
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


def event(data: Mapping[str, Any]) -> bytes:
    """An event of some JSON, which is one line: line ends in texts are escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for odd in "\x85\u2028\u2029":  # some clients end a line there
        text = text.replace(odd, f"\\u{ord(odd):04x}")
    return f"data: {text}\n\n".encode()


class EventStream(Response):
    """An answer in events, until the client leaves; then the source is closed at once.

    An error of the source becomes an event, and `failed` is told; `ended` is called in any case.
    A client that takes nothing for `write_seconds` is left.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes],
        headers: Mapping[str, str],
        write_seconds: float,
        failed: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        self._source, self._write_seconds, self._failed = source, write_seconds, failed
        self._ended = ended
        super().__init__(headers={**_HEADERS, **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events; the protocol of ASGI."""
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        abort = scope.get(ABORT, lambda: None)
        sending = asyncio.ensure_future(self._send(send, abort))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError, TimeoutError):
                await sending
            self._ended()

    async def _send(self, send: Send, abort: Callable[[], None]) -> None:
        async def put(data: bytes, more: bool = True) -> None:
            part = {"type": "http.response.body", "body": data, "more_body": more}
            try:
                await asyncio.wait_for(send(part), self._write_seconds)
            except TimeoutError:
                abort()  # else the connection would wait for the reader
                raise

        async with aclosing(_with_pings(self._source)) as events:
            try:
                async for data in events:
                    await put(data)
            except (Exception, asyncio.CancelledError) as error:
                self._failed(error)
                if _is_of_the_client(error):
                    raise
                await put(event(refusal(error).body))
        await put(DONE)
        await put(b"", more=False)


def _is_of_the_client(error: BaseException) -> bool:
    """Whether the client has left, or takes nothing; marith's own time-outs are errors to tell."""
    left = isinstance(error, OSError | asyncio.CancelledError)  # a TimeoutError is an OSError
    return left and not isinstance(error, MarithError)


async def gone(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _with_pings(source: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The events, and a comment wherever none comes for a while."""
    async with aclosing(source) as events:
        waiting: asyncio.Future[bytes] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait((waiting,), timeout=PING_SECONDS)
                if not done:
                    yield PING
                    continue
                ready, waiting = waiting, None
                try:
                    data = ready.result()
                except StopAsyncIteration:
                    return
                yield data
        finally:
            if waiting is not None:
                waiting.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                    await waiting
