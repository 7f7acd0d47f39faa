"""What a model reads of a message in any provider's form: its text, its calls, tools' results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from marith.errors import RequestError, shown
from marith.request.checks import require_shallow

_WORD = re.compile(r"[A-Z]?[a-z]+")  # of `image_url`, `text-plain` and `cachePoint`
_MEDIA = frozenset(("image", "audio", "video", "file", "document", "media"))
_MEDIA_TYPES = ("mime_type", "mimeType", "media_type")
# Calls that a provider made on its own machines, their results, and reasoning are not read again.
_LEFT_OUT = frozenset(("call", "tool", "mcp", "citation", "reasoning", "thinking", "thought"))
_CALLS = ("tool_use", "tool_call")
_ARGUMENTS = ("arguments", "args", "input")  # of OpenAI, LangChain, Anthropic


def plain_messages(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as OpenAI writes it, with text as its content.

    A tool's result within another message becomes a message of its own. Raises RequestError for
    content that is no text.
    """
    content = message.get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    said = message.get("role") == "assistant"
    plain = {**message, "content": text_of(content)}
    if plain.get("role") == "function":  # the role of tools before they had ids
        plain["role"] = "tool"
    if said and not plain["content"] and isinstance(plain.get("refusal"), str):
        plain["content"] = plain["refusal"]
    called = [block for block in blocks if said and _kind(block) in _CALLS]
    if calls := _calls(plain.pop("tool_calls", None), plain.pop("function_call", None), called):
        plain["tool_calls"] = calls  # to templates, an empty list is a call too
    results = [_result(block) for block in blocks if not said and _kind(block) == "tool_result"]
    return results if results and not plain["content"] else [*results, plain]


def text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or the blocks of any provider.

    A block gives its text. Nothing is read of reasoning, nor of what tools of another provider
    left behind. Raises RequestError for pictures, sounds and files.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        raise RequestError(f"a message's content is a text, not {shown(content)}")
    require_shallow(content, "a content")
    return "".join(map(_text, content))


def carries_media(block: Mapping[str, Any]) -> bool:
    """Return whether a block has a picture, a sound or a file, by its type."""
    words = _words(block)
    return bool(words & _MEDIA) and not words & _LEFT_OUT and block.get("source_type") != "text"


def to_tool_call(id: str | None, name: Any, arguments: Any) -> dict[str, Any]:  # noqa: A002 (its name)
    """Return a call of a tool in a message of an assistant."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(calls: Any, called_once: Any, blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """The calls of a message, wherever it has them: blocks often have them a second time."""
    if calls and not isinstance(calls, (list, tuple)):
        raise RequestError(f"tool_calls are a list of calls, not {shown(calls)}")
    return [_call(call) for call in calls or (called_once and [called_once]) or blocks]


def _call(call: Any) -> dict[str, Any]:
    """A call as OpenAI writes it."""
    if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
        return dict(call)
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise RequestError(f"a call has a function with a name and arguments, not {shown(call)}")
    arguments = next((call[name] for name in _ARGUMENTS if name in call), None)
    return to_tool_call(call.get("id"), call["name"], arguments)


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's answer as Anthropic puts it into a user's message."""
    text = text_of(block.get("content"))
    text = f"Error: {text}" if block.get("is_error") else text
    return {"role": "tool", "content": text, "tool_call_id": block.get("tool_use_id")}


def _text(block: Any) -> str:
    """The text of a block; "" where it has none for a model."""
    if isinstance(block, str):
        return block
    text = _found(block) if isinstance(block, Mapping) else None
    if text is None and not (_words(block) - {"text"}):
        raise RequestError(f"only text can be read, not {shown(block)}")
    return text or ""


def _found(block: Mapping[str, Any]) -> str | None:
    """The text in a block, or in what it wraps. Raises RequestError for media without text."""
    if _words(block) & _LEFT_OUT:
        return None
    source, text = block.get("source"), block.get("text")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
        return text_of(source.get("content", source.get("data")))  # Anthropic's document
    if carries_media(block):
        raise RequestError(f"only text can be read, not {shown(block)}")
    if isinstance(text, Mapping):  # of OpenAI's assistants, and Bedrock's guarded content
        text = text.get("value", text.get("text"))
    for part in (text, block.get("refusal"), block.get("content")):
        if isinstance(part, str):
            return part
        if isinstance(part, (list, tuple)):
            return text_of(part)
    if any(block.get(name) for name in _MEDIA_TYPES):
        raise RequestError(f"only text can be read, not {shown(block)}")
    wrapped = (block.get(_kind(block)), block.get("value"))  # the second is LangChain's
    return next((_found(part) for part in wrapped if isinstance(part, Mapping)), None)


def _kind(block: Any) -> str:
    """The type of a block; Bedrock's and Gemini's have the name of what they hold instead."""
    if not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    if "text" in block:
        return "text"
    wraps = (str(name) for name, part in block.items() if isinstance(part, Mapping))
    return next(wraps, "")


def _words(block: Any) -> set[str]:
    """The words of a block's type; Gemini marks reasoning beside it."""
    words = {word.lower() for word in _WORD.findall(_kind(block))}
    return {"thought"} if words and block.get("thought") is True else words
