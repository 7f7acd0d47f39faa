"""What observers receive of a call: events, spans, callbacks, token counts, rate limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.callbacks import CallbackManager, CBEventType, TokenCountingHandler
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.rate_limiter import BaseRateLimiter


class RecordedEvents(BaseEventHandler):
    """Records every event, in order."""

    events: list[Any]

    def handle(self, event: Any, **_: Any) -> None:
        """Append an event."""
        self.events.append(event)

    def names(self, *parts: str) -> list[str]:
        """The names of the LLM events whose name contains one of `parts`."""
        names = (event.class_name() for event in self.events)
        return [name for name in names if name.startswith("LLM") and any(p in name for p in parts)]

    def ends(self) -> list[str]:
        """The start and end events of calls, without those of templates and schemas around them."""
        outer = ("Predict", "Structured")
        return [n for n in self.names("Start", "End") if not any(part in n for part in outer)]


@contextmanager
def recorded_events() -> Iterator[RecordedEvents]:
    """Record all events of the process within the block."""
    recorded, root = RecordedEvents(events=[]), get_dispatcher()
    root.add_event_handler(recorded)
    try:
        yield recorded
    finally:
        root.event_handlers.remove(recorded)


@contextmanager
def recorded_spans() -> Iterator[SimpleSpanHandler]:
    """Record all spans of the process that open and close within the block."""
    handler, root = SimpleSpanHandler(), get_dispatcher()
    root.add_span_handler(handler)
    try:
        yield handler
    finally:
        root.span_handlers.remove(handler)


class Callbacks(BaseCallbackHandler):
    """Records what a callback manager receives about LLMs: "start", and "end" or "failed"."""

    def __init__(self) -> None:
        super().__init__(event_starts_to_ignore=[], event_ends_to_ignore=[])
        self.calls: list[str] = []

    def on_event_start(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        parent_id: str = "",
        **_: Any,
    ) -> str:
        """Record a start."""
        if event_type == CBEventType.LLM:
            self.calls.append("start")
        return event_id

    def on_event_end(
        self, event_type: CBEventType, payload: Any = None, event_id: str = "", **_: Any
    ) -> None:
        """Record an end, or "failed" for one with an exception."""
        if event_type == CBEventType.LLM:
            self.calls.append("failed" if "exception" in (payload or {}) else "end")

    def start_trace(self, trace_id: str | None = None) -> None:
        """Traces are not recorded."""

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        """Traces are not recorded."""


class Counter(TokenCountingHandler):
    """Counts the tokens that answers report, and estimates none."""

    def __init__(self) -> None:
        super().__init__(tokenizer=lambda _: [])

    @property
    def counts(self) -> tuple[int, int]:
        """How many tokens prompts and answers had."""
        return self.prompt_llm_token_count, self.completion_llm_token_count

    def manager(self) -> CallbackManager:
        """A callback manager with this counter."""
        return CallbackManager([self])


@dataclass
class RecordingRateLimiter(BaseRateLimiter):
    """Admits every call, and records how each asked: "sync" or "async"."""

    calls: list[str] = field(default_factory=list)

    def acquire(self, num_tokens: int = 0) -> None:
        """Admit a sync call."""
        self.calls.append("sync")

    async def async_acquire(self, num_tokens: int = 0) -> None:
        """Admit an async call."""
        self.calls.append("async")


def usage_of(answer: Any) -> dict[str, int]:
    """The token counts of prompt and answer, and their sum, from the raw answer."""
    raw = answer.raw if isinstance(answer.raw, dict) else dict(answer.raw or {})
    usage = raw.get("usage") or raw.get("usage_metadata")
    assert usage is not None, "the raw answer has neither usage nor usage_metadata"
    return counts_in(usage if isinstance(usage, dict) else usage.model_dump())


def counts_in(usage: dict[str, Any]) -> dict[str, int]:
    """The counts in a usage, which may have any of the names that LlamaIndex reads."""
    prompt = _first(usage, "prompt_tokens", "input_tokens", "prompt_token_count")
    answer = _first(usage, "completion_tokens", "output_tokens", "candidates_token_count")
    total = _first(usage, "total_tokens", "total_token_count")
    return {"prompt": prompt, "answer": answer, "total": total}


def _first(usage: dict[str, Any], *names: str) -> int:
    counts = [usage[name] for name in names if name in usage]
    assert counts, f"none of {names} is in {sorted(usage)}"
    return int(counts[0])
