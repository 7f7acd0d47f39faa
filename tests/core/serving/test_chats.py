"""A chat over the wire is the engine's own answer, whole and in events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_deltas import KINDS, require_joined
from support.chat_families import tool
from support.held_passes import fail_passes
from support.http_server import CHAT, PERSONAS, client, events, lanes, served, wait_until

from marith import DeadlineExceeded, Options
from marith.serving.server import Server

GOLDEN = Path(__file__).parents[2] / "data" / "chat_stream.txt"
ALSO = '"gpt-4o-mini" = "M - 0.5*rude + 0.3*kind"\n'
FORMULA = "M - 0.5*rude + 0.3*kind"
TERMS = {"rude": "You are rude.", "kind": "You are kind."}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("chats"), personas=PERSONAS + ALSO) as server:
        yield server


def ask(web: httpx.Client, **body: Any) -> Any:
    answer = web.post("/v1/chat/completions", json={"messages": CHAT, "model": "polite", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(web: httpx.Client, **body: Any) -> list[Any]:
    body = {"messages": CHAT, "model": "polite", "stream": True, **body}
    return events(web.post("/v1/chat/completions", json=body).text)


@pytest.mark.parametrize("model", ["polite", "gpt-4o-mini"])
def test_the_answer_equals_the_answer_of_the_engine(web: httpx.Client, model: str) -> None:
    told = ask(web, model=model, seed=3, max_tokens=20, temperature=0.9)
    engine = Options().engine()
    wanted = engine.generate(CHAT, FORMULA, TERMS, seed=3, max_tokens=20, temperature=0.9)
    [choice] = told["choices"]
    assert choice["message"] == {"role": "assistant", "content": wanted.text, "refusal": None}
    assert choice["finish_reason"] == wanted.finish_reason
    assert told["usage"]["completion_tokens"] == wanted.usage.completion_tokens
    assert told["usage"]["prompt_tokens"] == wanted.usage.prompt_tokens
    assert told["model"] == model
    assert told["object"] == "chat.completion"


def test_a_refusal_and_what_other_providers_left_are_read_for_their_text(
    web: httpx.Client,
) -> None:
    asked, left = {"role": "user", "content": "k"}, {"type": "web_search_call", "id": "w"}
    said = {"role": "assistant", "content": "no"}
    forms: list[Any] = [
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": [left, {"type": "text", "text": "no"}]},
    ]
    whole = ask(web, messages=[asked, said, asked], seed=1, max_tokens=4)
    for form in forms:
        told = ask(web, messages=[asked, form, asked], seed=1, max_tokens=4)
        assert told["choices"] == whole["choices"]
        assert told["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    silent = {"role": "assistant", "content": None}
    assert ask(web, messages=[asked, silent, asked], max_tokens=2)["choices"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
def test_the_joined_deltas_are_the_whole_answer(web: httpx.Client, kind: dict[str, Any]) -> None:
    for seed in range(6):  # 200 in tests/evidence
        asked: dict[str, Any] = {"seed": seed, "max_tokens": 30, **kind}
        require_joined(ask(web, **asked), stream(web, **asked))


def test_reasoning_and_calls_stream_as_they_are_answered(tmp_path: Path, thinking_dir: str) -> None:
    tools = [
        tool("clock", "place", place={"type": "string"}),
        tool("map", "river", "scale", river={"type": "string"}, scale={"type": "integer"}),
    ]
    asked: dict[str, Any] = {"tools": tools, "logprobs": True, "n": 2, "temperature": 0}
    with served(tmp_path, personas="", model=thinking_dir) as server, client(server) as web:
        for text in ("clock and map", "Hello!"):
            body = {"model": "", "messages": [{"role": "user", "content": text}], **asked}
            whole, chunks = ask(web, **body), stream(web, **body)
            require_joined(whole, chunks)
            for choice in whole["choices"]:
                assert choice["message"]["reasoning_content"] in ("Two of them.", "A greeting.")
                calls = choice["message"].get("tool_calls", ())
                assert len(calls) == (2 if "clock" in text else 0)


LIMITS = "max_reasoning_tokens", "thinking_token_budget", "thinking_budget_tokens"


def test_reasoning_is_limited_by_the_names_of_other_servers(
    tmp_path: Path, thinking_dir: str
) -> None:
    body: dict[str, Any] = {
        "model": "", "messages": [{"role": "user", "content": "Hello!"}], "temperature": 0,
    }  # fmt: skip
    with served(tmp_path, personas="", model=thinking_dir) as server, client(server) as web:
        plain = ask(web, **body)["choices"][0]["message"]
        for given in ({name: 1} for name in LIMITS):
            whole, chunks = ask(web, **body, **given), stream(web, **body, **given)
            require_joined(whole, chunks)
            message = whole["choices"][0]["message"]
            assert plain["reasoning_content"].startswith(message["reasoning_content"])
            assert len(message["reasoning_content"]) < len(plain["reasoning_content"])
        several = {"thinking_token_budget": None, "thinking_budget_tokens": 1}
        assert ask(web, **body, **several)["choices"][0]["message"] == message
        several = dict.fromkeys(LIMITS, 1) | {"max_reasoning_tokens": 2}
        refused = web.post("/v1/chat/completions", json={**body, **several})
        assert "names of one limit" in refused.json()["error"]["message"]
        none = ask(web, **body, reasoning_effort="none")["choices"][0]["message"]
        assert not none.get("reasoning_content")
        high = ask(web, **body, reasoning_effort="high")
        assert high["choices"][0]["message"] == plain
        [warning] = high["marith"]["warnings"]
        assert warning.startswith("reasoning_effort='high' has no effect")
        assert ask(web, **body, thinking_budget_tokens=-1)["choices"][0]["message"] == plain
        body_aside = {**body, "steer_reasoning": False}
        refused = web.post("/v1/chat/completions", json=body_aside)
        assert refused.status_code == 400
        assert "within marith" in refused.json()["error"]["message"]
        aside = ask(web, **body, marith={"steer_reasoning": False, "steer_tools": False})
        assert aside["choices"][0]["message"] == plain


def test_a_stream_equals_the_recorded_one(web: httpx.Client) -> None:
    body = {
        "messages": CHAT, "model": "polite", "seed": 1, "max_tokens": 3, "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 0,
    }  # fmt: skip
    web.post("/v1/chat/completions", json={**body, "stream": False})  # from here on it is cached
    text = web.post("/v1/chat/completions", json=body).text
    text = re.sub(r'"id":"chatcmpl-[0-9a-f]+"|"created":\d+', '"":""', text)
    text = re.sub(r"fp_[0-9a-f]+", "fp", text)
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_a_seeded_answer_can_be_continued(web: httpx.Client) -> None:
    engine, same = Options().engine(), 0
    for seed in range(12):
        whole = ask(web, seed=seed, max_tokens=24)["choices"][0]["message"]["content"]
        head = whole[: whole.rindex(" ")]
        messages = [*CHAT, {"role": "assistant", "content": head}]
        rest = ask(web, messages=messages, continue_final_message=True, seed=seed, max_tokens=24)
        text = rest["choices"][0]["message"]["content"]
        if engine.encode(whole)[: len(engine.encode(head))] == engine.encode(head):
            same += 1  # the text's own tokens
            assert (head + text).startswith(whole.rstrip()) or len(engine.encode(whole)) < 24
    assert same


def test_without_max_tokens_an_answer_is_as_long_as_it_becomes(web: httpx.Client) -> None:
    told = ask(web, ignore_eos=True, seed=1)
    assert told["usage"]["total_tokens"] >= 1000  # pocket's context
    assert told["choices"][0]["finish_reason"] == "length"


def test_costs_come_where_they_are_asked_for(web: httpx.Client) -> None:
    told = ask(web, max_tokens=4, marith={"composition": True})
    [costs] = told["marith"]["composition"]
    assert costs["formula"] == FORMULA
    assert costs["passes"] > 0


def test_unknown_fields_are_ignored_and_reported(web: httpx.Client) -> None:
    told = ask(web, max_tokens=2, user="me", never_heard_of=3)
    assert told["marith"]["warnings"] == ["the field 'never_heard_of' is unknown, and was ignored"]
    chunks = stream(web, max_tokens=2, never_heard_of=3)
    assert chunks[-1]["marith"]["warnings"]
    assert all(chunk["choices"] for chunk in chunks)


def test_a_client_that_disconnects_frees_its_lanes(server: Server) -> None:
    body = {"messages": CHAT, "model": "polite", "max_tokens": 900, "ignore_eos": True}
    with client(server) as web:
        with web.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
            lines = answer.iter_lines()  # held: its end is the client's leaving
            next(lines)
            wait_until(lambda: lanes(server) > 0)
        wait_until(lambda: lanes(server) == 0, 5)
    impatient = client(server)
    impatient.timeout = httpx.Timeout(0.4)
    with impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post("/v1/chat/completions", json=body)
    wait_until(lambda: lanes(server) == 0, 5)
    wait_until(lambda: server.running == 0, 5)


def test_an_error_inside_a_stream_is_one_event(server: Server, web: httpx.Client) -> None:
    body = {
        "messages": CHAT, "model": "polite", "stream": True, "max_tokens": 900,
        "ignore_eos": True,
    }  # fmt: skip
    with web.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        with fail_passes(server.engines()[0], DeadlineExceeded('it took "too" long')):
            told = [line[6:] for line in lines if line.startswith("data: ")]
    assert told[-1] == "[DONE]"
    error = json.loads(told[-2])["error"]
    assert error["message"] == 'it took "too" long'
    assert error["code"] == "timeout"
