"""Many requests of one caller: their completions in order, and how many are finished."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from marith.engine.ticket import Ticket
from marith.errors import Busy
from marith.request.completion import Completion
from marith.request.request import Request

IN_FLIGHT = 128  # requests of one call: enough to fill the lanes of most engines
PATIENCE = 1.0  # seconds before progress is shown


def completions(
    requests: Sequence[Request], submit: Callable[[Request], Ticket]
) -> list[Completion]:
    """The completion of each request, in order; the first error cancels the others.

    Raises Busy only where the engine takes on none of them.
    """
    waiting, tickets, done = deque(requests), deque[Ticket](), list[Completion]()
    try:
        with progress(len(requests)) as advance:
            while waiting or tickets:
                while waiting and len(tickets) < IN_FLIGHT:
                    try:
                        tickets.append(submit(waiting[0]))
                    except Busy:
                        if not tickets:
                            raise
                        break
                    waiting.popleft()
                done.append(tickets[0].result())
                tickets.popleft()
                advance()
    finally:
        for ticket in tickets:
            ticket.cancel()
    return done


async def acompletions(
    requests: Sequence[Request], submit: Callable[[Request], Awaitable[Ticket]]
) -> list[Completion]:
    """As `completions`, awaited: the event loop is not blocked."""
    waiting, tickets, done = deque(requests), deque[Ticket](), list[Completion]()
    try:
        with progress(len(requests)) as advance:
            while waiting or tickets:
                while waiting and len(tickets) < IN_FLIGHT:
                    try:
                        tickets.append(await submit(waiting[0]))
                    except Busy:
                        if not tickets:
                            raise
                        break
                    waiting.popleft()
                done.append(await tickets[0])
                tickets.popleft()
                advance()
    finally:
        for ticket in tickets:
            ticket.cancel()
    return done


@contextmanager
def progress(total: int) -> Iterator[Callable[[], Any]]:
    """A bar for so many requests, on a terminal or in a notebook, once they take a second."""
    if total < 2 or not ("ipykernel" in sys.modules or sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm.auto import tqdm  # a widget in a notebook, else a line on stderr

    with tqdm(total=total, delay=PATIENCE, unit="text", leave=False) as bar:
        yield bar.update
