"""Which jobs run, which wait, and which is next."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import count, islice
from typing import TypeAlias

from marith.engine.jobs.job import Job
from marith.engine.prepare import Prepared
from marith.engine.queueing.admission import Admission, Room
from marith.engine.step import Turn
from marith.errors import Busy, EngineClosed, RequestError
from marith.request.limits import Limits

Tenant: TypeAlias = "str | None"


class JobQueue:
    """A job waits until there is room for it, and none of its tenant overtakes it.

    Callers add jobs, and the engine's thread admits and removes them between two steps. `closed`
    says why no further job is taken on; it is empty while jobs are.
    """

    def __init__(self, limits: Limits, room: Room, closed: str = "") -> None:
        self.limits = limits
        self.room = room
        self._admission = Admission(limits, room)
        self.closed = closed
        self.active: list[Turn] = []
        self.waiting = WaitingJobs()
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

    def add(self, job: Job, follows: bool = False) -> None:
        """Append a job. Raises at once if it could never run, or if too many wait.

        One that `follows` from a job that ran stands before its tenant's others, and is never too
        many.
        """
        require_enough_lanes(job.prepared, self.limits)
        with self.lock:
            self.require_open()
            if not follows:
                self._require_room(job)
            self.waiting.append(job, self.active, follows)
            self._changed.notify()

    def admit(self) -> bool:
        """Let those run that fit, in order; sleep while there is nothing to do. False when closed.

        One for which the machine lacks the memory fails with RequestError.
        The engine's thread is between two steps from here on, and in a step when this returns.
        """
        with self.lock:
            self._end_step()
            self._changed.wait_for(self._has_work)
            running = self._running()
            self.waiting.serve(self.active)
            first = self.waiting.first(self.limits.max_lanes)
            errors = self._admission.admitted(running, [job.prepared for job in first])
            chosen = [*zip(first, errors, strict=False)]
            for job, error in chosen:
                self.waiting.begin(job, error is None)
            begun = [job for job, error in chosen if error is None]
            self.active += [Turn(job, served=len(job.prepared.prefix)) for job in begun]
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
            self.waiting.remove(gone)

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
        count, most = len(self.waiting) + 1, self.limits.max_queue
        if count <= most:
            return
        waiting = [*self.waiting.first(self.limits.max_lanes), job]
        fitting = self._admission.fitting(self._running(), [one.prepared for one in waiting])
        if count - fitting > most:
            raise Busy(
                f"{count - fitting - 1} requests wait already, and max_queue is {most}: ask "
                "again later, or load the engine with a larger max_queue"
            )

    def _running(self) -> list[Prepared]:
        """What runs, except for what its callers have given up."""
        return [turn.job.prepared for turn in self.active if not turn.job.abandoned]


class WaitingJobs:
    """First come, first served within a tenant; the tenants take turns by what they were served.

    Served is what the lanes of a tenant read, in tokens, cached or not: a prompt when its job
    begins, and then each token of the text. The tenant that was served least comes next, and of
    several the one whose job came first. A tenant that had no job begins at the least that others
    were served, so nobody saves up turns; what it was served beyond that is remembered for as long
    as others have jobs (the virtual token counter of Sheng et al., "Fairness in Serving Large
    Language Models", OSDI 2024, algorithm 2). With one tenant, all jobs keep their order.
    """

    def __init__(self) -> None:
        self._lines: dict[Tenant, deque[tuple[int, Job]]] = {}
        self._served: dict[Tenant, int] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Job]:
        """All of them, first come first."""
        pairs = (pair for line in self._lines.values() for pair in line)
        return (job for _, job in sorted(pairs, key=lambda pair: pair[0]))

    def append(self, job: Job, running: Sequence[Turn], follows: bool = False) -> None:
        """One more job waits beside those that run; one that `follows` is its tenant's next."""
        tenant = job.prepared.tenant
        if tenant not in self._lines:
            self._arrive(tenant, running)
        line, number = self._lines.setdefault(tenant, deque()), next(self._numbers)
        if follows:
            line.appendleft((-number, job))
        else:
            line.append((number, job))

    def first(self, most: int) -> list[Job]:
        """The jobs that are to run next, in order, at most so many."""
        if len(self._lines) == 1:
            (line,) = self._lines.values()
            return [job for _, job in islice(line, most)]
        return list(islice(self._in_turn(), most))

    def begin(self, job: Job, runs: bool) -> None:
        """The next job of its tenant waits no longer; unless it `runs`, it has failed."""
        tenant = job.prepared.tenant
        self._lines[tenant].popleft()
        if not self._lines[tenant]:
            del self._lines[tenant]
        if runs:
            self._served[tenant] += _beginning(job.prepared)

    def serve(self, running: Sequence[Turn]) -> None:
        """Count what the texts of those that run have grown by."""
        if len(self._served) < 2:
            return  # it is counted when another tenant comes
        for turn in running:
            grown = len(turn.text) - turn.served
            if grown > 0:  # a draft that is refused, or a ban, makes a text shorter
                turn.served += grown
                prepared = turn.job.prepared
                self._served[prepared.tenant] += grown * prepared.plan.lanes

    def remove(self, gone: Collection[int]) -> None:
        """Forget the jobs with these identities."""
        for tenant, line in [*self._lines.items()]:
            left = deque(pair for pair in line if id(pair[1]) not in gone)
            if len(left) == len(line):
                continue
            if left:
                self._lines[tenant] = left
            else:
                del self._lines[tenant]

    def _arrive(self, tenant: Tenant, running: Sequence[Turn]) -> None:
        """A tenant of which nothing waits gets a job. Of the absent only debts are remembered."""
        present = {*self._lines, *(turn.job.prepared.tenant for turn in running)}
        if not present:
            self._served = {tenant: 0}
            return
        for turn in running if len(self._served) < 2 else ():
            turn.served = len(turn.text)  # while it was alone
        least = min(self._served[other] for other in present)
        debts = {s: n for s, n in self._served.items() if s in present or n > least}
        self._served = {**debts, tenant: max(debts.get(tenant, least), least)}

    def _in_turn(self) -> Iterator[Job]:
        """The jobs of several tenants, each as if those before it had begun."""
        lines = {tenant: iter(line) for tenant, line in self._lines.items()}
        heap = [(self._served[tenant], *next(line), tenant) for tenant, line in lines.items()]
        heapify(heap)  # a number belongs to one job, so no two entries compare further
        while heap:
            served, _, job, tenant = heap[0]
            yield job
            following = next(lines[tenant], None)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (served + _beginning(job.prepared), *following, tenant))


def _beginning(prepared: Prepared) -> int:
    """What a job is served when it begins: its prompt, read for each lane."""
    return prepared.plan.lanes * (prepared.prompt_tokens + 1)


def require_enough_lanes(prepared: Prepared, limits: Limits) -> None:
    """Raises RequestError for a formula that needs more lanes than there may ever be."""
    lanes, most = prepared.plan.lanes, limits.max_lanes
    if lanes > most:
        raise RequestError(f"the formula needs {lanes} lanes; max_lanes is {most}")
