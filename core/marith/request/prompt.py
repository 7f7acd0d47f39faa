"""The prompt of a request: messages with text content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from marith.errors import RequestError, shown
from marith.formula.patterns import pattern_matches
from marith.request.checks import require_json, require_shallow, whole

_WORD = re.compile(r"[A-Z]?[a-z]+")  # of `image_url`, `text-plain` and `cachePoint`
_MEDIA = frozenset(("image", "audio", "video", "file", "document", "media"))
_MEDIA_TYPES = ("mime_type", "mimeType", "media_type")
# Blocks whose text no model reads again: calls, their results, citations and reasoning.
_LEFT_OUT = re.compile(
    r"(.*_)?(call|call_output|tool_use|tool_result|tool_reference|function_response|citation"
    r"|thinking|thought|reasoning|reasoning_content)|mcp_(list_tools|approval_.*)"
)
_CALLS = (
    "tool_use",
    "tool_call",
    "function_call",
)  # `_name` converts toolUse of Bedrock to tool_use
_RESULTS = ("tool_result", "function_response", "function_call_output")
_IDS = ("tool_use_id", "toolUseId", "tool_call_id", "call_id", "id")
_ARGUMENTS = ("arguments", "args", "input")  # of OpenAI, LangChain, Anthropic
_ANSWERS = ("content", "response", "output")  # of Anthropic, Gemini, OpenAI
Message: TypeAlias = "Mapping[str, Any]"
AnyPrompt: TypeAlias = "str | Sequence[Message] | Sequence[int]"
SYSTEM_ROLES = ("system", "developer")
_NO_ID = (None, "")
_SHAPE = {"role": "user", "content": "…"}


def plain_messages(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as OpenAI writes it, with text as its content.

    A tool's result inside another message becomes a message of its own. Raises RequestError for
    content that is not text.
    """
    content = message.get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    said = message.get("role") == "assistant"
    plain = {**message, "content": text_of(content)}
    if plain.get("role") == "function":  # the role of results before tool calls had ids
        plain["role"] = "tool"
    if said and not plain["content"] and isinstance(plain.get("refusal"), str):
        plain["content"] = plain["refusal"]
    called = [block for block in blocks if said and _name(block) in _CALLS]
    if calls := _calls(plain.pop("tool_calls", None), plain.pop("function_call", None), called):
        plain["tool_calls"] = calls  # templates take an empty list for a call
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
        raise RequestError(f"a message's content is a text, not {shown(content)}")
    require_shallow(content, "a content")
    return "".join(map(_text, content))


def carries_media(block: Mapping[str, Any]) -> bool:
    """Return True if a block has a picture, a sound or a file, judged by its type."""
    is_media = not _MEDIA.isdisjoint(_name(block).split("_"))
    return is_media and not _is_left_out(block) and block.get("source_type") != "text"


def to_tool_call(id: str | None, name: Any, arguments: Any) -> dict[str, Any]:  # noqa: A002 (its name)
    """Return a tool call for a message of the assistant."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(calls: Any, called_once: Any, blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the calls of a message. Blocks often repeat the calls, so they are read last."""
    if calls and not isinstance(calls, (list, tuple)):
        raise RequestError(f"tool_calls are a list of calls, not {shown(calls)}")
    return [_call(call) for call in calls or (called_once and [called_once]) or blocks]


def _call(call: Any) -> dict[str, Any]:
    """Return a call as OpenAI writes it."""
    if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
        return dict(call)
    call = _inner(call)
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise RequestError(f"a call has a function with a name and arguments, not {shown(call)}")
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
    """Return what a block wraps under the name of its kind, or the block itself."""
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
    """Return the text in a block, or in what it wraps. Raises RequestError for media."""
    if _is_left_out(block):
        return None
    if _kind(block) == "json" or [*block] == ["json"]:
        return _json_text(block.get("json", block.get("value")))
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
    """Return the type of a block. In Bedrock and Gemini, it is the name of the content's field."""
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


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages with text content, before any term reads them.

    `tools` are the tools that the prompt shows, in OpenAI's format. `options` are for the chat
    template. A prompt that was given as token ids has them in `tokens`, and uses no template;
    `messages` then has their text. `read` caches the tokens of each reading of a term.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    tokens: tuple[int, ...] = ()
    read: dict[Any, list[int]] = field(init=False, repr=False, compare=False, default_factory=dict)


def to_prompt(
    prompt: AnyPrompt,
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
) -> Prompt:
    """Convert a prompt to messages with text content, or to tokens. Raises RequestError.

    A text becomes one message of the user. A list of ints is token ids, which no template changes.
    `tools` are the tools that the prompt shows, and `options` are for the chat template.
    """
    if isinstance(prompt, str):
        return Prompt(({"role": "user", "content": prompt},), tuple(tools), options or {})
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)) or not prompt:
        kinds = f"a text or a list of messages such as {_SHAPE}"
        raise RequestError(f"a prompt is {kinds}, not {shown(prompt)}")
    if isinstance(prompt[0], int):
        if tools:
            raise RequestError("a prompt of tokens has no template that could offer tools")
        tokens = tuple(whole("a token of a prompt", token, 0) for token in prompt)
        return Prompt(options=options or {}, tokens=tokens)
    if many := prompts_of(prompt):
        kind = f"one prompt is needed here, not a list of {len(many)}"
        written = f"and a message is written as {_SHAPE}"
        raise RequestError(
            f"{kind}; Engine.generate and agenerate take lists of prompts, {written}"
        )
    messages = [plain for message in prompt for plain in _to_messages(message)]
    _pair_answers(messages)
    return Prompt(tuple(messages), tuple(tools), options or {})


