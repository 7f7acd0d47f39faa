"""The loop: jobs join and leave between two steps; one thread owns the models."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from marith.engine.job import Job
from marith.engine.step import Turn, step
from marith.engine.threads import forking, shutdown, workers
from marith.engine.threads.deadline_watch import DeadlineWatch
from marith.engine.threads.job_queue import JobQueue
from marith.errors import EngineClosed, fault, shown
from marith.request.limits import EngineStatus, Limits
from marith.speculation.adaptive import Controller

FORKED = "the process was forked while the request ran; it goes on in the parent"
CLOSED = "the engine is closed"
CLOSED_MEANWHILE = "the engine was closed while the request ran"
CLOSE_WITHIN = 30.0  # seconds that `close` waits for the step that runs
OUTLASTED = (
    "the engine's thread did not end within %g seconds: it still computes %s (%s). Its requests "
    "end now with EngineClosed, and the thread ends after this step"
)
_log = logging.getLogger(__name__)


class Scheduler:
    """Runs jobs from any thread or task on one thread of its own.

    Who runs and who waits is in a `JobQueue`. Nothing that a job raises ends the thread. A second
    thread, of `DeadlineWatch`, ends jobs at their deadlines. In a forked child both begin anew over
    the same weights. `threads` is how many OpenMP threads a pass takes, None for as many as torch
    has.
    """

    def __init__(self, limits: Limits, threads: int | None = None, device: str = "cpu") -> None:
        self.device = device
        self.steps = 0
        self._threads = threads
        self._controller = Controller()
        self._queue = JobQueue(limits)
        self._deadlines = DeadlineWatch(self._queue)
        self._orphans: list[Job] = []  # of a forked child: the parent's jobs, whose lanes are held
        self._outlasted = False  # whether `close` has waited for a step in vain
        self._thread: threading.Thread | None = workers.start_thread(self._run)
        forking.follow(self)
        shutdown.close_at_exit(self)

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if it could never run, or if too many wait."""
        with self._queue.lock:
            self._queue.add(job)
            self._thread = self._thread or workers.start_thread(self._run)
            self._deadlines.expect(job.reader.deadline.at)

    def status(self) -> EngineStatus:
        """What runs and what waits at this moment."""
        queue = self._queue
        with queue.lock:
            return EngineStatus(len(queue.active), len(queue.waiting), queue.lanes, self.steps)

    @property
    def closed(self) -> bool:
        """Whether it serves no more."""
        return bool(self._queue.closed)

    def require_open(self) -> None:
        """Raises EngineClosed where it serves no more, and says why."""
        self._queue.require_open()

    def close(self) -> None:
        """Stop after the step that runs; jobs that are not done fail with EngineClosed.

        Where that step takes longer than CLOSE_WITHIN, a warning says what it computes; the jobs
        fail at once, and their lanes are let go when the step ends.
        """
        self._queue.close(CLOSED)
        self._deadlines.wake()
        thread = self._thread
        if thread is None or threading.current_thread() in (thread, self._deadlines.thread):
            return
        thread.join(0.0 if self._outlasted else CLOSE_WITHIN)
        if not thread.is_alive():
            return
        with self._queue.lock:
            if self._outlasted:
                return
            self._outlasted = True
            jobs, running = self._queue.jobs, self._queue.active
        what = _formulas(turn.job for turn in running)
        _log.warning(OUTLASTED, CLOSE_WITHIN, what, _position(thread))
        _fail(jobs, lambda: EngineClosed(CLOSED_MEANWHILE))

    def before_fork(self) -> None:
        """Wait until the engine's thread is between two steps, and keep it there."""
        self._queue.hold(by_engine=threading.current_thread() is self._thread)

    def after_fork(self) -> None:
        """Go on, in the parent."""
        self._queue.resume()

    def in_child(self) -> None:
        """Serve in a forked child: on a thread that starts with the first job, without the old."""
        parents, self._queue = self._queue, JobQueue(self._queue.limits, self._queue.closed)
        parents.lock = threading.RLock()  # the old one may be held by a thread that is not here
        self._orphans += parents.jobs
        self._deadlines = DeadlineWatch(self._queue)
        self._thread = None
        for job in self._orphans:
            with suppress(BaseException):  # whatever one job does, the others are not left waiting
                job.orphan(EngineClosed(FORKED))
        if self.device != "cpu":
            self._queue.close(f"{self.device} serves no forked process; use spawn")

    def _run(self) -> None:
        """The engine's thread: a step, then the next one, until the queue is closed."""
        workers.take_threads(self._threads)
        try:
            release(self._orphans)
            self._orphans = []
            while self._queue.admit():
                try:
                    self._step()
                    self._sweep()
                except BaseException as error:  # the loop's own fault: it goes on without the jobs
                    self._give_up(error)
                if not self._queue.jobs:
                    workers.dismiss_team()
        except BaseException as error:
            self._queue.close(f"the engine's thread ended with {type(error).__name__}: {error}")
        finally:
            self._end()

    def _step(self) -> None:
        self._leave([turn.job for turn in self._queue.active if turn.job.abandoned])
        turns = self._queue.active
        if not turns:
            return
        self.steps += 1
        try:
            step(turns, self._controller)
        except BaseException:  # the fault of one job: repeat the step for each alone
            for turn in turns:
                if not (turn.job.done or turn.job.abandoned):
                    _step_alone(turn, self._controller)

    def _sweep(self) -> None:
        """Let go of jobs that are done or given up, and of their lanes."""
        with self._queue.lock:
            self._leave([job for job in self._queue.jobs if job.done or job.abandoned])

    def _leave(self, jobs: Sequence[Job]) -> None:
        """These jobs go, and their lanes with them."""
        if jobs:
            release(jobs)
            self._queue.remove(jobs)

    def _give_up(self, error: BaseException) -> None:
        """Fail all jobs that run, for an error that is not the fault of any."""
        jobs = [turn.job for turn in self._queue.active]
        _fail(jobs, lambda: fault(error))
        self._leave(jobs)

    def _end(self) -> None:
        """The engine's thread ends, and no job is left waiting."""
        jobs = self._queue.end(CLOSED)
        self._deadlines.wake()
        why = self._queue.closed
        _fail(jobs, lambda: EngineClosed(CLOSED_MEANWHILE if why == CLOSED else why))
        release(jobs)


def release(jobs: Iterable[Job]) -> None:
    """Let go of the lanes of these jobs."""
    for job in jobs:
        for term, scorer in job.reader.scorers.items():
            with suppress(BaseException):  # the lane is let go before anything is moved
                scorer.release(job.reader.lanes[term])


def _step_alone(turn: Turn, controller: Controller) -> None:
    try:
        step([turn], controller)
    except BaseException as error:
        turn.job.fail(fault(error))


def _fail(jobs: Iterable[Job], error: Callable[[], BaseException]) -> None:
    """Each job fails with an error of its own, whatever the others do."""
    for job in jobs:
        with suppress(BaseException):
            job.fail(error())


def _formulas(jobs: Iterable[Job]) -> str:
    """What these jobs compute, for a warning."""
    return ", ".join(dict.fromkeys(shown(job.reader.plan.whole) for job in jobs)) or "nothing"


def _position(thread: threading.Thread) -> str:
    """The line of code that a thread runs, for a warning."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "its end"
    line = traceback.extract_stack(frame)[-1]
    return f"{line.filename}:{line.lineno} in {line.name}"
