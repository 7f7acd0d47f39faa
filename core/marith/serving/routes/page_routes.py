"""`/` and `/page/{file}`: the files of the page, which hold no data; and how it gets its key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith.serving.server import Server
from marith.serving.server_settings import is_loopback
from marith.serving.wire.json_body import read_json
from marith.serving.wire.page_fields import PageKeyFields
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import read_fields

INDEX = "index.html"
MOST_BYTES = 1_000  # of a body that is read without a key
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page as it goes out; `tag` changes with its bytes."""

    data: bytes
    kind: str
    tag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """The files of the page by name, all in memory: what a client names is looked up here alone."""
    by_name = {}
    for file in (files("marith.serving") / "page").iterdir():
        kind = _KINDS.get(PurePosixPath(file.name).suffix)
        if kind is not None and file.is_file():
            data = file.read_bytes()
            by_name[file.name] = PageFile(data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return by_name


async def page(server: Server, web: WebRequest) -> Response:
    """The page: what a browser shows of this server."""
    return _file(server, web, INDEX)


async def page_file(server: Server, web: WebRequest) -> Response:
    """A style, a script or a picture of the page."""
    return _file(server, web, web.path_params["file"])


async def page_key(server: Server, web: WebRequest) -> Response:
    """A key for the token that `marith play` put into the page's address: once, on this machine.

    Raises Refusal.
    """
    if web.client is not None and not is_loopback(web.client.host):
        raise Refusal("a token is for a browser on the server's machine", 403, "not_here")
    body = await read_json(web, MOST_BYTES, server.runner.off_loop)
    key = server.page_token.exchange(read_fields(PageKeyFields, body).token)
    if key is None:
        problem = "this token has been used, or is too old; type a key of the server's"
        raise Refusal(problem, 401, "invalid_token", "token")
    return JSONResponse({"key": key}, headers={"cache-control": "no-store"})


def _file(server: Server, web: WebRequest, name: str) -> Response:
    """A file, or 304 where the browser has it. Raises Refusal."""
    file = page_files().get(name) if server.settings.page else None
    if file is None:
        problem = "the server was started without its page"
        if server.settings.page:
            problem = f"the page has no file {name!r:.80}"
        raise Refusal(problem, 404, "not_found")
    headers = {
        "content-security-policy": POLICY,
        "cache-control": "no-cache",
        "etag": file.tag,
    }
    known = web.headers.get("if-none-match", "")
    if file.tag in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(file.data, headers={**headers, "content-type": file.kind})
