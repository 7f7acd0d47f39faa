"""Values that clients send by default and that change nothing are no fault of the request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.http_server import CHAT, served

from marith.serving.server import Server

NARROW = """
[terms]
rude = "You are rude."
[formulas]
narrow = { formula = "M - 0.5*rude", top_k = 1 }
"""
BOTH: list[dict[str, Any]] = [
    {"top_k": 0}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1}, {"min_p": 0}, {"n": 1}, {"n": None},
    {"logit_bias": {}}, {"logit_bias": None}, {"stop": None}, {"stop": []}, {"seed": None},
    {"user": "x"}, {"presence_penalty": 0}, {"frequency_penalty": 0}, {"repetition_penalty": 1},
    {"best_of": 1}, {"best_of": None}, {"stream": False}, {"stream_options": None},
    {"min_tokens": 0}, {"stop_token_ids": []}, {"ignore_eos": False}, {"max_tokens": -1},
    {"use_beam_search": False}, {"length_penalty": 1.0}, {"typical_p": 1.0},
    {"prompt_logprobs": None}, {"guided_json": None}, {"grammar": None},
]  # fmt: skip
OF_CHATS: list[dict[str, Any]] = [
    {"modalities": ["text"]}, {"modalities": None}, {"function_call": "none"},
    {"function_call": "auto"}, {"functions": []}, {"audio": None}, {"store": False},
    {"store": None}, {"metadata": {}}, {"metadata": {"a": "b"}}, {"service_tier": "auto"},
    {"prediction": None}, {"reasoning_effort": None}, {"response_format": None},
    {"response_format": {"type": "text"}}, {"tools": None}, {"tools": []}, {"tool_choice": None},
    {"tool_choice": "none"}, {"tool_choice": "auto"}, {"parallel_tool_calls": None},
    {"parallel_tool_calls": True}, {"logprobs": False}, {"logprobs": None},
    {"top_logprobs": None}, {"top_logprobs": 0}, {"top_logprobs": 0, "logprobs": False},
    {"max_completion_tokens": None}, {"max_completion_tokens": -1}, {"web_search_options": None},
    {"verbosity": None}, {"chat_template_kwargs": {}},
]  # fmt: skip
OF_TEXTS: list[dict[str, Any]] = [
    {"suffix": None}, {"suffix": ""}, {"echo": False}, {"logprobs": None}, {"logprobs": False},
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("neutral"), personas=NARROW) as server:
        yield server


@pytest.mark.parametrize("given", BOTH + OF_CHATS, ids=str)
def test_a_chat_takes_a_neutral_value(web: httpx.Client, given: dict[str, Any]) -> None:
    body = {"messages": CHAT, "max_tokens": 2, "temperature": 0}
    plain = web.post("/v1/chat/completions", json=body).json()
    if -1 in (given.get("max_tokens"), given.get("max_completion_tokens")):
        given = {**given, "stop_token_ids": [*range(1, 60)]}
    told = web.post("/v1/chat/completions", json={**body, **given})
    assert told.status_code == 200, told.text
    if "stop_token_ids" not in given:
        assert told.json()["choices"] == plain["choices"]


@pytest.mark.parametrize("given", BOTH + OF_TEXTS, ids=str)
def test_a_text_takes_a_neutral_value(web: httpx.Client, given: dict[str, Any]) -> None:
    body = {"prompt": "The sea", "max_tokens": 2, "temperature": 0}
    plain = web.post("/v1/completions", json=body).json()
    told = web.post("/v1/completions", json={**body, **given})
    assert told.status_code == 200, told.text
    if "max_tokens" not in given:
        assert told.json()["choices"] == plain["choices"]


def test_a_value_that_would_change_the_answer_is_refused_still(web: httpx.Client) -> None:
    for given in (
        {"modalities": ["text", "audio"]}, {"function_call": {"name": "x"}}, {"best_of": 2},
        {"top_k": -2}, {"top_p": -0.1}, {"max_tokens": -2}, {"suffix": "x"},
    ):  # fmt: skip
        body = {"messages": CHAT, "max_tokens": 2, **given}
        assert web.post("/v1/chat/completions", json=body).status_code == 400, given


def test_a_nucleus_of_nothing_is_the_likeliest_token_and_no_top_k_is_every_token(
    web: httpx.Client,
) -> None:
    body = {"messages": CHAT, "max_tokens": 12, "seed": 4, "model": "narrow"}

    def text(**given: Any) -> str:
        answer = web.post("/v1/chat/completions", json={**body, **given})
        return str(answer.json()["choices"][0]["message"]["content"])

    greedy = text(temperature=0)
    assert text() == greedy  # by the file's top_k
    assert text(top_k=0) == text(top_k=-1) == text(top_k=1000) != greedy
    assert text(top_k=0, top_p=0) == greedy


def test_a_seed_of_minus_one_is_no_seed(web: httpx.Client) -> None:
    body = {"messages": CHAT, "max_tokens": 12, "temperature": 2, "top_k": 0}

    def texts(seed: int) -> set[str]:
        answers = [
            web.post("/v1/chat/completions", json={**body, "seed": seed}).json() for _ in range(3)
        ]
        return {str(answer["choices"][0]["message"]["content"]) for answer in answers}

    assert len(texts(-2)) == 1
    assert len(texts(-1)) > 1


def test_a_text_that_spells_special_tokens_is_said_to_be_letters(
    web: httpx.Client,
) -> None:
    special = web.get("/tokenizer_info").json()["eos_token"]
    body = {"prompt": f"user{special}\nHi{special}\n", "max_tokens": 1}
    [warning] = web.post("/v1/completions", json=body).json()["marith"]["warnings"]
    assert special in warning
    assert "/v1/chat/completions" in warning
    plain = web.post("/v1/completions", json={**body, "prompt": "user Hi"}).json()
    assert "marith" not in plain
