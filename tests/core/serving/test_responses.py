"""A response over the wire is the engine's own answer in items, whole and in events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from support.serving import CHAT, WEATHER, client, served

from marith import DeadlineExceeded, Options
from marith.serving.schemas.answer_schemas import SCHEMAS, ref
from marith.serving.schemas.response_schemas import RESPONSE_SCHEMAS
from marith.serving.server import Server
from marith.testing import save_scripted

GOLDEN = Path(__file__).parents[2] / "data" / "responses_stream.txt"
FORMULA = "M - 0.5*rude + 0.3*kind"
TERMS = {"rude": "You are rude.", "kind": "You are kind."}
SAID = CHAT[0]["content"]
TOOL = {"type": "function", **WEATHER["function"]}
LOGPROBS = "message.output_text.logprobs"
ROME = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
SCRIPT = [
    ("both", f"<think>Two of them.</think>Both, then.{ROME}{ROME.replace('Rome', 'Oslo')}"),
    ("call", f"<think>One.</think>{ROME}"),
    ("", "<think>A greeting, äöü.</think>Good day, 世界."),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("responses")) as server:
        yield server


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose model reasons, and calls."""
    from transformers import AutoTokenizer

    from marith.scoring.checkpoints.loader import locate

    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    model = save_scripted(tmp_path_factory.mktemp("thinking"), SCRIPT, tokenizer)
    with served(tmp_path_factory.mktemp("served"), model=model) as server, client(server) as web:
        yield web


@cache
def described(name: str) -> Draft202012Validator:
    """What the OpenAPI document says of an answer or an event."""
    schemas = {**SCHEMAS, **RESPONSE_SCHEMAS}
    return Draft202012Validator({**ref(name), "components": {"schemas": schemas}})


def ask(web: httpx.Client, **body: Any) -> Any:
    answer = web.post("/v1/responses", json={"input": SAID, **body})
    assert answer.status_code == 200, answer.text
    described("Response").validate(answer.json())
    return answer.json()


def stream(web: httpx.Client, **body: Any) -> list[Any]:
    """The events of a stream, each of which has its type twice and the next number."""
    answer = web.post("/v1/responses", json={"input": SAID, "stream": True, **body})
    parts = [part.split("\n") for part in answer.text.split("\n\n") if part]
    told = [json.loads(data.removeprefix("data: ")) for _, data in parts]
    assert [name for name, _ in parts] == [f"event: {one['type']}" for one in told]
    assert [one["sequence_number"] for one in told] == [*range(len(told))]
    for one in {one["type"]: one for one in told}.values():
        described("ResponseEvent").validate(one)
    return told


