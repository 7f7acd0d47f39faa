"""The loop of an engine. Jobs join and leave between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from marith.engine.job_queue import BytesLeft, JobQueue
from marith.engine.jobs.job import Job
from marith.engine.step import Turn, step
from marith.errors import fault
from marith.request.limits import EngineStatus, Limits
from marith.scoring.weights.layout.cpu_threads import dismiss_team
from marith.speculation.auto import Controller


class Scheduler:
    """The loop of one engine, run by the one thread that runs the models.

    An error of a job neither ends the loop nor harms another job.
    """

    def __init__(self, limits: Limits, bytes_left: BytesLeft) -> None:
        self.queue = JobQueue(limits, bytes_left)
        self.controller = Controller()
        self.steps = self.repeated = 0

    def run(self) -> None:
        """Take step after step until the queue is closed."""
        while self.queue.admit():
            try:
                self._step()
                self._sweep()
                if not (self.queue.active or self.queue.waiting):
                    dismiss_team()
            except BaseException as error:  # the loop's own fault: go on without the jobs
                self._give_up(error)

    def status(self) -> EngineStatus:
        """Return what runs and what waits at this moment. Safe in any thread."""
        queue = self.queue
        with queue.lock:
            active, waiting, lanes = len(queue.active), len(queue.waiting), queue.lanes
            return EngineStatus(active, waiting, lanes, self.steps, repeated=self.repeated)

    def _step(self) -> None:
        if gone := [turn.job for turn in self.queue.active if turn.job.abandoned]:
            self._leave(gone)
        turns = self.queue.active
        if not turns:
            return
        self.steps += 1
        try:
            step(turns, self.controller)
        except BaseException:  # the fault of one job: repeat the step for each job alone
            self.repeated += 1
            for turn in turns:
                if not (turn.job.done or turn.job.abandoned):
                    _step_alone(turn, self.controller)

    def _sweep(self) -> None:
        """Fail jobs that are late; remove jobs that are done or abandoned, and free their lanes."""
        jobs, now = self.queue.jobs, time.monotonic()
        late = [job for job in jobs if job.prepared.deadline.at <= now and not job.done]
        if late:
            fail_all(late, lambda job: job.prepared.deadline.exceeded())
        if gone := [job for job in jobs if job.done or job.abandoned]:
            self._leave(gone)

    def _leave(self, jobs: Sequence[Job]) -> None:
        """Remove these jobs, and free their lanes."""
        release(jobs)
        self.queue.remove(jobs)

    def _give_up(self, error: BaseException) -> None:
        """Fail all running jobs, for an error that no job caused."""
        jobs = [turn.job for turn in self.queue.active]
        fail_all(jobs, lambda _: fault(error))
        self._leave(jobs)


def release(jobs: Iterable[Job]) -> None:
    """Free the lanes of these jobs."""
    for job in jobs:
        job.prepared.lanes.release()


def _step_alone(turn: Turn, controller: Controller) -> None:
    try:
        step([turn], controller)
    except BaseException as error:
        turn.job.fail(fault(error))


def fail_all(jobs: Iterable[Job], error: Callable[[Job], BaseException]) -> None:
    """Fail each job with an error of its own."""
    for job in jobs:
        with suppress(BaseException):
            job.fail(error(job))
