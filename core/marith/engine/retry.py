"""Submit a request again, a little later, where the engine is busy."""

from __future__ import annotations

import time

from marith.engine.engine import Engine
from marith.engine.threads.deadline import Deadline
from marith.engine.ticket import Ticket
from marith.errors import Busy
from marith.request.request import Request

FIRST_PAUSE = 0.1  # seconds; each pause is twice the last


def submit(engine: Engine, request: Request, retries: int, begun: float | None = None) -> Ticket:
    """Start a request; where the engine is busy, try again up to `retries` times. Blocks.

    The pauses count towards the request's timeout, as does the time since it was `begun`. Raises
    Busy after the last try, or where the timeout would end before the next; other errors are those
    of `Engine.submit`.
    """
    deadline = Deadline.of(request.timeout, begun)
    for retry in range(retries):
        try:
            return engine.submit(request, deadline.begun)
        except Busy:
            pause = FIRST_PAUSE * 2**retry
            if pause >= deadline.left:
                raise
            time.sleep(pause)
    return engine.submit(request, deadline.begun)
