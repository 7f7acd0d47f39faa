"""Conversions between marith's values and OpenAI's format, shared by adapters and servers.

All functions take and return plain data. A field that only one framework has is
handled in the adapter of that framework.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic import BaseModel

from marith.errors import RequestError, shown
from marith.request.checks import whole
from marith.request.completion import Completion, TokenLogprob, TopLogprob, Usage
from marith.request.completion import LengthWarning as LengthWarning
from marith.request.forms.grammar import Grammar
from marith.request.forms.schema_formats import schema_of as schema_of
from marith.request.forms.tools import CHOICES, Tools
from marith.request.message_content import carries_media as carries_media
from marith.request.message_content import plain_messages as plain_messages
from marith.request.message_content import reasoning_of as reasoning_of
from marith.request.message_content import require_calls as require_calls
from marith.request.message_content import text_of as text_of
from marith.request.message_content import to_tool_call as to_tool_call
from marith.request.other_names import RENAMED as RENAMED

# A `ToDefinitions` function converts an application's tools to OpenAI's definitions.
ToDefinitions: TypeAlias = "Callable[[Any], Sequence[Mapping[str, Any]]]"

# Tools with more JSON are not cached, so that untrusted clients cannot fill the memory.
_KEPT = 65_536  # characters of JSON
# The fields of OpenAI, vLLM and OpenRouter that frameworks keep beside the text of a message.
_BESIDE_TEXT = ("function_call", "refusal", "reasoning_content", "reasoning")
# JSON has no infinity. OpenAI writes this value for a probability of 0.
LEAST_LOGPROB = -9999.0
_CHOICES = {
    None: "auto",
    False: "auto",
    True: "required",
    "auto": "auto",
    "none": "none",
    "any": "required",
    "required": "required",
}
# The values of these keywords map names to schemas.
_MAPS_TO_SCHEMAS = (
    "properties", "$defs", "definitions", "patternProperties", "dependentSchemas",
)  # fmt: skip
# The values of these keywords are schemas or lists of schemas.
_HAS_SCHEMAS = (
    "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then",
    "else", "contains", "propertyNames", "function", "parameters",
)  # fmt: skip


def to_choice(tool_choice: Any) -> str:
    """Return the choice of tools: "auto", "none", "required" or a name. Raises RequestError.

    The word "any" means "required". To choose a tool that is named "any", write a dict in OpenAI's
    format.
    """
    match tool_choice:
        case {"type": "function", "function": {"name": str(name)}} if name not in CHOICES:
            return name
        case {"type": "function" | "tool", "name": str(name)} if name not in CHOICES:
            return name
        case {"type": "auto" | "none" | "any" as kind}:
            return _CHOICES[kind]
        case None | bool():
            return _CHOICES[tool_choice]
        case str():
            return _CHOICES.get(tool_choice, tool_choice)
    raise RequestError(
        "tool_choice must be 'auto', 'none', 'any', 'required', a bool, the name of a tool, or a "
        f"dict in OpenAI's format, not {shown(tool_choice)}"
    )


def to_tools(
    tools: Any,
    to_definitions: ToDefinitions,
    tool_choice: Any = None,
    parallel: bool | None = None,
    strict: bool | None = None,
) -> Tools | None:
    """Return the tools of a request, or None if nothing can be called. Raises RequestError.

    `to_definitions` converts the application's tools to OpenAI's definitions. If the tools are
    JSON, they are converted and checked once, even if many calls send the same tools.
    """
    choice = to_choice(tool_choice)
    for name, flag in (("parallel_tool_calls", parallel), ("strict", strict)):
        if not (flag is None or isinstance(flag, bool)):
            raise RequestError(f"{name} is True or False, not {shown(flag)}")
    if not tools:
        if choice in ("auto", "none"):
            return None
        raise RequestError(f"tool_choice is {shown(tool_choice)}, but there are no tools")
    parallel = True if parallel is None else parallel
    # Tools that are not JSON are converted at each call.
    with suppress(TypeError, ValueError, RecursionError):
        if len(text := json.dumps(tools)) <= _KEPT:
            return _defined(text, to_definitions, choice, parallel, strict)
    return Tools(tuple(to_definitions(tools)), choice, parallel, strict)


@lru_cache(maxsize=32, typed=True)
def _defined(
    text: str, to_definitions: ToDefinitions, choice: str, parallel: bool, strict: bool | None
) -> Tools:
    return Tools(tuple(to_definitions(json.loads(text))), choice, parallel, strict)


def without_titles(schema: Any) -> Any:
    """Return a JSON schema, or a tool with a schema, without the titles that pydantic adds.

    Properties that are named "title" stay, and so do values that are not schemas.
    """
    if not isinstance(schema, Mapping):
        return schema
    kept = {k: v for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    return {key: _untitled(key, value) for key, value in kept.items()}


def _untitled(key: str, value: Any) -> Any:
    """Return the value of one key of a schema. A value that is not a schema stays unchanged."""
    if key in _MAPS_TO_SCHEMAS and isinstance(value, Mapping):
        return {name: without_titles(schema) for name, schema in value.items()}
    if key in _HAS_SCHEMAS:
        is_list = isinstance(value, list)
        return [*map(without_titles, value)] if is_list else without_titles(value)
    return value


def assistant_message(message: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assistant's message in the form of `plain_messages`, with fields of `beside`.

    `beside` has the fields that a framework keeps beside the text. Only the fields in
    `_BESIDE_TEXT` are used. If the message is a refusal, the refusal becomes its text.
    """
    fields = {name: beside[name] for name in _BESIDE_TEXT if beside.get(name)}
    (plain,) = plain_messages({**message, **fields})
    plain.pop("refusal", None)
    return plain


