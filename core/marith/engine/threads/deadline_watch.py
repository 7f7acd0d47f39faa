"""A thread that ends jobs at their deadlines, whatever the engine's thread does meanwhile."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress

from marith.engine.queueing.job_queue import JobQueue
from marith.engine.threads.deadline import waitable
from marith.engine.threads.workers import ENGINE, start_thread


class DeadlineWatch:
    """Sleeps until the next deadline of a queue's jobs. Its thread starts with the first one."""

    def __init__(self, queue: JobQueue) -> None:
        self.thread: threading.Thread | None = None
        self._queue = queue
        self._nearer = threading.Condition(queue.lock)  # a deadline is nearer than the next known
        self._alarm = math.inf

    def expect(self, at: float) -> None:
        """A job has been added whose deadline is `at`, by `time.monotonic`."""
        with self._nearer:
            if at < self._alarm:
                self.thread = self.thread or start_thread(self._run, ENGINE)
                self._nearer.notify()

    def wake(self) -> None:
        """See that the queue is closed, and end the thread."""
        with self._nearer:
            self._nearer.notify()

    def _run(self) -> None:
        while not self._queue.closed:
            with self._nearer:
                jobs = [job for job in self._queue.jobs if not (job.done or job.abandoned)]
                late = [job for job in jobs if job.prepared.deadline.left <= 0]
                if not late and not self._queue.closed:
                    self._alarm = min((job.prepared.deadline.at for job in jobs), default=math.inf)
                    jobs = []  # who sleeps keeps none alive
                    self._nearer.wait(waitable(self._alarm - time.monotonic()))
            for job in late:
                with suppress(BaseException):  # whatever one job does, the others have deadlines
                    job.fail(job.prepared.deadline.exceeded())
            late = []
