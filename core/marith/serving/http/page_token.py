"""How the page gets a key that nobody types: for a token that is good once, and not for long."""

from __future__ import annotations

import hmac
import secrets
import threading
import time

SECONDS = 60.0  # from the offer on


class PageToken:
    """Gives a key of the server's for a token that it has offered. Safe to use in any thread."""

    def __init__(self, key: str | None) -> None:
        self._key, self._offered, self._until = key, "", 0.0
        self._lock = threading.Lock()

    def offer(self) -> str | None:
        """A new token, in place of the former one; None where the page needs no key."""
        if self._key is None:
            return None
        with self._lock:
            self._offered = secrets.token_urlsafe(32)
            self._until = time.monotonic() + SECONDS
            return self._offered

    def exchange(self, token: str) -> str | None:
        """The key for the token that was offered last, once and in time; None for any other."""
        with self._lock:
            same = hmac.compare_digest(self._offered.encode(), token.encode())
            if not (same and self._offered and time.monotonic() < self._until):
                return None
            self._offered = ""
            return self._key