def to_grammar(grammar: Grammar | None, response_format: Any) -> Grammar | None:
    """Return `grammar`, or the grammar of `response_format`. Raises RequestError."""
    if grammar is not None and not isinstance(grammar, Grammar):
        advice = "such as Grammar.json_schema(…)"
        raise RequestError(f"grammar is a marith.Grammar, {advice}, not {shown(grammar)}")
    described = _described(response_format)
    if grammar is not None and described is not None:
        raise RequestError("write either grammar or response_format, not both")
    return grammar or described


def _described(response_format: Any) -> Grammar | None:
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object", "schema": schema} if schema is not None:
            # The server of llama.cpp takes a schema in this form.
            return schema_grammar(schema, None)
        case {"type": "json_object"}:
            return Grammar.json_object()
        case type():
            return schema_grammar(response_format, None)
        case {"type": "json_schema", "json_schema": {"schema": Mapping() as schema, **rest}}:
            strict = rest.get("strict")
            if not (strict is None or isinstance(strict, bool)):
                raise RequestError(f"strict is True or False, not {shown(strict)}")
            shows, drops = rest.get("show_schema", True), rest.get("drops_repeats", False)
            return schema_grammar(schema, strict, shows, rest.get("name"), drops)
    raise RequestError(
        "response_format must be a pydantic class, {'type': 'text'}, {'type': 'json_object'} or "
        "{'type': 'json_schema', 'json_schema': {'name': …, 'schema': …}}, "
        f"not {shown(response_format)}"
    )


def schema_grammar(
    schema: Mapping[str, Any] | type[BaseModel],
    strict: bool | None,
    show_schema: Any = True,
    name: Any = None,
    drops_repeats: Any = False,
) -> Grammar:
    """Return the grammar of a schema. If `show_schema`, the prompt shows the schema to the model.

    For `drops_repeats` see `Grammar.json_schema`. Raises RequestError.
    """
    drops_repeats = isinstance(schema, type) or drops_repeats
    schema = schema_of(schema)
    if not isinstance(show_schema, bool):
        raise RequestError(f"show_schema is True or False, not {shown(show_schema)}")
    if not isinstance(drops_repeats, bool):
        raise RequestError(f"drops_repeats is True or False, not {shown(drops_repeats)}")
    if not show_schema:
        return Grammar.json_schema(schema, strict, drops_repeats=drops_repeats)
    title = name or schema.get("title") or "answer"
    untitled = without_titles(schema)
    return Grammar.json_schema(untitled, strict, str(title), drops_repeats)


