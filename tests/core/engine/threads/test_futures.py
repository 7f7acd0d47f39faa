"""Futures of scores: cancelled at any time, and with callbacks that may do anything."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from support.checked_engine import wait_until_idle
from support.held_passes import becomes_true, hold_passes, model_of, thread_of, tiny_engine

import marith
from marith import Engine, Request, Sampling, Stop
from marith.testing import lanes_in_use

SCORED = ("a b", "c d e")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with tiny_engine() as engine:
        yield engine


def serves(engine: Engine) -> bool:
    asked = ("a", "M.top_k(3)", None, Sampling(seed=1), Stop(3))
    return len(engine.generate(*asked, timeout=30).tokens) > 0 and not engine.closed


def test_cancelled_futures_are_dropped_and_nobody_else_notices(engine: Engine) -> None:
    want = engine.score(*SCORED)
    asked = Request("a b c", sampling=Sampling(seed=3), stop=Stop(20))
    alone = engine.submit(asked).result(30).text
    for first in range(2):
        with hold_passes(engine) as begun:  # both are cancelled in a step that they share
            beside = engine.submit(asked)
            begun.wait(20)
            futures = [engine.submit_scoring(*SCORED) for _ in range(3)]
            if first:
                assert futures[0].cancel()
        time.sleep(0.01 * first)
        cancelled = [future.cancel() for future in futures]
        for future, gone in zip(futures, cancelled, strict=True):
            if not gone and not future.cancelled():
                assert future.result(30).logprobs == pytest.approx(want, abs=1e-4)
        assert beside.result(30).text == alone
    assert serves(engine)


def test_scores_cancelled_during_their_passes_are_dropped() -> None:
    with tiny_engine() as engine:
        pending: list[Future[Any]] = []
        hook = model_of(engine).register_forward_pre_hook(
            lambda *_: pending.pop(0).cancel() if pending else None
        )
        with hold_passes(engine) as begun:
            first = engine.submit(Request("a", stop=Stop(1)))
            begun.wait(20)
            futures = [engine.submit_scoring(*SCORED), engine.submit_scoring(*SCORED)]
            pending += futures  # one in the pass that both share, one in what may follow it
        assert first.result(30).usage
        wait_until_idle(engine)
        hook.remove()
        assert futures[0].cancelled()
        assert futures[1].cancelled() or len(futures[1].result(0).logprobs) == 3
        assert serves(engine)


def test_a_cancelled_score_frees_its_lanes_within_a_step(engine: Engine) -> None:
    wait_until_idle(engine)
    with hold_passes(engine) as begun:
        future = engine.submit_scoring("a", [5] * 3000)
        begun.wait(20)
        steps = engine.status().steps
        assert future.cancel()
        assert future.cancel()  # twice is once
    wait_until_idle(engine)
    assert engine.status().steps <= steps + 1
    assert lanes_in_use(engine) == 0


async def test_a_task_that_stops_waiting_cancels_its_score(engine: Engine) -> None:
    with hold_passes(engine):
        waits = []
        for _ in range(3):
            future = asyncio.wrap_future(engine.submit_scoring(*SCORED))
            waits.append(asyncio.wait_for(future, 0.05))
        told = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each) for each in told] == [TimeoutError] * 3
    again = await asyncio.wrap_future(engine.submit_scoring(*SCORED))
    assert len(again.logprobs) == 3
    assert await asyncio.to_thread(serves, engine)


def test_callbacks_run_in_order_and_never_on_the_engines_thread(engine: Engine) -> None:
    threads: list[Any] = []
    done = threading.Event()
    with hold_passes(engine):
        future = engine.submit_scoring(*SCORED)
        for i in range(3):
            future.add_done_callback(
                lambda told, i=i: threads.append((i, told is future, threading.current_thread()))
            )
        future.add_done_callback(lambda _: done.set())
    assert done.wait(20)
    assert [each[:2] for each in threads] == [(0, True), (1, True), (2, True)]
    assert thread_of(engine) not in {each[2] for each in threads}
    late: list[Future[Any]] = []
    future.add_done_callback(late.append)  # done already: at once, and here
    assert late == [future]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_raises_or_exits_harms_nobody(
    engine: Engine, error: type[BaseException]
) -> None:
    told = threading.Event()

    def end(_: object) -> None:
        raise error("out of here")

    with hold_passes(engine):
        future = engine.submit_scoring(*SCORED)
        future.add_done_callback(end)
        future.add_done_callback(lambda _: told.set())  # the next one runs all the same
    assert told.wait(20)
    assert len(future.result(20).logprobs) == 3
    assert serves(engine)


def test_many_callbacks_ask_at_once_and_wait_for_the_callback_of_another(engine: Engine) -> None:
    wait = threading.Event()
    answers: list[Any] = []

    def ask(_: object) -> None:
        lengths = len(engine.score(*SCORED, timeout=20)), wait.wait(20)
        answers.append(lengths)

    with hold_passes(engine):
        for _ in range(64):
            engine.submit_scoring("a", "b").add_done_callback(ask)
    engine.submit_scoring(*SCORED).add_done_callback(lambda _: wait.set())
    assert becomes_true(lambda: len(answers) == 64)
    assert set(answers) == {(3, True)}


def test_a_future_keeps_its_engine_alive() -> None:
    engine = tiny_engine()
    kept, thread = weakref.ref(engine), thread_of(engine)
    with hold_passes(engine):
        future = engine.submit_scoring(*SCORED)
        del engine
        gc.collect()
    assert len(future.result(20).logprobs) == 3
    del future
    assert becomes_true(lambda: kept() is None)
    thread.join(20)
    assert not thread.is_alive()


def test_scoring_on_a_closed_engine_fails(engine: Engine) -> None:
    with tiny_engine() as other, hold_passes(other) as begun:
        future = other.submit_scoring("a", [5] * 3000)
        begun.wait(20)
        threading.Timer(0.05, other.close).start()
        assert becomes_true(lambda: other.closed)
    with pytest.raises(marith.EngineClosed):
        future.result(20)
