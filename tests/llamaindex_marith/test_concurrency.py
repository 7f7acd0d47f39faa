"""Many callers on one event loop: none blocks it, and a caller that leaves frees its lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, Field
from support.llamaindex_calls import Make
from support.watched_loop import (
    LONG,
    PAUSE,
    WatchedLoop,
    require_lanes_freed,
    running,
    slow_prompts,
)

import marith

QUESTION = [ChatMessage("k l")]


class Log(BaseModel):
    """A long log."""

    line: str = Field(min_length=800, max_length=800)


@pytest.mark.parametrize("way", ["stream_chat", "objects"])
async def test_the_loop_turns_while_an_answer_is_made(scripted: Make, way: str) -> None:
    model = scripted(temperature=1, max_tokens=900)
    model.complete("k l")
    prompt = PromptTemplate("k l")
    ways: dict[str, Callable[[], Any]] = {
        "stream_chat": lambda: model.astream_chat(QUESTION, **LONG),
        "objects": lambda: model.astream_structured_predict(Log, prompt),
    }
    async with WatchedLoop() as loop:
        parts = [part async for part in await ways[way]()]
    assert len(parts) > 10
    assert loop.longest < 2 * PAUSE
    assert loop.turns > 10


async def test_weights_load_off_the_event_loop(make: Make) -> None:
    model = make(max_queue=78)  # an engine of its own
    async with WatchedLoop() as loop:
        await model.achat(QUESTION)
    assert loop.turns > 1
    assert loop.longest < 2 * PAUSE
    model.engine().close()


@pytest.mark.parametrize("way", ["acomplete", "structured"])
async def test_a_cancelled_task_frees_its_lanes(make: Make, scripted: Make, way: str) -> None:
    model = make() if way == "acomplete" else scripted(temperature=1, max_tokens=900)
    model.complete("k l")
    ways: dict[str, Callable[[], Any]] = {
        "acomplete": lambda: model.acomplete("k l", **LONG),
        "structured": lambda: model.astructured_predict(Log, PromptTemplate("k l")),
    }
    task = asyncio.create_task(ways[way]())
    engine = await running(model)
    task.cancel()
    steps = engine.status().steps
    with pytest.raises(asyncio.CancelledError):
        await task
    await require_lanes_freed(model, steps)


async def test_a_dropped_stream_frees_its_lanes(scripted: Make) -> None:
    model = scripted(temperature=1, max_tokens=900)
    model.complete("k l")
    engine, prompt = model.engine(), PromptTemplate("k l")
    streams: list[Callable[[], Any]] = [
        lambda: model.stream_chat(QUESTION, **LONG),
        lambda: model.stream_complete("k l", **LONG),
        lambda: model.stream_structured_predict(Log, prompt),
    ]
    for begin in streams:
        stream = begin()
        next(stream)
        stream.close()
        await require_lanes_freed(model, engine.status().steps)
    astreams: list[Callable[[], Any]] = [
        lambda: model.astream_chat(QUESTION, **LONG),
        lambda: model.astream_complete("k l", **LONG),
        lambda: model.astream_structured_predict(Log, prompt),
    ]
    for abegin in astreams:
        astream = await abegin()
        await anext(astream)
        steps = engine.status().steps
        await astream.aclose()
        await require_lanes_freed(model, steps)
    for _ in model.stream_chat(QUESTION, **LONG):
        break  # forgotten rather than closed
    await require_lanes_freed(model, engine.status().steps)


async def test_a_timeout_counts_from_the_call(make: Make) -> None:
    model = make(timeout=0.1)
    with slow_prompts(make()) as (release, released):
        with pytest.raises(marith.DeadlineExceeded):
            await model.achat(QUESTION)
        with pytest.raises(marith.DeadlineExceeded):
            await model.astream_chat(QUESTION)
        assert not released  # the threads are at it still
        release.set()
        with pytest.raises(marith.DeadlineExceeded):
            model.chat(QUESTION)
