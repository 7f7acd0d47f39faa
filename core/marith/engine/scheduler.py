"""The loop: jobs join and leave at token boundaries; one thread owns the models."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from marith.engine import workers
from marith.engine.job import Job, lane_of
from marith.engine.limits import Limits
from marith.engine.pilot import Pilot
from marith.engine.step import Turn, take_step
from marith.errors import Busy, DeadlineExceeded, EngineClosed, RequestError, caused_by


class Scheduler:
    """Runs jobs from any thread or task on one thread of its own, first come, first served.

    A job waits until its own lanes fit, and none overtakes it: none starves. `threads` is how many
    OpenMP threads a pass takes, None for as many as torch has.
    """

    def __init__(self, limits: Limits, threads: int | None = None) -> None:
        self.limits = limits
        self._threads = threads
        self.steps = 0
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._active: list[Turn] = []
        self._closed = False
        self._pilot = Pilot()
        self._thread = threading.Thread(target=self._run, name="marith-engine", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if it could never run, or if too many wait."""
        lanes, most = job.reader.stages.lanes, self.limits.max_lanes
        if lanes > most:
            raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {most}")
        with self._changed:
            if self._closed:
                raise EngineClosed("the engine is closed")
            self._waiting.append(job)
            queued = len(self._waiting) - self._fitting()
            if queued > self.limits.max_queue:
                self._waiting.pop()
                raise Busy(f"{queued - 1} requests wait already; max_queue allows no more")
            self._changed.notify()

    @property
    def lanes(self) -> int:
        """How many lanes are in flight."""
        return _lanes(turn.job for turn in self._active)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._changed:
            return not self._waiting and not self._active

    def close(self) -> None:
        """Stop; whoever still waits is told that the engine is closed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        workers.take_threads(self._threads)
        try:
            while self._admit():
                self._step()
                self._sweep()
        finally:
            self._closed = True  # also if the loop itself is at fault: nobody waits in vain
            for job in [*(turn.job for turn in self._active), *self._waiting]:
                with suppress(Exception):
                    job.fail(EngineClosed("the engine was closed while the request ran"))
                    _release(job)

    def _admit(self) -> bool:
        """Take in what fits, in order; sleep while there is nothing to do. False when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._active)
            for _ in range(self._fitting()):
                self._active.append(Turn(self._waiting.popleft()))
            return not self._closed

    def _fitting(self) -> int:
        """How many of those who wait have their lanes at once: the first ones, in order."""
        lanes = self.lanes
        for i, job in enumerate(self._waiting):
            lanes += job.reader.stages.lanes
            if lanes > self.limits.max_lanes:
                return i
        return len(self._waiting)

    def _step(self) -> None:
        self._leave([turn.job for turn in self._active if turn.job.abandoned])
        if not self._active:
            return
        self.steps += 1
        try:
            take_step(self._active, self._pilot)
        except Exception:  # someone's fault: ask one by one whose, and harm no other
            for turn in self._active:
                if not turn.job.done:
                    self._step_alone(turn)

    def _step_alone(self, turn: Turn) -> None:
        try:
            take_step([turn], self._pilot)
        except Exception as error:
            turn.job.fail(caused_by(error))

    def _sweep(self) -> None:
        """Let go of what is done, too late or given up, and of its lanes."""
        now = time.monotonic()
        with self._changed:
            jobs = [*(turn.job for turn in self._active), *self._waiting]
            for job in jobs:
                if not job.done and now - job.started > job.timeout:
                    job.fail(DeadlineExceeded(f"not finished within {job.timeout} seconds"))
            self._leave([job for job in jobs if job.done or job.abandoned])

    def _leave(self, gone: list[Job]) -> None:
        """These jobs go, and their lanes with them."""
        if not gone:
            return
        ids = set(map(id, gone))
        for job in gone:
            _release(job)
        with self._changed:
            self._active = [turn for turn in self._active if id(turn.job) not in ids]
            self._waiting = deque(job for job in self._waiting if id(job) not in ids)


def _lanes(jobs: Iterable[Job]) -> int:
    return sum(job.reader.stages.lanes for job in jobs)


def _release(job: Job) -> None:
    for term, scorer in job.reader.scorers.items():
        scorer.release(lane_of(job, term))
