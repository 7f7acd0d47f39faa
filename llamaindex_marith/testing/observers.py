"""What observers receive of a call: events, spans, callbacks and the tokens that were counted."""

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
    """Keeps every event, in order."""

    events: list[Any]

    def handle(self, event: Any, **_: Any) -> None:
        """Keep an event."""
        self.events.append(event)

    def names(self, *parts: str) -> list[str]:
        """The names of the events of LLMs, of those that have one of `parts` in theirs."""
        names = (event.class_name() for event in self.events)
        return [name for name in names if name.startswith("LLM") and any(p in name for p in parts)]

    def ends(self) -> list[str]:
        """What started and what ended, but the frames that templates and schemas set around it."""
        frames = ("Predict", "Structured")
        return [n for n in self.names("Start", "End") if not any(frame in n for frame in frames)]


@contextmanager
def recorded_events() -> Iterator[RecordedEvents]:
    """All events of the process while this lasts."""
    recorded, root = RecordedEvents(events=[]), get_dispatcher()
    root.add_event_handler(recorded)
    try:
        yield recorded
    finally:
        root.event_handlers.remove(recorded)


@contextmanager
def spans() -> Iterator[SimpleSpanHandler]:
    """All spans of the process that open and close while this lasts."""
    seen, root = SimpleSpanHandler(), get_dispatcher()
    root.add_span_handler(seen)
    try:
        yield seen
    finally:
        root.span_handlers.remove(seen)


class Callbacks(BaseCallbackHandler):
    """Keeps what a callback manager receives about LLMs: "start", and "end" or "failed"."""

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
        """Keep a start."""
        if event_type == CBEventType.LLM:
            self.calls.append("start")
        return event_id

    def on_event_end(
        self, event_type: CBEventType, payload: Any = None, event_id: str = "", **_: Any
    ) -> None:
        """Keep an end, and whether it was one of an error."""
        if event_type == CBEventType.LLM:
            self.calls.append("failed" if "exception" in (payload or {}) else "end")

    def start_trace(self, trace_id: str | None = None) -> None:
        """Nothing is kept of traces."""

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        """Nothing is kept of traces."""


class Counter(TokenCountingHandler):
    """Counts the tokens that answers report; it estimates nothing."""

    def __init__(self) -> None:
        super().__init__(tokenizer=lambda _: [])

    @property
    def counts(self) -> tuple[int, int]:
        """Tokens of prompts and of answers."""
        return self.prompt_llm_token_count, self.completion_llm_token_count

    def manager(self) -> CallbackManager:
        """A callback manager with this counter."""
        return CallbackManager([self])


@dataclass
class Turnstile(BaseRateLimiter):
    """Counts who passes: "waits" from a loop, "blocks" from elsewhere."""

    passed: list[str] = field(default_factory=list)

    def acquire(self, num_tokens: int = 0) -> None:
        """Let through who blocks."""
        self.passed.append("blocks")

    async def async_acquire(self, num_tokens: int = 0) -> None:
        """Let through who waits."""
        self.passed.append("waits")


def usage_of(answer: Any) -> dict[str, int]:
    """Tokens of prompt and answer, and their sum, as in the raw answer."""
    raw = answer.raw if isinstance(answer.raw, dict) else dict(answer.raw or {})
    usage = raw.get("usage") or raw.get("usage_metadata")
    assert usage is not None, "the raw answer has neither usage nor usage_metadata"
    counts = usage if isinstance(usage, dict) else usage.model_dump()
    return counts_in(counts)


def counts_in(usage: dict[str, Any]) -> dict[str, int]:
    """The counts in a usage, by the names that LlamaIndex reads them by."""
    prompt = _first(usage, "prompt_tokens", "input_tokens", "prompt_token_count")
    answer = _first(usage, "completion_tokens", "output_tokens", "candidates_token_count")
    total = _first(usage, "total_tokens", "total_token_count")
    return {"prompt": prompt, "answer": answer, "total": total}


def _first(usage: dict[str, Any], *names: str) -> int:
    counts = [usage[name] for name in names if name in usage]
    assert counts, f"there is none of {names} in {sorted(usage)}"
    return int(counts[0])
