"""Agents that answer with an object: every answer is one, whatever the formula says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from support.applications import application

from langchain_marith import ChatMarith
from tools.pocket.grammar import words

shown = application("langchain_structured")


def people() -> list[str]:
    """Texts that tell of a person."""
    draw = random.Random(3)
    listed = []
    for _ in range(3):
        name, city = (words.capital(words.draw(kind, draw)) for kind in ("full_name", "city"))
        trade, age = draw.choice([*shown.Trade]).value, draw.randint(18, 90)
        listed.append(f"{name} is a {trade} from {city}, aged {age}.")
    return listed


def ask(agent: Any, texts: Sequence[str]) -> list[dict[str, Any]]:
    inputs = [{"messages": [("user", text)]} for text in texts]
    states: list[dict[str, Any]] = agent.batch(
        inputs, {"recursion_limit": 20, "max_concurrency": 24}
    )
    return states


def model(**options: Any) -> ChatMarith:
    known = {"formula": "2*formal - M", "terms": shown.TERMS, "max_tokens": 160, "seed": 4}
    return ChatMarith(**{**known, **options})


@pytest.mark.parametrize("strategy", [ProviderStrategy, ToolStrategy, None])
def test_every_strategy_of_langchain_gives_objects_under_a_formula(strategy: Any) -> None:
    wanted = strategy(shown.Person) if strategy else shown.Person
    agent = create_agent(model(), [], response_format=wanted)
    for state in ask(agent, people()[:2]):
        assert isinstance(state["structured_response"], shown.Person)
        answers = [each for each in state["messages"] if isinstance(each, AIMessage)]
        assert len(answers) == 1
        assert bool(answers[0].tool_calls) == (strategy is ToolStrategy)


def test_an_agent_with_tools_may_call_them_first_and_ends_with_an_object() -> None:
    states = ask(shown.agent(tools=True), [f"Save a note: {text}" for text in people()])
    for state in states:
        assert isinstance(state["structured_response"], shown.Person)
        results = [each for each in state["messages"] if isinstance(each, ToolMessage)]
        assert [each for each in results if each.status == "error"] == []
    assert any(len(state["messages"]) == 4 for state in states)
