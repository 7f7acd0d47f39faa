"""HTTP/1.1 whose headers have to come in time, and whose connection can be ended at once."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from marith.serving.http.event_stream import ABORT, SEND

HEADER_SECONDS = 20.0


class TimedProtocol(H11Protocol):
    """uvicorn's protocol; a client that sends half a request is not waited for."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._late: asyncio.TimerHandle | None = None
        app: Any = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT] = self.transport.abort
            chunked = scope["http_version"] == "1.1" and scope["method"] != "HEAD"
            scope[SEND] = self._chunks(send) if chunked else send
            await app(scope, receive, send)

        self.app = with_connection

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._time_headers()

    def data_received(self, data: bytes) -> None:
        """Take in some bytes; headers that are not complete yet have their time from now."""
        super().data_received(data)
        self._time_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._forget()
        super().connection_lost(exc)

    def _chunks(self, send: Send) -> Send:
        """What sends a part of a body without a length as h11 writes it, in a tenth of the time.

        The last part, and whatever has to wait, goes through h11.
        """
        cycle, transport, flow = self.cycle, self.transport, self.flow

        async def sending(message: Message) -> None:
            data = message.get("body", b"")
            if not data or not message.get("more_body") or flow.write_paused or cycle.disconnected:
                await send(message)
            else:
                transport.write(b"%x\r\n%b\r\n" % (len(data), data))

        return sending

    def _time_headers(self) -> None:
        waiting = self.cycle is None or self.cycle.response_complete
        if not waiting:
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self._end)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
