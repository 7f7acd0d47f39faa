"""The thread that owns the models of an engine."""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import traceback
from collections.abc import Iterable

from marith.engine.job_queue import BytesLeft, JobQueue
from marith.engine.jobs.job import Job
from marith.engine.scheduler import Scheduler, fail_all, release
from marith.engine.threads.workers import ENGINE, forked, log, start_thread
from marith.errors import Busy, EngineClosed
from marith.formula.tree.printing import without_texts
from marith.request.limits import Limits
from marith.scoring.weights.layout.cpu_threads import dismissing, take_threads

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

    `threads` is the number of OpenMP threads of a pass; None uses torch's default.
    """

    def __init__(
        self,
        limits: Limits,
        bytes_left: BytesLeft,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.scheduler = Scheduler(limits, bytes_left)
        self._threads = threads
        self._dismiss_team = dismissing() if device == "cpu" else bool
        self._outlasted = False  # True after `close` has waited too long for a step
        self.thread = start_thread(self._run, ENGINE)
        atexit.register(self.close)

    @property
    def queue(self) -> JobQueue:
        """The queue of jobs."""
        return self.scheduler.queue

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if the job can never run, or if too many jobs wait."""
        self._dismiss_team()  # the caller's team: idle teams slow down a step
        try:
            self.queue.add(job)
        except Busy as busy:
            log(_log, logging.INFO, "a request was refused: %s", busy)
            raise

    def follow(self, job: Job) -> None:
        """Queue a job that continues a finished one, before all waiting jobs."""
        self.queue.add(job, follows=True)

    def close(self) -> None:
        """Stop after the running step. Unfinished jobs fail with EngineClosed.

        If the step takes longer than CLOSE_WITHIN, a warning says what it computes. The jobs fail
        at once, and their lanes are freed when the step ends. In a forked child there is nothing to
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
            trace = "".join(traceback.format_exception(error))
            log(_log, logging.ERROR, "the engine's thread ended with an error\n%s", trace)
            self.queue.close(f"the engine's thread ended with {type(error).__name__}: {error}")
        finally:
            self._end()

    def _end(self) -> None:
        """End the engine's thread, and fail the jobs that still wait."""
        self.queue.close(CLOSED)
        jobs, why = self.queue.jobs, self.queue.closed
        fail_all(jobs, lambda _: EngineClosed(CLOSED_MEANWHILE if why == CLOSED else why))
        release(jobs)
        atexit.unregister(self.close)


def _formulas(jobs: Iterable[Job]) -> str:
    """Return the formulas of these jobs for a warning, without system prompts."""
    formulas = (without_texts(job.prepared.plan.whole) for job in jobs)
    return ", ".join(dict.fromkeys(formulas)) or "nothing"


def _position(thread: threading.Thread) -> str:
    """Return the line of code that a thread is running, for a warning."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "its end"
    line = traceback.extract_stack(frame)[-1]
    return f"{line.filename}:{line.lineno} in {line.name}"
