"""What whoever starts a server decides, and the bounds that hold for every request."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from marith import ModelError, RequestError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
KEYS_VARIABLE = "MARITH_API_KEYS"
_SHORTEST_KEY = 8


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a request may take; docs/how-to/serve.md has the table.

    The fields of a body have bounds of their own, in `wire_fields`. `body` is in bytes; `letters`
    are those of a text, or of all messages; `tokens` are the most of an answer, None for as many as
    the context holds; `seconds` are from the request to the end of the answer. `inspected` are
    positions × likeliest tokens of one request. `what_if_bytes` are of the log-probabilities of a
    text, for other values of a number.
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
    """What is served, to whom.

    `file` is a persona file, `model` what its formulas are over where it names no model, `name`
    what clients call that model (by default its own name).
    `hosts` are names that the server is asked under, beside those of the loopback; `origins` are
    those of web pages that may ask. With `allow_formulas` a request may bring a formula and terms.

    """

    file: Path | None = None
    model: str | None = None
    name: str | None = None
    keys: Sequence[str] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    allow_formulas: bool = False
    log_texts: bool = False
    bounds: Bounds = Bounds()


def read_keys(path: Path | None) -> tuple[str, ...]:
    """The API keys of a file, one a line, or of MARITH_API_KEYS, separated by commas.

    Raises RequestError for a file that others may read or that has none, and for a key that is too
    short.
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
            problem = f"others may read the file of API keys {str(path)!r}"
            raise RequestError(f"{problem}; write `chmod 600 {path}`")
        keys = [line for line in text.splitlines() if not line.startswith("#")]
    keys = [key.strip() for key in keys if key.strip()]
    if path is not None and not keys:
        example = f"(umask 077; openssl rand -hex 24 > {path})"
        raise RequestError(f"the file of API keys {str(path)!r} has no key; write one: {example}")
    for key in keys:
        if len(key) < _SHORTEST_KEY or not key.isascii() or any(map(str.isspace, key)):
            raise RequestError(
                f"an API key has at least {_SHORTEST_KEY} ASCII letters and no spaces; "
                f"that of line {keys.index(key) + 1} has {len(key)} letters"
            )
    return tuple(dict.fromkeys(keys))


def require_key(host: str, keys: Sequence[str]) -> None:
    """Raises ModelError for an address that others reach, where no key is asked for."""
    if not keys and not is_loopback(host):
        raise ModelError(
            f"{host!r} is an address that others reach, and no API key is asked for; write "
            f"--api-key-file, or set {KEYS_VARIABLE}"
        )


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return host in LOOPBACK or ip_address(host).is_loopback
    except ValueError:  # a name
        return False
