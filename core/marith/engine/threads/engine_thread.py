"""The thread that owns an engine's models: when it begins, and how it ends."""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import traceback
from collections.abc import Iterable

from marith.engine.job_queue import JobQueue, Room
from marith.engine.jobs.job import Job
from marith.engine.scheduler import Scheduler, fail_all, release
from marith.engine.threads.workers import ENGINE, forked, log, start_thread
from marith.errors import Busy, EngineClosed
from marith.formula.tree.printing import without_texts
from marith.request.limits import Limits
from marith.scoring.weights.cpu_threads import dismissing, take_threads

CLOSED = "the engine is closed"
CLOSED_MEANWHILE = "the engine was closed while the request ran"
CLOSE_WITHIN = 30.0  # seconds that `close` waits for the step that runs
OUTLASTED = (
    "the engine's thread did not end within %g seconds: it still computes %s (%s). Its requests "
    "end now with EngineClosed, and the thread ends after this step"
)
_log = logging.getLogger(__name__)


class EngineThread:
    """Runs a scheduler's loop, for jobs from any thread or task, until it is closed.

    `threads` is how many OpenMP threads a pass takes, None for as many as torch has.
    """

    def __init__(
        self,
        limits: Limits,
        room: Room,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.scheduler = Scheduler(limits, room)
        self._threads = threads
        self._dismiss_team = dismissing() if device == "cpu" else bool
        self._outlasted = False  # whether `close` has waited for a step in vain
        self.thread = start_thread(self._run, ENGINE)
        atexit.register(self.close)

    @property
    def queue(self) -> JobQueue:
        """The jobs that run and wait."""
        return self.scheduler.queue

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if it could never run, or if too many wait."""
        self._dismiss_team()  # the caller's: it waits now, and beside idle teams a step is slower
        try:
            self.queue.add(job)
        except Busy as busy:
            log(_log, logging.INFO, "a request was refused: %s", busy)
            raise

    def follow(self, job: Job) -> None:
        """Queue a job that goes on from one that ran, before all that wait."""
        self.queue.add(job, follows=True)

    def close(self) -> None:
        """Stop after the step that runs; jobs that are not done fail with EngineClosed.

        Where that step takes longer than CLOSE_WITHIN, a warning says what it computes; the jobs
        fail at once, and their lanes are let go when the step ends. A forked child has nothing to
        close.
        """
        if forked():
            return
        self.queue.close(CLOSED)
        thread = self.thread
        if thread is threading.current_thread():
            return
        thread.join(0.0 if self._outlasted else CLOSE_WITHIN)
        if not thread.is_alive():
            return
        with self.queue.lock:
            if self._outlasted:
                return
            self._outlasted = True
            jobs, running = self.queue.jobs, self.queue.active
        what = _formulas(turn.job for turn in running)
        log(_log, logging.WARNING, OUTLASTED, CLOSE_WITHIN, what, _position(thread))
        fail_all(jobs, lambda _: EngineClosed(CLOSED_MEANWHILE))

    def _run(self) -> None:
        try:
            threads = take_threads(self._threads)
            log(_log, logging.INFO, "the engine's thread computes with %s", threads)
            self.scheduler.run()
        except BaseException as error:
            self.queue.close(f"the engine's thread ended with {type(error).__name__}: {error}")
        finally:
            self._end()

    def _end(self) -> None:
        """The engine's thread ends, and no job is left waiting."""
        self.queue.close(CLOSED)
        jobs, why = self.queue.jobs, self.queue.closed
        fail_all(jobs, lambda _: EngineClosed(CLOSED_MEANWHILE if why == CLOSED else why))
        release(jobs)
        atexit.unregister(self.close)


def _formulas(jobs: Iterable[Job]) -> str:
    """What these jobs compute, for a warning: no system prompt is in it."""
    formulas = (without_texts(job.prepared.plan.whole) for job in jobs)
    return ", ".join(dict.fromkeys(formulas)) or "nothing"


def _position(thread: threading.Thread) -> str:
    """The line of code that a thread runs, for a warning."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "its end"
    line = traceback.extract_stack(frame)[-1]
    return f"{line.filename}:{line.lineno} in {line.name}"
