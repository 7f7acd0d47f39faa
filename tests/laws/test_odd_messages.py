"""Law: messages are answered, or refused by a MarithError, whatever they lack.

The same by every door: Python, LangChain, LlamaIndex and HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import assume, example, given
from support.http_server import WEATHER, client, served
from support.odd_messages import conversations, for_langchain, for_llamaindex

import marith
from langchain_marith import ChatMarith
from llamaindex_marith import Marith
from marith import Engine, Stop

USER = {"role": "user", "content": "k"}
WITHOUT_IDS = [
    USER,
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]},
    {"role": "tool", "content": "k"},
]
REFUSED = [USER, {"role": "assistant", "content": None, "refusal": "no"}, USER]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("odd")) as server, client(server) as web:
        yield web


@given(talk=conversations())
@example(talk=WITHOUT_IDS)
@example(talk=REFUSED)
def test_odd_messages_are_answered_or_refused_in_python(tiny_dir: str, talk: list[Any]) -> None:
    answered(lambda: Engine.shared(tiny_dir).generate(talk, stop=Stop(1)))


@given(talk=conversations())
@example(talk=WITHOUT_IDS)
@example(talk=REFUSED)
def test_odd_messages_are_answered_or_refused_through_langchain(
    tiny_dir: str, talk: list[Any]
) -> None:
    assume(reaches_marith(talk))
    chat = ChatMarith(model=tiny_dir, max_tokens=1)
    answered(lambda: chat.invoke([for_langchain(message) for message in talk]))


@given(talk=conversations())
@example(talk=WITHOUT_IDS)
@example(talk=REFUSED)
def test_odd_messages_are_answered_or_refused_through_llamaindex(
    tiny_dir: str, talk: list[Any]
) -> None:
    llm = Marith(model=tiny_dir, max_tokens=1)
    answered(lambda: llm.chat([for_llamaindex(message) for message in talk]))


@given(talk=conversations())
@example(talk=WITHOUT_IDS)
@example(talk=REFUSED)
def test_odd_messages_are_answered_or_refused_over_http(web: httpx.Client, talk: list[Any]) -> None:
    body = {"model": "pocket", "messages": talk, "max_tokens": 1, "tools": [WEATHER]}
    answer = web.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200 or talk not in (WITHOUT_IDS, REFUSED)
    assert answer.status_code in (200, 400), answer.text
    counted = web.post("/tokenize", json={"model": "pocket", "messages": talk})
    assert counted.status_code in (200, 400), counted.text


def reaches_marith(talk: list[Any]) -> bool:
    """Return False if LangChain itself fails, because it looks up the types of blocks in a set."""
    contents = [message.get("content") for message in talk]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    types = [block.get("type") for block in blocks if isinstance(block, dict)]
    return not any(isinstance(kind, dict | list) for kind in types)


def answered(ask: Any) -> None:
    try:
        ask()
    except marith.MarithError as error:
        assert str(error)
