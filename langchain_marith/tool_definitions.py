"""Convert tools in every form that LangChain accepts to OpenAI's definitions."""

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
    """Return functions, classes, LangChain's tools and dicts of any provider in OpenAI's format.

    A tool that is given twice, as a class and as its schema, is defined once. Raises RequestError
    for a tool that runs on a provider's machines.
    """
    if not isinstance(tools, (list, tuple)):
        raise marith.RequestError(f"tools are a list of functions, not {shown(tools)}")
    definitions: list[dict[str, Any]] = []
    for tool in map(_definition, tools):
        if not any(without_titles(tool) == without_titles(other) for other in definitions):
            definitions.append(tool)
    return definitions


def _definition(tool: Any) -> dict[str, Any]:
    try:
        definition = convert_to_openai_tool(tool)
    except Exception as error:  # of any kind: LangChain accepts any value as a tool
        raise marith.RequestError(f"{shown(tool)} is not a tool: {error}") from error
    kind = definition.get("type")
    if kind == "function" and "function" not in definition:  # as the Responses API has it
        function = {k: v for k, v in definition.items() if k != "type"}
        definition = {"type": "function", "function": function}
    if kind != "function":
        raise marith.RequestError(f"only functions can be called, not a {kind!r} tool")
    schema = _pydantic_schema(tool)
    if schema is not None and _is_recursive(
        schema
    ):  # LangChain would resolve references, and lose recursive ones
        definition["function"]["parameters"] = schema
    return definition


def _pydantic_schema(tool: Any) -> dict[str, Any] | None:
    """Return pydantic's own schema of a tool's arguments, if they are a pydantic class."""
    kind: Any = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return dict(kind.model_json_schema()) if is_model else None


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    definitions = schema.get("$defs", {})
    names = {name: set(_REFERENCE.findall(json.dumps(d))) for name, d in definitions.items()}
    for _ in definitions:  # each round follows one reference more
        names = {name: to.union(*(names[each] for each in to)) for name, to in names.items()}
    return any(name in to for name, to in names.items())
