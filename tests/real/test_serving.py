"""`marith serve` over real models: OpenAI's wire over real HTTP, as its clients speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.browser import serving

from marith import Engine, Options

CHAT = [{"role": "user", "content": "Tell me about the moon."}]


@pytest.fixture(scope="module")
def personas(file: Path) -> str:
    return f"""
[model]
model = "{file}"
dtype = "float32"

[terms]
formal = "You are an assistant using formal and objective language to answer the user."

[formulas]
formal = "1.5*formal - 0.5*M"
"""


@pytest.fixture(scope="module")
def client(personas: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("served")
    with (
        serving(folder, personas=personas, seconds=600) as server,
        httpx.Client(base_url=server.url, timeout=600) as asking,
    ):
        end = time.monotonic() + 600
        while asking.get("/ready").status_code != 200:
            assert time.monotonic() < end
            time.sleep(1)
        yield asking


def asked(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json={"model": "formal", "temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_chat_has_the_text_of_the_engine_whole_and_streamed(
    client: httpx.Client, engine: Engine, timed: Any
) -> None:
    body: dict[str, Any] = {"messages": CHAT, "max_tokens": 24}
    done = asked(client, "/v1/chat/completions", **body)
    text = done["choices"][0]["message"]["content"]
    timed(f"a chat: {text!r}")
    formal = "You are an assistant using formal and objective language to answer the user."
    options = Options(
        engine=engine, formula="1.5*formal - 0.5*M", terms={"formal": formal}, temperature=0,
        max_tokens=24,
    )  # fmt: skip
    assert options.submit(CHAT).result().text == text
    body = {"model": "formal", "temperature": 0, "stream": True, **body}
    with client.stream("POST", "/v1/chat/completions", json=body) as stream:
        lines = [line[6:] for line in stream.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    pieces = [json.loads(line)["choices"][0]["delta"].get("content") for line in lines[:-1]]
    assert "".join(filter(None, pieces)) == text
    timed("the same, streamed")


def test_ten_chats_at_once_are_those_of_one_after_another(client: httpx.Client, timed: Any) -> None:
    """At temperature 0: a drawn token may change by rounding, in about one of 2,000."""
    from concurrent.futures import ThreadPoolExecutor

    def ask(topic: str) -> str:
        messages = [{"role": "user", "content": f"Tell me about {topic}."}]
        done = asked(client, "/v1/chat/completions", messages=messages, max_tokens=24)
        return str(done["choices"][0]["message"]["content"])

    topics = ["moon", "sun", "sea", "rain", "wind", "snow", "fire", "gold", "salt", "wood"]
    alone = [ask(topic) for topic in topics]
    timed("ten chats one after another")
    with ThreadPoolExecutor(10) as pool:
        assert [*pool.map(ask, topics)] == alone
    timed("the same ten at once")
