"""What the engine answered, as LangChain says it: text, calls, usage, and how it came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

import marith
from langchain_marith.invocation import PROVIDER, Asked
from marith.openai_format import composition, finish, from_logprobs

# With output_version="v1" LangChain numbers text and reasoning from 0 by itself, and merges what
# shares a number: calls are numbered far from them there.
_APART = 1000


def to_message(asked: Asked, completion: marith.Completion) -> AIMessage:
    """A whole answer. Calls whose arguments were cut off are its invalid ones."""
    calls, broken = _calls(completion.calls)
    thought = {"reasoning_content": completion.reasoning} if completion.reasoning else {}
    return AIMessage(
        content=completion.text,
        additional_kwargs=thought,
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=_usage(completion),
        response_metadata=metadata(asked, completion) | from_logprobs(completion.logprobs),
    )


@dataclass(frozen=True, slots=True)
class Telling:
    """A stream of chunks on its way to LangChain, for an answer in `output_version`.

    With `gathers`, log-probabilities are told once, in the end: LangChain's event streams keep
    no more than the last chunk's.
    """

    asked: Asked
    output_version: str | None
    gathers: bool

    def chunks(
        self, chunk: marith.Chunk, completion: marith.Completion | None
    ) -> Iterator[ChatGenerationChunk]:
        """What LangChain is told of a chunk; with the completion, of the end."""
        for piece in self._pieces(chunk):
            yield ChatGenerationChunk(message=AIMessageChunk(**piece))
        if completion is not None:
            yield ChatGenerationChunk(message=self._last(completion))

    def _pieces(self, chunk: marith.Chunk) -> list[dict[str, Any]]:
        """One for each kind of content: LangChain mistakes mixed ones."""
        told: list[dict[str, Any]] = []
        if chunk.reasoning:
            thought = {"reasoning_content": chunk.reasoning}
            told.append({"content": "", "additional_kwargs": thought})
        if chunk.text:
            told.append({"content": chunk.text})
        for call in chunk.calls:
            index = call.index + (_APART if self.output_version == "v1" else 0)
            piece = tool_call_chunk(name=call.name, args=call.arguments, id=call.id, index=index)
            told.append({"content": "", "tool_call_chunks": [piece]})
        if chunk.logprobs and not self.gathers:
            told = told or [{"content": ""}]
            told[0]["response_metadata"] = from_logprobs(chunk.logprobs)
        return told

    def _last(self, completion: marith.Completion) -> AIMessageChunk:
        """What is said once: LangChain adds chunks up."""
        told = metadata(self.asked, completion)
        if self.gathers:
            told |= from_logprobs(completion.logprobs)
        return AIMessageChunk(
            content="",
            usage_metadata=_usage(completion),
            response_metadata=told,
            chunk_position="last",
        )


def metadata(asked: Asked, completion: marith.Completion) -> dict[str, Any]:
    """How an answer came about, as plain data; log-probabilities aside."""
    return {
        "model_name": asked.options.speaks_as,
        "model_provider": PROVIDER,
        **finish(completion),
        "composition": composition(asked.options.formula, completion),
    }


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
    told, broken = [], []
    for call in calls:
        try:
            told.append(tool_call(name=call.name, args=call.parsed, id=call.id))
        except ValueError as error:
            problem = f"these arguments were cut off: {error}"
            broken.append(
                invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=problem)
            )
    return told, broken
