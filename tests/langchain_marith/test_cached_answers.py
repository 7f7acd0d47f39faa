"""Keys of cached answers: a class, a function and an engine count by what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from pydantic import BaseModel, create_model
from support.langchain_models import Make

import marith
from langchain_marith import MarithLLM


def only(token: int) -> Any:
    """A function that allows one token."""

    def constraint(rows: Any, text: list[int], places: list[int]) -> Any:
        rows[:, :token] = rows[:, token + 1 :] = float("-inf")
        return rows

    return constraint


def described(field: str) -> type[BaseModel]:
    """A class of the same name each time, with one field."""
    return create_model("Described", **{field: (bool, ...)})  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def asked(make: Make) -> list[Any]:
    """Two models with a cache, each as a function from options of a call to a text."""
    chat = make(cache=InMemoryCache(), max_tokens=12)
    text = MarithLLM(**chat.chosen(), cache=InMemoryCache())
    return [
        lambda **call: chat.invoke("k l", **call).text,
        lambda **call: text.invoke("k l", **call),
    ]


def test_functions_of_one_name_share_no_answer(asked: list[Any], tiny_dir: str) -> None:
    engine = marith.Engine.shared(tiny_dir)
    for ask in asked:
        for token in range(2, 12):
            (written, *_) = engine.encode(ask(constraints=[only(token)], max_tokens=1))
            assert written == token


def test_classes_of_one_name_share_no_answer(scripted: Make) -> None:
    chat = scripted(cache=InMemoryCache(), max_tokens=60)
    text = MarithLLM(**chat.chosen(), cache=InMemoryCache())
    for field in ("glad", "tall"):
        kind = described(field)
        for answer in (
            chat.invoke("Hello!", response_format=kind).text,
            text.invoke("Hello!", response_format=kind),
        ):
            assert list(json.loads(answer)) == [field]
