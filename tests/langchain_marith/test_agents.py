"""Agents of LangGraph answer in objects of a class.

How often they call what was asked for, and in what manner they answer, is in `tests/evidence`.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from support.applications import application

from langchain_marith import ChatMarith

structured = application("langchain_structured")
PEOPLE = (
    "Ada Reed is a baker from Oslo, aged 36.",
    "Tom Hall is a teacher from Porto, aged 71.",
)


def runs(agent: Any, questions: tuple[str, ...]) -> list[dict[str, Any]]:
    inputs = [{"messages": [("user", question)]} for question in questions]
    states: list[dict[str, Any]] = agent.batch(inputs, {"recursion_limit": 20})
    return states


@pytest.mark.parametrize("strategy", [ProviderStrategy, ToolStrategy, None])
def test_every_output_strategy_of_langchain_gives_objects(strategy: Any) -> None:
    wanted = strategy(structured.Person) if strategy else structured.Person
    model = ChatMarith(formula="2*formal - M", terms=structured.TERMS, max_tokens=160, seed=4)
    for state in runs(create_agent(model, [], response_format=wanted), PEOPLE):
        assert isinstance(state["structured_response"], structured.Person)
        (answer,) = [each for each in state["messages"] if isinstance(each, AIMessage)]
        assert bool(answer.tool_calls) == (strategy is ToolStrategy)
