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


class _InFlight:
    """The requests that wait to be submitted, the tickets of those that run, and what is done."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.waiting = deque(requests)
        self.tickets: deque[Ticket] = deque()
        self.done: list[Completion] = []
        self.full = False  # whether the engine takes on no more before one is done

    @property
    def may_submit(self) -> bool:
        """Whether to submit the next request, and not to wait for the first ticket."""
        return bool(self.waiting) and not self.full and len(self.tickets) < IN_FLIGHT

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Raises Busy only where the engine takes on none of the requests."""
        try:
            yield
        except Busy:
            if not self.tickets:
                raise
            self.full = True
        else:
            self.waiting.popleft()

    def finish(self, completion: Completion) -> None:
        """The first ticket's completion has come."""
        self.tickets.popleft()
        self.done.append(completion)
        self.full = False

    def __enter__(self) -> _InFlight:
        return self

    def __exit__(self, *_: object) -> None:
        for ticket in self.tickets:
            ticket.cancel()


def completions(
    requests: Sequence[Request], submit: Callable[[Request], Ticket]
) -> list[Completion]:
    """The completion of each request, in order; the first error cancels the others.

    Raises Busy only where the engine takes on none of them.
    """
    with _InFlight(requests) as flight, progress(len(requests)) as advance:
        while flight.waiting or flight.tickets:
            if flight.may_submit:
                with flight.submitting():
                    flight.tickets.append(submit(flight.waiting[0]))
            else:
                flight.finish(flight.tickets[0].result())
                advance()
    return flight.done


async def acompletions(
    requests: Sequence[Request], submit: Callable[[Request], Awaitable[Ticket]]
) -> list[Completion]:
    """As `completions`, awaited: the event loop is not blocked."""
    with _InFlight(requests) as flight, progress(len(requests)) as advance:
        while flight.waiting or flight.tickets:
            if flight.may_submit:
                with flight.submitting():
                    flight.tickets.append(await submit(flight.waiting[0]))
            else:
                flight.finish(await flight.tickets[0])
                advance()
    return flight.done


@contextmanager
def progress(total: int) -> Iterator[Callable[[], Any]]:
    """A bar for so many requests, on a terminal or in a notebook, once they take a second."""
    if total < 2 or not ("ipykernel" in sys.modules or sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm.auto import tqdm  # a widget in a notebook, else a line on stderr

    with tqdm(total=total, delay=PATIENCE, unit="text", leave=False) as bar:
        yield bar.update