def prompts_of(prompt: Any) -> list[Any] | None:
    """Return the prompts of a list of texts or of conversations, or None for a single prompt.

    A list of messages is one prompt. Raises RequestError for a list that mixes messages and
    prompts.
    """
    if not isinstance(prompt, list) or not prompt:
        return None
    are_prompts = {isinstance(item, (str, list)) for item in prompt}
    if len(are_prompts) > 1:
        problem = "a list has either messages, as one prompt, or prompts"
        raise RequestError(f"{problem}, not both: {shown(prompt)}")
    return [*prompt] if are_prompts == {True} else None


def hides(pattern: str, messages: Sequence[Message]) -> bool:
    """Return True if a pattern matches in the messages. A term that hides the match reads less."""
    return any(pattern_matches(pattern, message["content"]) for message in messages)


def _to_messages(message: Any) -> list[dict[str, Any]]:
    """Return a message with text content, after the tools' results that it contains."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        shape: Any = _SHAPE
        if isinstance(message, tuple) and [*map(type, message)] == [str, str]:
            role = {"human": "user", "ai": "assistant"}.get(message[0], message[0])
            shape = shown({"role": role, "content": message[1]})
        raise RequestError(f"a message is written as {shape}, not {shown(message)}")
    require_shallow(message, "a message")
    messages = plain_messages(message)
    for plain in messages:
        if "tool_calls" in plain:
            plain["tool_calls"] = [_to_call(call) for call in plain["tool_calls"]]
        elif message.get("content") is None and plain["role"] != "assistant":
            raise RequestError(f"a message must have a content: {_SHAPE}, not {shown(message)}")
    return messages


def _pair_answers(messages: Sequence[dict[str, Any]]) -> None:
    """Give each tool's result the id and name of its call, found by id, or else by order."""
    named: dict[Any, str] = {}
    waiting: list[dict[str, Any]] = []  # calls without an answer
    taken = {call.get("id") for message in messages for call in message.get("tool_calls", ())}
    taken |= {_id_of(message, "tool_call_id") for message in messages if message["role"] == "tool"}
    made = (
        f"call{number:05d}" for number in count(1)
    )  # nine characters, as some templates require
    fresh = (id_ for id_ in made if id_ not in taken)
    for message in messages:
        for call in message.get("tool_calls", ()):
            if call.get("id") not in _NO_ID:
                named[call["id"]] = call["function"]["name"]
            waiting.append(call)
        if message["role"] == "tool":
            _pair(message, named, waiting, fresh)
        elif message["role"] == "user":  # calls without a result until now never get one
            waiting.clear()


def _pair(
    answer: dict[str, Any],
    named: dict[Any, str],
    waiting: list[dict[str, Any]],
    fresh: Iterator[str],
) -> None:
    """Give a tool's result the name of its call, and both an id. Remove the call from `waiting`."""
    id_, name = _id_of(answer, "tool_call_id"), answer.get("name")
    if id_ in named:
        waiting[:] = [call for call in waiting if call.get("id") != id_]
        answer["name"] = name or named[id_]
        return
    free = [call for call in waiting if id_ in _NO_ID or call.get("id") in _NO_ID]
    of_name = [call for call in free if call["function"]["name"] == name]
    call = next(iter(of_name or free), None)
    if call is None:
        return
    waiting[:] = [other for other in waiting if other is not call]
    answer["name"] = name or call["function"]["name"]
    if call.get("id") in _NO_ID:
        call["id"] = next(fresh) if id_ in _NO_ID else id_
    answer["tool_call_id"] = call["id"]
    named[call["id"]] = call["function"]["name"]


def _to_call(call: Any) -> dict[str, Any]:
    """Return a call as templates expect it. Arguments that are a JSON object become a mapping."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(f"a call has a function with a name and arguments, not {shown(call)}")
    _id_of(call, "id")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        # Arguments that are cut off, invalid, or nested too deeply stay text.
        with suppress(ValueError, RecursionError):
            parsed = json.loads(arguments)
            require_shallow(parsed, "the arguments")
            arguments = parsed if isinstance(parsed, Mapping) else arguments
    else:
        require_json(arguments, f"what {function['name']!r} is called with")
    return {**call, "function": {**function, "arguments": arguments}}


def _id_of(call_or_answer: Mapping[str, Any], key: str) -> str | int | None:
    """Return the id that links a call and its result."""
    id_ = call_or_answer.get(key)
    if not isinstance(id_, (str, int, type(None))):
        raise RequestError(f"{key} is a text, not {shown(id_)}")
    return id_
