"""Checks keys, hosts and origins, and writes the id and the log line of each request."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time

from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marith.serving.server_settings import LOOPBACK, ServerSettings
from marith.serving.wire.refusals import Refusal, refusal

HEADER_BYTES = 32_768
# Probes call these paths without a key, and without a known host name.
OPEN = ("/health", "/ready")
KEY, ID = "marith.key", "marith.id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("marith.serving")


class Guard:
    """ASGI middleware that answers requests which may not reach the application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, failed: Counter) -> None:
        self._app, self._failed = app, failed
        self._keys = [key.encode() for key in settings.keys]
        self._hosts = {*LOOPBACK, *(host.lower() for host in settings.hosts)}
        self._origins = origins_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, began = Headers(scope=scope), time.monotonic()
        sent = headers.get("x-request-id", "")
        scope[ID] = sent if _ID.fullmatch(sent) else f"req-{secrets.token_hex(12)}"
        status, started = 500, False

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                answered = MutableHeaders(scope=message)
                answered["x-request-id"] = scope[ID]
                answered["x-content-type-options"] = "nosniff"
                answered["referrer-policy"] = "no-referrer"
            await send(message)

        try:
            self._admit(scope, headers)
            await self._app(scope, receive, sending)
        except Exception as error:
            refused = refusal(error)
            if refused.status == 500:
                _log.exception("request %s failed", scope[ID])
            if started:
                raise
            await refused.response()(scope, receive, sending)
        finally:
            if status >= 400:
                self._failed.labels(str(status)).inc()
            self._write_line(scope, status, began)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        """Raise Refusal if the request is not allowed."""
        _require_bounded(scope)
        # A proxy and this server could count different lengths, and see different requests.
        if "content-length" in headers and "transfer-encoding" in headers:
            raise Refusal(
                "a request cannot have both content-length and transfer-encoding; send one"
            )
        if scope["path"] not in OPEN:
            self._require_host(headers)
        origin = headers.get("origin")
        if origin is not None:
            self._require_origin(origin, headers.get("host", ""))
        if needs_key(scope["path"]):
            scope[KEY] = self._key(headers.get("authorization", ""))

    def _require_host(self, headers: Headers) -> None:
        """Raise Refusal for an unknown host name, as a defence against DNS rebinding."""
        host = _name(headers.get("host", ""))
        if host not in self._hosts:
            adding = "write --host-name to allow this name"
            problem = f"unknown host {host!r:.80}; {adding}"
            raise Refusal(problem, 421, "wrong_host")

    def _require_origin(self, origin: str, host: str) -> None:
        """Raise Refusal unless the page is the server's own or of an allowed origin."""
        own = [f"{scheme}://{host.lower()}" for scheme in ("http", "https")]
        if origin.lower() not in (*own, *self._origins):
            adding = "write --origin to allow this origin"
            problem = f"the origin {origin!r:.80} is not allowed; {adding}"
            raise Refusal(problem, 403, "wrong_origin")

    def _key(self, authorization: str) -> str | None:
        """Return the hash of the API key, or None if the server needs no key.

        The sent key is always compared with all keys, so that the time reveals nothing about them.
        """
        if not self._keys:
            return None
        scheme, _, sent = authorization.partition(" ")
        found = [key for key in self._keys if hmac.compare_digest(key, sent.strip().encode())]
        if not found or scheme.lower() != "bearer":
            problem = "the API key is missing" if not authorization else "this API key is not known"
            raise Refusal(f"{problem}; write `Authorization: Bearer …`", 401, "invalid_api_key")
        # The hash stands for the key in logs and in cache salts.
        return hashlib.sha256(found[0]).hexdigest()[:16]

    def _write_line(self, scope: Scope, status: int, began: float) -> None:
        """Log a request as one line of JSON, without its texts.

        Probes are not logged, because they come every few seconds.
        """
        if scope["path"] in OPEN:
            return
        line = {
            "id": scope[ID],
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "seconds": round(time.monotonic() - began, 3),
            "key": scope.get(KEY),
            **scope.get("state", {}).get("line", {}),
        }
        # `json.dumps` escapes control characters, so a client cannot forge a line.
        _log.info("%s", json.dumps(line))


def _require_bounded(scope: Scope) -> None:
    """Raise Refusal if the address and the headers are too long."""
    address = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    parts = (len(name) + len(value) for name, value in scope["headers"])
    if sum(parts, address) > HEADER_BYTES:
        raise Refusal(f"the address and headers have more than {HEADER_BYTES:,} bytes", 431)


def needs_key(path: str) -> bool:
    """Return True if a path needs a key. Paths of probes and of the page's files do not."""
    return path not in (*OPEN, "/") and not path.startswith("/page/")


def origins_of(settings: ServerSettings) -> list[str]:
    """Return the allowed origins as browsers write them."""
    return [origin.rstrip("/").lower() for origin in settings.origins]


def _name(host: str) -> str:
    """Return a host without its port and without brackets, in lower case."""
    host = host.lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
