"""Bodies of requests: bounded while they arrive, and JSON without what JSON leaves open."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect, Request

from marith.serving.server_settings import Bounds
from marith.serving.wire.refusals import Refusal

OffLoop: TypeAlias = "Callable[[Callable[[], dict[str, Any]]], Awaitable[dict[str, Any]]]"
_ENCODINGS = ("identity", "gzip", "deflate")
_EITHER = 47  # zlib reads both encodings, each with its own check
_SECONDS = 30  # that a body may take to come
_DIGITS = 32  # of a number: more is no number that anyone means


async def read_json(request: Request, bounds: Bounds, off_loop: OffLoop) -> dict[str, Any]:
    """The object in a request's body, which `off_loop` parses on a thread.

    Raises Refusal for a body that is none, or too large.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(f"the content-type is application/json, not {kind!r:.80}", 415)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _ENCODINGS:
        problem = f"the content-encoding is one of {', '.join(_ENCODINGS)}, not {encoding!r:.80}"
        raise Refusal(problem, 415)
    body = await _read(request, bounds.body)
    most = None if encoding == "identity" else bounds.body
    return await off_loop(lambda: parsed(body if most is None else expanded(body, most), bounds))


async def _read(request: Request, most: int) -> bytes:
    """The body, of at most so many bytes: what is longer is not waited for."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
    except TimeoutError:
        raise Refusal(f"the body took more than {_SECONDS} seconds", 408, "timeout") from None
    except ClientDisconnect:
        raise Refusal("the client has left", 499) from None
    return b"".join(parts)


def expanded(body: bytes, most: int) -> bytes:
    """What bytes compressed by gzip or deflate stand for, at most so many: no more is made."""
    reader = zlib.decompressobj(_EITHER)
    try:
        made = reader.decompress(body, most + 1)
    except zlib.error:
        raise Refusal("the body is not what its content-encoding says") from None
    if len(made) > most:
        raise _too_large(most)
    if not reader.eof or reader.unused_data:
        raise Refusal("the body is not one whole compressed text")
    return made


def _too_large(most: int) -> Refusal:
    return Refusal(f"the body has more than {most:,} bytes", 413, "body_too_large")


def parsed(body: bytes, bounds: Bounds) -> dict[str, Any]:
    """The object that some bytes are. Raises Refusal for anything else.

    Refused are names that come twice, NaN and infinities, numbers of too many digits, half a
    surrogate pair, and too many levels or parts: each is read otherwise by another reader.
    """
    try:
        value = json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_without_twins,
            parse_constant=_no_number,
            parse_int=_whole,
            parse_float=_real,
        )
    except UnicodeDecodeError:
        raise Refusal("the body is not UTF-8") from None
    except RecursionError:
        raise Refusal(f"the body has more than {bounds.levels} levels") from None
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal('the body is a JSON object, such as {"model": …}')
    _hold(value, bounds)
    return value


def _hold(value: Any, bounds: Bounds) -> None:
    """Raises Refusal for too many levels or parts, and for text that is no Unicode."""
    waiting, parts = [(value, 1)], 0
    while waiting:
        part, level = waiting.pop()
        parts += 1
        if level > bounds.levels or parts > bounds.parts:
            raise Refusal(
                f"the body has more than {bounds.levels} levels or {bounds.parts:,} parts"
            )
        if isinstance(part, str):
            _require_unicode(part)
        elif isinstance(part, dict):
            for name, inner in part.items():
                _require_unicode(name)
                waiting.append((inner, level + 1))
        elif isinstance(part, list):
            waiting += [(inner, level + 1) for inner in part]


def _require_unicode(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refusal("a text of the body has half a surrogate pair") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name comes twice in one object")
    return value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a number has more than {_DIGITS} digits")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:_DIGITS]} is too large")
    return number
