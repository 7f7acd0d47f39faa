"""Convert LlamaIndex's messages to the engine's: role, text, calls, and results of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    CitableBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms.llm import ToolSelection

import marith
from marith.openai_format import (
    assistant_message,
    carries_media,
    reasoning_of,
    require_calls,
    to_tool_call,
)

# This quotes a value as marith's own errors do.
shown = marith.errors.shown

_ROLES = {
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.FUNCTION: "tool",
}


def to_dicts(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's format, with reasoning and calls.

    The message of a tool has the id of the call that it answers. Raises RequestError for
    images, audio and documents: the model reads text only.
    """
    return [_dict(message) for message in messages]


def calls_of(message: ChatMessage) -> list[dict[str, Any]]:
    """Return the calls of a message in OpenAI's format, without duplicates."""
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if blocks:
        return [
            to_tool_call(each.tool_call_id, each.tool_name, each.tool_kwargs) for each in blocks
        ]
    calls = require_calls(message.additional_kwargs.get("tool_calls") or [])
    return [_call(call) for call in calls]


def _dict(message: ChatMessage) -> dict[str, Any]:
    if not isinstance(message, ChatMessage):
        raise marith.RequestError(f"a message is a ChatMessage, not {message!r}")
    role, details = _ROLES.get(message.role, message.role.value), message.additional_kwargs
    as_dict: dict[str, Any] = {"role": role, "content": "\n".join(_texts(message.blocks))}
    if calls := calls_of(message):
        if role != "assistant":
            raise marith.RequestError(
                f"only an assistant calls tools, not {role!r}: {shown(calls)}"
            )
        as_dict["tool_calls"] = calls
    if role == "assistant":
        thoughts = [b.content for b in message.blocks if isinstance(b, ThinkingBlock)]
        blocks = [{"type": "thinking", "thinking": thought} for thought in thoughts]
        as_dict["reasoning_content"] = reasoning_of(blocks)
        as_dict = assistant_message(as_dict, details)
    if role == "tool":
        as_dict |= {key: details[key] for key in ("tool_call_id", "name") if details.get(key)}
    return as_dict


def _texts(blocks: Sequence[Any]) -> list[str]:
    texts: list[str] = []
    for block in blocks:
        match block:
            case TextBlock():
                texts.append(block.text)
            case CitableBlock():
                texts += _texts(block.content)
            case _ if carries_media({"type": getattr(block, "block_type", None)}):
                raise marith.RequestError(f"only text can be read, not a {type(block).__name__}")
    return texts


def _call(call: Any) -> dict[str, Any]:
    """Convert an object of OpenAI's client, a dict or a `ToolSelection` to OpenAI's format."""
    if isinstance(call, ToolSelection):
        return to_tool_call(call.tool_id, call.tool_name, call.tool_kwargs)
    function = _part(call, "function")
    name = _part(function, "name")
    if not isinstance(name, str):
        raise marith.RequestError(
            f"a call must have a function with a name and arguments, not {shown(call)}"
        )
    return to_tool_call(_part(call, "id"), name, _part(function, "arguments"))


def _part(of: Any, name: str) -> Any:
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)
