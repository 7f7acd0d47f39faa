"""What the engine answered, as LlamaIndex says it: blocks, usage, and how it came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LogProb,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

import marith
from llamaindex_marith.chat_call import Asked
from llamaindex_marith.tool_selection import PARTIAL
from marith import openai_format


@dataclass(slots=True)
class Telling:
    """A stream so far: each of its answers holds all that came, as LlamaIndex has it."""

    asked: Asked
    text: str = ""
    thought: str = ""
    calls: list[marith.ToolCall] = field(default_factory=list)

    def heard(self, chunk: marith.Chunk, completion: marith.Completion | None) -> ChatResponse:
        """All that was told with one piece more; the last one also says what it cost."""
        self.text += chunk.text
        self.thought += chunk.reasoning
        for piece in chunk.calls:
            self._take(piece)
        delta = {"thinking_delta": chunk.reasoning} if chunk.reasoning else {}
        if completion is None:
            notes: dict[str, Any] = {PARTIAL: True, **delta}
            if self.thought:
                notes["reasoning"] = self.thought
            message = _message(self.text, self.thought, self.calls)
            return ChatResponse(message=message, delta=chunk.text, additional_kwargs=notes)
        told = to_chat(self.asked, completion)
        told.delta = chunk.text
        told.additional_kwargs |= delta
        return told

    def _take(self, piece: marith.CallChunk) -> None:
        if piece.name is not None:
            self.calls.append(marith.ToolCall(piece.id or "", piece.name, piece.arguments))
            return
        last = self.calls[-1]
        self.calls[-1] = replace(last, arguments=last.arguments + piece.arguments)


def to_chat(asked: Asked, completion: marith.Completion) -> ChatResponse:
    """A whole answer: what it says, thinks and calls, what it cost and why it ended."""
    usage = openai_format.from_usage(completion.usage)
    thought = {"reasoning": completion.reasoning} if completion.reasoning else {}
    logprobs = completion.logprobs
    return ChatResponse(
        message=_message(completion.text, completion.reasoning, completion.calls),
        raw=_raw(asked, completion),
        logprobs=None if logprobs is None else [_logprobs(token) for token in logprobs],
        additional_kwargs={**usage, **thought},
    )


def to_completion(answer: ChatResponse) -> CompletionResponse:
    """The same answer to a prompt that is a text."""
    return CompletionResponse(
        text=answer.message.content or "",
        delta=answer.delta,
        raw=answer.raw,
        logprobs=answer.logprobs,
        additional_kwargs=answer.additional_kwargs,
    )


def _message(text: str, thought: str, calls: Sequence[marith.ToolCall]) -> ChatMessage:
    """Blocks of all kinds; calls are noted beside them too, where LlamaIndex's programs look."""
    notes = [openai_format.to_tool_call(call.id, call.name, call.arguments) for call in calls]
    blocks = [
        *([ThinkingBlock(content=thought)] if thought else []),
        TextBlock(text=text),
        *(
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=_arguments(call))
            for call in calls
        ),
    ]
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        blocks=blocks,
        additional_kwargs={"tool_calls": notes} if notes else {},
    )


def _arguments(call: marith.ToolCall) -> dict[str, Any] | str:
    """A call's arguments; as text while they are not whole."""
    try:
        return call.parsed
    except ValueError:
        return call.arguments


def _raw(asked: Asked, completion: marith.Completion) -> dict[str, Any]:
    """How an answer came about, as plain data."""
    usage, options = completion.usage, asked.options
    details = {"cached_tokens": usage.cached_tokens, "reasoning_tokens": usage.reasoning_tokens}
    costs = openai_format.composition(options.formula, completion)
    return {
        "usage": {**openai_format.from_usage(usage), **details},
        **openai_format.finish(completion),
        "model": options.speaks_as,
        "composition": {**costs, "faithful": options.faithful},
    }


def _logprobs(token: marith.TokenLogprob) -> list[LogProb]:
    """A token's own log-probability, and after it those of the likeliest others in its place."""
    others = (other for other in token.top if other.token != token.token)
    return [LogProb(**openai_format.from_alternative(each)) for each in (token, *others)]
