"""Convert messages of any provider to OpenAI's format, with text as their only content."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from marith.errors import RequestError, shown
from marith.request.checks import require_json, require_shallow

# This matches each word of a type such as `image_url`, `text-plain` or `cachePoint`.
_WORD = re.compile(r"[A-Z]?[a-z]+")
_MEDIA = frozenset(("image", "audio", "video", "file", "document", "media"))
_MEDIA_TYPES = ("mime_type", "mimeType", "media_type")
_REASONING = re.compile(r"(.*_)?(thinking|thought|reasoning|reasoning_content)")
# This matches the types of blocks that are not the message's text: calls, results of calls,
# citations and reasoning.
_LEFT_OUT = re.compile(
    r"(.*_)?(call|call_output|tool_use|tool_result|tool_reference|function_response|citation)"
    rf"|mcp_(list_tools|approval_.*)|{_REASONING.pattern}"
)
# Bedrock writes toolUse, which `_name` converts to tool_use.
_CALLS = ("tool_use", "tool_call", "function_call")
_RESULTS = ("tool_result", "function_response", "function_call_output")
_IDS = ("tool_use_id", "toolUseId", "tool_call_id", "call_id", "id")
# The arguments of a call are in these fields of OpenAI, LangChain and Anthropic.
_ARGUMENTS = ("arguments", "args", "input")
# The result of a call is in these fields of Anthropic, Gemini and OpenAI.
_ANSWERS = ("content", "response", "output")
# Reasoning is in these fields of LangChain, Anthropic, Bedrock, Gemini and OpenAI, or of their
# inner blocks.
_THOUGHTS = (
    "reasoning", "thinking", "reasoning_content", "reasoningContent", "reasoningText", "text",
    "content", "summary",
)  # fmt: skip


def plain_messages(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message in OpenAI's format, with text as its content.

    The assistant's reasoning becomes `reasoning_content`. The chat template keeps the part of it
    that the model was trained to see in later turns. A tool's result inside another message becomes
    a message of its own. Raises RequestError for content that is not text.
    """
    content = message.get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    said = message.get("role") == "assistant"
    plain = {**message, "content": text_of(content)}
    if plain.get("role") == "function":
        # Results had this role in OpenAI's format before tool calls had ids.
        plain["role"] = "tool"
    if said and not plain["content"] and isinstance(plain.get("refusal"), str):
        plain["content"] = plain["refusal"]
    # The reasoning is kept in `reasoning_content` alone, because a term's `hide` does not reach any
    # other field that has it.
    noted = [plain.pop(name, None) for name in ("reasoning_content", "reasoning")]
    if said and (reasoning := _reasoning(noted[0] or noted[1]) or reasoning_of(blocks)):
        plain["reasoning_content"] = reasoning
    called = [block for block in blocks if said and _name(block) in _CALLS]
    if calls := _calls(plain.pop("tool_calls", None), plain.pop("function_call", None), called):
        # The field is set only if there are calls, because some templates treat an empty list as a
        # call.
        plain["tool_calls"] = calls
    results = [_result(block) for block in blocks if not said and _name(block) in _RESULTS]
    return results if results and not plain["content"] else [*results, plain]


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a text or blocks of any provider.

    Reasoning, tool calls and their results are left out. Raises RequestError for pictures, sounds
    and files.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        raise RequestError(
            f"a message's content must be a text or a list of blocks, not {shown(content)}"
        )
    require_shallow(content, "a content")
    return "".join(map(_text, content))


def reasoning_of(blocks: Sequence[Any]) -> str:
    """Return the reasoning in blocks of any provider, or ""."""
    return _reasoning([block for block in blocks if _REASONING.fullmatch(_name(block))])


def carries_media(block: Mapping[str, Any]) -> bool:
    """Return True if a block has a picture, a sound or a file, judged by its type."""
    is_media = not _MEDIA.isdisjoint(_name(block).split("_"))
    return is_media and not _is_left_out(block) and block.get("source_type") != "text"


def to_tool_call(id: str | None, name: Any, arguments: Any) -> dict[str, Any]:  # noqa: A002 (its name)
    """Return a tool call for a message of the assistant."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def require_calls(tool_calls: Any) -> Sequence[Any]:
    """Return the calls of a message. Raises RequestError unless they are a list."""
    if not isinstance(tool_calls, (list, tuple)):
        raise RequestError(f"tool_calls must be a list of calls, not {shown(tool_calls)}")
    return tool_calls


def _reasoning(part: Any) -> str:
    """Return the text of reasoning in any provider's format; "" if it is encrypted."""
    match part:
        case str():
            return part
        case list() | tuple():
            return "\n\n".join(filter(None, map(_reasoning, part)))
        case Mapping():
            return next(filter(None, (_reasoning(part.get(name)) for name in _THOUGHTS)), "")
    return ""


