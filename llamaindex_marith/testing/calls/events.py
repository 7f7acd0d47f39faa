"""Do observers hear of each call once: its start, its parts and its end?"""

from __future__ import annotations

from typing import Any

from llama_index.core.callbacks import CallbackManager

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import Callbacks, Turnstile, recorded_events, spans
from llamaindex_marith.testing.tooling import TOOLS, template
from llamaindex_marith.testing.ways import (
    CHATS,
    ask,
    call,
    each_prediction,
    each_stream,
    each_tooled,
    each_way,
    in_time,
)


def kind_of(way: str) -> str:
    """The events by which observers know this way of asking."""
    return "LLMChat" if way.removesuffix("_with_tools") in CHATS else "LLMCompletion"


class Events(LLMUnderTest):
    """Each call is recorded once, in all ways to ask."""

    @each_way
    async def test_a_call_starts_and_ends_once(self, way: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await ask(llm, way, self.question)
        ends = [f"{kind_of(way)}StartEvent", f"{kind_of(way)}EndEvent"]
        assert recorded.ends() == ends, f"recorded: {', '.join(recorded.ends())}"

    @each_tooled
    async def test_a_call_with_tools_starts_and_ends_once(self, way: str) -> None:
        self.offered_tools()
        llm = self.llm()
        with recorded_events() as recorded:
            await call(getattr(llm, way), TOOLS, user_msg=self.question)
        ends = ["LLMChatStartEvent", "LLMChatEndEvent"]
        assert recorded.ends() == ends, f"recorded: {', '.join(recorded.ends())}"

    @each_prediction
    async def test_a_template_is_asked_once(self, way: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await call(getattr(llm, way), template(self.question))
        assert len(recorded.ends()) == 2, f"recorded: {', '.join(recorded.ends())}"

    @each_stream
    async def test_every_part_of_a_stream_is_heard(self, way: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            parts = await ask(llm, way, self.question)
        names = recorded.names("InProgress")
        one_each = [f"{kind_of(way)}InProgressEvent"] * len(parts)
        assert names == one_each, f"{len(names)} events for {len(parts)} parts: {set(names)}"

    @each_way
    async def test_a_failed_call_starts_once_and_does_not_end(self, way: str) -> None:
        llm, question = self.failing()
        with recorded_events() as recorded:
            await self._failed(llm, way, question)
        start = [f"{kind_of(way)}StartEvent"]
        assert recorded.ends() == start, f"recorded: {', '.join(recorded.ends())}"

    @each_way
    async def test_a_callback_manager_hears_each_call_once(self, way: str) -> None:
        callbacks = Callbacks()
        llm = self.llm(callback_manager=CallbackManager([callbacks]))
        await ask(llm, way, self.question)
        assert callbacks.calls == ["start", "end"], f"recorded: {', '.join(callbacks.calls)}"

    @each_way
    async def test_a_callback_manager_hears_each_failure_once(self, way: str) -> None:
        callbacks = Callbacks()
        llm, question = self.failing()
        llm.callback_manager = CallbackManager([callbacks])
        await self._failed(llm, way, question)
        assert callbacks.calls == ["start", "failed"], f"recorded: {', '.join(callbacks.calls)}"

    @each_way
    async def test_the_span_of_a_call_is_closed(self, way: str) -> None:
        llm = self.llm()
        with spans() as seen:
            await ask(llm, way, self.question)
        assert not seen.open_spans, f"left open: {list(seen.open_spans)}"
        assert f".{way}-" in str([span.id_ for span in seen.completed_spans])

    @each_way
    async def test_the_span_of_a_failed_call_is_closed(self, way: str) -> None:
        llm, question = self.failing()
        with spans() as seen:
            await self._failed(llm, way, question)
        assert not seen.open_spans, f"left open: {list(seen.open_spans)}"
        assert f".{way}-" in str([s.id_ for s in (*seen.completed_spans, *seen.dropped_spans)])

    @each_way
    async def test_what_is_heard_can_be_written_as_json(self, way: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await ask(llm, way, self.question)
        events = [event for event in recorded.events if event.class_name().startswith("LLM")]
        assert events
        for event in events:
            event.model_dump_json()

    @each_way
    async def test_the_rate_limiter_is_passed_once(self, way: str) -> None:
        turnstile = Turnstile()
        await ask(self.llm(rate_limiter=turnstile), way, self.question)
        once = ["waits" if way.startswith("a") else "blocks"]
        assert turnstile.passed == once, f"passed {len(turnstile.passed)} times: {turnstile.passed}"

    @each_tooled
    async def test_a_call_with_tools_passes_the_rate_limiter_once(self, way: str) -> None:
        self.offered_tools()
        turnstile = Turnstile()
        llm = self.llm(rate_limiter=turnstile)
        await call(getattr(llm, way), TOOLS, user_msg=self.question)
        once = ["waits" if way.startswith("a") else "blocks"]
        assert turnstile.passed == once, f"passed {len(turnstile.passed)} times: {turnstile.passed}"

    async def _failed(self, llm: Any, way: str, question: str) -> None:
        """Ask what must fail, in a loop of its own: it may hang, and raise what it likes."""
        try:
            await in_time(lambda: ask(llm, way, question), self.patience)
        except Exception:
            return
        raise AssertionError("nothing was raised where generation fails")
