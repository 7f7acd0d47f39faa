"""Tools in LlamaIndex's words, as the engine takes them, and the calls of an answer read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from pydantic_core import from_json

import marith
from llamaindex_marith.messages import calls_of

shown = marith.errors.shown  # a value as marith's own errors quote it

PARTIAL = "partial"  # notes that more of an answer is to come


def to_definitions(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """LlamaIndex's tools, or dicts in OpenAI's format, in OpenAI's format. Raises RequestError."""
    if not isinstance(tools, (list, tuple)):
        raise marith.RequestError(f"tools are a list, not {shown(tools)}")
    return [_definition(tool) for tool in tools]


def to_tools(
    tools: Sequence[Any] | None,
    tool_choice: Any = None,
    tool_required: bool = False,
    allow_parallel_tool_calls: bool | None = None,
    strict: bool | None = None,
) -> marith.Tools | None:
    """What may be called, and how; None where there is nothing to call. Raises RequestError."""
    flags = {"tool_required": tool_required, "allow_parallel_tool_calls": allow_parallel_tool_calls}
    for name, flag in {**flags, "strict": strict}.items():
        if not (flag is None or isinstance(flag, bool)):
            raise marith.RequestError(f"{name} is True or False, not {shown(flag)}")
    choice = _choice(tool_choice, tool_required)
    if not tools:
        if choice in ("auto", "none"):
            return None
        raise marith.RequestError(f"a call of {shown(choice)} is asked for, but there are no tools")
    parallel = True if allow_parallel_tool_calls is None else allow_parallel_tool_calls
    with suppress(TypeError, ValueError, RecursionError):  # what is no JSON is read anew each time
        return _known_tools(json.dumps(tools), choice, parallel, strict)
    return marith.Tools(tuple(to_definitions(tools)), choice, parallel, strict)


@lru_cache(maxsize=32, typed=True)
def _known_tools(written: str, choice: str, parallel: bool, strict: bool | None) -> marith.Tools:
    """The same tools at every call of a model that has them, checked once."""
    return marith.Tools(tuple(to_definitions(json.loads(written))), choice, parallel, strict)


def selections(response: ChatResponse, error_on_no_tool_call: bool) -> list[ToolSelection]:
    """The calls of an answer; those of one still coming have the arguments that are there so far.

    Raises ValueError for a finished answer whose call was cut off, which must not be run, and,
    with `error_on_no_tool_call`, for one without a call.
    """
    finished = not response.additional_kwargs.get(PARTIAL)
    if finished and _is_cut(response):
        raise marith.RequestError(
            "the answer was cut off at max_tokens before it said or called anything"
        )
    calls = [_selection(call, finished) for call in calls_of(response.message)]
    if error_on_no_tool_call and not calls:
        raise marith.RequestError(f"the answer calls no tool: {response.message.content!r}")
    return calls


def _is_cut(response: ChatResponse) -> bool:
    """Whether an answer ended in the midst of what would have been a call, or a thought."""
    length = isinstance(response.raw, dict) and response.raw.get("finish_reason") == "length"
    return length and not response.message.content and not calls_of(response.message)


def _definition(tool: Any) -> dict[str, Any]:
    if isinstance(tool, dict):
        return tool
    if not isinstance(tool, BaseTool):
        raise marith.RequestError(f"a tool is a BaseTool or a dict of OpenAI's, not {shown(tool)}")
    told: dict[str, Any] = tool.metadata.to_openai_tool(skip_length_check=True)
    told["function"]["name"] = tool.metadata.get_name()  # by which LlamaIndex finds it
    if tool.metadata.fn_schema is not None:
        # LlamaIndex tells a part of the schema; all of it is to be followed.
        schema = _untitled(tool.metadata.fn_schema.model_json_schema())
        schema.pop("description", None)  # the tool's own says it
        told["function"]["parameters"] = schema
    return told


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names: small models copy them."""
    match schema:
        case dict():
            kept = {k: v for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
            return {key: _untitled(value) for key, value in kept.items()}
        case list():
            return [_untitled(value) for value in schema]
    return schema


def _choice(choice: Any, required: bool) -> str:
    """How an application says which tool to call, as "auto", "none", "required" or a name."""
    match choice:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case None:
            return "required" if required else "auto"
        case "auto" | "none" if required:
            raise marith.RequestError(f"tool_choice is {shown(choice)}, but a tool is required")
        case "any":
            return "required"
        case str():
            return choice
    known = "'auto', 'none', 'any', 'required', the name of a tool or OpenAI's dict"
    raise marith.RequestError(f"tool_choice is {known}, not {shown(choice)}")


def _selection(call: dict[str, Any], finished: bool) -> ToolSelection:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if not isinstance(arguments, dict):
        arguments = _arguments(name, arguments or "", finished)
    return ToolSelection(tool_id=call["id"] or "", tool_name=name, tool_kwargs=arguments)


def _arguments(name: str, text: str, finished: bool) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        if finished:
            problem = f"the call of {name!r} was cut off at max_tokens"
            raise marith.RequestError(f"{problem}; its arguments are {text!r}") from error
    return from_json(text, allow_partial="trailing-strings") if text else {}
