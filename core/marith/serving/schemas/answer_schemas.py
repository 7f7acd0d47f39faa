"""JSON schemas of what clients get, by name: exact, so that a missing or misspelt field fails.

They describe what `wire/wire_answers.py`, `wire/refusals.py` and the routes write; the tests hold
answers of every route against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = "dict[str, Any]"

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NULL: Schema = {"type": "null"}
FLAG: Schema = {"type": "boolean"}


def ref(name: str) -> Schema:
    """A schema of the document by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def always(value: str | bool) -> Schema:
    """The schema of one value."""
    return {"const": value}


def one_of(*words: str) -> Schema:
    """The schema of some words."""
    return {"type": "string", "enum": [*words]}


def or_null(schema: Schema) -> Schema:
    """A value of a schema, or null."""
    return {"anyOf": [schema, NULL]}


def listed(schema: Schema) -> Schema:
    """A list of values of one schema."""
    return {"type": "array", "items": schema}


def mapped(schema: Schema) -> Schema:
    """An object whose names are anything, and whose values are of one schema."""
    return {"type": "object", "additionalProperties": schema}


def closed(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object of these fields and no others."""
    properties = {**required, **(optional or {})}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": [*required]}


_FINISH = one_of("stop", "length", "tool_calls")
_HEAD: Mapping[str, Schema] = {
    "id": TEXT, "created": COUNT, "model": TEXT, "system_fingerprint": TEXT,
}  # fmt: skip
_MARITH: Mapping[str, Schema] = {"marith": ref("MarithNote")}
_USAGE: Mapping[str, Schema] = {"usage": ref("TokenUsage")}
_CALLED: Mapping[str, Schema] = {"name": TEXT, "arguments": TEXT}
_WITH_NULL_USAGE: Mapping[str, Schema] = {"usage": or_null(ref("TokenUsage")), **_MARITH}

SCHEMAS: Mapping[str, Schema] = {
    "Error": closed(
        {
            "error": closed(
                {"message": TEXT, "type": TEXT, "param": or_null(TEXT), "code": or_null(TEXT)},
                {"marith": ref("FormulaFault")},
            )
        }
    ),
    "FormulaFault": closed({"problem": TEXT, "text": TEXT, "start": COUNT, "end": COUNT}),
    "Status": closed({"status": TEXT}),
    "TokenUsage": closed(
        {
            "prompt_tokens": COUNT,
            "completion_tokens": COUNT,
            "total_tokens": COUNT,
            "prompt_tokens_details": closed({"cached_tokens": COUNT}),
            "completion_tokens_details": closed({"reasoning_tokens": COUNT}),
        }
    ),
    "MarithNote": closed(
        {},
        {
            "warnings": listed(TEXT),
            "composition": listed(ref("Costs")),
            "inspection": listed(or_null(ref("Inspection"))),
        },
    ),
    "Costs": closed(
        {
            "formula": TEXT,
            "passes": COUNT,
            "calls": COUNT,
            "judgements": COUNT,
            "seconds": NUMBER,
            "drafted": COUNT,
            "accepted": COUNT,
            "terms": mapped(
                closed({"prompt_tokens": COUNT, "cached_tokens": COUNT, "calls": COUNT})
            ),
            "stages": listed(
                closed({"part": TEXT, "evaluated": COUNT, "stood": COUNT, "predicted": NUMBER})
            ),
        },
        {"logprobs": mapped(listed(or_null(NUMBER)))},
    ),
    "Alternative": closed({"token": TEXT, "bytes": listed(COUNT), "logprob": NUMBER}),
    "TokenLogprob": closed(
        {
            "token": TEXT,
            "bytes": listed(COUNT),
            "logprob": NUMBER,
            "top_logprobs": listed(ref("Alternative")),
        }
    ),
    "ChatLogprobs": closed({"content": listed(ref("TokenLogprob")), "refusal": NULL}),
    "TextLogprobs": closed(
        {
            "tokens": listed(TEXT),
            "token_logprobs": listed(or_null(NUMBER)),
            "top_logprobs": listed(or_null(mapped(NUMBER))),
            "text_offset": listed(COUNT),
        }
    ),
    "ChatMessage": closed(
        {"role": always("assistant"), "content": or_null(TEXT), "refusal": NULL},
        {
            "reasoning_content": TEXT,
            "tool_calls": listed(
                closed({"id": TEXT, "type": always("function"), "function": closed(_CALLED)})
            ),
        },
    ),
    "ChatAnswer": closed(
        {
            **_HEAD,
            "object": always("chat.completion"),
            "choices": listed(
                closed(
                    {
                        "index": COUNT,
                        "message": ref("ChatMessage"),
                        "logprobs": or_null(ref("ChatLogprobs")),
                        "finish_reason": _FINISH,
                    },
                    {"stop_reason": TEXT},
                )
            ),
            **_USAGE,
        },
        _MARITH,
    ),
    "ChatDelta": closed(
        {},
        {
            "role": always("assistant"),
            "content": TEXT,
            "reasoning_content": TEXT,
            "tool_calls": listed(
                closed(
                    {"index": COUNT, "function": closed({"arguments": TEXT}, {"name": TEXT})},
                    {"id": TEXT, "type": always("function")},
                )
            ),
        },
    ),
    "ChatEvent": closed(
        {
            **_HEAD,
            "object": always("chat.completion.chunk"),
            "choices": listed(
                closed(
                    {
                        "index": COUNT,
                        "delta": ref("ChatDelta"),
                        "finish_reason": or_null(_FINISH),
                    },
                    {"logprobs": ref("ChatLogprobs")},
                )
            ),
        },
        _WITH_NULL_USAGE,
    ),
    "TextAnswer": closed(
        {
            **_HEAD,
            "object": always("text_completion"),
            "choices": listed(
                closed(
                    {
                        "index": COUNT,
                        "text": TEXT,
                        "logprobs": or_null(ref("TextLogprobs")),
                        "finish_reason": _FINISH,
                    },
                    {"stop_reason": TEXT},
                )
            ),
            **_USAGE,
        },
        _MARITH,
    ),
    "TextEvent": closed(
        {
            **_HEAD,
            "object": always("text_completion"),
            "choices": listed(
                closed(
                    {
                        "index": COUNT,
                        "text": TEXT,
                        "logprobs": or_null(ref("TextLogprobs")),
                        "finish_reason": or_null(_FINISH),
                    }
                )
            ),
        },
        _WITH_NULL_USAGE,
    ),
    "ModelCard": closed(
        {
            "id": TEXT,
            "object": always("model"),
            "created": COUNT,
            "owned_by": always("marith"),
            "root": TEXT,
            "parent": or_null(TEXT),
            "max_model_len": COUNT,
            "marith": closed(
                {
                    "formula": TEXT,
                    "description": TEXT,
                    "system_fingerprint": TEXT,
                    "faithful": FLAG,
                    "options": listed(TEXT),
                },
                {"terms": mapped({"anyOf": [TEXT, closed({"formula": TEXT})]})},
            ),
        }
    ),
    "ModelList": closed(
        {
            "object": always("list"),
            "data": listed(ref("ModelCard")),
            "marith": closed({"version": TEXT, "allow_formulas": FLAG}),
        }
    ),
    "Scores": closed(
        {
            "object": always("score"),
            "model": TEXT,
            "tokens": listed(COUNT),
            "logprobs": listed(NUMBER),
            "is_likeliest": listed(FLAG),
            "sum": NUMBER,
        },
        _MARITH,
    ),
    "TokenizeAnswer": closed(
        {"count": COUNT, "max_model_len": COUNT}, {"tokens": listed(COUNT), **_MARITH}
    ),
    "DetokenizeAnswer": closed({"prompt": TEXT}, _MARITH),
    "TokenizerInfo": closed(
        {
            "bos_token": or_null(TEXT),
            "bos_token_id": or_null(COUNT),
            "eos_token": or_null(TEXT),
            "eos_token_id": or_null(COUNT),
            "vocab_size": COUNT,
            "max_model_len": COUNT,
        }
    ),
}
