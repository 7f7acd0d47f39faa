"""Which requests run at once: as many as lanes and memory for keys, values and states allow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from marith.errors import RequestError, fault
from marith.request.limits import Limits
from marith.scoring.memory import bytes_needed
from marith.scoring.weights.footprint import amount

if TYPE_CHECKING:
    from marith.engine.prepare import Prepared

Room: TypeAlias = Callable[[int], int]


class Admission:
    """How many of those that wait, in their order, run within the limits of an engine.

    Requests that run at once take at most `cache_bytes` of memory, if each text becomes as long as
    it may; one that needs more runs alone, if there is `room`: a function that is given how
    many bytes are needed, and says how many there are. None of these bounds changes a text.
    """

    def __init__(self, limits: Limits, room: Room) -> None:
        self.limits = limits
        self._room = room
        self._too_many: Sequence[Prepared] = ()  # the last that need more together than there is

    def admitted(
        self, running: Sequence[Prepared], waiting: Sequence[Prepared]
    ) -> list[BaseException | None]:
        """Of each that waits no longer, the first ones in order: why it cannot run, if it cannot.

        Raises nothing: an error is that of the first.
        """
        errors: list[BaseException | None] = []
        try:
            for one in waiting[: self.fitting(running, waiting)]:
                errors.append(self.refusal(one))
        except BaseException as error:
            errors.append(fault(error))
        return errors

    def refusal(self, prepared: Prepared) -> RequestError | None:
        """Why a request cannot even run alone: the machine lacks the memory."""
        memory = memory_of([prepared])
        if memory <= self._most_bytes:
            return None
        free = self._room(memory)
        if memory <= free:
            return None
        return RequestError(
            f"the request may need {amount(memory)} for keys and values of up to "
            f"{prepared.prompt_tokens + prepared.more} tokens, and {amount(free)} are free: "
            "write a smaller max_tokens, or a shorter prompt"
        )

    def fitting(self, running: Sequence[Prepared], waiting: Iterable[Prepared]) -> int:
        """How many of those who wait may run beside those that do: the first ones, in order."""
        together, alone = [*running], 0 if running else 1  # what needs too much memory runs alone
        lanes = sum(one.plan.lanes for one in running)
        for one in waiting:
            lanes += one.plan.lanes
            if lanes > self.limits.max_lanes:
                break
            together.append(one)
        most = len(together) - len(running)
        if most <= alone or not self._fit(together[: len(running) + alone + 1]):
            return min(most, alone)
        if self._fit(together):
            return most
        # More of them never need less memory: so the last number that fits is found by halving.
        counts = range(alone + 2, most)
        found = bisect_left(counts, True, key=lambda n: not self._fit(together[: len(running) + n]))
        return alone + 1 + found

    @property
    def _most_bytes(self) -> float:
        most = self.limits.cache_bytes
        return float("inf") if most is None else most

    def _fit(self, together: Sequence[Prepared]) -> bool:
        """Whether there is memory for these; asked at every step while the first of them waits."""
        known = self._too_many
        if len(known) == len(together) and all(map(is_, known, together)):
            return False
        fits = memory_of(together) <= self._most_bytes
        self._too_many = () if fits else together
        return fits


def memory_of(requests: Iterable[Prepared]) -> int:
    """How many bytes the lanes of these requests hold together at most."""
    return bytes_needed(pair for one in requests for pair in one.texts)
