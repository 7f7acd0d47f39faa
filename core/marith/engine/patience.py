"""Asking an engine that is busy again, a little later."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import Self

from marith.engine.engine import Engine
from marith.engine.request import Request
from marith.engine.ticket import Ticket
from marith.errors import Busy

FIRST_PAUSE = 0.1  # seconds; each pause is twice the last


def submit(engine: Engine, request: Request, retries: int) -> Ticket:
    """Start a request; where the engine is busy, try again up to `retries` times. Blocks.

    What is waited counts as part of the request's timeout. Raises Busy after the last try, or
    where the timeout would end before the next; otherwise as `Engine.submit` does.
    """
    begun = time.monotonic()
    asked = request
    for retry in range(retries):
        try:
            return engine.submit(asked)
        except Busy:
            pause = FIRST_PAUSE * 2**retry
            if time.monotonic() + pause >= begun + (request.timeout or inf):
                raise
            time.sleep(pause)
            asked = remaining(request, begun)
    return engine.submit(asked)


class Rest(float):
    """What is left of a timeout, in seconds; an error tells the `whole`, which its caller gave."""

    __slots__ = ("whole",)
    whole: float

    def __new__(cls, left: float, whole: float) -> Self:
        """So many seconds `left` of the `whole`."""
        rest = super().__new__(cls, left)
        rest.whole = whole
        return rest

    def __str__(self) -> str:
        return str(self.whole)


def remaining(request: Request, begun: float) -> Request:
    """The request with what is left of its timeout, in seconds, since it was `begun`."""
    whole = request.timeout
    if whole is None:
        return request
    return replace(request, timeout=Rest(max(1e-3, whole - (time.monotonic() - begun)), whole))
