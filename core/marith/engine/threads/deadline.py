"""Deadlines of requests, counted from the call."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX
from typing import Any, Self, TypeVar

from marith.errors import DeadlineExceeded, RequestError, shown
from marith.formula.tree.factors import plain
from marith.request.checks import seconds

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A timeout in seconds, or None, and the time of `time.monotonic` at which it started.

    A request keeps its deadline in the caller's thread, in the queue, and while it runs.
    """

    timeout: float | None
    started: float
    # The last moment, by `time.monotonic`. It is infinite without a timeout.
    at: float = field(init=False)

    def __post_init__(self) -> None:
        seconds = math.inf if self.timeout is None else self.timeout
        object.__setattr__(self, "at", self.started + seconds)

    @classmethod
    def of(cls, timeout: float | None, started: float | None = None) -> Self:
        """Return the deadline of a call that begins now, or that began at the time `started`."""
        return cls(seconds("timeout", timeout), time.monotonic() if started is None else started)

    @property
    def left(self) -> float:
        """The number of seconds that are left; below 0 after the deadline."""
        return self.at - time.monotonic()

    def check(self) -> None:
        """Raise DeadlineExceeded when the deadline has passed."""
        if time.monotonic() >= self.at:
            raise self.exceeded()

    def exceeded(self) -> DeadlineExceeded:
        """Return the error of a request that was not finished in time."""
        return DeadlineExceeded(f"not finished within {self.timeout} seconds")

    def within(self, timeout: Any = None) -> float:
        """Return how many seconds to wait for a lock: until the deadline, and at most `timeout`.

        Raises RequestError for an invalid timeout.
        """
        number = math.inf if timeout is None else plain(timeout)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or math.isnan(number):
            raise RequestError(f"timeout is a number of seconds, or None, not {shown(timeout)}")
        # A lock raises OverflowError for a timeout above `TIMEOUT_MAX`.
        return max(0.0, min(number, self.left, TIMEOUT_MAX))

    async def wait_for(self, work: Awaitable[Result]) -> Result:
        """Await `work` until the deadline. Raises DeadlineExceeded after it.

        Work in a thread then goes on, and its result is dropped.
        """
        if self.timeout is None:
            return await work
        try:
            async with asyncio.timeout(self.left) as scope:
                return await work
        except TimeoutError:
            # The work may have raised a TimeoutError of its own.
            if scope.expired():
                raise self.exceeded() from None
            raise


NEVER = Deadline(None, 0.0)
