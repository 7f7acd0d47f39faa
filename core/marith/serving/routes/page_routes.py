"""`/` and `/page/{file}`: the files of the page, which hold no data; and how it gets its key."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request as WebRequest
from starlette.responses import FileResponse, JSONResponse, Response

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
_FOLDER = Path(__file__).parents[1] / "page"


async def page(server: Server, _: WebRequest) -> Response:
    """The page: what a browser shows of this server."""
    return _file(server, INDEX)


async def page_file(server: Server, web: WebRequest) -> Response:
    """A style, a script or a picture of the page."""
    return _file(server, web.path_params["file"])


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


def _file(server: Server, name: str) -> Response:
    """Return a file of the page. Raises Refusal."""
    if not server.settings.page:
        raise Refusal("the server was started without its page", 404, "not_found")
    # What a client names is looked up among these, and leads nowhere else.
    file = next((one for one in _FOLDER.iterdir() if one.name == name), None)
    if file is None:
        raise Refusal(f"the page has no file {name!r:.80}", 404, "not_found")
    kind = "text/javascript" if file.suffix == ".js" else None  # of others every system knows it
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return FileResponse(file, headers=headers, media_type=kind)
