"""What LlamaIndex's callbacks receive of a call: its start, its parts, its end, and its usage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, TokenCountingHandler
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import ChatMessage
from llama_index.core.rate_limiter import BaseRateLimiter
from support.llamaindex_calls import COMPLETIONS, TEMPLATES, WAYS, WITH_TOOLS, Make, ask
from support.watched_loop import LONG

import marith

TOO_LONG = "k " * 1200
each_way = pytest.mark.parametrize("way", WAYS)
each_call = pytest.mark.parametrize("way", [*WAYS, *WITH_TOOLS, *TEMPLATES])


class Events(BaseEventHandler):
    """Keeps every event, in order."""

    kept: list[Any]

    def handle(self, event: Any, **_: Any) -> None:
        self.kept.append(event)

    def names(self, *parts: str) -> list[str]:
        """The names of calls' events; templates and objects around calls have their own."""
        names = [event.class_name() for event in self.kept]
        calls = [name for name in names if name.startswith(("LLMChat", "LLMCompletion"))]
        return [name for name in calls if any(part in name for part in parts)]


@pytest.fixture
def events() -> Iterator[Events]:
    handler, root = Events(kept=[]), get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


class Callbacks(BaseCallbackHandler):
    """What a callback manager hears of models: "start", and "end" or "failed"."""

    def __init__(self) -> None:
        super().__init__(event_starts_to_ignore=[], event_ends_to_ignore=[])
        self.calls: list[str] = []

    def on_event_start(
        self, event_type: CBEventType, *_: Any, event_id: str = "", **__: Any
    ) -> str:
        if event_type == CBEventType.LLM:
            self.calls.append("start")
        return event_id

    def on_event_end(self, event_type: CBEventType, payload: Any = None, **_: Any) -> None:
        if event_type == CBEventType.LLM:
            self.calls.append("failed" if "exception" in (payload or {}) else "end")

    def start_trace(self, trace_id: str | None = None) -> None: ...

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None: ...


@dataclass
class RateLimiter(BaseRateLimiter):
    """Admits every call, and keeps how each asked."""

    calls: list[str] = field(default_factory=list)

    def acquire(self, num_tokens: int = 0) -> None:
        self.calls.append("sync")

    async def async_acquire(self, num_tokens: int = 0) -> None:
        self.calls.append("async")


def kind(way: str) -> str:
    """How the names of a method's events begin."""
    return "LLMCompletion" if way in COMPLETIONS else "LLMChat"


@each_call
async def test_a_call_starts_and_ends_once_and_passes_the_rate_limiter_once(
    make: Make, events: Events, way: str
) -> None:
    callbacks, limiter = Callbacks(), RateLimiter()
    model = make(rate_limiter=limiter, callback_manager=CallbackManager([callbacks]))
    await ask(model, way)
    assert events.names("Start", "End") == [f"{kind(way)}StartEvent", f"{kind(way)}EndEvent"]
    assert callbacks.calls == ["start", "end"]
    assert limiter.calls == ["async" if way.startswith("a") else "sync"]
    for event in events.kept:
        if event.class_name().startswith(("LLMChat", "LLMCompletion")):
            event.model_dump_json()


@each_way
async def test_a_call_that_fails_raises_starts_once_and_does_not_end(
    make: Make, events: Events, way: str
) -> None:
    callbacks, model = Callbacks(), make()
    truth = (await ask(model, way))[-1].raw
    events.kept.clear()
    failing = make(callback_manager=CallbackManager([callbacks]))
    async with asyncio.timeout(20):
        with pytest.raises(marith.MarithError):
            await ask(failing, way, TOO_LONG)
    assert events.names("Start", "End") == [f"{kind(way)}StartEvent"]
    assert callbacks.calls == ["start", "failed"]
    assert (await ask(model, way))[-1].raw["usage"]["total_tokens"] == truth["usage"][
        "total_tokens"
    ]


async def test_a_stream_that_is_left_has_failed(make: Make) -> None:
    callbacks = Callbacks()
    model = make(callback_manager=CallbackManager([callbacks]))
    stream: Any = model.stream_complete("k l", **LONG)
    next(stream)
    stream.close()
    astream: Any = await model.astream_chat([ChatMessage("k l")], **LONG)
    await anext(astream)
    await astream.aclose()
    assert callbacks.calls == ["start", "failed"] * 2


@each_call
async def test_a_token_counter_counts_what_the_answer_says(
    make: Make, events: Events, way: str
) -> None:
    counter = TokenCountingHandler(tokenizer=lambda _: [])
    model = make(callback_manager=CallbackManager([counter]))
    await ask(model, way)
    response = [event for event in events.kept if "EndEvent" in event.class_name()]
    (raw,) = {str(event.response.raw) for event in response if hasattr(event, "response")}
    counts = counter.prompt_llm_token_count, counter.completion_llm_token_count
    assert min(counts) > 0
    assert f"'prompt_tokens': {counts[0]}, 'completion_tokens': {counts[1]}" in raw
