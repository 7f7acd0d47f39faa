"""Many requests in flight at once, and their answers in the order of the requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_flight(
    submit: Callable[[Item], Callable[[], Answer]], items: Iterable[Item], concurrency: int
) -> Iterator[Answer]:
    """The answer to each item; up to `concurrency` are submitted before the first is waited for.

    `submit` returns what waits for the answer, such as a ticket's `result`.
    """
    waiting: deque[Callable[[], Answer]] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) == concurrency:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()
