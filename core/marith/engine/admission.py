"""Admission: jobs run in the order of their arrival, as far as lanes and memory allow."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import is_
from typing import TypeAlias

from marith.engine.jobs.job import Job
from marith.engine.prepare import Prepared
from marith.engine.step import Turn
from marith.errors import Busy, EngineClosed, RequestError, fault
from marith.request.limits import Limits
from marith.scoring.free_memory import bytes_text
from marith.scoring.scorer import bytes_needed

BytesLeft: TypeAlias = Callable[[int], int]


class Admission:
    """Decides which jobs run and which wait, within the limits of an engine.

    Nobody overtakes: the first job waits until it fits, and later jobs wait behind it. The texts of
    all running requests, at their maximal lengths, need at most `cache_bytes`. A request that needs
    more runs alone, if the machine has the memory. `bytes_left(needed)` returns the bytes that are
    free for such a request. These limits never change a text.

    Callers add jobs. The engine's thread admits and removes jobs between two steps. `closed` is the
    reason why no more jobs are accepted, and is empty while they are accepted.
    """

    def __init__(self, limits: Limits, bytes_left: BytesLeft) -> None:
        self.limits = limits
        self._bytes_left = bytes_left
        # The last requests that did not fit together: they are not counted again at each step.
        self._too_many: Sequence[Prepared] = ()
        self.closed = ""
        self.active: list[Turn] = []
        self.waiting: deque[Job] = deque()
        self.lock = threading.RLock()
        # The engine's thread sleeps on this condition until there is work.
        self._changed = threading.Condition(self.lock)

    @property
    def jobs(self) -> list[Job]:
        """All jobs, the running jobs first."""
        with self.lock:
            return [*(turn.job for turn in self.active), *self.waiting]

    @property
    def lanes(self) -> int:
        """The number of lanes in use. Abandoned jobs free their lanes before the next step."""
        return sum(prepared.plan.lanes for prepared in self._running())

    def require_open(self) -> None:
        """Raise EngineClosed, with the reason, if no more jobs are accepted."""
        if self.closed:
            raise EngineClosed(self.closed)

    def add(self, job: Job, follows: bool = False) -> None:
        """Append a job. Raises at once if the job can never run, or if too many jobs wait.

        A job that `follows` a finished one goes before all waiting jobs, and is never refused
        because of `max_queue`.
        """
        require_enough_lanes(job.prepared, self.limits)
        with self.lock:
            self.require_open()
            if follows:
                self.waiting.appendleft(job)
            else:
                self._require_place(job)
                self.waiting.append(job)
            self._changed.notify()

    def admit(self) -> bool:
        """Start the jobs that fit, in order; sleep while there is no work.

        Return False when closed. A job that needs more memory than the machine has fails with
        RequestError.
        """
        chosen: list[tuple[Job, BaseException | None]] = []
        with self.lock:
            self._changed.wait_for(self._has_work)
            if self.waiting:
                # Nearly every request needs a lane, so no more than `max_lanes` requests are looked
                # at.
                first = [*islice(self.waiting, self.limits.max_lanes)]
                errors = self.admitted(self._running(), [job.prepared for job in first])
                chosen = [*zip(first, errors, strict=False)]
                for _ in chosen:
                    self.waiting.popleft()
                self.active += [Turn(job) for job, error in chosen if error is None]
            is_open = not self.closed
        for job, error in chosen:
            if error is not None:
                job.fail(error)
        return is_open

    def remove(self, jobs: Sequence[Job]) -> None:
        """Remove these jobs, running or waiting."""
        gone = set(map(id, jobs))
        # One of the requests that did not fit together may have ended.
        self._too_many = ()
        with self.lock:
            self.active = [turn for turn in self.active if id(turn.job) not in gone]
            self.waiting = deque(job for job in self.waiting if id(job) not in gone)

    def close(self, why: str) -> None:
        """Accept no more jobs. The engine's thread notices between two steps."""
        with self.lock:
            self.closed = self.closed or why
            self._changed.notify()

    def admitted(
        self, running: Sequence[Prepared], waiting: Sequence[Prepared]
    ) -> list[BaseException | None]:
        """Return None or an error for each of the first waiting requests that may leave the queue.

        A request with None may run, and a request with an error fails. Raises nothing: if an error
        occurs while memory is counted, the next request fails with this error.
        """
        errors: list[BaseException | None] = []
        try:
            for one in waiting[: self.fitting(running, waiting)]:
                errors.append(self.refusal(one))
        except BaseException as error:
            errors.append(fault(error))
        return errors

    def refusal(self, prepared: Prepared) -> RequestError | None:
        """Return an error if the machine has too little memory for a request that runs alone."""
        memory = memory_of([prepared])
        if memory <= self._most_bytes:
            return None
        free = self._bytes_left(memory)
        if memory <= free:
            return None
        tokens = prepared.budget.prompt_tokens + prepared.budget.more
        return RequestError(
            f"the request may need {bytes_text(memory)} for keys and values of up to "
            f"{tokens} tokens, and {bytes_text(free)} are free: "
            "write a smaller max_tokens, or a shorter prompt"
        )

    def fitting(self, running: Sequence[Prepared], waiting: Iterable[Prepared]) -> int:
        """Return the number of waiting requests, from the first on, that may run now."""
        # If nothing runs, the first request may run, even if it needs more than `cache_bytes`.
        together, alone = [*running], 0 if running else 1
        lanes = sum(one.plan.lanes for one in running)
        for one in waiting:
            lanes += one.plan.lanes
            if lanes > self.limits.max_lanes:
                break
            together.append(one)
        count = len(together) - len(running)
        if count <= alone or not self._fit(together[: len(running) + alone + 1]):
            return min(count, alone)
        if self._fit(together):
            return count
        # The memory never shrinks with more requests, so a binary search finds the largest number
        # that fits.
        counts = range(alone + 2, count)
        found = bisect_left(counts, True, key=lambda n: not self._fit(together[: len(running) + n]))
        return alone + 1 + found

    def _has_work(self) -> bool:
        return bool(self.closed or self.waiting or self.active)

    def _require_place(self, job: Job) -> None:
        """Raise Busy if too many jobs would wait."""
        count, limit = len(self.waiting) + 1, self.limits.max_queue
        if count <= limit:
            return
        # Requests that start at the next step do not count as waiting.
        waiting = [*islice(self.waiting, self.limits.max_lanes), job]
        fitting = self.fitting(self._running(), [one.prepared for one in waiting])
        if count - fitting > limit:
            raise Busy(
                f"{count - fitting - 1} requests wait already, and max_queue is {limit}: ask "
                "again later, or load the engine with a larger max_queue"
            )

    def _running(self) -> list[Prepared]:
        """Return the requests that run and are not abandoned."""
        return [turn.job.prepared for turn in self.active if not turn.job.abandoned]

    @property
    def _most_bytes(self) -> float:
        limit = self.limits.cache_bytes
        return float("inf") if limit is None else limit

    def _fit(self, together: Sequence[Prepared]) -> bool:
        """Return True if `cache_bytes` suffices for these requests together."""
        known = self._too_many
        if len(known) == len(together) and all(map(is_, known, together)):
            return False
        fits = memory_of(together) <= self._most_bytes
        self._too_many = () if fits else together
        return fits


def require_enough_lanes(prepared: Prepared, limits: Limits) -> None:
    """Raise RequestError for a formula that needs more lanes than the engine has."""
    lanes, limit = prepared.plan.lanes, limits.max_lanes
    if lanes > limit:
        raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {limit}")


def memory_of(requests: Iterable[Prepared]) -> int:
    """Return the bytes that these requests need together, with texts of maximal length."""
    return bytes_needed(pair for one in requests for pair in one.texts)
