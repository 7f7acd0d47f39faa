"""OpenAI's format for requests and answers, shared by adapters and servers.

Plain data in both directions; what one framework alone has a word for stays in its adapter.
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
from marith.request.completion import Alternative, Completion, TokenLogprob, Usage
from marith.request.forms.grammar import Grammar
from marith.request.forms.schema_formats import schema_of as schema_of
from marith.request.forms.tools import CHOICES, Tools
from marith.request.prompt import carries_media as carries_media
from marith.request.prompt import plain_messages as plain_messages
from marith.request.prompt import text_of as text_of
from marith.request.prompt import to_tool_call as to_tool_call

ToDefinitions: TypeAlias = (
    "Callable[[Any], Sequence[Mapping[str, Any]]]"  # tools → OpenAI's definitions
)

_KEPT = 65_536  # letters of tools that are kept by their JSON
LEAST_LOGPROB = -9999.0  # JSON has no infinity: OpenAI's number for a token that cannot follow
_CHOICES = {
    None: "auto",
    False: "auto",
    True: "required",
    "auto": "auto",
    "none": "none",
    "any": "required",
    "required": "required",
}
_MAPS_TO_SCHEMAS = (
    "properties", "$defs", "definitions", "patternProperties", "dependentSchemas",
)  # fmt: skip
_HAS_SCHEMAS = (
    "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if", "then",
    "else", "contains", "propertyNames", "function", "parameters",
)  # fmt: skip


def to_choice(tool_choice: Any) -> str:
    """Which tool is called: "auto", "none", "required" or a name. Raises RequestError.

    The word "any" means any tool; a tool of that name is chosen by OpenAI's dict.
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
        "tool_choice is 'auto', 'none', 'any', 'required', a bool, the name of a tool or "
        f"OpenAI's dict, not {shown(tool_choice)}"
    )


def to_tools(
    tools: Any,
    to_definitions: ToDefinitions,
    tool_choice: Any = None,
    parallel: bool | None = None,
    strict: bool | None = None,
) -> Tools | None:
    """What may be called, and how; None where there is nothing to call. Raises RequestError.

    `to_definitions` turns the application's tools into OpenAI's definitions. Tools that are JSON
    are defined and checked once, however many calls bring them.
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
    with suppress(TypeError, ValueError, RecursionError):  # no JSON: defined anew at each call
        if len(text := json.dumps(tools)) <= _KEPT:  # what is kept of strangers is small
            return _defined(text, to_definitions, choice, parallel, strict)
    return Tools(tuple(to_definitions(tools)), choice, parallel, strict)


@lru_cache(maxsize=32, typed=True)
def _defined(
    text: str, to_definitions: ToDefinitions, choice: str, parallel: bool, strict: bool | None
) -> Tools:
    return Tools(tuple(to_definitions(json.loads(text))), choice, parallel, strict)


def without_titles(schema: Any) -> Any:
    """A JSON schema, or a tool with one, without the titles that pydantic makes of names.

    Properties with this name stay, and so do values that are no schemas.
    """
    if not isinstance(schema, Mapping):
        return schema
    kept = {k: v for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    return {key: _untitled(key, value) for key, value in kept.items()}


def _untitled(key: str, value: Any) -> Any:
    """The value of one key of a schema; a value that is no schema, such as a default, unchanged."""
    if key in _MAPS_TO_SCHEMAS and isinstance(value, Mapping):
        return {name: without_titles(schema) for name, schema in value.items()}
    if key in _HAS_SCHEMAS:
        is_list = isinstance(value, list)
        return [*map(without_titles, value)] if is_list else without_titles(value)
    return value


def require_calls(tool_calls: Any) -> Sequence[Any]:
    """The calls of a message, if they are a list. Raises RequestError."""
    if not isinstance(tool_calls, (list, tuple)):
        raise RequestError(f"tool_calls are a list of calls, not {shown(tool_calls)}")
    return tool_calls


def to_grammar(grammar: Grammar | None, response_format: Any) -> Grammar | None:
    """A grammar as it is given, or as `response_format` describes it. Raises RequestError."""
    if grammar is not None and not isinstance(grammar, Grammar):
        advice = "such as Grammar.json_schema(…)"
        raise RequestError(f"grammar is a marith.Grammar, {advice}, not {shown(grammar)}")
    described = _described(response_format)
    if grammar is not None and described is not None:
        raise RequestError("an answer follows a grammar or a response_format, not both")
    return grammar or described


def _described(response_format: Any) -> Grammar | None:
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object", "schema": schema} if schema is not None:
            return schema_grammar(schema, None)  # as llama.cpp's server has it
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
        "response_format is a class of pydantic's, {'type': 'text'}, {'type': 'json_object'} or "
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
    """Return the grammar of a schema, which the prompt shows to the model if `show_schema`.

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
    """How many answers there are for each prompt; None means one. Raises RequestError."""
    return 1 if n is None else whole("n", n, 1)


def to_logprobs(logprobs: bool | int | None, top_logprobs: int | None) -> int | None:
    """How many alternatives stand beside each token; None for no log-probabilities.

    `logprobs` may be their number itself; False means none, whatever `top_logprobs` is. Raises
    RequestError for what is no such number.
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
    """The entry `logprobs` of an answer; no entry where there are none."""
    if not tokens:
        return {}
    return {"logprobs": {"content": [_token(token) for token in tokens]}}


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {**from_alternative(token), "top_logprobs": [*map(from_alternative, token.top)]}


def from_alternative(token: Alternative) -> dict[str, Any]:
    """A token, the bytes of its text, and its log-probability."""
    return {
        "token": token.text,
        "bytes": list(token.data),
        "logprob": finite_logprob(token.logprob),
    }


def finite_logprob(logprob: float) -> float:
    """A log-probability as JSON can write it."""
    return max(logprob, LEAST_LOGPROB)


def from_usage(*usages: Usage) -> dict[str, int]:
    """The tokens of one answer, or of several together."""
    prompt = sum(usage.prompt_tokens for usage in usages)
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def finish_fields(completion: Completion) -> dict[str, str]:
    """Why an answer ended, and at which string if one stopped it."""
    reasons: dict[str, str] = {"finish_reason": completion.finish_reason}
    if completion.stop_string is not None:
        reasons["stop_reason"] = completion.stop_string
    return reasons


def from_inspection(inspection: Any) -> dict[str, Any]:
    """Return the entry `inspection` of an answer as plain data; no entry where there is none."""
    return {} if inspection is None else {"inspection": inspection.as_dict()}


def composition_costs(formula: str, completion: Completion) -> dict[str, Any]:
    """What an answer of a formula cost: in all, by term, and by the part that checked drafts.

    `logprobs` has what each term gave the tokens, where log-probabilities were asked for; None
    where a term was not asked.
    """
    stats, tokens = completion.stats, completion.logprobs
    costs: dict[str, Any] = {
        "formula": formula,
        "passes": stats.passes,
        "calls": stats.calls,
        "judgements": stats.judgements,
        "seconds": stats.seconds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "terms": {term: asdict(cost) for term, cost in stats.terms.items()},
        "stages": [asdict(stage) for stage in stats.stages],
    }
    if tokens:
        costs["logprobs"] = {
            term: [
                finite_logprob(token.terms[term]) if term in token.terms else None
                for token in tokens
            ]
            for term in stats.terms
        }
    return costs
