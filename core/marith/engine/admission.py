"""Which requests run at once: as many as lanes and memory for keys, values and states allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from marith.errors import RequestError
from marith.request.limits import Limits
from marith.scoring.free_memory import free_memory
from marith.scoring.scorer import Demand, Scorer

if TYPE_CHECKING:
    from marith.engine.prepare import Prepared


class Admission:
    """First come, first served, within the limits of an engine on a device.

    Requests that run at once take at most `cache_bytes` of memory, if each text becomes as long as
    it may; one that needs more runs alone. None of these bounds changes a text.
    """

    def __init__(self, limits: Limits, device: str) -> None:
        self.limits = limits
        self._device = device
        self._known: tuple[tuple[int, ...], int] = ((), 0)  # of which requests, and their memory

    def refusal(self, prepared: Prepared) -> RequestError | None:
        """Why a request cannot even run alone: the machine lacks the memory."""
        if prepared.memory <= self._most_bytes:
            return None
        free = free_memory(self._device)
        if prepared.memory <= free:
            return None
        return RequestError(
            f"the request may need {_size(prepared.memory)} for keys and values of up to "
            f"{prepared.prompt_tokens + prepared.more} tokens, and {_size(free)} are free: "
            "write a smaller max_tokens, or a shorter prompt"
        )

    def fitting(self, running: Sequence[Prepared], waiting: Iterable[Prepared]) -> int:
        """How many of those who wait may run beside those that do: the first ones, in order."""
        together = [*running]
        lanes = sum(one.plan.lanes for one in running)
        memory = sum(one.memory for one in running)
        count = 0
        for one in waiting:
            lanes, memory = lanes + one.plan.lanes, memory + one.memory
            together.append(one)
            if lanes > self.limits.max_lanes:
                break
            if memory > self._most_bytes and len(together) > 1:
                memory = self._shared(together)  # what they have in common counts once
                if memory > self._most_bytes:
                    break
            count += 1
        return count

    @property
    def _most_bytes(self) -> float:
        most = self.limits.cache_bytes
        return float("inf") if most is None else most

    def _shared(self, together: Sequence[Prepared]) -> int:
        """What these hold together; asked again and again while the first of a queue waits."""
        key = tuple(map(id, together))
        if key != self._known[0]:
            self._known = key, memory_of(together)
        return self._known[1]


def memory_of(requests: Iterable[Prepared]) -> int:
    """How many bytes the lanes of these requests hold at most; prefixes in common count once."""
    by_scorer: dict[int, tuple[Scorer, list[Demand]]] = {}
    for one in requests:
        for scorer, demand in _demands(one):
            by_scorer.setdefault(id(scorer), (scorer, []))[1].append(demand)
    return sum(scorer.memory(demands) for scorer, demands in by_scorer.values())


def _demands(prepared: Prepared) -> Iterator[tuple[Scorer, Demand]]:
    """Each lane of a request once: terms may share one."""
    lanes: dict[Any, Demand] = {}
    for term, reading in prepared.readings.items():
        lane = prepared.lanes[term]
        if lane not in lanes:
            lanes[lane] = Demand(term, reading, prepared.more, prepared.salt)
            yield prepared.scorers[term], lanes[lane]


def _size(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
