"""One server for each file of tests, and a client of it.

A file whose server is another one than that with keys and small limits has its own `server`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx
import pytest
from support.http_server import BEARER, client, guarded

from marith.serving.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with guarded(tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture(scope="module")
def web(server: Server) -> Iterator[httpx.Client]:
    with client(server, headers=BEARER if server.settings.keys else None) as web:
        yield web


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """Take away the handlers that `marith serve` gives to loggers of this process."""
    loggers = [logging.getLogger(name) for name in ("marith.serving", "uvicorn")]
    before = [(one.handlers, one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)
