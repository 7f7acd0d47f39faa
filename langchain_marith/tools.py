"""Tools and formats in LangChain's words, as the engine takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

import marith

shown = marith.errors.shown  # a value as marith's own errors quote it

_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_CHOICES = {
    None: "auto",
    False: "auto",
    True: "required",
    "auto": "auto",
    "none": "none",
    "any": "required",
    "required": "required",
}


def to_definitions(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Functions, classes, LangChain's tools, and dicts of any provider, in OpenAI's format.

    A tool that is there twice, as a class and as its schema say, is told once. Raises RequestError
    for a tool that would run on a provider's machines.
    """
    if not isinstance(tools, (list, tuple)):
        raise marith.RequestError(f"tools are a list of functions, not {shown(tools)}")
    told: list[dict[str, Any]] = []
    for tool in map(_definition, tools):
        if not any(_untitled(tool) == _untitled(other) for other in told):
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


def _untitled(schema: Any) -> Any:
    """A schema without its titles, which mean nothing: a property of that name is no text."""
    match schema:
        case Mapping():
            kept = {k: v for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
            return {key: _untitled(value) for key, value in kept.items()}
        case list():
            return [_untitled(value) for value in schema]
    return schema


def to_choice(choice: Any) -> str:
    """How an application says which tool to call, as "auto", "none", "required" or a name.

    The word "any" means any tool; one of that name is chosen by OpenAI's dict.
    """
    match choice:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "function" | "tool", "name": str(name)}:
            return name
        case {"type": "auto" | "none" | "any" as kind}:
            return _CHOICES[kind]
        case None | bool():
            return _CHOICES[choice]
        case str():
            return _CHOICES.get(choice, choice)
    raise marith.RequestError(
        "tool_choice is 'auto', 'none', 'any', 'required', a bool, the name of a tool or "
        f"OpenAI's dict, not {shown(choice)}"
    )


def to_tools(
    tools: Sequence[Any] | None,
    tool_choice: Any = None,
    strict: bool | None = None,
    parallel_tool_calls: bool | None = None,
) -> marith.Tools | None:
    """What may be called, and how; None where there is nothing to call. Raises RequestError."""
    choice = to_choice(tool_choice)
    if not tools:
        if choice in ("auto", "none"):
            return None
        raise marith.RequestError(f"tool_choice is {shown(tool_choice)}, but there are no tools")
    parallel = True if parallel_tool_calls is None else parallel_tool_calls
    with suppress(TypeError, ValueError, RecursionError):  # what is no JSON is read anew each time
        return _known_tools(json.dumps(tools), choice, parallel, strict)
    return marith.Tools(tuple(to_definitions(tools)), choice, parallel, strict)


@lru_cache(maxsize=32, typed=True)
def _known_tools(written: str, choice: str, parallel: bool, strict: bool | None) -> marith.Tools:
    """The same tools at every call of a model that they are bound to, checked once."""
    return marith.Tools(tuple(to_definitions(json.loads(written))), choice, parallel, strict)


def to_grammar(
    grammar: marith.Grammar | None, response_format: Mapping[str, Any] | None
) -> marith.Grammar | None:
    """A grammar as it is given, or as OpenAI's `response_format` says it. Raises RequestError."""
    if grammar is not None and not isinstance(grammar, marith.Grammar):
        raise marith.RequestError(f"grammar is a marith.Grammar, not {shown(grammar)}")
    asked = _format(response_format)
    if grammar is not None and asked is not None:
        raise marith.RequestError("an answer follows a grammar or a response_format, not both")
    return grammar or asked


def _format(response_format: Any) -> marith.Grammar | None:
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return marith.Grammar.json_object()
        case {"type": "json_schema", "json_schema": {"schema": Mapping() as schema, **rest}}:
            strict = rest.get("strict")
            return marith.Grammar.json_schema(schema, strict if isinstance(strict, bool) else None)
    raise marith.RequestError(
        "response_format is {'type': 'text'}, {'type': 'json_object'} or {'type': 'json_schema', "
        f"'json_schema': {{'name': …, 'schema': …}}}}, not {shown(response_format)}"
    )


def to_logprobs(logprobs: bool | int | None, top_logprobs: int | None) -> int | None:
    """How many alternatives are told beside each token; None for no log-probabilities.

    `logprobs` may be their number itself; False means none, whatever `top_logprobs` is.
    """
    if logprobs is False:
        return None
    if logprobs is None or top_logprobs is not None:
        return top_logprobs
    return 0 if logprobs is True else logprobs
