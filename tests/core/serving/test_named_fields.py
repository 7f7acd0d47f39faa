"""Values that cannot be served are refused with a 400 that names their field."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.http_server import CHAT, JSON, WEATHER, lanes

from marith.serving.server import Server


def post(web: httpx.Client, body: str) -> httpx.Response:
    return web.post("/v1/chat/completions", content=body, headers=JSON)


def schema_format(schema: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **fields}}


ODD = {"type": "function", "function": {"name": "odd", "parameters": 5}}
BASE: dict[str, Any] = {"messages": CHAT, "max_tokens": 2}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": CHAT * 1001}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"temperature": -1}, "temperature"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"n": 17}, "n"),
        ({"n": 0}, "n"),
        ({"stop": ["a"] * 65}, "stop"),
        ({"tools": [WEATHER] * 129}, "tools"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"functions": [{}]}, "functions"),
        ({"chat_template": "{{ 7 }}"}, "chat_template"),
        ({"model": "gpt-5"}, "model"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"marith": {"file": "/etc/passwd"}}, "marith"),
        ({"marith": {"speculation": "often"}}, "marith"),
        ({"chat_template_kwargs": {"a": {}}}, "chat_template_kwargs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"tools": [{"type": "function", "function": {"name": "x" * 200_000}}]}, "tools"),
        ({"tools": [{}]}, "tools"),
        ({"tools": [WEATHER] * 2}, "tools"),
        ({"tools": [ODD]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "nobody"}, "tool_choice"),
        ({"response_format": schema_format({"type": "objec"})}, "response_format"),
        ({"response_format": schema_format({"type": "object"}, strict="x")}, "response_format"),
        ({"grammar": "start: ("}, "grammar"),
        ({"stop_token_ids": [10**6]}, "stop_token_ids"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"seed": 2**70}, "seed"),
        ({"min_tokens": 10**9}, "min_tokens"),
        ({"stop": ["a", ""]}, "stop"),
        ({"marith": {"faithful": 1e308}}, "marith"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_served_is_a_400_that_names_the_field(
    server: Server, web: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = post(web, json.dumps({**BASE, **fields}))
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.headers["x-should-retry"] == "false"
    assert lanes(server) == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"repetition_penalty": 0}, {"response_format": {"type": "xml"}},
        {"messages": [{"role": "nobody", "content": "x"}]}, {"messages": [{"content": "x"}]},
        {"grammar": 'start: "a"', "response_format": {"type": "json_object"}},
        {"ignore_eos": True, "grammar": 'start: "a"'},
    ],
    ids=lambda fields: str(fields)[:40],
)  # fmt: skip
def test_values_out_of_range_are_the_clients_fault(
    server: Server, web: httpx.Client, fields: dict[str, Any]
) -> None:
    answer = post(web, json.dumps({**BASE, **fields}))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]
    assert "pydantic" not in answer.text
    assert lanes(server) == 0


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": [10**6]}, "prompt"),
        ("/v1/completions", {"prompt": [5] * 3000}, "prompt"),
        ("/v1/score", {"prompt": "a", "continuation": [10**6]}, "continuation"),
        ("/v1/inspect", {"prompt": "a", "continuation": [10**6]}, "continuation"),
        ("/v1/what_if", {"prompt": "a", "continuation": [-1], "number": 0, "values": [1]},
         "continuation"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_tokens_that_the_model_has_not_are_a_400_that_names_the_field(
    web: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    answer = web.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("chat/completions", {"model": "cook"}, "'messages' is missing"),
        ("chat/completions", {**BASE, "marith": {"formulla": "M"}},
         "'formulla' is not a field of marith"),
        ("chat/completions", {**BASE, "marith": {"x" * 9_000: 1}},
         f"'{'x' * 79} is not a field of marith"),
        ("chat/completions", {**BASE, "model": "polit"},
         "there is no model 'polit'; did you mean 'polite'?"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_mistyped_body_is_one_sentence_without_the_body(
    web: httpx.Client, path: str, body: dict[str, Any], problem: str
) -> None:
    assert web.post(f"/v1/{path}", json=body).json()["error"]["message"] == problem
