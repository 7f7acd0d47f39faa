"""Bodies of `/v1/responses` mean a chat, or are refused by the names that their fields have."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.serving import WEATHER, lanes

from marith.serving.server import Server
from marith.serving.wire.response_fields import ResponseFields
from marith.serving.wire.response_requests import chat_of, messages_of

TOOL = {"type": "function", **WEATHER["function"]}


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "weather", "arguments": "{}"}


def called(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def test_items_that_follow_one_another_are_one_message() -> None:
    items = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [],
         "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
         "content": [{"type": "output_text", "text": "I ", "annotations": []},
                     {"type": "output_text", "text": "look."}]},
        call("a"), call("b"),
        {"type": "function_call_output", "call_id": "a", "output": "Rain"},
        {"type": "function_call_output", "call_id": "b",
         "output": [{"type": "input_text", "text": "Sun"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]},
        call("c"),
        {"type": "function_call_output", "call_id": "c", "output": "Fog"},
        {"type": "reasoning", "summary": [], "encrypted_content": "xyz"},
        {"role": "assistant", "content": "It rains."},
        {"role": "assistant", "content": "Or not."},
        {"type": None, "role": "user", "content": "Well?"},
    ]  # fmt: skip
    assert messages_of(ResponseFields(input=items, instructions="Be brief.")) == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.",
         "tool_calls": [called("a"), called("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "Rain"},
        {"role": "tool", "tool_call_id": "b", "content": "Sun"},
        {"role": "assistant", "content": "", "reasoning_content": "So.",
         "tool_calls": [called("c")]},
        {"role": "tool", "tool_call_id": "c", "content": "Fog"},
        {"role": "assistant", "content": "It rains."},
        {"role": "assistant", "content": "Or not."},
        {"role": "user", "content": "Well?"},
    ]  # fmt: skip


def test_tools_and_formats_are_those_of_a_chat() -> None:
    schema = {"type": "object", "properties": {}}
    chat = chat_of(
        ResponseFields(
            input="Hi",
            tools=[{**TOOL, "strict": True, "description": None}],
            text={"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}},
            max_output_tokens=7,
            top_k=3,
            seed=4,
        )
    )
    assert chat.tools == [{"type": "function", "function": {**WEATHER["function"], "strict": True}}]
    described = {"name": "x", "schema": schema, "strict": True}
    assert chat.response_format == {"type": "json_schema", "json_schema": described}
    assert (chat.max_completion_tokens, chat.top_k, chat.seed) == (7, 3, 4)


def part(**fields: Any) -> list[Any]:
    return [{"role": "user", "content": [fields]}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"role": "user", "content": "x"}] * 6}, "input"),
        ({"input": part(type="input_image", image_url="x")}, "input"),
        ({"input": part(type="input_file", file_id="x")}, "input"),
        ({"input": part(type="input_text")}, "input"),
        ({"input": [{"role": "user"}]}, "input"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
        ({"input": [{"id": "msg_1"}]}, "input"),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input"),
        ({"input": [{**call("a"), "arguments": {}}]}, "input"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": 5}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": [{"text": 5}]}]}, "input"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
        ({"input": "the sea " * 1500}, "input"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "x"}}, "conversation"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "x"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": [WEATHER]}, "tools"),
        ({"tools": [{**TOOL, "description": 5}]}, "tools"),
        ({"tools": [TOOL] * 3}, "tools"),
        *(
            ({"tools": [TOOL], "tool_choice": choice}, "tool_choice")
            for choice in (
                {"type": "allowed_tools"},
                {"type": "function", "function": {"name": "weather"}},
                {"type": "function", "name": "weather", "strict": True},
                {"type": "function", "name": "auto"},
                "nobody",
            )
        ),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "text"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text"),
        ({"metadata": {"a": 5}}, "metadata"),
        ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "x"}]}, "messages"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"n": 2}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"marith": {"formula": "2*M"}}, "marith"),
        ({"model": "gpt-5"}, "model"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_cannot_be_served_is_a_400_that_names_the_field(
    server: Server, web: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = web.post("/v1/responses", json={"input": "Hi", "max_output_tokens": 2, **fields})
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param
    assert lanes(server) == 0


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ("any", "required"),
        ("required", "required"),
        ("weather", {"type": "function", "name": "weather"}),
        ({"type": "function", "name": "weather"}, {"type": "function", "name": "weather"}),
        (None, "auto"),
    ],
)
def test_a_choice_of_tools_is_answered_as_it_is_understood(
    web: httpx.Client, given: Any, answered: Any
) -> None:
    body = {"input": "Hi", "max_output_tokens": 40, "tools": [TOOL], "tool_choice": given}
    answer = web.post("/v1/responses", json=body).json()
    assert answer["tool_choice"] == answered
    if given is not None:
        assert answer["output"][0]["type"] == "function_call"


def test_what_changes_nothing_is_taken(web: httpx.Client) -> None:
    empty = {
        "previous_response_id": None, "conversation": None, "store": False, "background": False,
        "prompt": None, "truncation": "disabled", "include": [], "top_logprobs": 0, "tools": [],
        "tool_choice": "auto", "n": 1, "user": "me", "service_tier": "auto", "max_tool_calls": 3,
        "prompt_cache_key": "x", "stream_options": {"include_obfuscation": False}, "text": {},
    }  # fmt: skip
    answer = web.post("/v1/responses", json={"input": "Hi", "max_output_tokens": 2, **empty})
    assert answer.status_code == 200, answer.text
    assert "marith" not in answer.json()
