"""Many requests in flight at once, and their answers in the order that they were asked in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from marith.errors import RequestError

Given = TypeVar("Given")
Answer = TypeVar("Answer")
Told = TypeVar("Told", covariant=True)

AUTO = 64


class Answerable(Protocol[Told]):
    """What was asked and may not be answered yet: a ticket, or a future."""

    def result(self) -> Told:
        """Wait for the answer."""
        ...


def answers(
    start: Callable[[Given], Answerable[Answer]], items: Iterable[Given], together: int
) -> Iterator[Answer]:
    """The answer to each, up to so many of them asked before the first is waited for."""
    pending: deque[Answerable[Answer]] = deque()
    for item in items:
        pending.append(start(item))
        if len(pending) == together:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def count(batch_size: int | str | None, most: int | None) -> int:
    """How many requests are in flight for the harness's `batch_size`; 64 at most for "auto"."""
    if isinstance(batch_size, str) and batch_size.partition(":")[0] == "auto":
        return min(AUTO, most or AUTO)
    try:
        number = int(batch_size or 1)
    except ValueError:
        number = 0
    if number < 1:
        raise RequestError(f"batch_size is a whole number from 1 or 'auto', not {batch_size!r}")
    return number