def joined(told: list[Any]) -> list[Any]:
    """The items that the deltas of a stream make; what its other events say of them is the same."""
    items: list[Any] = []
    for one in told:
        kind = one["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert one["output_index"] == len(items)
            items.append(one["item"])
            continue
        if "output_index" not in one:
            continue
        item = items[one["output_index"]]
        assert one.get("item_id", item["id"]) == item["id"]
        match kind:
            case "content_part.added":
                item["content"].append(one["part"])
            case "output_text.delta" | "reasoning_text.delta":
                item["content"][one["content_index"]]["text"] += one["delta"]
                if "logprobs" in one:
                    item["content"][one["content_index"]]["logprobs"] += one["logprobs"]
            case "function_call_arguments.delta":
                item["arguments"] += one["delta"]
            case "output_text.done" | "reasoning_text.done":
                assert item["content"][one["content_index"]]["text"] == one["text"]
            case "content_part.done":
                assert item["content"][one["content_index"]] == one["part"]
            case "function_call_arguments.done":
                assert item["arguments"] == one["arguments"]
            case "output_item.done":
                assert {**item, "status": one["item"]["status"]} == one["item"]
                item["status"] = one["item"]["status"]
    return items


def without_ids(items: list[Any]) -> list[Any]:
    """Items as a second answer has them too: ids are new, numbers are within rounding."""
    text = re.sub(r'"(rs|msg|fc|call)_[0-9a-f]+"', '"id"', json.dumps(items))
    return list(json.loads(text, parse_float=lambda number: pytest.approx(float(number), abs=1e-3)))


def text_of(response: Any) -> str:
    [item] = response["output"]
    [part] = item["content"]
    return str(part["text"])


def test_the_answer_is_the_engines(web: httpx.Client) -> None:
    asked = {"model": "polite", "seed": 3, "max_output_tokens": 20, "temperature": 0.9}
    told = ask(web, **asked, instructions="Be brief.", metadata={"of": "me"}, user="me")
    engine = Options().engine()
    messages = [{"role": "system", "content": "Be brief."}, *CHAT]
    wanted = engine.generate(messages, FORMULA, TERMS, seed=3, max_tokens=20, temperature=0.9)
    assert text_of(told) == wanted.text
    cut = wanted.finish_reason == "length"
    assert told["status"] == ("incomplete" if cut else "completed")
    assert told["incomplete_details"] == ({"reason": "max_output_tokens"} if cut else None)
    assert told["usage"]["output_tokens"] == wanted.usage.completion_tokens
    assert told["usage"]["input_tokens"] == wanted.usage.prompt_tokens
    assert told["metadata"] == {"of": "me"}
    assert told["store"] is False
    assert "marith" not in told


KINDS: list[dict[str, Any]] = [
    {},
    {"include": [LOGPROBS], "top_logprobs": 2},
    {"tools": [TOOL], "tool_choice": {"type": "function", "name": "weather"}},
    {"text": {"format": {"type": "json_object"}}},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
def test_deltas_joined_are_the_whole_answer(web: httpx.Client, kind: dict[str, Any]) -> None:
    for seed in range(3):
        asked: dict[str, Any] = {"model": "polite", "seed": seed, "max_output_tokens": 20, **kind}
        whole, told = ask(web, **asked), stream(web, **asked)
        items, last = joined(told), told[-1]["response"]
        assert last["output"] == items
        assert told[-1]["type"] == f"response.{last['status']}"
        assert without_ids(items) == without_ids(whole["output"])
        assert last["status"] == whole["status"]
        assert last["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
        assert {one["response"]["id"] for one in told if "response" in one} == {last["id"]}


@pytest.mark.parametrize(
    ("said", "kinds", "calls"),
    [
        ("Hello", ["reasoning", "message"], []),
        ("call", ["reasoning", "function_call"], ["Rome"]),
        ("both", ["reasoning", "message", "function_call", "function_call"], ["Rome", "Oslo"]),
    ],
)
def test_reasoning_texts_and_calls_are_items(
    thinking: httpx.Client, said: str, kinds: list[str], calls: list[str]
) -> None:
    asked: dict[str, Any] = {"input": said, "temperature": 0, "tools": [TOOL]}
    whole, told = ask(thinking, **asked), stream(thinking, **asked)
    assert [item["type"] for item in whole["output"]] == kinds
    assert whole["status"] == "completed"
    assert without_ids(joined(told)) == without_ids(whole["output"])
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    arguments = [item["arguments"] for item in whole["output"] if "arguments" in item]
    assert [json.loads(text)["city"] for text in arguments] == calls
    cut = ask(thinking, **{**asked, "max_output_tokens": 3})
    assert cut["output"][-1]["status"] == cut["status"] == "incomplete"


def test_a_message_has_the_log_probabilities_of_its_own_tokens(thinking: httpx.Client) -> None:
    told = ask(thinking, input="Hello", temperature=0, include=[LOGPROBS], top_logprobs=1)
    [part] = told["output"][1]["content"]
    data = b"".join(bytes(token["bytes"]) for token in part["logprobs"])
    assert data.decode().endswith(part["text"])
    assert b"greeting" not in data
    assert all(len(token["top_logprobs"]) == 1 for token in part["logprobs"])


def test_what_was_answered_is_sent_again(thinking: httpx.Client, web: httpx.Client) -> None:
    first = ask(thinking, input="both", temperature=0, tools=[TOOL])
    calls = [item for item in first["output"] if item["type"] == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "It rains."}
        for call in calls
    ]
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "both"}]}]
    again = ask(thinking, input=[*asked, *first["output"], *results], temperature=0, tools=[TOOL])
    assert again["status"] == "completed"
    assert again["usage"]["input_tokens"] > first["usage"]["input_tokens"]


def test_a_stream_is_as_recorded(web: httpx.Client) -> None:
    body = {"input": SAID, "model": "polite", "max_output_tokens": 2, "temperature": 0}
    web.post("/v1/responses", json=body)  # from here on it is cached
    text = web.post("/v1/responses", json={**body, "stream": True}).text
    text = re.sub(r'"(resp|msg)_[0-9a-f]+"', r'"\1"', text)
    text = re.sub(r'"(created_at|completed_at)":\d+', r'"\1":0', text)
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_unknown_fields_and_costs_are_said(web: httpx.Client) -> None:
    asked: dict[str, Any] = {
        "max_output_tokens": 2, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"], "tools": [{**TOOL, "defer_loading": True}],
        "marith": {"composition": True},
    }  # fmt: skip
    told, events = ask(web, **asked), stream(web, **asked)
    for said in (told["marith"], events[-1]["response"]["marith"]):
        named = [warning.split("'")[1] for warning in said["warnings"]]
        assert named == ["reasoning", "tools.0.defer_loading", "message.output_text.logprobs"]
        assert said["warnings"][-1] == (
            "include has 'message.output_text.logprobs' or nothing here, not "
            "'reasoning.encrypted_content', which was ignored"
        )
        assert said["composition"][0]["passes"] > 0


def test_an_error_inside_a_stream_is_an_event_and_a_failed_response(
    server: Server, web: httpx.Client
) -> None:
    body = {"input": SAID, "stream": True, "max_output_tokens": 900, "ignore_eos": True}
    with web.stream("POST", "/v1/responses", json=body) as answer:
        lines = answer.iter_lines()
        while "delta" not in next(lines):
            pass
        for job in server.engines()[0]._thread.queue.jobs:
            job.fail(DeadlineExceeded('it took "too" long'))
        told = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    error, failed = told[-2:]
    assert error["type"] == "error"
    assert error["code"] == error["error"]["code"] == "timeout"
    assert failed["type"] == "response.failed"
    assert failed["sequence_number"] == error["sequence_number"] + 1
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"]["message"] == 'it took "too" long'
    assert text_of(failed["response"])
