"""The prompt of a request: messages with text content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

from marith.errors import RequestError, shown
from marith.formula.patterns import pattern_matches
from marith.request.checks import require_json, require_shallow, whole
from marith.request.message_content import plain_messages

Message: TypeAlias = "Mapping[str, Any]"
AnyPrompt: TypeAlias = "str | Sequence[Message] | Sequence[int]"
SYSTEM_ROLES = ("system", "developer")
_NO_ID = (None, "")
_SHAPE = {"role": "user", "content": "…"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages with text content, before any term reads them.

    `tools` are the tools that the prompt shows, in OpenAI's format. `options` are for the chat
    template. If the prompt was given as token ids, `tokens` has the ids, `messages` has their text,
    and no template applies. `read` caches the tokens of the prompt for each way in which terms read
    it.
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
        raise RequestError(f"a prompt must be {kinds}, not {shown(prompt)}")
    if isinstance(prompt[0], int):
        if tools:
            raise RequestError("a prompt of tokens has no template that could offer tools")
        tokens = tuple(whole("a token of a prompt", token, 0) for token in prompt)
        return Prompt(options=options or {}, tokens=tokens)
    if many := prompts_of(prompt):
        kind = f"one prompt is needed here, not a list of {len(many)}"
        written = f"if these are messages, write each as {_SHAPE}"
        raise RequestError(
            f"{kind}; pass a list of prompts to Engine.generate or agenerate; {written}"
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
        problem = "a list must contain either the messages of one prompt, or several prompts"
        raise RequestError(f"{problem}, not both: {shown(prompt)}")
    return [*prompt] if are_prompts == {True} else None


def hides(pattern: str, messages: Sequence[Message]) -> bool:
    """Return True if a pattern matches in the messages, so that a term could hide the match."""
    return any(pattern_matches(pattern, message["content"]) for message in messages)


def _to_messages(message: Any) -> list[dict[str, Any]]:
    """Return the tools' results that a message contains, then the message with text content."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        shape: Any = _SHAPE
        # LangChain also writes a message as a pair of a role and a text.
        if isinstance(message, tuple) and [*map(type, message)] == [str, str]:
            role = {"human": "user", "ai": "assistant"}.get(message[0], message[0])
            shape = shown({"role": role, "content": message[1]})
        raise RequestError(f"a message must be written as {shape}, not {shown(message)}")
    require_shallow(message, "a message")
    messages = plain_messages(message)
    for plain in messages:
        if "tool_calls" in plain:
            plain["tool_calls"] = [_to_call(call) for call in plain["tool_calls"]]
        elif message.get("content") is None and plain["role"] != "assistant":
            problem = f"a message must have content, as in {_SHAPE}"
            raise RequestError(f"{problem}, not {shown(message)}")
    return messages


def _pair_answers(messages: Sequence[dict[str, Any]]) -> None:
    """Give each tool's result the id and name of its call.

    The call is found by the id in the result, or by order if the result has no id.
    """
    named: dict[Any, str] = {}
    # Calls that have no result yet.
    waiting: list[dict[str, Any]] = []
    taken = {call.get("id") for message in messages for call in message.get("tool_calls", ())}
    taken |= {_id_of(message, "tool_call_id") for message in messages if message["role"] == "tool"}
    # Some templates require ids of nine characters.
    made = (f"call{number:05d}" for number in count(1))
    fresh = (id_ for id_ in made if id_ not in taken)
    for message in messages:
        for call in message.get("tool_calls", ()):
            if call.get("id") not in _NO_ID:
                named[call["id"]] = call["function"]["name"]
            waiting.append(call)
        if message["role"] == "tool":
            _pair(message, named, waiting, fresh)
        elif message["role"] == "user":
            # A message of the user ends the turn: a call that has no result by now gets none.
            waiting.clear()


def _pair(
    answer: dict[str, Any],
    named: dict[Any, str],
    waiting: list[dict[str, Any]],
    fresh: Iterator[str],
) -> None:
    """Give a tool's result the name and id of its call. Remove the call from `waiting`."""
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
        raise RequestError(
            f"a call must have a function with a name and arguments, not {shown(call)}"
        )
    _id_of(call, "id")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        # Arguments that are cut off, invalid, or nested too deeply stay text.
        with suppress(ValueError, RecursionError):
            parsed = json.loads(arguments)
            require_shallow(parsed, "the arguments")
            arguments = parsed if isinstance(parsed, Mapping) else arguments
    else:
        require_json(arguments, f"the arguments of {function['name']!r}")
    return {**call, "function": {**function, "arguments": arguments}}


def _id_of(call_or_answer: Mapping[str, Any], key: str) -> str | int | None:
    """Return the id that links a call and its result."""
    id_ = call_or_answer.get(key)
    if not isinstance(id_, (str, int, type(None))):
        raise RequestError(f"{key} must be a text, not {shown(id_)}")
    return id_
