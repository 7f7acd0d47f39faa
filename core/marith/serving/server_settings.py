"""The settings of a server, and the limits of every request."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from marith import ModelError, RequestError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
KEYS_VARIABLE = "MARITH_API_KEYS"
_SHORTEST_KEY = 8


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """The limits of a request. docs/how-to/deploy.md has the table.

    The fields of a body have further limits in `wire_fields`. `body` is in bytes. `letters` is the
    number of characters of a text, or of all messages. `tokens` is the maximum number of tokens of
    an answer; None means all that the context can hold. `seconds` is the time from the request to
    the end of the answer. `requests_of_key` is the number of requests of a key that run at the same
    time. `write_seconds` is the time in which a client must read an event. `inspected` limits
    positions × likeliest tokens of a request. `what_if_bytes` limits the memory of a text's
    log-probabilities for `/v1/what_if`.
    """

    body: int = 8_000_000
    letters: int = 2_000_000
    tokens: int | None = None
    seconds: float | None = 600.0
    requests_of_key: int = 64
    write_seconds: float = 60.0
    inspected: int = 20_000
    what_if_bytes: int = 2**28


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server: its models, and the clients that may ask.

    `file` is a persona file. `model` is the base model of its formulas if the file names none.
    `name` is the name of the base model for clients; the default is its own name. `hosts` are host
    names under which clients reach the server, in addition to localhost. `origins` are origins of
    web pages that may send requests. If `allow_formulas`, a request may contain a formula and
    terms. `placement` has `device`, `dtype`, `revision`, `backend` and `over`, as in `Options`.
    """

    file: Path | None = None
    model: str | None = None
    name: str | None = None
    keys: Sequence[str] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    allow_formulas: bool = False
    log_texts: bool = False
    limits: ServingLimits = ServingLimits()
    placement: Mapping[str, str | None] = field(default_factory=dict)


def read_keys(path: Path | None) -> tuple[str, ...]:
    """Return the API keys of a file, one on each line.

    Without a file, return the keys of MARITH_API_KEYS, separated by commas. Raises RequestError if
    other users may read the file, if the file has no key, or if a key is invalid.
    """
    if path is None:
        keys = os.environ.get(KEYS_VARIABLE, "").split(",")
    else:
        try:
            mode, text = path.stat().st_mode, path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeError) as error:
            raise RequestError(
                f"the file of API keys {str(path)!r} cannot be read: {error}"
            ) from None
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            problem = f"other users may read the file of API keys {str(path)!r}"
            raise RequestError(f"{problem}; write `chmod 600 {path}`")
        keys = [line for line in text.splitlines() if not line.startswith("#")]
    keys = [key.strip() for key in keys if key.strip()]
    if path is not None and not keys:
        example = f"(umask 077; openssl rand -hex 24 > {path})"
        raise RequestError(f"the file of API keys {str(path)!r} has no key; write one: {example}")
    for key in keys:
        if len(key) < _SHORTEST_KEY or not key.isascii() or any(map(str.isspace, key)):
            raise RequestError(
                f"an API key must have at least {_SHORTEST_KEY} ASCII characters, without spaces; "
                f"key {keys.index(key) + 1} has {len(key)} characters"
            )
    return tuple(dict.fromkeys(keys))


def require_key(host: str, keys: Sequence[str]) -> None:
    """Raise ModelError if other machines can reach the address and there are no keys."""
    if not keys and not is_loopback(host):
        raise ModelError(
            f"{host!r} can be reached by other machines, so an API key is needed; write "
            f"--api-key-file, or set {KEYS_VARIABLE}"
        )


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    try:
        return host in LOOPBACK or ip_address(host).is_loopback
    except ValueError:
        # The text is the name of a host, which other machines may reach.
        return False
