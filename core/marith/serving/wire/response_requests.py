"""What a client of `/v1/responses` sends → the chat that it means → a request of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from marith.openai_format import to_tool_call
from marith.serving.served_models import ServedModel
from marith.serving.server_settings import ServerSettings
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.response_fields import ENCRYPTED, LOGPROBS, OF_TOOLS, ResponseFields
from marith.serving.wire.wire_fields import OF_SCHEMAS, ChatFields, DrawnFields
from marith.serving.wire.wire_requests import FORMATS, WireRequest, chat_requests, warnings_of

_OF_CHATS = {"messages": "input", "response_format": "text", "max_tokens": "max_output_tokens"}
_ROLES = ("user", "assistant", "system", "developer")
_SAME = (
    "model", "parallel_tool_calls", "chat_template_kwargs",
    *(name for name in DrawnFields.model_fields if name not in ("marith", "stream_options")),
)  # fmt: skip


def response_requests(
    fields: ResponseFields, persona: ServedModel, settings: ServerSettings, key: str | None
) -> WireRequest:
    """The request of a response. Raises Refusal, RequestError or FormulaError."""
    warnings = warnings_of(fields, settings)
    if ENCRYPTED in (fields.include or ()):  # reasoning is text here, and is read as such
        if settings.strict:
            raise _not_included(ENCRYPTED)
        warnings.append(f"{_not_included(ENCRYPTED)}, which was ignored")
    try:
        asked = chat_requests(chat_of(fields), persona, settings, key)
    except Refusal as refused:
        raise with_its_names(refused) from None
    return replace(asked, warnings=[*warnings, *asked.warnings])


def with_its_names(refused: Refusal) -> Refusal:
    """A refusal of a chat by the names that the fields have in `/v1/responses`."""
    refused.param = _OF_CHATS.get(refused.param or "", refused.param)
    return refused


def chat_of(fields: ResponseFields) -> ChatFields:
    """The chat that a body means. Raises Refusal."""
    for name in fields.include or ():
        if name not in (LOGPROBS, ENCRYPTED):
            raise _not_included(name)
    if fields.top_logprobs and not fields.scores:
        raise Refusal(f"top_logprobs needs include: [{LOGPROBS!r}]", param="top_logprobs")
    if fields.format.get("type") not in FORMATS:
        kind = fields.format.get("type")
        problem = f"text.format has a type of {', '.join(FORMATS)}, not {kind!r:.80}"
        raise Refusal(problem, param="text")
    if fields.marith.inspect:
        problem = "marith.inspect is not served here; write /v1/chat/completions"
        raise Refusal(problem, code="unsupported_parameter", param="marith")
    return ChatFields(
        messages=messages_of(fields),
        max_completion_tokens=fields.max_output_tokens,
        tools=[_tool(i, tool) for i, tool in enumerate(fields.tools or ())] or None,
        tool_choice=fields.choice,
        logprobs=fields.scores,
        top_logprobs=fields.top_logprobs if fields.scores else None,
        response_format=_format(fields.format),
        marith=fields.marith.model_copy(update={"inspect": False}),
        **{name: getattr(fields, name) for name in _SAME},
    )


def _not_included(name: str) -> Refusal:
    problem = f"include has {LOGPROBS!r} or nothing here, not {name!r:.80}"
    return Refusal(problem, code="unsupported_parameter", param="include")


def messages_of(fields: ResponseFields) -> list[dict[str, Any]]:
    """The messages that the instructions and the items of an input are. Raises Refusal.

    Reasoning, a text and calls that follow one another are one message of the assistant.
    """
    messages: list[dict[str, Any]] = []
    if fields.instructions:
        messages.append({"role": "system", "content": fields.instructions})
    if isinstance(fields.input, str):
        return [*messages, {"role": "user", "content": fields.input}]
    for i, item in enumerate(fields.input):
        match item.get("type") or ("message" if "role" in item else None):
            case "message" if item.get("role") == "assistant":
                text = _text(i, item.get("content"))
                _answer(messages, "content")["content"] = text
            case "message" if item.get("role") in _ROLES:
                messages.append({"role": item["role"], "content": _text(i, item.get("content"))})
            case "function_call":
                id_, name, arguments = (_word(i, item, n) for n in ("call_id", "name", "arguments"))
                call = to_tool_call(id_, name, arguments)
                _answer(messages).setdefault("tool_calls", []).append(call)
            case "function_call_output":
                text, id_ = _text(i, item.get("output")), _word(i, item, "call_id")
                messages.append({"role": "tool", "tool_call_id": id_, "content": text})
            case "reasoning":
                if reasoning := _reasoning(i, item):
                    _answer(messages, "reasoning_content")["reasoning_content"] = reasoning
            case "message":
                raise _wrong(i, f"a message has a role of {', '.join(_ROLES)}", item.get("role"))
            case kind:
                known = "message, function_call, function_call_output and reasoning"
                raise _wrong(i, f"items are {known}; {_why(item)}", kind)
    if not messages:
        raise Refusal("an input has at least one message", code="invalid_value", param="input")
    return messages


def _answer(messages: list[dict[str, Any]], part: str | None = None) -> dict[str, Any]:
    """The assistant's message that an item belongs to: a new one where the last one is over.

    It is over once it has this `part`, or what comes after it: reasoning, content, calls.
    """
    last = messages[-1] if messages else {}
    after = {"reasoning_content": ("content", "tool_calls"), "content": ("tool_calls",)}
    taken = () if part is None else (part, *after[part])
    if last.get("role") != "assistant" or any(last.get(name) for name in taken):
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _text(i: int, content: Any) -> str:
    """The text of an item: itself, or that of its parts. Raises Refusal for other parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(i, "a content is a text or a list of its parts", content)
    return "".join(_part(i, part) for part in content)


