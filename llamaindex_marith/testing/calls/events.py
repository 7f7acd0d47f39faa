"""Do observers receive each call once: its start, its parts and its end?"""

from __future__ import annotations

from typing import Any

from llama_index.core.callbacks import CallbackManager

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    CHAT_METHODS,
    ask,
    call,
    each_method,
    each_predict_method,
    each_streaming_method,
    each_tool_method,
    in_own_loop,
)
from llamaindex_marith.testing.observers import (
    Callbacks,
    RecordingRateLimiter,
    recorded_events,
    recorded_spans,
)
from llamaindex_marith.testing.tooling import TOOLS, template


def event_prefix(method: str) -> str:
    """How the names of this method's events begin."""
    return "LLMChat" if method.removesuffix("_with_tools") in CHAT_METHODS else "LLMCompletion"


class Events(LLMUnderTest):
    """Each call is recorded once, with every method."""

    @each_method
    async def test_a_call_starts_and_ends_once(self, method: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await ask(llm, method, self.question)
        expected = [f"{event_prefix(method)}StartEvent", f"{event_prefix(method)}EndEvent"]
        assert recorded.ends() == expected, f"recorded: {', '.join(recorded.ends())}"

    @each_tool_method
    async def test_a_call_with_tools_starts_and_ends_once(self, method: str) -> None:
        self.offered_tools()
        llm = self.llm()
        with recorded_events() as recorded:
            await call(getattr(llm, method), TOOLS, user_msg=self.question)
        expected = ["LLMChatStartEvent", "LLMChatEndEvent"]
        assert recorded.ends() == expected, f"recorded: {', '.join(recorded.ends())}"

    @each_predict_method
    async def test_a_template_is_asked_once(self, method: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await call(getattr(llm, method), template(self.question))
        assert len(recorded.ends()) == 2, f"recorded: {', '.join(recorded.ends())}"

    @each_streaming_method
    async def test_every_part_of_a_stream_is_heard(self, method: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            parts = await ask(llm, method, self.question)
        names = recorded.names("InProgress")
        expected = [f"{event_prefix(method)}InProgressEvent"] * len(parts)
        assert names == expected, f"{len(names)} events for {len(parts)} parts: {set(names)}"

    @each_method
    async def test_a_failed_call_starts_once_and_does_not_end(self, method: str) -> None:
        llm, question = self.failing()
        with recorded_events() as recorded:
            await self._call_that_fails(llm, method, question)
        expected = [f"{event_prefix(method)}StartEvent"]
        assert recorded.ends() == expected, f"recorded: {', '.join(recorded.ends())}"

    @each_method
    async def test_a_callback_manager_hears_each_call_once(self, method: str) -> None:
        callbacks = Callbacks()
        llm = self.llm(callback_manager=CallbackManager([callbacks]))
        await ask(llm, method, self.question)
        assert callbacks.calls == ["start", "end"], f"recorded: {', '.join(callbacks.calls)}"

    @each_method
    async def test_a_callback_manager_hears_each_failure_once(self, method: str) -> None:
        callbacks = Callbacks()
        llm, question = self.failing()
        llm.callback_manager = CallbackManager([callbacks])
        await self._call_that_fails(llm, method, question)
        assert callbacks.calls == ["start", "failed"], f"recorded: {', '.join(callbacks.calls)}"

    @each_method
    async def test_the_span_of_a_call_is_closed(self, method: str) -> None:
        llm = self.llm()
        with recorded_spans() as recorded:
            await ask(llm, method, self.question)
        assert not recorded.open_spans, f"left open: {list(recorded.open_spans)}"
        assert f".{method}-" in str([span.id_ for span in recorded.completed_spans])

    @each_method
    async def test_the_span_of_a_failed_call_is_closed(self, method: str) -> None:
        llm, question = self.failing()
        with recorded_spans() as recorded:
            await self._call_that_fails(llm, method, question)
        assert not recorded.open_spans, f"left open: {list(recorded.open_spans)}"
        closed = [*recorded.completed_spans, *recorded.dropped_spans]
        assert f".{method}-" in str([span.id_ for span in closed])

    @each_method
    async def test_what_is_heard_can_be_written_as_json(self, method: str) -> None:
        llm = self.llm()
        with recorded_events() as recorded:
            await ask(llm, method, self.question)
        events = [event for event in recorded.events if event.class_name().startswith("LLM")]
        assert events
        for event in events:
            event.model_dump_json()

    @each_method
    async def test_the_rate_limiter_is_passed_once(self, method: str) -> None:
        limiter = RecordingRateLimiter()
        await ask(self.llm(rate_limiter=limiter), method, self.question)
        expected = ["async" if method.startswith("a") else "sync"]
        assert limiter.calls == expected, f"passed {len(limiter.calls)} times: {limiter.calls}"

    @each_tool_method
    async def test_a_call_with_tools_passes_the_rate_limiter_once(self, method: str) -> None:
        self.offered_tools()
        limiter = RecordingRateLimiter()
        llm = self.llm(rate_limiter=limiter)
        await call(getattr(llm, method), TOOLS, user_msg=self.question)
        expected = ["async" if method.startswith("a") else "sync"]
        assert limiter.calls == expected, f"passed {len(limiter.calls)} times: {limiter.calls}"

    async def _call_that_fails(self, llm: Any, method: str, question: str) -> None:
        """Ask a question that must fail, in an event loop of its own, because the call may hang."""
        try:
            await in_own_loop(lambda: ask(llm, method, question), self.patience)
        except Exception:
            return
        raise AssertionError("generation that fails: nothing was raised")
