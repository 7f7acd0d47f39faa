"""The process of a server: it listens, loads the models and shuts down."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from marith import ModelError
from marith.serving.app import application
from marith.serving.event_stream import ABORT
from marith.serving.guard import HEADER_BYTES
from marith.serving.served_models import named_options
from marith.serving.server import Server, keep_out_of_collections
from marith.serving.server_settings import ServerSettings, require_key

# uvicorn itself waits without a limit for the headers of a request.
HEADER_SECONDS = 20.0
IDLE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Listening:
    """The address at which a server listens, and how it shuts down.

    `unix_socket` is a path that replaces host and port. `certificate` and `certificate_key` are TLS
    files. `proxies` are addresses whose forwarded headers are trusted. `drain_seconds` is the time
    that running requests have after SIGTERM.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    unix_socket: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None
    proxies: tuple[str, ...] = ()
    drain_seconds: float = 30.0

    @property
    def address(self) -> str:
        """The address as clients write it."""
        if self.unix_socket is not None:
            return f"unix:{self.unix_socket}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{host}:{self.port}"


def serve(settings: ServerSettings, listening: Listening, ready: Callable[[Server], None]) -> None:
    """Serve until a signal ends the process.

    `ready` is called on a thread once the models are loaded. SIGTERM lets running requests finish;
    SIGINT ends them with an error. Raises MarithError if a model cannot be loaded or the address
    cannot be used.
    """
    if listening.unix_socket is None:
        require_key(listening.host, settings.keys)
    # This reports errors of the file before the server listens.
    named_options(settings)
    _require_files(listening)
    if listening.host not in ("0.0.0.0", "::"):  # noqa: S104 (compared)
        settings = replace(settings, hosts=(*settings.hosts, listening.host))
    process = _Process(Server(settings), listening, ready)
    try:
        process.run()
    except SystemExit:
        # uvicorn exits if it cannot listen, and has logged why.
        problem = f"cannot listen at {listening.address}; the line above says why"
        raise ModelError(f"{problem}; --port chooses another port") from None
    finally:
        if listening.unix_socket is not None and process.started:
            listening.unix_socket.unlink(missing_ok=True)
    if process.failure is not None:
        raise process.failure


def _require_files(listening: Listening) -> None:
    """Raise ModelError if a TLS file is missing, or if the socket's path is an ordinary file."""
    for file in (listening.certificate, listening.certificate_key):
        if file is not None and not file.is_file():
            raise ModelError(f"the TLS file {str(file)!r} does not exist")
    # asyncio replaces the socket of a server that has ended, but no other file.
    path = listening.unix_socket
    if path is not None and path.exists() and not path.is_socket():
        raise ModelError(f"{str(path)!r} is a file, not a socket; write another path")


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP protocol, which closes connections that send only a part of a request."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._late: asyncio.TimerHandle | None = None
        app: Any = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT] = self.transport.abort
            await app(scope, receive, send)

        self.app = with_connection

    def connection_made(self, transport: Any) -> None:
        """Begin the time limit of the first request."""
        super().connection_made(transport)
        self._time_headers()

    def data_received(self, data: bytes) -> None:
        """Receive bytes. If the headers are not complete, the time limit begins now."""
        super().data_received(data)
        self._time_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._forget()
        super().connection_lost(exc)

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


class _Process(uvicorn.Server):
    """uvicorn's server, with marith's meaning of the signals."""

    def __init__(
        self, server: Server, listening: Listening, ready: Callable[[Server], None]
    ) -> None:
        self._server, self._listening, self._say_ready = server, listening, ready
        self.failure: Exception | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(
            uvicorn.Config(
                application(server, loads=False),
                host=listening.host,
                port=listening.port,
                uds=None if listening.unix_socket is None else str(listening.unix_socket),
                ssl_certfile=listening.certificate,
                ssl_keyfile=listening.certificate_key,
                proxy_headers=bool(listening.proxies),
                forwarded_allow_ips=[*listening.proxies],
                access_log=False,
                server_header=False,
                log_config=None,
                h11_max_incomplete_event_size=HEADER_BYTES,
                http=TimedProtocol,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=5,
                ws="none",
            )
        )

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and load the models in the meantime."""
        self._loop = asyncio.get_running_loop()
        # A signal may come before the server starts.
        if self._server.draining:
            self.should_exit = True
        await super().startup(sockets)
        self._start(self._load)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let requests finish after SIGTERM; end them after SIGINT or a second signal."""
        again = self._server.draining
        self._server.draining = True
        if self._loop is not None:
            work = self._end if again or sig == signal.SIGINT else self._drain
            self._loop.call_soon_threadsafe(self._start, work)

    def _start(self, work: Callable[[], Any]) -> None:
        task = asyncio.ensure_future(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self) -> None:
        try:
            await self._server.workers.aside(self._loaded)
        except Exception as error:
            self.failure, self.should_exit = error, True
            return
        await self._server.workers.aside(lambda: self._say_ready(self._server))

    def _loaded(self) -> None:
        self._server.load()
        keep_out_of_collections()

    async def _drain(self) -> None:
        await self._server.drain(self._listening.drain_seconds)
        await self._end()

    async def _end(self) -> None:
        """End running requests. Streams get an error event."""
        self._server.draining = True
        await self._server.workers.off_loop(self._server.close)
        self.should_exit = True
