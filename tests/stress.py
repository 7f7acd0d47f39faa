"""Everything at once on one engine: `python tests/stress.py --scorings 10000 --minutes 30`.

Scores that are cancelled, waited for in tasks, and called back by what asks, raises and exits;
threads that generate, stream and leave; children that are forked meanwhile. Some texts have banned
words or a grammar, some prompts thousands of tokens, of which the memory for keys and values holds
a few, so that requests wait, and what is kept is evicted. Requests are paused. Each text has to be
the one that was made alone, nothing may be held in the end, and the process may not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
from support.forked_children import fork, result_of
from support.pauses import pausing, seldom

import marith
from marith import Ban, Engine, Grammar, Request, Sampling, Stop
from marith.testing import lanes_in_use, tiny_model, tiny_tokenizer

TERMS = {"x": "q w e", "y": "z z"}
FORMULAS = ("M", "2*x - M", "M - 0.9*union(x, M)", "x - 0.6*y + M")
FATES = ("wait", "wait", "cancel", "late", "task", "asks", "raises", "exits")
AT_ONCE = 128  # scores in flight
SHORT = 24  # kinds of requests with a short prompt; those after them have long ones
LONGEST = 4000  # tokens of a prompt
CACHE_BYTES = 6_000_000  # 12,000 tokens of this model
SECONDS = 120.0  # after which whoever still waits is wrong


def _request(i: int) -> Request:
    draw = random.Random(i)
    letters = draw.choices("abcdefghij", k=1 + i % 23)
    if i >= SHORT:  # a prefix in common, and an end of its own
        shared = random.Random(i % 3).choices("abcdefghij", k=LONGEST)
        letters = [*shared[: draw.randint(100, LONGEST - 23)], *letters]
    long = i % 3 == 1  # a text that outgrows what is counted when it begins
    return Request(
        " ".join(letters),
        FORMULAS[i % 4],
        TERMS,
        Sampling(seed=i, temperature=0.9),
        Stop(150, min_tokens=150) if long else Stop(4 + i % 20),
        grammar=Grammar.regex("[a-h]{5,60}") if i % 5 == 3 else None,
        ban=Ban(("b", "d")) if i % 7 == 2 else None,
    )


def _scoring(i: int) -> tuple[str, str, str, dict[str, str]]:
    draw = random.Random(i)
    text = " ".join(draw.choices("abcdefghij", k=1 + i % 90))
    return " ".join(draw.choices("klm", k=1 + i % 5)), text, FORMULAS[i % 4], TERMS


@dataclass
class Stress:
    """One engine, what was made alone on it, and what has come out since."""

    engine: Engine
    texts: list[str] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    resident: list[int] = field(default_factory=list)
    until: float = 0.0
    ended: bool = False

    def alone(self, kinds: int) -> None:
        """Make each text and each score alone."""
        self.texts = [self.engine.submit(_request(i)).result(SECONDS).text for i in range(kinds)]
        self.scores = [self.engine.score(*_scoring(i)) for i in range(kinds)]

    def text(self, i: int, told: str) -> None:
        """A text has come out."""
        self.done["texts"] += 1
        if told != self.texts[i]:
            self.wrong.append(f"text {i}: {told!r}, not {self.texts[i]!r}")

    def score(self, i: int, told: Sequence[float]) -> None:
        """Scores have come out."""
        self.done["scores"] += 1
        off = [abs(a - b) for a, b in zip(told, self.scores[i], strict=True)]
        if max(off) > 2e-3:
            self.wrong.append(f"score {i} is off by {max(off)}")

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """The work, whose own errors are told."""

        def run(*given: Any) -> None:
            try:
                work(*given)
            except Exception as error:
                self.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")

        return run

    def generate(self, seed: int) -> None:
        """One caller: whole texts, streams, and some that leave."""
        draw = random.Random(seed)
        while not self.ended:
            i = draw.randrange(len(self.texts))
            way = draw.choice(("whole", "whole", "stream", "leave", "forget", "late"))
            timeout = 1e-3 + draw.random() * 0.2 if way == "late" else None
            try:
                ticket = self.engine.submit(replace(_request(i), timeout=timeout))
                if way == "late":
                    self.text(i, ticket.result(SECONDS).text)
            except marith.DeadlineExceeded:
                self.done["late texts"] += 1
                continue
            if way == "whole":
                self.text(i, ticket.result(SECONDS).text)
            elif way == "stream":
                self.text(i, "".join(chunk.text for chunk in ticket))
            elif way == "leave":
                next(iter(ticket), None)
                ticket.cancel()
            del ticket

    def ask(self, seed: int, count: int, limit: threading.Semaphore) -> None:
        """Scores, each with a fate of its own."""
        draw = random.Random(seed)
        pending: list[tuple[int, Future[Any]]] = []
        for asked in itertools.count():
            if asked >= count and time.monotonic() >= self.until:
                break
            i, fate = draw.randrange(len(self.scores)), draw.choice(FATES)
            assert limit.acquire(timeout=SECONDS)
            if fate == "late":
                self._late(i, draw.random() * 0.02, limit)
                continue
            future = self.engine.submit_scoring(*_scoring(i), timeout=SECONDS)
            future.add_done_callback(lambda _: limit.release())
            self.done[fate] += 1
            if fate == "cancel":
                threading.Timer(draw.random() * 0.02, future.cancel).start()
            elif fate == "task":
                asyncio.run(self._task(i, future, draw.random() * 0.05))
            elif fate == "asks":
                future.add_done_callback(self.guarded(lambda _, i=i: self._again(i)))
            elif fate in ("raises", "exits"):
                future.add_done_callback(_raise if fate == "raises" else _exit)
            if fate not in ("cancel", "task"):
                pending.append((i, future))
            while len(pending) > 16:
                self._take(*pending.pop(0))
        for each in pending:
            self._take(*each)

    def child(self) -> None:
        """A forked child is told that it has no engine, and the parent goes on."""

        def work() -> str:
            try:
                return self.engine.submit(_request(0)).result(20).text
            except marith.EngineClosed:
                return "closed"

        if (told := result_of(fork(work))) != "closed":
            self.wrong.append(f"a child: {told!r}")
        self.done["children"] += 1

    def _late(self, i: int, timeout: float, limit: threading.Semaphore) -> None:
        try:
            self.score(i, self.engine.score(*_scoring(i), timeout=timeout or 1e-3))
        except marith.DeadlineExceeded:
            self.done["late"] += 1
        limit.release()

    async def _task(self, i: int, future: Future[Any], patience: float) -> None:
        try:
            told = await asyncio.wait_for(asyncio.wrap_future(future), patience)
        except TimeoutError:
            return
        self.score(i, told.logprobs)

    def _again(self, i: int) -> None:
        self.score(i, self.engine.score(*_scoring(i), timeout=SECONDS))

    def _take(self, i: int, future: Future[Any]) -> None:
        self.score(i, future.result(SECONDS).logprobs)

    def measure(self) -> None:
        """Measure the process every second until all scores are asked."""
        while not self.ended:
            self.resident.append(int(psutil.Process().memory_info().rss))
            time.sleep(1)

    def level(self) -> None:
        """In the last quarter the process is as large as in the second."""
        quarter = len(self.resident) // 4
        second, last = self.resident[quarter : 2 * quarter], self.resident[-quarter:]
        if quarter >= 30 and statistics.median(last) > 1.05 * statistics.median(second):
            self.wrong.append(f"the process grows: {second} to {last} bytes")

    def idle(self) -> None:
        """In the end the engine serves, and nothing is held."""
        end = time.monotonic() + 20
        while not self.engine.status().idle and time.monotonic() < end:
            time.sleep(0.01)
        held = lanes_in_use(self.engine)
        status = self.engine.status()
        self.done["pauses"] = status.paused
        if self.engine.closed or not status.idle or held or status.repeated:
            self.wrong.append(f"closed {self.engine.closed}, {held} lanes held, {status}")
        self.text(0, self.engine.submit(_request(0)).result(SECONDS).text)


def _raise(_: object) -> None:
    raise ValueError("a callback that raises")


def _exit(_: object) -> None:
    raise SystemExit(1)


def run(
    scorings: int,
    threads: int,
    children: int,
    kinds: int = 32,
    minutes: float = 0.0,
) -> Stress:
    """All of it; what went wrong is in the result."""

    def loaded(**limits: int) -> Engine:
        model = tiny_model(seed=1, sharpness=2.0, context_length=LONGEST + 256)
        return Engine.load(model, tokenizer=tiny_tokenizer(), max_lanes=64, **limits)

    with loaded() as engine:
        alone = Stress(engine)
        alone.alone(kinds)
    with loaded(cache_bytes=CACHE_BYTES) as engine, pausing(engine, seldom(1)):
        until = time.monotonic() + 60 * minutes
        stress = Stress(engine, alone.texts, alone.scores, until=until)
        limit, askers = threading.Semaphore(AT_ONCE), 4
        callers = [
            threading.Thread(target=stress.guarded(stress.generate), args=[i])
            for i in range(threads)
        ]
        asking = [
            threading.Thread(target=stress.guarded(stress.ask), args=[i, scorings // askers, limit])
            for i in range(askers)
        ]
        measuring = threading.Thread(target=stress.guarded(stress.measure))
        for thread in [*callers, *asking, measuring]:
            thread.start()
        for _ in range(children):
            stress.guarded(stress.child)()
            if not any(thread.is_alive() for thread in asking):
                break
        for thread in asking:
            thread.join()
        stress.ended = True
        for thread in [*callers, measuring]:
            thread.join()
        stress.idle()
        stress.level()
    return stress


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scorings", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--children", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0.0, help="at least")
    asked = parser.parse_args()
    begun = time.monotonic()
    out = run(asked.scorings, asked.threads, asked.children, minutes=asked.minutes)
    print(f"{time.monotonic() - begun:.0f} s", dict(out.done))
    print(
        "MB of the process:", [size >> 20 for size in out.resident[:: 1 + len(out.resident) // 20]]
    )
    print("\n".join(out.wrong[:20]) or "nothing wrong")
    raise SystemExit(bool(out.wrong))
