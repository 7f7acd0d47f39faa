"""The loop of an engine: one thread takes step after step, for jobs from any thread."""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from marith.engine.admission import Admission, BytesLeft
from marith.engine.jobs.job import Job
from marith.engine.step import step
from marith.engine.threads.workers import ENGINE, forked, log, start_thread
from marith.engine.turn import Turn
from marith.errors import Busy, EngineClosed, fault
from marith.formula.tree.printing import without_texts
from marith.request.limits import EngineStatus, Limits
from marith.scoring.cpu_threads import dismiss_team, dismissing, take_threads
from marith.speculation.auto import Controller

CLOSED = "the engine is closed"
CLOSED_MEANWHILE = "the engine was closed while the request ran"
CLOSE_WITHIN = 30.0  # seconds that `close` waits for the running step
OUTLASTED = (
    "the engine's thread did not end within %g seconds: it still computes %s (%s). Its requests "
    "end now with EngineClosed, and the thread ends after this step"
)
_log = logging.getLogger(__name__)


class EngineLoop:
    """Runs jobs on one thread, which owns the models, until it is closed.

    Any thread or task may add jobs.

    Jobs join and leave between two steps. An error of a job neither ends the loop nor harms another
    job. `threads` is the number of OpenMP threads of a pass; None uses torch's default.
    """

    def __init__(
        self,
        limits: Limits,
        bytes_left: BytesLeft,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.limits = limits
        self.admission = Admission(limits, bytes_left)
        self.controller = Controller()
        self._steps = self._repeated = 0
        self._threads = threads
        # On a GPU, OpenMP workers do not slow down a pass, so `bool` stands in for a function that
        # does nothing.
        self._dismiss_team = dismissing() if device == "cpu" else bool
        # On a CPU, a pass has ended when it has been launched.
        self._text_later = device != "cpu"
        self._outlasted = False  # True after `close` has waited too long for a step
        self._thread = start_thread(self._run, ENGINE)
        atexit.register(self.close)

    @property
    def closed(self) -> str:
        """The reason why no more jobs are accepted; empty while they are."""
        return self.admission.closed

    def require_open(self) -> None:
        """Raise EngineClosed, with the reason, if no more jobs are accepted."""
        self.admission.require_open()

    def status(self, checkpoints: tuple[str, ...] = ()) -> EngineStatus:
        """Return what runs and what waits at this moment. Safe in any thread.

        `checkpoints` are the names of the loaded models.
        """
        admission = self.admission
        with admission.lock:
            running, waiting = len(admission.active), len(admission.waiting)
            counts = self._steps, checkpoints, self._repeated, admission.paused
            return EngineStatus(running, waiting, admission.lanes, *counts)

    def add(self, job: Job) -> None:
        """Queue a job. Raises at once if the job can never run, or if too many jobs wait."""
        # Idle OpenMP workers of the caller's thread would slow down the next step.
        self._dismiss_team()
        try:
            self.admission.add(job)
        except Busy as busy:
            log(_log, logging.INFO, "a request was refused: %s", busy)
            raise

    def follow(self, job: Job) -> None:
        """Queue a job that continues a finished one, before all waiting jobs."""
        self.admission.add(job, follows=True)

    def close(self) -> None:
        """Stop after the running step. Unfinished jobs fail with EngineClosed.

        If the step takes longer than CLOSE_WITHIN, a warning says what it computes. The jobs fail
        at once, and their lanes are freed when the step ends. In a forked child there is nothing to
        close.
        """
        if forked():
            return
        self.admission.close(CLOSED)
        thread = self._thread
        # The last reference to an engine may be dropped on its own thread, which cannot wait for
        # itself.
        if thread is threading.current_thread():
            return
        # A second call, such as the call at exit, does not wait for the same step again.
        thread.join(0.0 if self._outlasted else CLOSE_WITHIN)
        if not thread.is_alive():
            return
        with self.admission.lock:
            if self._outlasted:
                return
            self._outlasted = True
            jobs, running = self.admission.jobs, self.admission.active
        what = _formulas(turn.job for turn in running)
        log(_log, logging.WARNING, OUTLASTED, CLOSE_WITHIN, what, _position(thread))
        fail_all(jobs, lambda _: EngineClosed(CLOSED_MEANWHILE))

    def _run(self) -> None:
        """Run jobs until no more are accepted. The engine's thread runs this."""
        try:
            threads = take_threads(self._threads)
            log(_log, logging.INFO, "the engine's thread computes with %s", threads)
            while self.admission.admit():
                self._round()
        except BaseException as error:
            trace = "".join(traceback.format_exception(error))
            log(_log, logging.ERROR, "the engine's thread ended with an error\n%s", trace)
            self.admission.close(f"the engine's thread ended with {type(error).__name__}: {error}")
        finally:
            self._end()

    def _round(self) -> None:
        """Take a step, and remove the jobs that have ended."""
        try:
            self._step()
            self._sweep()
            # Idle OpenMP workers of this thread would slow down matrix products that other threads
            # compute.
            if not (self.admission.active or self.admission.waiting):
                dismiss_team()
        except BaseException as error:
            # No job caused this error, so all running jobs fail, and the loop goes on.
            self._give_up(error)

    def _step(self) -> None:
        # No pass is spent on a text that nobody waits for.
        if gone := [turn.job for turn in self.admission.active if turn.job.abandoned]:
            self._leave(gone)
        turns = self.admission.active
        if not turns:
            return
        self._steps += 1
        try:
            step(turns, self.controller, text_later=self._text_later)
        except BaseException:
            # One job's error must not fail the others, so the step is repeated for each job alone,
            # with the checks that say what is wrong.
            self._repeated += 1
            for turn in turns:
                if turn.job.done or turn.job.abandoned:
                    # The step may have cached NaN for a text that nobody asks for again.
                    turn.job.prepared.lanes.forget()
                else:
                    _step_alone(turn, self.controller)

    def _sweep(self) -> None:
        """Fail jobs whose deadline has passed, and remove jobs that are done or abandoned."""
        jobs, now = self.admission.jobs, time.monotonic()
        late = [job for job in jobs if job.prepared.deadline.at <= now]
        if late:
            fail_all(_unended(late), lambda job: job.prepared.deadline.exceeded())
        if gone := [job for job in jobs if job.done or job.abandoned]:
            self._leave(gone)

    def _leave(self, jobs: Sequence[Job]) -> None:
        """Remove these jobs, and free their lanes."""
        release(jobs)
        self.admission.remove(jobs)

    def _give_up(self, error: BaseException) -> None:
        """Fail all running jobs, for an error that no job caused."""
        jobs = [turn.job for turn in self.admission.active]
        fail_all(jobs, lambda _: fault(error))
        self._leave(jobs)

    def _end(self) -> None:
        """Accept no more jobs, and fail all that are left. The thread calls this at its end."""
        self.admission.close(CLOSED)
        jobs, why = self.admission.jobs, self.admission.closed
        fail_all(_unended(jobs), lambda _: EngineClosed(CLOSED_MEANWHILE if why == CLOSED else why))
        release(jobs)
        atexit.unregister(self.close)


def release(jobs: Iterable[Job]) -> None:
    """Free the lanes of these jobs."""
    for job in jobs:
        job.prepared.lanes.release()


def _unended(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that have not ended, after the text of all their tokens has been made."""
    for job in jobs:
        job.convert()
    return [job for job in jobs if not job.done]


def fail_all(jobs: Iterable[Job], error: Callable[[Job], BaseException]) -> None:
    """Fail each job with an error of its own."""
    for job in jobs:
        with suppress(BaseException):
            job.fail(error(job))


def _step_alone(turn: Turn, controller: Controller) -> None:
    try:
        step([turn], controller, checked=True)
    except BaseException as error:
        turn.job.fail(fault(error))


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
