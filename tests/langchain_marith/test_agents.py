"""Agents of LangGraph: their calls are always valid, and their answers objects of a class.

How often they call what was asked for, and in what manner they answer, is in `tests/evidence`.
"""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.applications import application

from langchain_marith import ChatMarith

calling = application("langchain_agent")
structured = application("langchain_structured")
ASKED = (
    "What is the price of the lamp?",
    "What is the price of the violin?",
    "Can you check the weather in Lisbon?",
    "Can you check the weather in Quito?",
)
PEOPLE = (
    "Ada Reed is a baker from Oslo, aged 36.",
    "Tom Hall is a teacher from Porto, aged 71.",
)
SCHEMAS = {
    tool.name: convert_to_openai_tool(tool)["function"]["parameters"]
    for tool in (calling.get_price, calling.check_weather)
}


def runs(agent: Any, questions: tuple[str, ...]) -> list[dict[str, Any]]:
    inputs = [{"messages": [("user", question)]} for question in questions]
    states: list[dict[str, Any]] = agent.batch(inputs, {"recursion_limit": 20})
    return states


def test_an_agent_calls_its_tools_validly_and_then_answers() -> None:
    states = runs(calling.agent(), ASKED)
    messages = [message for state in states for message in state["messages"]]
    answers = [each for each in messages if isinstance(each, AIMessage)]
    calls = [call for answer in answers for call in answer.tool_calls]
    assert calls
    assert all(Draft202012Validator(SCHEMAS[each["name"]]).is_valid(each["args"]) for each in calls)
    assert not any(answer.invalid_tool_calls for answer in answers)
    assert not any(isinstance(each, ToolMessage) and each.status == "error" for each in messages)
    assert all(state["messages"][-1] in answers for state in states)
    assert not any(state["messages"][-1].tool_calls for state in states)


@pytest.mark.parametrize("strategy", [ProviderStrategy, ToolStrategy, None])
def test_every_strategy_of_langchain_gives_objects_under_a_formula(strategy: Any) -> None:
    wanted = strategy(structured.Person) if strategy else structured.Person
    model = ChatMarith(formula="2*formal - M", terms=structured.TERMS, max_tokens=160, seed=4)
    for state in runs(create_agent(model, [], response_format=wanted), PEOPLE):
        assert isinstance(state["structured_response"], structured.Person)
        (answer,) = [each for each in state["messages"] if isinstance(each, AIMessage)]
        assert bool(answer.tool_calls) == (strategy is ToolStrategy)
