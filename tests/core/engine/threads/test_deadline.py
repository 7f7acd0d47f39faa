"""A deadline counts from the call, and waiting ends with it, however long a step takes."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.checked_engine import wait_until_idle
from support.held_passes import becomes_true, hold_passes, overshoot, tiny_engine
from support.signals import default_signals

import marith
from marith import Engine, Grammar, Request, Stop
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.testing import lanes_in_use

TIMEOUT = 0.1
LATE = 0.05  # seconds after its deadline by which a wait has ended
LONG = Stop(3000)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with tiny_engine() as engine:
        yield engine


def late(call: Callable[[], object]) -> None:
    with pytest.raises(marith.DeadlineExceeded, match=rf"not finished within {TIMEOUT} seconds"):
        call()


async def awaited(ticket: Any) -> Any:
    return await ticket


async def listed(chunks: Any) -> list[Any]:
    return [chunk async for chunk in chunks]


WAITS: dict[str, Callable[[Engine], object]] = {
    "result": lambda e: e.submit(Request("a", stop=LONG, timeout=TIMEOUT)).result(),
    "a longer wait": lambda e: e.submit(Request("a", stop=LONG, timeout=TIMEOUT)).result(60),
    "stream": lambda e: list(e.stream("a", stop=LONG, timeout=TIMEOUT)),
    "await": lambda e: asyncio.run(awaited(e.submit(Request("a", stop=LONG, timeout=TIMEOUT)))),
    "agenerate": lambda e: asyncio.run(awaited(e.agenerate("a", stop=LONG, timeout=TIMEOUT))),
    "astream": lambda e: asyncio.run(listed(e.astream("a", stop=LONG, timeout=TIMEOUT))),
    "score": lambda e: e.score("a", "b c", timeout=TIMEOUT),
    "next_logprobs": lambda e: e.next_logprobs("a", timeout=TIMEOUT),
    "future": lambda e: e.submit_scoring("a", "b c", timeout=TIMEOUT).result(),
}


@pytest.mark.parametrize("way", WAITS)
def test_waiting_ends_at_the_deadline_while_a_pass_goes_on(engine: Engine, way: str) -> None:
    with hold_passes(engine) as begun:
        running = engine.submit(Request("b", stop=Stop(1)))
        assert begun.wait(20)
        assert overshoot(lambda: late(lambda: WAITS[way](engine)), TIMEOUT) < LATE
    assert running.result(30).usage
    wait_until_idle(engine)
    assert lanes_in_use(engine) == 0


def test_callbacks_learn_of_a_deadline_when_the_step_ends(engine: Engine) -> None:
    ended: list[Any] = []
    with hold_passes(engine) as begun:
        running = engine.submit_scoring("a", "b c", timeout=TIMEOUT)
        assert begun.wait(20)
        waiting = engine.submit_scoring("a", "b c", timeout=TIMEOUT)
        for future in (running, waiting):
            future.add_done_callback(ended.append)
        time.sleep(TIMEOUT)
    assert becomes_true(lambda: {*ended} == {running, waiting})
    # The step that ran has scored one of them. The other has not been begun.
    assert isinstance(waiting.exception(), marith.DeadlineExceeded)


def before_reading(monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]) -> None:
    """Each term waits before it reads a prompt."""
    read = PromptedScorer.read

    def waiting(self: Any, term: Any, prompt: Any) -> Any:
        wait()
        return read(self, term, prompt)

    monkeypatch.setattr(PromptedScorer, "read", waiting)


@pytest.mark.parametrize("ask", ["generate", "score", "next_logprobs", "submit_scoring"])
def test_reading_a_prompt_counts_and_is_left_between_two_terms(
    engine: Engine, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[None] = []
    before_reading(monkeypatch, lambda: waits.append(time.sleep(0.06)))
    terms = {name: name for name in "uvwxyz"}
    given = {"formula": "M + u + v + w + x + y + z", "terms": terms, "timeout": TIMEOUT}
    scored = {"continuation": "b"} if "scor" in ask else {}
    late(lambda: getattr(engine, ask)("a", **scored, **given))
    assert len(waits) <= 2  # of seven: after two the time is over
    assert engine.status().idle


@pytest.mark.parametrize("ask", ["agenerate", "astream"])
async def test_an_event_loop_does_not_wait_for_a_thread_after_the_deadline(
    engine: Engine, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, released = threading.Event(), []
    before_reading(monkeypatch, lambda: released.append(release.wait(20)))
    asked = getattr(engine, ask)("a", timeout=TIMEOUT)
    with pytest.raises(marith.DeadlineExceeded):
        await (asked if ask == "agenerate" else listed(asked))
    assert not released  # the thread is at it still
    release.set()
    await asyncio.to_thread(wait_until_idle, engine)


def test_compiling_a_grammar_counts_toward_the_deadline(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = type(engine.answers).compiled

    def slow(*given: Any) -> Any:
        time.sleep(2 * TIMEOUT)
        return compiled(*given)

    monkeypatch.setattr(type(engine.answers), "compiled", slow)
    late(lambda: engine.submit(Request("a", grammar=Grammar.regex("a"), timeout=TIMEOUT)))


@pytest.mark.parametrize("letters", ["a ", "a" * 40])
def test_a_text_that_cannot_fit_is_refused_before_it_is_read(letters: str) -> None:
    with Engine.load("pocket") as engine:
        text = letters * (3_000_000 // len(letters))
        for ask in (
            lambda: engine.generate(text),
            lambda: engine.generate([{"role": "user", "content": text}] * 3),
            lambda: engine.score("a", text),
        ):
            begun = time.process_time()
            with pytest.raises(marith.RequestError, match=r"holds 1024|room for"):
                ask()
            assert time.process_time() - begun < 0.5  # all of it takes 3 seconds
        fits = engine.generate("a b " * 200, stop=Stop(1))
        assert fits.usage.prompt_tokens == engine.count_tokens("a b " * 200)


@pytest.mark.parametrize("timeout", [float("inf"), 1e300])
def test_a_result_may_be_waited_for_without_end(engine: Engine, timeout: float) -> None:
    assert engine.submit(Request("a", stop=Stop(2))).result(timeout).usage
    with pytest.raises(marith.RequestError, match="number of seconds"):
        engine.submit(Request("a", stop=Stop(2))).result(float("nan"))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even in a background job."""
    with default_signals():
        yield


def interrupt(begun: threading.Event) -> None:
    """Send SIGINT once the main thread waits: Python misses it just before."""
    begun.wait(20)
    main = threading.main_thread().ident or 0
    waiting, end = 0, time.monotonic() + 20
    while waiting < 10:
        if time.monotonic() > end:
            return
        frame = sys._current_frames()[main]
        waiting = waiting + 1 if frame.f_code is threading.Condition.wait.__code__ else 0
        time.sleep(0.02)
    signal.pthread_kill(main, signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_caller_cancels_its_scoring(engine: Engine) -> None:
    for ask in (engine.score, engine.next_logprobs):
        with hold_passes(engine) as begun:
            threading.Thread(target=interrupt, args=[begun]).start()
            with pytest.raises(KeyboardInterrupt):
                ask("a", continuation=[5] * 3000)
            assert engine.status().lanes == 0
            steps = engine.status().steps
        wait_until_idle(engine)
        assert engine.status().steps <= steps + 1
