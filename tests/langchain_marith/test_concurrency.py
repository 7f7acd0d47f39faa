"""Many callers on one event loop: none blocks it, and a caller that leaves frees its lanes."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from support.langchain_models import Make, clock
from support.watched_loop import (
    LONG,
    PAUSE,
    WatchedLoop,
    require_lanes_freed,
    running,
    slow_prompts,
)

import marith

_HUMAN = [HumanMessage("k l")]


@pytest.mark.parametrize("how", ["ainvoke", "astream", "with tools"])
async def test_the_event_loop_turns_while_a_model_answers(scripted: Make, how: str) -> None:
    model = scripted()
    model.invoke("Hello!")
    async with WatchedLoop() as loop:
        if how == "ainvoke":
            await model.ainvoke("Count!", **LONG)
        elif how == "astream":
            [chunk async for chunk in model.astream("Count!", **LONG)]
        else:
            await model.bind_tools([clock]).ainvoke("What time is it?")
    assert loop.turns >= 10  # a call that blocks leaves one
    assert loop.longest < PAUSE


async def test_weights_load_off_the_event_loop(tiny_dir: str, make: Make) -> None:
    model = make(max_queue=77)  # an engine of its own
    async with WatchedLoop() as loop:
        await model.ainvoke("k l")
    assert loop.turns > 1
    assert loop.longest < 2 * PAUSE
    model.engine().close()


async def test_a_cancelled_task_frees_its_lanes(make: Make) -> None:
    model = make()
    model.invoke("k l")
    for ask in (model.ainvoke, model.agenerate):
        task = asyncio.create_task(ask([_HUMAN] if ask == model.agenerate else _HUMAN, **LONG))
        engine = await running(model)
        task.cancel()
        steps = engine.status().steps
        with pytest.raises(asyncio.CancelledError):
            await task
        await require_lanes_freed(model, steps)


async def test_a_dropped_stream_frees_its_lanes(make: Make) -> None:
    model = make()
    model.invoke("k l")
    engine = model.engine()
    stream = model.stream("k l", **LONG)
    next(stream)
    stream.close()
    await require_lanes_freed(model, engine.status().steps)
    astream = model.astream("k l", **LONG)
    await anext(astream)
    await astream.aclose()
    await require_lanes_freed(model, engine.status().steps)
    for _ in model.stream("k l", **LONG):
        break  # forgotten rather than closed
    await require_lanes_freed(model, engine.status().steps)


async def test_a_timeout_counts_from_the_call(make: Make) -> None:
    model = make(timeout=0.1)
    with slow_prompts(make()) as (release, released):
        with pytest.raises(marith.DeadlineExceeded):
            await model.ainvoke("k l")
        with pytest.raises(marith.DeadlineExceeded):
            [chunk async for chunk in model.astream("k l")]
        assert not released  # the threads are at it still
        release.set()
        with pytest.raises(marith.DeadlineExceeded):
            model.invoke("k l")


async def test_a_task_that_is_cancelled_while_weights_load_leaves_no_lanes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    model.invoke("k l")
    submit, begun, made = marith.Options.submit, threading.Event(), threading.Event()

    def slow(*args: Any, **asked: Any) -> marith.Ticket:
        begun.set()
        time.sleep(0.2)
        try:
            return submit(*args, **asked)
        finally:
            made.set()

    monkeypatch.setattr(marith.Options, "submit", slow)
    task = asyncio.create_task(model.ainvoke("k l", **LONG))
    await asyncio.to_thread(begun.wait, 9)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await asyncio.to_thread(made.wait, 9)
    steps = model.engine().status().steps
    async with asyncio.timeout(9):
        while not model.engine().status().idle:
            await asyncio.sleep(0.001)
    assert model.engine().status().steps < steps + 100
