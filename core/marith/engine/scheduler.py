"""The loop: jobs join and leave at token boundaries; one thread owns the models."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from marith.engine.job import Job
from marith.engine.step import Turn, step
from marith.engine.threads import forking, shutdown, workers
from marith.engine.threads.deadline import waitable
from marith.errors import Busy, EngineClosed, RequestError, fault
from marith.request.limits import Limits
from marith.speculation.adaptive import Controller

FORKED = "the process was forked while the request ran; it goes on in the parent"
CLOSED = "the engine is closed"


class Scheduler:
    """Runs jobs from any thread or task on one thread of its own, first come, first served.

    A job waits until its own lanes fit, and none overtakes it: none starves. Nothing that a job
    raises ends the thread. A second thread ends jobs at their deadlines, whatever the first one
    does meanwhile. In a forked child both begin anew over the same weights. `threads` is how many
    OpenMP threads a pass takes, None for as many as torch has.
    """

    def __init__(self, limits: Limits, threads: int | None = None, device: str = "cpu") -> None:
        self.limits = limits
        self.device = device
        self._threads = threads
        self.steps = 0
        self._controller = Controller()
        self._waiting: deque[Job] = deque()
        self._active: list[Turn] = []
        self._orphans: list[Job] = []  # of a forked child: the parent's jobs, whose lanes are held
        self._closed = ""  # why it serves no more
        self._thread: threading.Thread | None
        self._watch: threading.Thread | None
        self._begin()
        self._thread = self._started(self._run)
        forking.follow(self)
        shutdown.close_at_exit(self)

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if it could never run, or if too many wait."""
        lanes, most = job.reader.plan.lanes, self.limits.max_lanes
        if lanes > most:
            raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {most}")
        with self._changed:
            self.require_open()
            self._waiting.append(job)
            queued = len(self._waiting) - self._fitting()
            if queued > self.limits.max_queue:
                self._waiting.pop()
                raise Busy(f"{queued - 1} requests wait already; max_queue allows no more")
            self._thread = self._thread or self._started(self._run)
            self._changed.notify()
            if job.reader.deadline.at < self._alarm:
                self._watch = self._watch or self._started(self._end_late)
                self._late.notify()

    @property
    def lanes(self) -> int:
        """How many lanes are in flight; those given up are let go before the next step."""
        return _lanes(turn.job for turn in self._active if not turn.job.abandoned)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._changed:
            return not self._waiting and not self._active

    @property
    def closed(self) -> bool:
        """Whether it serves no more."""
        return bool(self._closed)

    def require_open(self) -> None:
        """Raises EngineClosed where it serves no more, and says why."""
        if self._closed:
            raise EngineClosed(self._closed)

    def close(self) -> None:
        """Stop; whoever still waits is told that the engine is closed."""
        with self._changed:
            self._closed = self._closed or CLOSED
            self._changed.notify()
            self._late.notify()
        if self._thread and threading.current_thread() not in (self._thread, self._watch):
            self._thread.join()

    def before_fork(self) -> None:
        """Wait until the engine's thread is between two steps, and keep it there."""
        with self._changed:
            self._forks += 1
            if threading.current_thread() is not self._thread:
                self._between.wait_for(lambda: not self._stepping)

    def after_fork(self) -> None:
        """Go on, in the parent."""
        with self._changed:
            self._forks -= 1
            self._changed.notify()

    def in_child(self) -> None:
        """Serve in a forked child: on a thread that starts with the first job, without the old."""
        self._orphans += self._jobs()
        self._active, self._waiting = [], deque()
        self._begin()
        for job in self._orphans:
            job.orphan(EngineClosed(FORKED))
        if self.device != "cpu":
            self._closed = self._closed or f"{self.device} serves no forked process; use spawn"

    def _begin(self) -> None:
        """With locks that nobody holds, and without threads."""
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # there is something for the engine's thread
        self._late = threading.Condition(lock)  # a deadline is nearer than the next one known
        self._between = threading.Condition(lock)  # a step has ended
        self._alarm = math.inf
        self._forks = 0
        self._stepping = False
        self._thread = self._watch = None

    def _started(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="marith-engine", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        workers.take_threads(self._threads)
        try:
            self._release(self._orphans)
            self._orphans = []
            while self._admit():
                try:
                    self._step()
                    self._sweep()
                except BaseException as error:  # the loop's own fault: it goes on without the jobs
                    self._give_up(error)
        except BaseException as error:
            self._closed = f"the engine's thread ended with {type(error).__name__}: {error}"
        finally:
            self._end()

    def _end(self) -> None:
        """Tell everyone that it serves no more; nobody waits in vain."""
        with self._changed:
            self._closed = self._closed or CLOSED
            self._stepping = False
            self._between.notify_all()
            self._late.notify()
            jobs = self._jobs()
        why = self._closed
        if why == CLOSED:
            why = "the engine was closed while the request ran"
        for job in jobs:
            with suppress(BaseException):
                job.fail(EngineClosed(why))
        self._release(jobs)

    def _admit(self) -> bool:
        """Take in what fits, in order; sleep while there is nothing to do. False when closed."""
        if self.idle:
            workers.dismiss_team()
        with self._changed:
            self._stepping = False
            self._between.notify_all()
            self._changed.wait_for(self._has_work)
            for _ in range(self._fitting()):
                self._active.append(Turn(self._waiting.popleft()))
            self._stepping = not self._closed
            return self._stepping

    def _has_work(self) -> bool:
        return not self._forks and bool(self._closed or self._waiting or self._active)

    def _fitting(self) -> int:
        """How many of those who wait have their lanes at once: the first ones, in order."""
        lanes = self.lanes
        for i, job in enumerate(self._waiting):
            lanes += job.reader.plan.lanes
            if lanes > self.limits.max_lanes:
                return i
        return len(self._waiting)

    def _step(self) -> None:
        self._leave([turn.job for turn in self._active if turn.job.abandoned])
        if not self._active:
            return
        self.steps += 1
        try:
            step(self._active, self._controller)
        except BaseException:  # someone's fault: ask one by one whose, and harm no other
            for turn in self._active:
                if not (turn.job.done or turn.job.abandoned):
                    self._step_alone(turn)

    def _step_alone(self, turn: Turn) -> None:
        try:
            step([turn], self._controller)
        except BaseException as error:
            turn.job.fail(fault(error))

    def _sweep(self) -> None:
        """Let go of what is done or given up, and of its lanes."""
        with self._changed:
            self._leave([job for job in self._jobs() if job.done or job.abandoned])

    def _leave(self, gone: Sequence[Job]) -> None:
        """These jobs go, and their lanes with them."""
        if not gone:
            return
        ids = set(map(id, gone))
        self._release(gone)
        with self._changed:
            self._active = [turn for turn in self._active if id(turn.job) not in ids]
            self._waiting = deque(job for job in self._waiting if id(job) not in ids)

    def _give_up(self, error: BaseException) -> None:
        """Fail all that run, for an error that is nobody's."""
        jobs = [turn.job for turn in self._active]
        for job in jobs:
            with suppress(BaseException):
                job.fail(fault(error))
        self._leave(jobs)

    def _release(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            for term, scorer in job.reader.scorers.items():
                with suppress(BaseException):  # the lane is let go before anything is moved
                    scorer.release(job.reader.lanes[term])

    def _end_late(self) -> None:
        """End each job at its deadline; sleep until the next one."""
        while not self._closed:
            with self._changed:
                jobs = [job for job in self._jobs() if not (job.done or job.abandoned)]
                late = [job for job in jobs if job.reader.deadline.left <= 0]
                if not late and not self._closed:
                    self._alarm = min((job.reader.deadline.at for job in jobs), default=math.inf)
                    jobs = []  # who sleeps keeps none alive
                    self._late.wait(waitable(self._alarm - time.monotonic()))
            for job in late:
                with suppress(BaseException):  # whatever one job does, the others have deadlines
                    job.fail(job.reader.deadline.exceeded())
            late = []

    def _jobs(self) -> list[Job]:
        return [*(turn.job for turn in self._active), *self._waiting]


def _lanes(jobs: Iterable[Job]) -> int:
    return sum(job.reader.plan.lanes for job in jobs)
