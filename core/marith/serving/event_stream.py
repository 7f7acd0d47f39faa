"""Streams of server-sent events. They send pings, and end if the client reads nothing."""

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

# The key of the ASGI scope under which `process` puts a function that aborts the connection.
ABORT = "marith.abort"
PING_SECONDS = 15.0
PING = b": ping\n\n"
# The name of the error handler `_escaped` for `str.encode`.
_ESCAPED = "marith-json"
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


def event(data: Mapping[str, Any]) -> bytes:
    """Return an event with JSON data in one line. Line ends within texts are escaped."""
    return b"data: %b\n\n" % json_line(data)


def json_line(data: Any) -> bytes:
    """Return data as JSON in one line.

    U+0085, U+2028 and U+2029 are escaped, because some clients end a line at these characters.
    """
    line = to_json(data)
    if not line.isascii():
        for odd in "\x85\u2028\u2029":
            line = line.replace(odd.encode(), b"\\u%04x" % ord(odd))
    return line


def ascii_json(data: Any) -> bytes:
    """Return data as JSON in ASCII, which has no control sequences for a terminal.

    Call it on a thread for inspections, which are large.
    """
    return to_json(data).decode().encode("ascii", _ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return the JSON escapes of characters that are not ASCII, and the index where they end."""
    assert isinstance(error, UnicodeEncodeError), "only `encode` calls this"
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPED, _escaped)


class EventStream(Response):
    """A response in events. If the client leaves, the source is closed at once.

    `failed` receives an error of the source. `closing` returns the last bytes of the body, after an
    error or without one. `ended` is always called. If the client reads nothing for `write_seconds`,
    the connection is aborted.
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
        # The time at which the sending of the current event began, or None between events.
        self._since: float | None = None
        self._last = time.monotonic()
        self._begun = False
        super().__init__(headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events, by the ASGI protocol."""
        self._send = send
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
                # A task that is cancelled before it begins cannot report its own error.
                if not self._begun:
                    self._failed(asyncio.CancelledError())
                self._ended()

    async def _send_all(self) -> None:
        """Send the headers, every event, and the end."""
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
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self._last, self._since = time.monotonic(), None

    async def _watch(self, abort: Callable[[], None]) -> None:
        """Send a ping if no event comes for a while.

        If the client reads nothing for `write_seconds`, abort the connection and return. One task
        watches all events, because a timer for each event would take longer than the event.
        """
        while True:
            await asyncio.sleep(min(1.0, self._write_seconds / 2))
            now = time.monotonic()
            if self._since is not None and now - self._since > self._write_seconds:
                # An orderly close would wait for the client, which reads nothing.
                abort()
                return
            if self._since is None and now - self._last > PING_SECONDS:
                await self._put(PING)


def is_of_the_client(error: BaseException) -> bool:
    """Return True if the client has left or reads nothing.

    For marith's own time-out, return False, because it is an error to report.
    """
    # marith's own time-out is a TimeoutError, and every TimeoutError is an OSError.
    left = isinstance(error, OSError | asyncio.CancelledError)
    return left and not isinstance(error, MarithError)


async def gone(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
