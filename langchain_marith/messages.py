"""Convert LangChain's messages to the engine's: role, text, calls, and results of tools."""

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
from marith.openai_format import (
    assistant_message,
    plain_messages,
    require_calls,
    to_tool_call,
)

# This quotes a value as marith's own errors do.
shown = marith.errors.shown


def to_dicts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's format, without LangChain's own `additional_kwargs`.

    The text and the reasoning of any provider's content blocks are kept. The result of a tool
    within a user's message becomes a message of its own. Raises RequestError for images, audio and
    files.
    """
    return [each for message in messages for each in _dicts(message)]


def _dicts(message: BaseMessage) -> Iterator[dict[str, Any]]:
    content = message.content
    if not isinstance(content, (str, list)):
        raise marith.RequestError(
            f"a message's content is a text or a list of blocks, not {shown(content)}"
        )
    as_dict: dict[str, Any] = {"role": _role(message), "content": content}
    if message.name:
        as_dict["name"] = message.name
    match message:
        case AIMessage():
            as_dict["tool_calls"] = _calls(message)
            yield assistant_message(as_dict, message.additional_kwargs)
        case ToolMessage():
            # If the content holds the results of several tools, `plain_messages` returns a message
            # for each. Their texts are joined again.
            parts = plain_messages(as_dict)
            text = "".join(part["content"] for part in parts)
            if message.status == "error" and not text.lower().startswith("error"):
                text = f"Error: {text}"
            yield {**as_dict, "content": text, "tool_call_id": message.tool_call_id}
        case _:
            yield from plain_messages(as_dict)


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


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    """Return the calls of a message, including those that were cut off."""
    calls = require_calls(message.tool_calls)
    if not all(isinstance(call, Mapping) for call in calls):
        raise marith.RequestError(f"tool_calls are a list of calls, not {shown(calls)}")
    return [
        to_tool_call(call.get("id"), call.get("name") or "", call.get("args"))
        for call in (*calls, *message.invalid_tool_calls)
    ]
