"""The loop: jobs join and leave at token boundaries; one thread owns the models."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from marith.engine.job import Job, lane_of
from marith.engine.step import take_step
from marith.errors import EngineClosed, RequestError


class Scheduler:
    """Runs jobs from any thread or task on one thread of its own, first come, first served.

    At most `max_lanes` lanes of language models are in flight; a job waits until its own fit.
    """

    def __init__(self, max_lanes: int) -> None:
        self.max_lanes = max_lanes
        self.steps = 0
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._active: list[Job] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="marith-engine", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if it could never run."""
        lanes = job.reader.plan.lanes
        if lanes > self.max_lanes:
            raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {self.max_lanes}")
        with self._changed:
            if self._closed:
                raise EngineClosed("the engine is closed")
            self._waiting.append(job)
            self._changed.notify()

    @property
    def lanes(self) -> int:
        """How many lanes are in flight."""
        return sum(job.reader.plan.lanes for job in self._active)

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
        try:
            while self._admit():
                self._step()
                self._sweep()
        finally:
            self._closed = True  # also if the loop itself is at fault: nobody waits in vain
            for job in [*self._active, *self._waiting]:
                with suppress(Exception):
                    job.fail(EngineClosed("the engine was closed while the request ran"))
                    _release(job)

    def _admit(self) -> bool:
        """Take in what fits, in order; sleep while there is nothing to do. False when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or self._active)
            while self._waiting and not self._closed:
                fits = self.lanes + self._waiting[0].reader.plan.lanes <= self.max_lanes
                if not fits:
                    break
                self._active.append(self._waiting.popleft())
            return not self._closed

    def _step(self) -> None:
        self._sweep()
        if not self._active:
            return
        self.steps += 1
        try:
            take_step(self._active)
        except Exception:  # someone's fault: ask one by one whose, and harm no other
            for job in self._active:
                if not job.done:
                    self._step_alone(job)

    def _step_alone(self, job: Job) -> None:
        try:
            take_step([job])
        except Exception as error:
            job.fail(error)

    def _sweep(self) -> None:
        """Let go of what is done or given up, and of its lanes."""
        gone = [job for job in self._active if job.done or job.abandoned]
        if gone:
            with self._changed:
                self._active = [job for job in self._active if job not in gone]
            for job in gone:
                _release(job)


def _release(job: Job) -> None:
    for term, scorer in job.reader.scorers.items():
        scorer.release(lane_of(job, term))
