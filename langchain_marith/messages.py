"""LangChain's messages as the engine reads them: a role and a text, calls, a tool's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

import marith
from marith.openai_format import require_calls, to_tool_call

shown = marith.errors.shown  # a value as marith's own errors quote it

_TEXTS = {"text", "text-plain", "input_text", "output_text"}
_CALLS = {"tool_use", "tool_call"}
# Reasoning and calls that a provider made itself are not sent again; calls that are still pieces,
# or could not be read, are in the message's own lists.
_LEFT_OUT = {
    "thinking",
    "redacted_thinking",
    "reasoning",
    "reasoning_content",
    "tool_call_chunk",
    "function_call",
    "invalid_tool_call",
    "server_tool_use",
    "server_tool_call",
    "server_tool_call_chunk",
    "server_tool_result",
}


def to_dicts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Messages in OpenAI's shape, without `additional_kwargs`, LangChain's own entries among them.

    Text is kept of the content blocks of any provider; a tool's result within a user's message
    becomes a message of its own. Raises RequestError for pictures, sounds and what is unknown.
    """
    return [each for message in messages for each in _dicts(message)]


def _dicts(message: BaseMessage) -> Iterator[dict[str, Any]]:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    if not isinstance(blocks, list):
        raise marith.RequestError(f"a content is a text or a list of blocks, not {shown(blocks)}")
    text = "".join(_text(block) for block in blocks)
    as_dict: dict[str, Any] = {"role": _role(message), "content": text}
    if message.name:
        as_dict["name"] = message.name
    match message:
        case AIMessage():
            calls = _calls(message, blocks)
            yield {**as_dict, "tool_calls": calls} if calls else as_dict
        case ToolMessage():
            failed = message.status == "error" and not text.lower().startswith("error")
            text = f"Error: {text}" if failed else text
            yield {**as_dict, "content": text, "tool_call_id": message.tool_call_id}
        case _:
            results = [_result(block) for block in blocks if _kind(block) == "tool_result"]
            yield from results
            if text or not results:
                yield as_dict


def _role(message: BaseMessage) -> str:
    match message:
        case AIMessage():
            return "assistant"
        case HumanMessage():
            return "user"
        case SystemMessage():
            return "system"
        case ToolMessage() | FunctionMessage():
            return "tool"
        case ChatMessage():
            return message.role
    raise marith.RequestError(
        f"a {type(message).__name__} cannot be sent to a model; use HumanMessage, AIMessage, "
        "SystemMessage or ToolMessage"
    )


def _kind(block: Any) -> Any:
    return block.get("type", "text") if isinstance(block, dict) else None


def _text(block: Any) -> str:
    """A block's text; empty for a call, a tool's answer, and what is left out."""
    if isinstance(block, str):
        return block
    kind = _kind(block)
    if kind in _TEXTS and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in _CALLS or kind in _LEFT_OUT or kind == "tool_result":
        return ""
    raise marith.RequestError(f"only text can be read, not a content block of type {kind!r}")


def _calls(message: AIMessage, blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """The calls of a message. Blocks often hold them a second time."""
    calls = [
        to_tool_call(each.get("id"), each.get("name"), each.get("args"))
        for each in _listed(message)
    ]
    for broken in message.invalid_tool_calls:
        calls.append(to_tool_call(broken["id"], broken["name"] or "", broken["args"] or ""))
    ids = [call["id"] for call in calls]
    for block in blocks:
        if _kind(block) in _CALLS and not (block.get("id") in ids or message.tool_calls):
            arguments = block.get("input", block.get("args", {}))
            calls.append(to_tool_call(block.get("id"), block.get("name", ""), arguments))
    return calls


def _listed(message: AIMessage) -> Sequence[Mapping[str, Any]]:
    calls = require_calls(message.tool_calls)
    if not all(isinstance(call, Mapping) for call in calls):
        raise marith.RequestError(f"tool_calls are a list of calls, not {shown(calls)}")
    return calls


def _result(block: Any) -> dict[str, Any]:
    """A tool's answer as Anthropic puts it into a user's message."""
    content = block.get("content") or ""
    parts = [content] if isinstance(content, str) else content
    text = "".join(_text(part) for part in parts)
    text = f"Error: {text}" if block.get("is_error") else text
    return {"role": "tool", "content": text, "tool_call_id": block.get("tool_use_id")}
