"""Bodies of requests: bounded while they arrive, and read as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from marith.serving.wire.refusals import Refusal

OffLoop: TypeAlias = "Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]"
_SECONDS = 30  # that a body may take to come
_MARK = b"\xef\xbb\xbf"  # which some editors begin a file with


async def read_json(request: Request, most: int, off_loop: OffLoop) -> dict[str, Any]:
    """Return the object in a request's body of at most `most` bytes, parsed by `off_loop`.

    Raises Refusal for a body that is no object, or too large.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(f"the content-type is application/json, not {kind!r:.80}", 415)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Refusal(f"a body comes without content-encoding, not as {encoding!r:.80}", 415)
    body = await _read(request, most)
    return await off_loop(lambda: parsed(body))


async def _read(request: Request, most: int) -> bytes:
    """The body, of at most so many bytes: what is longer is not waited for."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Refusal(f"the body has more than {most:,} bytes", 413, "body_too_large")
                parts.append(part)
    except TimeoutError:
        raise Refusal(f"the body took more than {_SECONDS} seconds", 408, "timeout") from None
    except ClientDisconnect:
        raise Refusal("the client has left", 499) from None
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, Any]:
    """Return the object that some bytes are. Raises Refusal for anything else.

    Refused too are NaN, half a surrogate pair, and more levels than pydantic's reader takes (200).
    """
    try:
        value = from_json(body.removeprefix(_MARK), allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal('the body is a JSON object, such as {"model": …}')
    return value
