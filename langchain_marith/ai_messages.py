"""Convert the engine's answers to LangChain's messages: text, calls, usage and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

import marith
from langchain_marith.invocation import PROVIDER
from marith.openai_format import (
    composition_costs,
    finish_fields,
    from_inspection,
    from_logprobs,
)

# With output_version="v1", LangChain gives text and reasoning the indices 0, 1, …, and merges
# blocks that have the same index. Calls therefore get indices from 1000, which text and reasoning
# do not reach.
_FIRST_CALL = 1000


def to_message(options: marith.Options, completion: marith.Completion) -> AIMessage:
    """Return a whole answer as a message. Calls that were cut off are invalid tool calls."""
    calls, cut_off = _calls(completion.calls)
    return AIMessage(
        content=completion.text,
        additional_kwargs=reasoning_kwargs(completion),
        tool_calls=calls,
        invalid_tool_calls=cut_off,
        usage_metadata=_usage(completion),
        response_metadata=metadata(options, completion) | from_logprobs(completion.logprobs),
    )


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Converts the engine's chunks to LangChain's, in the message format `output_version`.

    With `collects`, the last chunk has the log-probabilities of the whole answer, because
    LangChain's event streams drop those of the other chunks.
    """

    options: marith.Options
    output_version: str | None
    collects: bool

    def chunks(
        self, chunk: marith.Chunk, completion: marith.Completion | None
    ) -> list[ChatGenerationChunk]:
        """Return a message for each kind of content in a chunk.

        LangChain misreads a message with several kinds of content. If there is a completion, one
        more message has its usage, costs and finish reason.
        """
        messages = []
        if chunk.reasoning:
            messages.append(AIMessageChunk(content="", additional_kwargs=reasoning_kwargs(chunk)))
        if chunk.text:
            messages.append(AIMessageChunk(content=chunk.text))
        first = _FIRST_CALL if self.output_version == "v1" else 0
        for call in chunk.calls:
            piece = tool_call_chunk(
                name=call.name, args=call.arguments, id=call.id, index=first + call.index
            )
            messages.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
        if chunk.logprobs and not self.collects:
            messages = messages or [AIMessageChunk(content="")]
            messages[0].response_metadata = from_logprobs(chunk.logprobs)
        if completion is not None:
            messages.append(self._last(completion))
        return [ChatGenerationChunk(message=message) for message in messages]

    def _last(self, completion: marith.Completion) -> AIMessageChunk:
        """Return the last chunk, with the fields that only one chunk may have.

        LangChain merges all chunks of an answer by adding their fields.
        """
        logprobs = from_logprobs(completion.logprobs if self.collects else None)
        return AIMessageChunk(
            content="",
            usage_metadata=_usage(completion),
            response_metadata=metadata(self.options, completion) | logprobs,
            chunk_position="last",
        )


def metadata(options: marith.Options, completion: marith.Completion) -> dict[str, Any]:
    """Return the model's name, the finish reason, the costs and the inspection, as plain data.

    Traces contain these data, so terms appear by name, without their texts.
    """
    completion = completion.without_texts(options.names_of_terms)
    return {
        "model_name": options.speaks_as,
        "model_provider": PROVIDER,
        **finish_fields(completion),
        "composition": composition_costs(completion),
        **from_inspection(completion.inspection),
    }


def reasoning_kwargs(part: marith.Chunk | marith.Completion) -> dict[str, str]:
    """Return the reasoning before an answer as `additional_kwargs`, or an empty dict."""
    return {"reasoning_content": part.reasoning} if part.reasoning else {}


def _usage(completion: marith.Completion) -> UsageMetadata:
    usage = completion.usage
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens),
    )


def _calls(calls: Sequence[marith.ToolCall]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    whole, cut_off = [], []
    for call in calls:
        try:
            whole.append(tool_call(name=call.name, args=call.parsed, id=call.id))
        except ValueError as error:
            problem = f"these arguments were cut off: {error}"
            cut_off.append(
                invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=problem)
            )
    return whole, cut_off
