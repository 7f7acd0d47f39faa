"""A server whose tokens are bytes, over models of two vocabularies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.http_server import CHAT, events, served

from marith import Engine
from marith.serving.server import Server

PERSONAS = """
[model]
over = "bytes"
[terms]
other = {{formula = 'prompted(model="{other}")'}}
[formulas]
both = "0.9*M + 0.1*other"
"""
TEXT = "é, 東 and 🙂"
BYTES = [*TEXT.encode()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, letters_dir: str) -> Iterator[Server]:
    personas = PERSONAS.format(other=letters_dir)
    with served(tmp_path_factory.mktemp("bytes"), personas=personas) as server:
        yield server


@pytest.fixture(scope="module")
def engine(server: Server) -> Engine:
    [engine] = server.models.engines()
    return engine


def ask(web: httpx.Client, path: str, **body: Any) -> Any:
    answer = web.post(path, json={"model": "both", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_chat_is_answered_in_bytes(web: httpx.Client) -> None:
    asked = {"messages": CHAT, "max_tokens": 12, "seed": 1, "ignore_eos": True}
    answer = ask(web, "/v1/chat/completions", **asked, logprobs=True, top_logprobs=2)
    [choice] = answer["choices"]
    data = bytes(byte for each in choice["logprobs"]["content"] for byte in each["bytes"])
    assert data.decode(errors="replace") == choice["message"]["content"]
    assert len(data) == answer["usage"]["completion_tokens"] == 12
    read = ask(web, "/tokenize", messages=CHAT)["count"]
    assert read == answer["usage"]["prompt_tokens"] > len(CHAT[0]["content"])


def test_a_stream_has_whole_characters(web: httpx.Client) -> None:
    # A grammar makes the model write the characters.
    body = {"messages": CHAT, "grammar": f'start: "{TEXT}"', "stream": True, "model": "both"}
    text = web.post("/v1/chat/completions", json={**body, "max_tokens": 60}).text
    pieces = [choice["delta"].get("content", "") for e in events(text) for choice in e["choices"]]
    assert [piece for piece in pieces if piece] == [*TEXT]


def test_a_prompt_is_a_text_or_its_bytes(web: httpx.Client, engine: Engine) -> None:
    asked = {"max_tokens": 8, "seed": 3, "logprobs": 0}
    first, *others = (
        ask(web, "/v1/completions", prompt=prompt, **asked)["choices"][0]["logprobs"]
        for prompt in (TEXT, BYTES, [*engine.encode("", start=True), *BYTES])
    )
    for other in others:
        assert other["tokens"] == first["tokens"]
        assert other["token_logprobs"] == pytest.approx(first["token_logprobs"], abs=1e-4)
    for prompt, problem in (
        (BYTES[:1], "the prompt is bytes that are not a text in UTF-8"),
        ([*BYTES, 5000], "prompt has token 5000, but the model only has tokens from 0 to 256"),
    ):
        refused = web.post("/v1/completions", json={"model": "both", "prompt": prompt})
        assert refused.status_code == 400
        assert problem in refused.json()["error"]["message"]


def test_an_echo_has_the_log_probabilities_of_bytes_after_the_first_character(
    web: httpx.Client,
) -> None:
    asked = {"prompt": TEXT, "max_tokens": 0, "echo": True, "logprobs": 1}
    [choice] = ask(web, "/v1/completions", **asked)["choices"]
    columns = choice["logprobs"]
    assert choice["text"] == TEXT
    scored = ask(web, "/v1/score", prompt=TEXT[0], continuation=TEXT[1:])["logprobs"]
    assert columns["token_logprobs"][:2] == [None, None]
    assert columns["token_logprobs"][2:] == pytest.approx(scored, abs=1e-4)
    widths = [len(letter.encode()) for letter in TEXT]
    places = [i for i, width in enumerate(widths) for _ in range(width)]
    assert columns["text_offset"] == places
    assert columns["tokens"][:3] == ["bytes:\\xc3", "bytes:\\xa9", ","]


def test_texts_are_tokenized_to_bytes_and_back(web: httpx.Client, engine: Engine) -> None:
    assert "tokens, over bytes, " in repr(engine)
    assert ask(web, "/tokenize", prompt=TEXT)["tokens"] == BYTES
    assert ask(web, "/detokenize", tokens=BYTES)["prompt"] == TEXT
    assert web.get("/tokenizer_info").json()["vocab_size"] == 257


def test_biases_of_tokens_are_refused(web: httpx.Client) -> None:
    for bias in ({"97": 1}, {"5000": 1}):
        body = {"model": "both", "messages": CHAT, "logit_bias": bias}
        refused = web.post("/v1/chat/completions", json=body)
        assert refused.status_code == 400
        assert "logit_bias" in refused.json()["error"]["message"]


def test_each_byte_is_inspected_and_completes_a_character(web: httpx.Client) -> None:
    asked = {"messages": CHAT, "continuation": TEXT, "top": 1}
    positions = ask(web, "/v1/inspect", **asked)["inspection"]["positions"]
    assert [position["token"] for position in positions] == BYTES
    assert [position["text"] for position in positions[:3]] == ["\\xc3", "\\xa9", ","]
    assert [position["completed"] for position in positions[:3]] == ["", "é", None]


def test_the_numbers_of_a_formula_are_tried_on_the_bytes_of_an_answer(web: httpx.Client) -> None:
    asked = {"messages": CHAT, "seed": 1, "ignore_eos": True}
    answer = ask(web, "/v1/chat/completions", **asked, max_tokens=12, logprobs=True)
    listed = answer["choices"][0]["logprobs"]["content"]
    data = [byte for each in listed for byte in each["bytes"]]
    same, other = 0.9, 0.0
    found = ask(web, "/v1/what_if", **asked, continuation=data, number=0, values=[same, other])
    assert found["tokens"][0] == data
    assert found["first_flip"][0] is None
    assert 0 <= found["first_flip"][1] < len(data)
