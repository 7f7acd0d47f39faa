"""JSON schemas of what `/v1/responses` answers: the response, its items, and the events of each."""

from __future__ import annotations

from collections.abc import Mapping

from marith.serving.schemas.answer_schemas import (
    COUNT,
    FLAG,
    NULL,
    NUMBER,
    TEXT,
    Schema,
    always,
    closed,
    listed,
    mapped,
    one_of,
    or_null,
    ref,
)

_STATUS = one_of("in_progress", "completed", "incomplete")
_OBJECT: Schema = {"type": "object"}  # a client's own
_LOGPROBS: Mapping[str, Schema] = {"logprobs": listed(ref("TokenLogprob"))}
_ITEM: Mapping[str, Schema] = {"item_id": TEXT, "output_index": COUNT}
_PART: Mapping[str, Schema] = {**_ITEM, "content_index": COUNT}
_RESPONSE: Mapping[str, Schema] = {"response": ref("Response")}
_ANY_PART: Schema = {"anyOf": [ref("OutputText"), ref("ReasoningText")]}
_ANY_ITEM: Schema = {"anyOf": [ref("OutputMessage"), ref("OutputReasoning"), ref("OutputCall")]}
_FUNCTION = closed({"type": always("function"), "name": TEXT})
_ABOUT: Mapping[str, Schema] = {"message": TEXT, "param": or_null(TEXT), "code": or_null(TEXT)}
_NOTHING: Mapping[str, Schema] = {
    "truncation": always("disabled"),
    "background": always(False),
    "previous_response_id": NULL,
    "store": always(False),
}

EVENTS: Mapping[str, Mapping[str, Schema]] = {
    "response.created": _RESPONSE,
    "response.in_progress": _RESPONSE,
    "response.output_item.added": {"output_index": COUNT, "item": _ANY_ITEM},
    "response.content_part.added": {**_PART, "part": _ANY_PART},
    "response.reasoning_text.delta": {**_PART, "delta": TEXT},
    "response.reasoning_text.done": {**_PART, "text": TEXT},
    "response.output_text.delta": {**_PART, "delta": TEXT, **_LOGPROBS},
    "response.output_text.done": {**_PART, "text": TEXT, **_LOGPROBS},
    "response.function_call_arguments.delta": {**_ITEM, "delta": TEXT},
    "response.function_call_arguments.done": {**_ITEM, "name": TEXT, "arguments": TEXT},
    "response.content_part.done": {**_PART, "part": _ANY_PART},
    "response.output_item.done": {"output_index": COUNT, "item": _ANY_ITEM},
    "response.completed": _RESPONSE,
    "response.incomplete": _RESPONSE,
    "response.failed": _RESPONSE,
    "error": {**_ABOUT, "error": closed({"type": TEXT, **_ABOUT})},
}

RESPONSE_SCHEMAS: Mapping[str, Schema] = {
    "OutputText": closed(
        {"type": always("output_text"), "text": TEXT, "annotations": listed(_OBJECT), **_LOGPROBS}
    ),
    "ReasoningText": closed({"type": always("reasoning_text"), "text": TEXT}),
    "OutputMessage": closed(
        {
            "id": TEXT,
            "type": always("message"),
            "role": always("assistant"),
            "status": _STATUS,
            "content": listed(ref("OutputText")),
        }
    ),
    "OutputReasoning": closed(
        {
            "id": TEXT,
            "type": always("reasoning"),
            "status": _STATUS,
            "summary": listed(_OBJECT),
            "content": listed(ref("ReasoningText")),
        }
    ),
    "OutputCall": closed(
        {
            "id": TEXT,
            "type": always("function_call"),
            "status": _STATUS,
            "call_id": TEXT,
            "name": TEXT,
            "arguments": TEXT,
        }
    ),
    "FunctionTool": closed(
        {
            "type": always("function"),
            "name": TEXT,
            "description": or_null(TEXT),
            "parameters": or_null(_OBJECT),
            "strict": or_null(FLAG),
        }
    ),
    "ResponseUsage": closed(
        {
            "input_tokens": COUNT,
            "input_tokens_details": closed({"cached_tokens": COUNT, "cache_write_tokens": COUNT}),
            "output_tokens": COUNT,
            "output_tokens_details": closed({"reasoning_tokens": COUNT}),
            "total_tokens": COUNT,
        }
    ),
    "Response": closed(
        {
            "id": TEXT,
            "object": always("response"),
            "created_at": COUNT,
            "completed_at": or_null(COUNT),
            "status": one_of("in_progress", "completed", "incomplete", "failed"),
            "model": TEXT,
            "output": listed(_ANY_ITEM),
            "usage": or_null(ref("ResponseUsage")),
            "error": or_null(
                closed({"code": one_of("server_error", "rate_limit_exceeded"), "message": TEXT})
            ),
            "incomplete_details": or_null(closed({"reason": always("max_output_tokens")})),
            "instructions": or_null(TEXT),
            "max_output_tokens": or_null(COUNT),
            "metadata": mapped(TEXT),
            "parallel_tool_calls": FLAG,
            "temperature": NUMBER,
            "top_p": NUMBER,
            "top_logprobs": COUNT,
            "text": closed({"format": _OBJECT}),
            "tool_choice": {"anyOf": [one_of("auto", "none", "required"), _FUNCTION]},
            "tools": listed(ref("FunctionTool")),
            **_NOTHING,
        },
        {"marith": ref("MarithNote")},
    ),
    "ResponseEvent": {
        "anyOf": [
            closed({"type": always(name), "sequence_number": COUNT, **fields})
            for name, fields in EVENTS.items()
        ]
    },
}
