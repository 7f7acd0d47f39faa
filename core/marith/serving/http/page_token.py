"""How the page gets a key that nobody types: for a token that is good once, and not for long."""

from __future__ import annotations

import hmac
import secrets
import time

SECONDS = 60.0  # from the offer on


class PageToken:
    """Gives a key of the server's for a token that it has offered."""

    def __init__(self, key: str | None) -> None:
        self._key, self._offered, self._until = key, "", 0.0

    def offer(self) -> str | None:
        """Return a new token, in place of the former one; None where the page needs no key."""
        if self._key is None:
            return None
        self._offered, self._until = secrets.token_urlsafe(32), time.monotonic() + SECONDS
        return self._offered

    def exchange(self, token: str) -> str | None:
        """Return the key for the token that was offered last, once and in time; or else None."""
        same = hmac.compare_digest(self._offered.encode(), token.encode())
        if not (same and self._offered and time.monotonic() < self._until):
            return None
        self._offered = ""
        return self._key
