"""Who runs and who waits, and the loop: jobs join and leave between two steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from marith.engine.admission import Admission, Room
from marith.engine.jobs.job import Job
from marith.engine.prepare import Prepared
from marith.engine.step import Turn, step
from marith.errors import Busy, EngineClosed, RequestError, fault
from marith.request.limits import EngineStatus, Limits
from marith.scoring.cpu_threads import dismiss_team
from marith.speculation.controller.adaptive import Controller


class Scheduler:
    """The loop of one engine, for the one thread that runs its models.

    Nothing that a job raises ends the loop, and no job is harmed by another's error.
    """

    def __init__(self, limits: Limits, room: Room) -> None:
        self.queue = JobQueue(limits, room)
        self.controller = Controller()
        self.steps = self.repeated = 0

    def run(self) -> None:
        """Take step after step until the queue is closed."""
        while self.queue.admit():
            try:
                self._step()
                self._sweep()
            except BaseException as error:  # the loop's own fault: it goes on without the jobs
                self._give_up(error)
            if not (self.queue.active or self.queue.waiting):
                dismiss_team()

    def status(self) -> EngineStatus:
        """What runs and what waits at this moment. Any thread may ask."""
        queue = self.queue
        with queue.lock:
            active, waiting, lanes = len(queue.active), len(queue.waiting), queue.lanes
            return EngineStatus(active, waiting, lanes, self.steps, repeated=self.repeated)

    def _step(self) -> None:
        self._leave([turn.job for turn in self.queue.active if turn.job.abandoned])
        turns = self.queue.active
        if not turns:
            return
        self.steps += 1
        try:
            step(turns, self.controller)
        except BaseException:  # the fault of one job: repeat the step for each alone
            self.repeated += 1
            for turn in turns:
                if not (turn.job.done or turn.job.abandoned):
                    _step_alone(turn, self.controller)

    def _sweep(self) -> None:
        """Let go of jobs that are done or given up, and of their lanes."""
        with self.queue.lock:
            self._leave([job for job in self.queue.jobs if job.done or job.abandoned])

    def _leave(self, jobs: Sequence[Job]) -> None:
        """These jobs go, and their lanes with them."""
        if jobs:
            release(jobs)
            self.queue.remove(jobs)

    def _give_up(self, error: BaseException) -> None:
        """Fail all jobs that run, for an error that is not the fault of any."""
        jobs = [turn.job for turn in self.queue.active]
        fail_all(jobs, lambda: fault(error))
        self._leave(jobs)


class JobQueue:
    """First come, first served: a job waits until there is room for it, and none overtakes it.

    Callers add jobs, and the engine's thread admits and removes them between two steps. `closed`
    says why no further job is taken on; it is empty while jobs are.
    """

    def __init__(self, limits: Limits, room: Room, closed: str = "") -> None:
        self.limits = limits
        self.room = room
        self._admission = Admission(limits, room)
        self.closed = closed
        self.active: list[Turn] = []
        self.waiting: deque[Job] = deque()
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)  # there is something for the engine's thread
        self._between = threading.Condition(self.lock)  # a step has ended
        self._stepping = False
        self._forks = 0  # of the process, which are under way and hold the engine's thread

    @property
    def jobs(self) -> list[Job]:
        """All of them, those that run first."""
        with self.lock:
            return [*(turn.job for turn in self.active), *self.waiting]

    @property
    def lanes(self) -> int:
        """How many lanes are in flight; those given up are let go before the next step."""
        return sum(prepared.plan.lanes for prepared in self._running())

    def require_open(self) -> None:
        """Raises EngineClosed where no further job is taken on, and says why."""
        if self.closed:
            raise EngineClosed(self.closed)

    def add(self, job: Job) -> None:
        """Append a job. Raises at once if it could never run, or if too many wait."""
        lanes, most = job.prepared.plan.lanes, self.limits.max_lanes
        if lanes > most:
            raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {most}")
        with self.lock:
            self.require_open()
            self._require_room(job)
            self.waiting.append(job)
            self._changed.notify()

    def admit(self) -> bool:
        """Let those run that fit, in order; sleep while there is nothing to do. False when closed.

        One for which the machine lacks the memory fails with RequestError.
        The engine's thread is between two steps from here on, and in a step when this returns.
        """
        with self.lock:
            self._end_step()
            self._changed.wait_for(self._has_work)
            waiting = [job.prepared for job in self.waiting]
            errors = self._admission.admitted(self._running(), waiting)
            chosen = [(self.waiting.popleft(), error) for error in errors]
            self.active += [Turn(job) for job, error in chosen if error is None]
            self._stepping = not self.closed
        for job, error in chosen:
            if error is not None:
                job.fail(error)
        return self._stepping

    def remove(self, jobs: Sequence[Job]) -> None:
        """Forget these jobs, whether they run or wait."""
        gone = set(map(id, jobs))
        with self.lock:
            self.active = [turn for turn in self.active if id(turn.job) not in gone]
            self.waiting = deque(job for job in self.waiting if id(job) not in gone)

    def close(self, why: str) -> None:
        """Take on no further job. The engine's thread learns of it between two steps."""
        with self.lock:
            self.closed = self.closed or why
            self._changed.notify()

    def end(self, why: str) -> list[Job]:
        """The engine's thread ends: there are no more steps. Returns the jobs that are left."""
        with self.lock:
            self.closed = self.closed or why
            self._end_step()
            return self.jobs

    def hold(self, by_engine: bool) -> None:
        """Keep the engine's thread between two steps, unless it is the one that asks."""
        with self.lock:
            self._forks += 1
            if not by_engine:
                self._between.wait_for(lambda: not self._stepping)

    def resume(self) -> None:
        """Let the engine's thread go on."""
        with self.lock:
            self._forks -= 1
            self._changed.notify()

    def _end_step(self) -> None:
        self._stepping = False
        self._between.notify_all()

    def _has_work(self) -> bool:
        return not self._forks and bool(self.closed or self.waiting or self.active)

    def _require_room(self, job: Job) -> None:
        """Raises Busy if too many jobs would wait, besides those that are to run at once."""
        waiting, most = [*self.waiting, job], self.limits.max_queue
        if len(waiting) <= most:
            return
        fitting = self._admission.fitting(self._running(), [one.prepared for one in waiting])
        if len(waiting) - fitting > most:
            raise Busy(
                f"{len(waiting) - fitting - 1} requests wait already, and max_queue is {most}: ask "
                "again later, or load the engine with a larger max_queue"
            )

    def _running(self) -> list[Prepared]:
        """What runs, except for what its callers have given up."""
        return [turn.job.prepared for turn in self.active if not turn.job.abandoned]


def release(jobs: Iterable[Job]) -> None:
    """Let go of the lanes of these jobs."""
    for job in jobs:
        for term, scorer in job.prepared.scorers.items():
            with suppress(BaseException):  # the lane is let go before anything is moved
                scorer.release(job.prepared.lanes[term])


def _step_alone(turn: Turn, controller: Controller) -> None:
    try:
        step([turn], controller)
    except BaseException as error:
        turn.job.fail(fault(error))


def fail_all(jobs: Iterable[Job], error: Callable[[], BaseException]) -> None:
    """Each job fails with an error of its own, whatever the others do."""
    for job in jobs:
        with suppress(BaseException):
            job.fail(error())
