"""Wait until a request is submitted again to an engine that was busy."""

from __future__ import annotations

import time

from marith.engine.threads.deadline import Deadline
from marith.request.request import Request

FIRST_PAUSE = 0.1  # seconds; each pause is twice the last


def pause(retry: int, request: Request, begun: float) -> bool:
    """Block until a request is submitted again, for the first time (`retry` 0) or once more.

    Pauses count towards the request's timeout, as does the time since it was `begun`. False, at
    once, where the timeout would end before the pause does.
    """
    seconds = FIRST_PAUSE * 2**retry
    if seconds >= Deadline.of(request.timeout, begun).left:
        return False
    time.sleep(seconds)
    return True
