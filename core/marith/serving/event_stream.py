"""Streams of server-sent events: pings, readers that leave, readers that take nothing."""

from __future__ import annotations

import asyncio
import codecs
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from marith import MarithError

ABORT = "marith.abort"  # in the scope: what ends the connection at once
# In the scope: what writes parts of a body to the connection past the application's layers.
SEND = "marith.send"
PING_SECONDS = 15.0
PING = b": ping\n\n"
_ESCAPED = "marith-json"  # the name of an error handler of `encode`
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


def event(data: Mapping[str, Any]) -> bytes:
    """An event of some JSON, which is one line: line ends in texts are escaped."""
    return b"data: %b\n\n" % json_line(data)


def json_line(data: Any) -> bytes:
    """Data as JSON in one line, also for clients that end a line where Unicode does."""
    line = to_json(data)
    if not line.isascii():
        for odd in "\x85\u2028\u2029":
            line = line.replace(odd.encode(), b"\\u%04x" % ord(odd))
    return line


def ascii_json(data: Any) -> bytes:
    """Data as JSON in ASCII, which no terminal obeys. That of inspections is for a thread."""
    return to_json(data).decode().encode("ascii", _ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return letters that are not ASCII as JSON escapes them, and where they end."""
    assert isinstance(error, UnicodeEncodeError), "only `encode` meets such letters"
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPED, _escaped)


class EventStream(Response):
    """An answer in events, until the client leaves; then the source is closed at once.

    An error of the source is given to `failed`; `closing` has what is written last, after an error
    or without one; `ended` is always called. A client that takes nothing for `write_seconds` is
    left.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes],
        write_seconds: float,
        failed: Callable[[BaseException], None],
        closing: Callable[[BaseException | None], bytes],
        ended: Callable[[], None],
    ) -> None:
        self._source, self._write_seconds, self._failed = source, write_seconds, failed
        self._closing, self._ended = closing, ended
        self._send: Send
        self._send_body: Send  # the layers between look at how an answer starts alone
        self._since: float | None = None  # when the event that is being sent began
        self._last = time.monotonic()
        self._begun = False
        super().__init__(headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events; the protocol of ASGI."""
        self._send, self._send_body = send, scope.get(SEND, send)
        sending = asyncio.ensure_future(self._send_all())
        others = (
            asyncio.ensure_future(gone(receive)),
            asyncio.ensure_future(self._watch(scope.get(ABORT, lambda: None))),
        )
        try:
            await asyncio.wait((sending, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *others):
                task.cancel()
            try:
                with suppress(asyncio.CancelledError, OSError):
                    await sending
            finally:
                if not self._begun:  # this was cancelled before it could begin
                    self._failed(asyncio.CancelledError())
                self._ended()

    async def _send_all(self) -> None:
        """The head, every event, and the end."""
        self._begun = True
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        failure: BaseException | None = None
        async with aclosing(self._source) as events:
            try:
                await self._send(start)
                async for data in events:
                    await self._put(data)
            except (Exception, asyncio.CancelledError) as error:
                self._failed(error)
                if is_of_the_client(error):
                    raise
                failure = error
        await self._put(self._closing(failure), more=False)

    async def _put(self, data: bytes, more: bool = True) -> None:
        self._since = time.monotonic()
        await self._send_body({"type": "http.response.body", "body": data, "more_body": more})
        self._last, self._since = time.monotonic(), None

    async def _watch(self, abort: Callable[[], None]) -> None:
        """Send a comment where no event comes for a while; return where nothing is taken.

        One task for all events: a timer for each would take longer than an event.
        """
        while True:
            await asyncio.sleep(min(1.0, self._write_seconds / 2))
            now = time.monotonic()
            if self._since is not None and now - self._since > self._write_seconds:
                abort()  # else the connection would wait for the reader
                return
            if self._since is None and now - self._last > PING_SECONDS:
                await self._put(PING)


def is_of_the_client(error: BaseException) -> bool:
    """Whether the client has left, or takes nothing; marith's own time-outs are errors to tell."""
    left = isinstance(error, OSError | asyncio.CancelledError)  # a TimeoutError is an OSError
    return left and not isinstance(error, MarithError)


async def gone(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
