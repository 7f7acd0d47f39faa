"""Convert LlamaIndex's tools to OpenAI's definitions, and calls to LlamaIndex's selections."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from pydantic_core import from_json

import marith
from llamaindex_marith.chat_messages import calls_of
from marith import openai_format

# This quotes a value as marith's own errors do.
shown = marith.errors.shown

# This key in `additional_kwargs` marks a response whose answer is not complete.
PARTIAL = "partial"


def to_definitions(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Return tools in OpenAI's format. Raises RequestError for an invalid tool."""
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
    """Return the tools and the choice among them, or None if there are no tools.

    Raises RequestError for an invalid tool, choice or flag.
    """
    flags = {"tool_required": tool_required, "allow_parallel_tool_calls": allow_parallel_tool_calls}
    for name, flag in flags.items():
        if not (flag is None or isinstance(flag, bool)):
            raise marith.RequestError(f"{name} is True or False, not {shown(flag)}")
    if tool_required and tool_choice is None:
        tool_choice = "required"
    if tool_required and openai_format.to_choice(tool_choice) in ("auto", "none"):
        raise marith.RequestError(f"tool_choice is {shown(tool_choice)}, but a tool is required")
    return openai_format.to_tools(
        tools, to_definitions, tool_choice, allow_parallel_tool_calls, strict
    )


def selections(response: ChatResponse, error_on_no_tool_call: bool) -> list[ToolSelection]:
    """Return the calls of an answer. In a stream they have the arguments so far.

    Raises ValueError for a finished answer whose call was cut off, because such a call must not be
    run. If `error_on_no_tool_call` is True, raises it also for an answer without a call.
    """
    finished = not response.additional_kwargs.get(PARTIAL)
    if finished and _is_cut(response):
        raise marith.RequestError("the answer was cut off at max_tokens before any text or call")
    calls = [_selection(call, finished) for call in calls_of(response.message)]
    if error_on_no_tool_call and not calls:
        raise marith.RequestError(f"the answer calls no tool: {response.message.content!r}")
    return calls


def _is_cut(response: ChatResponse) -> bool:
    """Return True if an answer was cut off within its reasoning, or within a call."""
    length = isinstance(response.raw, dict) and response.raw.get("finish_reason") == "length"
    return length and not response.message.content and not calls_of(response.message)


def _definition(tool: Any) -> dict[str, Any]:
    if isinstance(tool, dict):
        return tool
    if not isinstance(tool, BaseTool):
        raise marith.RequestError(
            f"a tool is a BaseTool or a dict in OpenAI's format, not {shown(tool)}"
        )
    definition: dict[str, Any] = tool.metadata.to_openai_tool(skip_length_check=True)
    # LlamaIndex finds the tool of a call by this name.
    definition["function"]["name"] = tool.metadata.get_name()
    if tool.metadata.fn_schema is not None:
        # `to_openai_tool` keeps only a part of the schema, so the whole schema replaces it.
        schema = openai_format.without_titles(openai_format.schema_of(tool.metadata.fn_schema))
        # The schema's description is dropped, because the tool already has one.
        schema.pop("description", None)
        definition["function"]["parameters"] = schema
    return definition


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
