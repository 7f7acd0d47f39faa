"""The OpenAPI document is one, names every route, and is true of what the routes answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from support.openapi import hold, require_exact, resolved, response_for, validator
from support.serving import BEARER, CHAT, KEYS, WEATHER, client, events, served

from marith import DeadlineExceeded
from marith.serving.app import application
from marith.serving.openapi import SCHEMAS, openapi_path
from marith.serving.server import Server
from marith.serving.server_settings import Bounds

KEYWORDS = {
    "$ref", "additionalProperties", "anyOf", "const", "default", "description", "enum", "items",
    "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minimum",
    "exclusiveMinimum", "pattern", "properties", "propertyNames", "required", "type",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bounds = replace(Bounds(), requests_of_key=6, body=60_000)
    with served(
        tmp_path_factory.mktemp("openapi"), bounds, keys=KEYS, page_key=KEYS[1], allow_formulas=True
    ) as server:
        yield server


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and those in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for one in (*inner, schema.get("items"), schema.get("additionalProperties")):
        yield from schemas_in(one)


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in some JSON."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, (dict, list)):
            yield from objects_in(one)


def test_the_document_is_one_of_openapi(document: Any) -> None:
    assert re.fullmatch(r"3\.1\.\d", document["openapi"])
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        for inner in schemas_in(schema):
            assert set(inner) <= KEYWORDS, name  # an unknown keyword constrains nothing
    answers = document["components"]["schemas"]
    assert {name: answers[name] for name in SCHEMAS} == SCHEMAS  # none has the name of a body
    for one in objects_in(document):
        if isinstance(one.get("$ref"), str):
            assert resolved(document, one)
    items = [one for item in document["paths"].values() for one in item.values()]
    ids = [one["operationId"] for one in items]
    assert len({*ids}) == len(ids)
    for path, item in document["paths"].items():
        for operation in item.values():
            in_path = [one for one in operation["parameters"] if one["in"] == "path"]
            assert [one["name"] for one in in_path] == re.findall(r"\{(\w+)\}", path)
            assert operation["summary"].endswith((".", ":")), path
            answers = [resolved(document, one) for one in operation["responses"].values()]
            assert all(one["description"] for one in answers)


def test_it_names_every_route_and_no_other(server: Server, document: Any) -> None:
    routed = {
        (openapi_path(route.path), method.lower())  # type: ignore[attr-defined]
        for route in application(server, loads=False).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    assert routed == {(path, one) for path, item in document["paths"].items() for one in item}


def test_keys_are_named_where_they_are_asked_for(server: Server, document: Any) -> None:
    opened = [
        path
        for path, item in document["paths"].items()
        if any(operation.get("security") == [] for operation in item.values())
    ]
    assert opened == ["/health", "/ready", "/", "/page/{file}", "/page/key"]
    assert document["security"] == [{"key": []}]
    with client(server) as stranger:
        assert stranger.get("/openapi.json").status_code == 401


def test_without_a_page_its_paths_ask_for_a_key(tmp_path: Path) -> None:
    with served(tmp_path, keys=KEYS, page=False) as server, client(server) as stranger:
        document = stranger.get("/openapi.json", headers=BEARER).json()
        for path in ("/", "/page/index.html"):
            assert stranger.get(path).status_code == 401
            [operation] = document["paths"][path.replace("index.html", "{file}")].values()
            assert "security" not in operation


ASKED: dict[str, Any] = {"model": "polite", "seed": 1, "max_tokens": 5}
TALK = {**ASKED, "messages": CHAT}
CALLS = {**TALK, "tools": [WEATHER], "tool_choice": "required", "max_tokens": 40}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
COSTS = {"marith": {"composition": True}}
SCORED = {"logprobs": True, "top_logprobs": 2}
OLD = {**ASKED, "prompt": "The sea is wide"}
POSTS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("/v1/chat/completions", {**body, **more})
        for body in (
            TALK, CALLS, {**TALK, **SCORED}, {**TALK, "n": 2, "never_heard_of": 1},
            {**TALK, **COSTS, **SCORED}, {**TALK, "stop": ["e"]}, {**CALLS, **SCORED},
        )
        for more in ({}, STREAMED)
    ),
    ("/v1/chat/completions", {**TALK, **COSTS, "stream": True}),
    ("/v1/completions", {**OLD, "echo": True, "logprobs": 2, "n": 2}),
    ("/v1/completions", {**OLD, "echo": True, "max_tokens": 0, "logprobs": 1}),
    ("/v1/completions", {**OLD, **STREAMED, "logprobs": 1}),
    ("/v1/completions", {**OLD, **COSTS, "stream": True, "other": 1}),
    ("/v1/completions", {**OLD, **COSTS, "stop": "e"}),
    ("/v1/score", {"prompt": "The sea", "continuation": " is wide", "other": 1}),
    ("/v1/score", {"messages": CHAT, "continuation": "Well."}),
    ("/tokenize", {"prompt": "The sea", "other": 1}),
    ("/tokenize", {"messages": CHAT}),
    ("/detokenize", {"tokens": [5, 6], "other": 1}),
    ("/v1/explain", {"model": "polite", "other": 1}),
    ("/v1/explain", {"formula": "M - 0.5*rude + own", "terms": {"own": "Be brief."}}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), POSTS, ids=lambda value: str(value)[-60:])
def test_answers_are_as_described(
    web: httpx.Client, document: Any, path: str, body: dict[str, Any]
) -> None:
    takes = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator(document, takes).validate(body)
    answer = web.post(path, json=body)
    assert answer.status_code == 200, answer.text
    hold(document, answer)


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1/models/polite", "/v1/recipes", "/tokenizer_info", "/health", "/ready",
     "/metrics", "/", "/page/index.html", "/openapi.json"],
)  # fmt: skip
def test_what_a_server_says_of_itself_is_as_described(
    web: httpx.Client, document: Any, path: str
) -> None:
    answer = web.get(path)
    assert answer.status_code == 200
    hold(document, answer)


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", TALK), ("/v1/completions", OLD)]
)
def test_an_error_inside_a_stream_is_as_described(
    server: Server, web: httpx.Client, document: Any, path: str, body: dict[str, Any]
) -> None:
    long = {**body, "max_tokens": 900, "ignore_eos": True, "stream": True}
    with web.stream("POST", path, json=long) as answer:
        parts = answer.iter_text()
        text = next(parts)
        for job in server.engines()[0]._thread.queue.jobs:
            job.fail(DeadlineExceeded("it took too long"))
        text += "".join(parts)
    described = response_for(document, "post", path, 200)["content"]["text/event-stream"]
    checks, told = validator(document, described["schema"]), events(text)
    for one in told[-2:]:
        checks.validate(one)
        require_exact(checks, one)
    assert any(one.get("error") for one in told)


def test_the_key_of_the_page_comes_as_described(
    server: Server, web: httpx.Client, document: Any
) -> None:
    answer = web.post("/page/key", json={"token": server.page_token.offer()})
    assert answer.json() == {"key": KEYS[1]}
    hold(document, answer)
    hold(document, web.post("/page/key", json={"token": "other"}))


def test_errors_are_as_described(server: Server, web: httpx.Client, document: Any) -> None:
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
        web.post("/v1/explain", json={"formula": "M + (2"}),
        web.post("/tokenize", json={"prompt": "a" * 70_000}),
        web.post("/tokenize", content=b"{}", headers={"content-type": "text/plain"}),
        web.get("/v1/models", headers={"host": "evil.example"}),
    ]
    long = {**TALK, "max_tokens": 900, "ignore_eos": True, "stream": True}
    with web.stream("POST", chat, json=long):
        answers.append(web.post(chat, json={**TALK, "n": 6}))
    server.draining = True
    try:
        answers += [web.post(chat, json=TALK), web.get("/ready")]
    finally:
        server.draining = False
    statuses = [400, 401, 403, 404, 400, 404, 404, 404, 405, 400, 413, 415, 421, 429, 503, 503]
    assert [answer.status_code for answer in answers] == statuses
    for answer in answers:
        hold(document, answer)
        if answer.status_code in (429, 503):
            assert answer.headers["retry-after"] == "1"