def _calls(calls: Any, called_once: Any, blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the calls of a message.

    Blocks often repeat the calls in `tool_calls` and `function_call`, so blocks are read only if
    these fields have no calls.
    """
    listed = require_calls(calls or ())
    return [_call(call) for call in listed or (called_once and [called_once]) or blocks]


def _call(call: Any) -> dict[str, Any]:
    """Return a call as OpenAI writes it."""
    if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
        return dict(call)
    call = _inner(call)
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise RequestError(
            f"a call must have a function with a name and arguments, not {shown(call)}"
        )
    return to_tool_call(_first(call, _IDS), call["name"], _first(call, _ARGUMENTS))


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result from a block of a user's message (Anthropic, Bedrock, Gemini)."""
    block = _inner(block)
    answer = _first(block, _ANSWERS)
    text = _json_text(answer) if isinstance(answer, Mapping) else text_of(answer)
    failed = block.get("is_error") or block.get("status") == "error"
    result = {"role": "tool", "content": f"Error: {text}" if failed else text}
    named = {"name": block["name"]} if isinstance(block.get("name"), str) else {}
    return {**result, **named, "tool_call_id": _first(block, _IDS)}


def _inner(block: Any) -> Any:
    """Return the mapping that a block has under the name of its type, or the block itself."""
    inner = block.get(_kind(block)) if isinstance(block, Mapping) else None
    return inner if isinstance(inner, Mapping) else block


def _first(mapping: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the value of the first of `names` that the mapping has, or None."""
    return next((mapping[name] for name in names if name in mapping), None)


def _json_text(value: Any) -> str:
    require_json(value, "the answer of a tool")
    return json.dumps(value, ensure_ascii=False)


def _text(block: Any) -> str:
    """Return the text of a block; "" if it has no text for a model."""
    if isinstance(block, str):
        return block
    text = _found(block) if isinstance(block, Mapping) else None
    if text is None and _name(block) in ("", "text"):
        raise RequestError(f"only text can be read, not {shown(block)}")
    return text or ""


def _found(block: Mapping[str, Any]) -> str | None:
    """Return the text in a block, or in a block that it wraps. Raises RequestError for media."""
    if _is_left_out(block):
        return None
    if _kind(block) == "json" or [*block] == ["json"]:
        return _json_text(block.get("json", block.get("value")))
    source, text = block.get("source"), block.get("text")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
        # Anthropic writes a document of text like this.
        return text_of(source.get("content", source.get("data")))
    if carries_media(block):
        raise RequestError(f"only text can be read, not {shown(block)}")
    if isinstance(text, Mapping):
        # OpenAI's assistants and Bedrock's guarded content wrap a text once more.
        text = text.get("value", text.get("text"))
    for part in (text, block.get("refusal"), block.get("content")):
        if isinstance(part, str):
            return part
        if isinstance(part, (list, tuple)):
            return text_of(part)
    if any(block.get(name) for name in _MEDIA_TYPES):
        raise RequestError(f"only text can be read, not {shown(block)}")
    # LangChain wraps a block of another provider in the field "value".
    wrapped = (block.get(_kind(block)), block.get("value"))
    return next((_found(part) for part in wrapped if isinstance(part, Mapping)), None)


def _kind(block: Any) -> str:
    """Return the type of a block.

    In Bedrock's and Gemini's formats, this is the name of the field that holds the content.
    """
    if not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    if "text" in block:
        return "text"
    wraps = (str(name) for name, part in block.items() if isinstance(part, Mapping))
    return next(wraps, "")


def _name(block: Any) -> str:
    """Return the type of a block in lower case, with `_` between words: `tool_use` for `toolUse`.

    Gemini marks reasoning in a field next to the type.
    """
    name = "_".join(_WORD.findall(_kind(block))).lower()
    return "thought" if name and block.get("thought") is True else name


def _is_left_out(block: Mapping[str, Any]) -> bool:
    """Return True if a model does not read the block."""
    return _LEFT_OUT.fullmatch(_name(block)) is not None
