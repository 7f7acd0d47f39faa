"""Convert the engine's answers to LlamaIndex's responses: blocks, usage and costs."""

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
from llamaindex_marith.tool_selection import PARTIAL
from marith import openai_format


@dataclass(slots=True)
class ResponseBuilder:
    """Builds the responses of a stream.

    As LlamaIndex expects, each response has the whole text up to and including its chunk.
    """

    options: marith.Options
    text: str = ""
    reasoning: str = ""
    calls: list[marith.ToolCall] = field(default_factory=list)

    def add(self, chunk: marith.Chunk, completion: marith.Completion | None) -> ChatResponse:
        """Add a chunk, and return the response so far.

        If there is a completion, the response has its costs too.
        """
        self.text += chunk.text
        self.reasoning += chunk.reasoning
        for piece in chunk.calls:
            self._add_call(piece)
        delta = {"thinking_delta": chunk.reasoning} if chunk.reasoning else {}
        if completion is not None:
            response = to_chat(self.options, completion)
            response.delta = chunk.text
            response.additional_kwargs |= delta
            return response
        notes: dict[str, Any] = {PARTIAL: True, **delta}
        if self.reasoning:
            notes["reasoning"] = self.reasoning
        message = _message(self.text, self.reasoning, self.calls)
        return ChatResponse(message=message, delta=chunk.text, additional_kwargs=notes)

    def _add_call(self, piece: marith.CallChunk) -> None:
        if piece.name is not None:
            self.calls.append(marith.ToolCall(piece.id or "", piece.name, piece.arguments))
            return
        last = self.calls[-1]
        self.calls[-1] = replace(last, arguments=last.arguments + piece.arguments)


def to_chat(options: marith.Options, completion: marith.Completion) -> ChatResponse:
    """Return a whole answer: text, reasoning, calls, costs and the finish reason."""
    usage = openai_format.from_usage(completion.usage)
    reasoning = {"reasoning": completion.reasoning} if completion.reasoning else {}
    logprobs = completion.logprobs
    return ChatResponse(
        message=_message(completion.text, completion.reasoning, completion.calls),
        raw=_raw(options, completion),
        logprobs=None if logprobs is None else [_logprobs(token) for token in logprobs],
        additional_kwargs={**usage, **reasoning},
    )


def to_completion(response: ChatResponse) -> CompletionResponse:
    """Return an answer as the response to a text prompt."""
    return CompletionResponse(
        text=response.message.content or "",
        delta=response.delta,
        raw=response.raw,
        logprobs=response.logprobs,
        additional_kwargs=response.additional_kwargs,
    )


def _message(text: str, reasoning: str, calls: Sequence[marith.ToolCall]) -> ChatMessage:
    """Return a message of blocks. LlamaIndex's programs look for calls in `additional_kwargs`."""
    tool_calls = [openai_format.to_tool_call(call.id, call.name, call.arguments) for call in calls]
    blocks = [
        *([ThinkingBlock(content=reasoning)] if reasoning else []),
        TextBlock(text=text),
        *(
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=_arguments(call))
            for call in calls
        ),
    ]
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        blocks=blocks,
        additional_kwargs={"tool_calls": tool_calls} if tool_calls else {},
    )


def _arguments(call: marith.ToolCall) -> dict[str, Any] | str:
    """Return the arguments of a call, or their text if they are incomplete."""
    try:
        return call.parsed
    except ValueError:
        return call.arguments


def _raw(options: marith.Options, completion: marith.Completion) -> dict[str, Any]:
    """Return the model's name, the finish reason, the costs and the inspection, as plain data."""
    usage = completion.usage
    details = {"cached_tokens": usage.cached_tokens, "reasoning_tokens": usage.reasoning_tokens}
    named = completion.without_texts(options.names_of_terms)
    costs = openai_format.composition_costs(named)
    return {
        "usage": {**openai_format.from_usage(usage), **details},
        **openai_format.finish_fields(completion),
        "model": options.speaks_as,
        "composition": {**costs, "faithful": options.faithful},
        **openai_format.from_inspection(completion.inspection),
    }


def _logprobs(token: marith.TokenLogprob) -> list[LogProb]:
    """Return a token's log-probability, followed by those of the likeliest tokens at its place."""
    others = (other for other in token.top if other.token != token.token)
    return [LogProb(**openai_format.from_top_logprob(each)) for each in (token, *others)]