def to_n(n: Any) -> int:
    """Return the number of answers for each prompt; None means 1. Raises RequestError."""
    return 1 if n is None else whole("n", n, 1)


def to_logprobs(logprobs: bool | int | None, top_logprobs: int | None) -> int | None:
    """Return the number of alternatives for each token, or None for no log-probabilities.

    `logprobs` is a bool, the number of alternatives, or None. If it is False, `top_logprobs` is
    ignored. Raises RequestError for an invalid number.
    """
    if top_logprobs is not None:
        whole("top_logprobs", top_logprobs, 0)
    if not (logprobs is None or isinstance(logprobs, bool)):
        whole("logprobs", logprobs, 0)
    if logprobs is False:
        return None
    if logprobs is None or top_logprobs is not None:
        return top_logprobs
    return 0 if logprobs is True else logprobs


def from_logprobs(tokens: Sequence[TokenLogprob] | None) -> dict[str, Any]:
    """Return the entry `logprobs` of an answer, or an empty dict without log-probabilities."""
    if not tokens:
        return {}
    return {"logprobs": {"content": [_token(token) for token in tokens]}}


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {**from_top_logprob(token), "top_logprobs": [*map(from_top_logprob, token.top)]}


def from_top_logprob(token: TopLogprob) -> dict[str, Any]:
    """Return a token's text, the bytes of the text, and its log-probability."""
    return {
        "token": token.text,
        "bytes": list(token.data),
        "logprob": finite_logprob(token.logprob),
    }


def finite_logprob(logprob: float) -> float:
    """Return a log-probability that JSON can represent."""
    return max(logprob, LEAST_LOGPROB)


def total_usage(usages: Sequence[Usage], each: int = 1) -> Usage:
    """Return the sum of `usages`. Every prompt has `each` answers, but is counted once."""
    asked = usages[::each]
    return Usage(
        sum(usage.prompt_tokens for usage in asked),
        sum(usage.completion_tokens for usage in usages),
        sum(usage.cached_tokens for usage in asked),
        sum(usage.reasoning_tokens for usage in usages),
    )


def from_usage(usage: Usage) -> dict[str, int]:
    """Return the numbers of tokens of an answer, or of several answers together."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


def finish_fields(completion: Completion) -> dict[str, str]:
    """Return the finish reason of an answer, and the stop string if one stopped it."""
    reasons: dict[str, str] = {"finish_reason": completion.finish_reason}
    if completion.stop_string is not None:
        reasons["stop_reason"] = completion.stop_string
    return reasons


def from_inspection(inspection: Any) -> dict[str, Any]:
    """Return the entry `inspection` of an answer as plain data, or an empty dict without one."""
    return {} if inspection is None else {"inspection": inspection.as_dict()}


def composition_costs(completion: Completion) -> dict[str, Any]:
    """Return the costs of an answer in total, by term and by stage, with its formula and warnings.

    If the answer has log-probabilities, `logprobs` has the log-probability of each token under each
    term, and None for a term that did not evaluate the token.
    """
    stats, tokens = completion.stats, completion.logprobs
    costs: dict[str, Any] = {
        "formula": completion.formula,
        "passes": stats.passes,
        "calls": stats.calls,
        "judgements": stats.judgements,
        "seconds": stats.seconds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "implausible": stats.implausible,
        "uncut": stats.uncut,
        "paused": stats.paused,
        "terms": {term: asdict(cost) for term, cost in stats.terms.items()},
        "stages": [asdict(stage) for stage in stats.stages],
    }
    if completion.warnings:
        costs["warnings"] = [*completion.warnings]
    if tokens:
        costs["logprobs"] = {
            term: [
                finite_logprob(token.terms[term]) if term in token.terms else None
                for token in tokens
            ]
            for term in stats.terms
        }
    return costs