def _part(i: int, part: Any) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in ("input_text", "output_text", "text", "refusal"):
        problem = f"input.{i}: content is text alone, not {kind!r:.40}"
        raise Refusal(problem, code="unsupported_content", param="input")
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise _wrong(i, f"a part of type {kind!r} has a text", text)
    return text


def _reasoning(i: int, item: Mapping[str, Any]) -> str:
    """The reasoning of an item; what another server has encrypted says nothing here."""
    texts = []
    parts = item.get("content") or item.get("summary") or []
    for part in parts if isinstance(parts, list) else [parts]:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise _wrong(i, "reasoning has parts with a text", part)
        texts.append(text)
    return "\n".join(texts)


def _word(i: int, item: Mapping[str, Any], name: str) -> str:
    word = item.get(name)
    if not isinstance(word, str):
        raise _wrong(i, f"{name} is a text", word)
    return word


def _wrong(i: int, problem: str, given: Any) -> Refusal:
    return Refusal(f"input.{i}: {problem}, not {given!r:.60}", code="invalid_value", param="input")


def _why(item: Mapping[str, Any]) -> str:
    if (item.get("type") or "item_reference") == "item_reference":
        return "nothing is kept here that an id refers to"
    return "no tools run here"


def _tool(i: int, tool: Mapping[str, Any]) -> dict[str, Any]:
    """A function as chats define it. Raises Refusal for tools that the server would run."""
    if tool.get("type") != "function":
        problem = f"tools.{i}: functions alone are served, not {tool.get('type')!r:.60}"
        raise Refusal(problem, code="unsupported_tool", param="tools")
    for name in ("name", "description"):
        if not isinstance(tool.get(name), str) and (name == "name" or tool.get(name) is not None):
            problem = f"tools.{i}: the {name} of a function is a text, not {tool.get(name)!r:.60}"
            raise Refusal(problem, code="invalid_value", param="tools")
    function = {name: tool[name] for name in OF_TOOLS if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _format(given: Mapping[str, Any]) -> dict[str, Any]:
    """A format as chats have it."""
    if given["type"] != "json_schema":
        return {"type": given["type"]}
    if not isinstance(given.get("schema"), Mapping):
        problem = f"text.format has a schema, not {given.get('schema')!r:.60}"
        raise Refusal(problem, code="invalid_value", param="text")
    schema = {name: given[name] for name in OF_SCHEMAS if name in given}
    return {"type": "json_schema", "json_schema": schema}
