"""Tools of every form that LangChain knows, as OpenAI defines them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

import marith
from marith.openai_format import without_titles

shown = marith.errors.shown  # a value as marith's own errors quote it

_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')


def to_definitions(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Functions, classes, LangChain's tools, and dicts of any provider, in OpenAI's format.

    A tool that is there twice, as a class and as its schema say, is told once. Raises RequestError
    for a tool that would run on a provider's machines.
    """
    if not isinstance(tools, (list, tuple)):
        raise marith.RequestError(f"tools are a list of functions, not {shown(tools)}")
    told: list[dict[str, Any]] = []
    for tool in map(_definition, tools):
        if not any(without_titles(tool) == without_titles(other) for other in told):
            told.append(tool)
    return told


def _definition(tool: Any) -> dict[str, Any]:
    try:
        told = convert_to_openai_tool(tool)
    except Exception as error:  # of any kind: LangChain takes what it is given for a tool
        raise marith.RequestError(f"{shown(tool)} is no tool: {error}") from error
    if told.get("type") == "function" and "function" not in told:  # as the Responses API has it
        told = {"type": "function", "function": {k: v for k, v in told.items() if k != "type"}}
    if told.get("type") != "function":
        raise marith.RequestError(f"only functions can be called, not a {told.get('type')!r} tool")
    own = _own_schema(tool)
    if own is not None and _is_recursive(own):  # LangChain resolves references, and so loses them
        told["function"]["parameters"] = own
    return told


def _own_schema(tool: Any) -> dict[str, Any] | None:
    """What pydantic itself says of a tool's arguments, where a class of its has them."""
    kind: Any = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return dict(kind.model_json_schema()) if is_model else None


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    definitions = schema.get("$defs", {})
    leads = {name: set(_REFERENCE.findall(json.dumps(d))) for name, d in definitions.items()}
    for _ in definitions:  # one step further each time
        leads = {name: to.union(*(leads[each] for each in to)) for name, to in leads.items()}
    return any(name in to for name, to in leads.items())
