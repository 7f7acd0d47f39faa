"""A server on a unix socket, and clients that speak HTTP to it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from support.held_passes import hold_passes

from marith.serving.app import application
from marith.serving.guard import HEADER_BYTES
from marith.serving.process import TimedProtocol
from marith.serving.routes import inspection_routes
from marith.serving.server import Server
from marith.serving.server_settings import ServerSettings, ServingLimits

PERSONAS = """
[terms]
rude = "You are rude."
kind = "You are kind."
[formulas]
polite = "M - 0.5*rude + 0.3*kind"
"""
CHAT = [{"role": "user", "content": "Tell me of your day."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}


@contextmanager
def served(
    folder: Path, limits: ServingLimits | None = None, personas: str = PERSONAS, **settings: Any
) -> Iterator[Server]:
    """Yield a server over pocket with one formula, or with other personas."""
    file = folder / "marith.toml"
    file.write_text(personas, encoding="utf-8")
    server = Server(ServerSettings(file, limits=limits or ServingLimits(), **settings))
    path = folder / "socket"
    config = uvicorn.Config(
        application(server), uds=str(path), http=TimedProtocol, ws="none", log_config=None,
        access_log=False, h11_max_incomplete_event_size=HEADER_BYTES, timeout_graceful_shutdown=2,
    )  # fmt: skip
    process = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(process.serve()), daemon=True)
    thread.start()
    wait_until(lambda: process.started, 60)
    server.socket = path  # type: ignore[attr-defined]
    try:
        yield server
    finally:
        process.should_exit = True
        thread.join(20)


def client(server: Any, **options: Any) -> httpx.Client:
    """Return a client that is connected to the socket of a server."""
    transport = httpx.HTTPTransport(uds=str(server.socket))
    return httpx.Client(transport=transport, base_url="http://localhost", timeout=60, **options)


@contextmanager
def open_request(server: Any, path: str, body: Any) -> Iterator[None]:
    """Send a request, and disconnect at the end of the context."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"authorization: {BEARER['authorization']}\r\ncontent-length: {len(data)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.socket))
        connection.sendall(head.encode() + data)
        yield


def require_cancelled(server: Any, path: str, body: Any, submit: str) -> None:
    """Require that a client that disconnects cancels its pass.

    It disconnects while the route's function `submit` starts the pass, and while the pass runs.
    """
    begin, begun, resume = getattr(inspection_routes, submit), threading.Event(), threading.Event()
    futures: list[Any] = []

    def slow(*given: Any, **options: Any) -> Any:
        begun.set()
        resume.wait(20)
        futures.append(begin(*given, **options))
        return futures[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection_routes, submit, slow)
        with hold_passes(server.engines()[0]):
            with open_request(server, path, body):
                assert begun.wait(20)
            wait_until(lambda: server.running == 0)
            resume.set()
            wait_until(lambda: bool(futures) and futures[0].cancelled())
    wait_until(lambda: lanes(server) == 0)
    with hold_passes(server.engines()[0]) as passing:
        with open_request(server, path, body):
            assert passing.wait(20)
        wait_until(lambda: server.running == 0)
    wait_until(lambda: lanes(server) == 0)


def events(text: str) -> list[Any]:
    """Return the JSON of a stream's events, in order. The stream must end with [DONE]."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def wait_until(holds: Any, seconds: float = 10) -> None:
    """Wait until a condition is true. Raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)


def lanes(server: Server) -> int:
    return sum(engine.status().lanes for engine in server.engines())


KEYS = ("sk-first-key", "sk-second-key")
BEARER = {"authorization": f"Bearer {KEYS[0]}"}
PAGE = "https://chat.example"
JSON = {"content-type": "application/json"}


@contextmanager
def guarded(folder: Path) -> Iterator[Server]:
    """Yield a server with keys, a host name, an allowed origin, and small limits."""
    limits = replace(ServingLimits(), body=220_000, letters=15_000, tokens=40)
    with served(folder, limits, keys=KEYS, hosts=("models.example",), origins=(PAGE,)) as server:
        yield server
