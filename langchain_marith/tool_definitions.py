"""Convert LangChain's tools of every kind to OpenAI's format, and bind tools to a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

import marith
from langchain_marith.exceptions import translated
from marith.openai_format import schema_of, without_titles

# This quotes a value as marith's own errors do.
shown = marith.errors.shown

# This is advice for callers who want tools and also a schema for the answers. No other way gives
# both.
TOOLS_AND_FORM = (
    "write llm.bind_tools(tools, response_format=Person), and read the text with "
    "Person.model_validate_json"
)
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')


class ModelWithTools(RunnableBinding[LanguageModelInput, AIMessage]):
    """A model with its tools, as LangChain binds them. A `response_format` may be bound too."""

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return `RunnableBinding`'s id, so that this model is saved and loaded as that class."""
        return RunnableBinding.lc_id()

    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        """Raise RequestError: LangChain's binding would return a model without the tools."""
        with translated():
            problem = "with_structured_output would leave out the tools that are bound"
            raise marith.RequestError(f"{problem}; {TOOLS_AND_FORM}")


def to_definitions(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the definitions of tools in OpenAI's format.

    A tool is a function, a class, a tool of LangChain or a dict in any provider's format. A tool
    that is given twice, as a class and as its schema, is defined once. Raises RequestError
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
    except Exception as error:
        # LangChain does not check the type of a tool, and may raise any exception.
        raise marith.RequestError(f"{shown(tool)} is not a tool: {error}") from error
    kind = definition.get("type")
    # OpenAI's Responses API has no inner object "function".
    if kind == "function" and "function" not in definition:
        function = {k: v for k, v in definition.items() if k != "type"}
        definition = {"type": "function", "function": function}
    if kind != "function":
        raise marith.RequestError(f"only functions can be called, not a {kind!r} tool")
    arguments: Any = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    is_model = isinstance(arguments, type) and issubclass(arguments, BaseModel)
    if is_model and _loses(arguments.model_json_schema()):
        definition["function"]["parameters"] = dict(schema_of(arguments))
    return definition


def _loses(schema: Mapping[str, Any]) -> bool:
    """Return True if LangChain's form of a schema and pydantic may allow different values.

    LangChain resolves references, and so loses recursive ones. For a union whose class is chosen by
    a tag or a function, LangChain's form says "oneOf": exactly one class must match. Pydantic
    checks only the class that is chosen.
    """
    if '"oneOf"' in json.dumps(schema):
        return True
    definitions = schema.get("$defs", {})
    names = {name: set(_REFERENCE.findall(json.dumps(d))) for name, d in definitions.items()}
    # Each round follows one more reference, so a definition that reaches itself is found.
    for _ in definitions:
        names = {name: to.union(*(names[each] for each in to)) for name, to in names.items()}
    return any(name in to for name, to in names.items())
