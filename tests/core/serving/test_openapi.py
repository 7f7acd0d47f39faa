"""The OpenAPI document names every route with its body, and every error is OpenAI's object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from support.http_server import CHAT, KEYS, WEATHER, client, served

from marith.serving.app import application
from marith.serving.openapi import openapi_path
from marith.serving.server import Server
from marith.serving.server_settings import ServingLimits


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    limits = replace(ServingLimits(), requests_of_key=6, body=60_000)
    with served(tmp_path_factory.mktemp("openapi"), limits, keys=KEYS) as server:
        yield server


@pytest.fixture(scope="module")
def document(web: httpx.Client) -> Any:
    return web.get("/openapi.json").json()


def test_the_document_names_every_route_and_no_other(server: Server, document: Any) -> None:
    routed = {
        (openapi_path(route.path), method.lower())  # type: ignore[attr-defined]
        for route in application(server, loads=False).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    operations = {
        (path, method): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert routed == operations.keys()
    assert len({one["operationId"] for one in operations.values()}) == len(operations)
    for (path, method), operation in operations.items():
        names = {where: [] for where in ("path", "query")}
        for one in operation["parameters"]:
            names[one["in"]].append(one["name"])
        assert names["path"] == re.findall(r"\{(\w+)\}", path)
        assert names["query"] == (["model"] if path == "/tokenizer_info" else [])
        assert operation["summary"].endswith((".", ":")), path
        assert ("requestBody" in operation) == (method == "post")


def test_keys_are_named_where_they_are_asked_for(server: Server, document: Any) -> None:
    opened = [
        path
        for path, item in document["paths"].items()
        if any(operation.get("security") == [] for operation in item.values())
    ]
    assert opened == ["/health", "/ready", "/", "/page/{file}"]
    assert document["security"] == [{"key": []}]
    with client(server) as stranger:
        assert stranger.get("/openapi.json").status_code == 401


TALK: dict[str, Any] = {"model": "polite", "seed": 1, "max_tokens": 5, "messages": CHAT}
OLD = {"model": "polite", "prompt": "The sea is wide", "max_tokens": 5}
BODIES: list[tuple[str, dict[str, Any], bool]] = [
    ("/v1/chat/completions", {**TALK, "tools": [WEATHER], "tool_choice": "required"}, True),
    ("/v1/chat/completions", {**TALK, "marith": {"composition": True, "never": 1}}, False),
    ("/v1/completions", {**OLD, "echo": True, "logprobs": 2, "n": 2}, True),
    ("/v1/completions", {**OLD, "logprobs": 6}, False),
    ("/v1/score", {"messages": CHAT, "continuation": "Well."}, True),
    ("/tokenize", {"prompt": "The sea", "other": 1}, True),
    ("/detokenize", {"tokens": ["x"]}, False),
    ("/v1/explain", {"formula": "M", "terms": {"own": "Be brief."}}, True),
    ("/v1/inspect", {"messages": CHAT, "continuation": [5]}, True),
    ("/v1/what_if", {"messages": CHAT, "continuation": [5], "number": 0}, False),
]


@pytest.mark.parametrize(("path", "body", "holds"), BODIES, ids=lambda value: str(value)[-60:])
def test_bodies_are_as_described(
    document: Any, path: str, body: dict[str, Any], holds: bool
) -> None:
    takes = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = {**takes, "components": document["components"]}
    Draft202012Validator.check_schema(schema)
    assert Draft202012Validator(schema).is_valid(body) is holds


def test_every_error_is_openais_object(server: Server, web: httpx.Client) -> None:
    chat, wrong = "/v1/chat/completions", {"authorization": "Bearer wrong-key-here"}
    answers = [
        web.post(chat, json={**TALK, "temperature": -1}),
        web.post(chat, json=TALK, headers=wrong),
        web.get("/v1/models", headers={"origin": "https://evil.example"}),
        web.post(chat, json={**TALK, "model": "none"}),
        web.post("/v1/completions", json={**OLD, "suffix": "."}),
        web.get("/v1/models/none"),
        web.get("/tokenizer_info?model=none"),
        web.get("/nowhere"),
        web.get(chat),
        web.post("/tokenize", json={"prompt": "a" * 70_000}),
        web.post("/tokenize", content=b"{}", headers={"content-type": "text/plain"}),
        web.get("/v1/models", headers={"host": "evil.example"}),
    ]
    long = {**TALK, "max_tokens": 900, "ignore_eos": True, "stream": True}
    with web.stream("POST", chat, json=long):
        answers.append(web.post(chat, json={**TALK, "n": 6}))
    server.draining = True
    try:
        answers.append(web.post(chat, json=TALK))
        assert web.get("/ready").status_code == 503
    finally:
        server.draining = False
    statuses = [400, 401, 403, 404, 400, 404, 404, 404, 405, 413, 415, 421, 429, 503]
    assert [answer.status_code for answer in answers] == statuses
    for answer in answers:
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        assert "x-request-id" in answer.headers
        if answer.status_code in (429, 503):
            assert answer.headers["retry-after"] == "1"
