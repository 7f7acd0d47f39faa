"""A stream of events always ends its request, however the stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from marith.serving.event_stream import EventStream

Send = Callable[[Any], Awaitable[None]]


async def events() -> AsyncGenerator[bytes]:
    for _ in range(3):
        yield b"data: {}\n\n"
        await asyncio.sleep(0)


async def nobody_leaves() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def stream() -> tuple[EventStream, list[str]]:
    """A stream, and the names of what was called of it."""
    called: list[str] = []
    made = EventStream(
        events(),
        5.0,
        failed=lambda error: called.append(type(error).__name__),
        closing=lambda failure: b"data: [DONE]\n\n",
        ended=lambda: called.append("ended"),
    )
    return made, called


async def test_a_stream_is_ended_if_sending_fails() -> None:
    made, called = stream()

    async def send(message: Any) -> None:
        raise RuntimeError("a protocol in the wrong state")

    with pytest.raises(RuntimeError):
        await made({"type": "http"}, nobody_leaves, send)
    assert called == ["RuntimeError", "ended"]


async def test_a_stream_is_ended_if_it_is_cancelled_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    made, called = stream()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "wait", wait)
        with pytest.raises(asyncio.CancelledError):
            await made({"type": "http"}, nobody_leaves, send)
    assert not sent
    assert called == ["CancelledError", "ended"]


async def test_a_stream_is_ended_after_its_last_event() -> None:
    made, called = stream()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await made({"type": "http"}, nobody_leaves, send)
    assert called == ["ended"]
    assert sent[-1] == {
        "type": "http.response.body",
        "body": b"data: [DONE]\n\n",
        "more_body": False,
    }
