"""Fields and paths of other servers are answered in one sentence."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.http_server import CHAT, WEATHER, events

BASE: dict[str, Any] = {"messages": CHAT, "max_tokens": 2}


def error(answer: httpx.Response, status: int = 400) -> Any:
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert len(found["message"]) < 300
    return found


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/v1/responses", "client.chat.completions.create(…), with LangChain ChatOpenAI(…, use_re"),
        ("/v1/embeddings", "; marith serves language models; embeddings are not served"),
        ("/v1/messages", "Anthropic's API is not served"),
        ("/api/chat", "Ollama's API is not served: send chats to /v1/chat/completions"),
        ("/chat/completions", "; write /v1/chat/completions: the client's base URL is http://…/v1"),
        ("/completions", "; write /v1/completions: the client's base URL is http://…/v1"),
        ("/v1/v1/chat/completions", "; write /v1/chat/completions: the client's base URL is"),
        ("/v1/never", "there is no path '/v1/never'; GET /openapi.json lists the paths"),
    ],
)
def test_a_path_of_another_server_has_one_helpful_sentence(
    web: httpx.Client, path: str, problem: str
) -> None:
    found = error(web.post(path, json=BASE), 404)
    assert found["code"] == "not_found"
    assert problem in found["message"]


@pytest.mark.parametrize(
    "formula", ["M - 0.5*rude", "2*polite", "union(nobody, M)", "M - prompted('Do not.')"]
)
def test_a_formula_in_the_field_model_is_answered_with_the_right_field(
    web: httpx.Client, formula: str
) -> None:
    found = error(web.post("/v1/chat/completions", json={**BASE, "model": formula}), 404)
    assert found["code"] == "model_not_found"
    assert f"there is no model {formula!r}, but pocket, polite; to use a form" in found["message"]
    assert 'extra_body={"marith": {"formula": …}}' in found["message"]


@pytest.mark.parametrize("name", ["command-r (GGUF)", "c4ai-command-r+", "qwen-small", "a*b*"])
def test_an_unknown_model_is_refused_by_its_name(web: httpx.Client, name: str) -> None:
    found = error(web.post("/v1/chat/completions", json={**BASE, "model": name}), 404)
    assert found["message"] == f"there is no model {name!r}, but pocket, polite"


OWN = {"formula": "M", "terms": {"a": "b"}, "faithful": 0.5, "ban": ["a"], "inspect": True}


@pytest.mark.parametrize("name", OWN)
def test_a_field_of_marith_at_the_top_is_an_error(web: httpx.Client, name: str) -> None:
    found = error(web.post("/v1/chat/completions", json={**BASE, name: OWN[name]}))
    assert found["param"] == name
    assert f'extra_body={{"marith": {{"{name}": …}}}}' in found["message"]
    assert web.post("/v1/chat/completions", json={**BASE, name: None}).status_code == 200


def test_faithful_without_the_files_pattern_names_the_field_of_the_file(web: httpx.Client) -> None:
    found = error(web.post("/v1/chat/completions", json={**BASE, "marith": {"faithful": 0.5}}))
    assert found["param"] == "marith"
    assert "faithful_to" in found["message"]
    assert "only the server's persona file can set it, in its table [model]" in found["message"]
    none = web.post("/v1/chat/completions", json={**BASE, "marith": {"faithful": 0}})
    assert none.status_code == 200


def test_a_call_that_is_cut_off_ends_by_length_and_is_said(web: httpx.Client) -> None:
    asked = {**BASE, "tools": [WEATHER], "tool_choice": "required", "seed": 1, "max_tokens": 16}
    cut = web.post("/v1/chat/completions", json=asked).json()
    [choice] = cut["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "length"
    assert call["function"]["arguments"].startswith('{"city": "')
    [warning] = cut["marith"]["warnings"]
    assert warning == "the call of 'weather' was cut off: its arguments are not whole"
    streamed = events(web.post("/v1/chat/completions", json={**asked, "stream": True}).text)
    assert streamed[-1]["choices"][0]["finish_reason"] == "length"
    assert streamed[-1]["marith"]["warnings"] == [warning]
    whole = web.post("/v1/chat/completions", json={**asked, "max_tokens": 40}).json()
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    assert "marith" not in whole
