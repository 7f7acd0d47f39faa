"""Admission: which requests run, wait or are paused, as far as lanes and memory allow."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from typing import TypeAlias

from marith.engine.jobs.job import Job
from marith.engine.prepare import Prepared
from marith.engine.threads.workers import log
from marith.engine.turn import Turn
from marith.errors import Busy, EngineClosed, RequestError, fault
from marith.request.limits import Limits
from marith.scoring.free_memory import bytes_text
from marith.scoring.scorer import bytes_needed

BytesLeft: TypeAlias = Callable[[], int]
# A request, and the number of tokens after its prompt for which memory is counted.
Counted: TypeAlias = tuple[Prepared, int]
# Memory is counted for this number of tokens more than a text may hold after the next step. So it
# is counted again once in about this number of steps.
RESERVE = 64
LIMITED = (
    "the memory holds at most %d tokens of an answer after a prompt of %d tokens, fewer than the "
    "context: an answer without max_tokens ends there, with the finish reason 'length' (this is "
    "logged once for each engine)"
)
_log = logging.getLogger(__name__)


class Admission:
    """Decides which jobs run, wait or are paused, within the limits of an engine.

    Nobody overtakes: the first job waits until it fits, and later jobs wait behind it. The texts of
    all running jobs, each with `RESERVE` more tokens, need at most `cache_bytes`. If they grow
    beyond this, the job that began last is paused: its lanes are released, and it waits before all
    other jobs. Later it reads its text again, and goes on with the same text. The job that began
    first is never paused, so one job always ends. It may need more than `cache_bytes`, as far as
    the machine has the memory, or half of it if it has no `max_tokens`. `bytes_left()` returns the
    bytes that are free for a job that runs alone. These limits never change a text, except where a
    text without `max_tokens` ends.

    Callers add jobs. The engine's thread admits and removes jobs between two steps. `closed` is the
    reason why no more jobs are accepted, and is empty while they are accepted. `paused` counts the
    pauses of all jobs.
    """

    def __init__(self, limits: Limits, bytes_left: BytesLeft) -> None:
        self.limits = limits
        self._bytes_left = bytes_left
        self.closed = ""
        self.paused = 0
        # In the order in which they began.
        self.active: list[Turn] = []
        self.waiting: deque[Job] = deque()
        # The tokens of the first text that memory limited, and of its prompt; empty once logged.
        self._limited: tuple[int, ...] | None = None
        # True if the first waiting job was found not to fit, and no job has left since.
        self._full = False
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
        return sum(turn.job.prepared.plan.lanes for turn in self._running())

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
                self._put_first(job)
            else:
                self._require_place(job)
                self.waiting.append(job)
            self._changed.notify()

    def admit(self) -> bool:
        """Pause and start jobs as memory allows; sleep while there is no work.

        Return False when closed. A job that needs more memory than the machine has fails with
        RequestError. If an error occurs while memory is counted, the job that causes it fails with
        this error.
        """
        stopped: list[tuple[Job, BaseException | None]] = []
        with self.lock:
            self._changed.wait_for(self._has_work)
            waits = bool(self.waiting) and not self._full
            if waits or any(turn.job.tokens_held > turn.counted for turn in self.active):
                stopped = self._count(waits)
            is_open = not self.closed
        if self._limited:
            log(_log, logging.WARNING, LIMITED, *self._limited)
            self._limited = ()
        for job, error in stopped:
            job.prepared.lanes.release()
            if error is not None:
                job.fail(error)
        return is_open

    def pause(self, turns: Sequence[Turn]) -> list[Job]:
        """Let running jobs wait before all other jobs, and return them. The caller frees the lanes.

        The jobs have the order in which they began.
        """
        jobs = [turn.job for turn in turns]
        for job in jobs:
            # The caller gets all text so far. If that is the whole text, the job has ended.
            job.convert()
        self._stop(jobs)
        for job in reversed(jobs):
            self._put_first(job)
            job.paused += 1
        self.paused += len(jobs)
        return jobs

    def remove(self, jobs: Sequence[Job]) -> None:
        """Remove these jobs, running or waiting."""
        with self.lock:
            self._stop(jobs)
            gone = set(map(id, jobs))
            self.waiting = deque(job for job in self.waiting if id(job) not in gone)
            self._full = False

    def close(self, why: str) -> None:
        """Accept no more jobs. The engine's thread notices between two steps."""
        with self.lock:
            self.closed = self.closed or why
            self._changed.notify()

    def refusal(self, job: Job) -> RequestError | None:
        """Return an error if the machine has too little memory for a job that runs alone.

        If the job has no `max_tokens`, its text gets the tokens for which there is memory instead.
        """
        prepared, budget = job.prepared, job.prepared.budget
        # A paused job was admitted before, and its text goes on.
        if job.paused or memory_of([(prepared, budget.more)]) <= self._most_bytes:
            return None
        free = self._bytes_left()
        # Passes, copies of a cache that grows, and other engines need memory too. So a text that
        # may grow to any length does not take the last byte.
        limit = max(free // 2 if budget.open_ended else free, self._most_bytes)
        # At least one token must fit after the prefix.
        least = len(prepared.prefix) + 1 if budget.open_ended else budget.more
        counts = range(least, budget.more + 1)
        fitting = bisect_left(counts, True, key=lambda n: memory_of([(prepared, n)]) > limit)
        if not fitting:
            memory, tokens = memory_of([(prepared, least)]), budget.prompt_tokens + least
            room, advice = f"{bytes_text(free)} are free", "a smaller max_tokens"
            if budget.open_ended:
                room = f"without max_tokens it may take {bytes_text(int(limit))}"
                advice = "a max_tokens"
            return RequestError(
                f"the request may need {bytes_text(memory)} for keys and values of up to {tokens} "
                f"tokens, and {room}: write {advice}, or a shorter prompt"
            )
        if fitting < len(counts):
            job.prepared = prepared.at_most(counts[fitting - 1])
            if self._limited is None:
                self._limited = counts[fitting - 1], budget.prompt_tokens
        return None

    def fitting(self, together: Sequence[Counted], running: int) -> int:
        """Return the number of requests, from the first on, that may run: at least one.

        The first `running` requests run already. More requests never need less memory, so the
        number is found by a binary search, after the numbers that are likeliest.
        """
        lanes = accumulate(prepared.plan.lanes for prepared, _ in together)
        most = sum(total <= self.limits.max_lanes for total in lanes)
        # The first `low` requests fit, and the first `high` requests do not.
        low, high = 1, most + 1
        likeliest = iter((running + 1, running, most))
        while high - low > 1:
            number = next(likeliest, (low + high) // 2)
            if not low < number < high:
                continue
            if memory_of(together[:number]) <= self._most_bytes:
                low = number
            else:
                high = number
        return low

    def _has_work(self) -> bool:
        return bool(self.closed or self.waiting or self.active)

    def _put_first(self, job: Job) -> None:
        self.waiting.appendleft(job)
        self._full = False

    def _stop(self, jobs: Iterable[Job]) -> None:
        """Remove these jobs from the running jobs."""
        gone = set(map(id, jobs))
        self.active = [turn for turn in self.active if id(turn.job) not in gone]

    def _require_place(self, job: Job) -> None:
        """Raise Busy if too many jobs would wait."""
        count, limit = len(self.waiting) + 1, self.limits.max_queue
        if count <= limit:
            return
        # Requests that start at the next step do not count as waiting.
        if not self._full:
            running = [(turn.job.prepared, turn.counted) for turn in self._running()]
            waiting = [*islice(self.waiting, self.limits.max_lanes), job]
            together = [*running, *((one.prepared, reserved(one)) for one in waiting)]
            count -= max(0, self.fitting(together, len(running)) - len(running))
        if count > limit:
            raise Busy(
                f"{count - 1} requests wait already, and max_queue is {limit}: ask again later, or "
                "load the engine with a larger max_queue"
            )

    def _running(self) -> list[Turn]:
        """Return the turns whose jobs are not abandoned."""
        return [turn for turn in self.active if not turn.job.abandoned]

    def _count(self, waits: bool) -> list[tuple[Job, BaseException | None]]:
        """Count memory again, pause running jobs that no longer fit, or start waiting jobs that do.

        Waiting jobs are considered if `waits` is True. Return the jobs that stop, paused or with an
        error.
        """
        running = self._running()
        # Nearly every request needs a lane, so no more than `max_lanes` requests are looked at.
        waiting = [*islice(self.waiting, self.limits.max_lanes)] if waits else []
        jobs = [*(turn.job for turn in running), *waiting]
        stopped: list[tuple[Job, BaseException | None]] = []
        count = len(running)
        try:
            together = [(job.prepared, reserved(job)) for job in jobs]
            count = self.fitting(together, len(running)) if jobs else 0
            for job in waiting[: max(0, count - len(running))]:
                if error := self.refusal(job):
                    stopped.append((job, error))
                else:
                    self.active.append(Turn(job, counted=reserved(job)))
                self.waiting.popleft()
        except BaseException as error:
            # Jobs that have started meanwhile wait no more.
            waiting = [*islice(self.waiting, len(waiting))]
            failed = self._failing([turn.job for turn in running], waiting)
            self.remove([failed])
            return [*stopped, (failed, fault(error))]
        for turn in running:
            turn.counted = reserved(turn.job)
        stopped += [(job, None) for job in self.pause(running[count:])]
        # A job that failed leaves room for the next job. Jobs that did not fit wait while texts
        # grow.
        short = count < len(jobs) or not waits
        self._full = short and bool(self.waiting) and not any(error for _, error in stopped)
        return stopped

    def _failing(self, running: Sequence[Job], waiting: Sequence[Job]) -> Job:
        """Return the job whose memory cannot be counted, after an error in counting.

        If each job can be counted alone, it is the running job that began last, or the job that was
        to start next if the running jobs can be counted together.
        """
        for jobs in [*([job] for job in (*running, *waiting)), running]:
            try:
                memory_of((job.prepared, reserved(job)) for job in jobs)
            except BaseException:
                return jobs[-1]
        return waiting[0] if waiting else running[-1]

    @property
    def _most_bytes(self) -> float:
        limit = self.limits.cache_bytes
        return float("inf") if limit is None else limit


def require_enough_lanes(prepared: Prepared, limits: Limits) -> None:
    """Raise RequestError for a formula that needs more lanes than the engine has."""
    lanes, limit = prepared.plan.lanes, limits.max_lanes
    if lanes > limit:
        raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {limit}")


def reserved(job: Job) -> int:
    """Return the number of tokens after the prompt of a job for which memory is counted."""
    return min(job.prepared.budget.more, job.tokens_held + RESERVE)


def memory_of(requests: Iterable[Counted]) -> int:
    """Return the bytes that these requests need together."""
    return bytes_needed(text for prepared, more in requests for text in prepared.texts(more))
