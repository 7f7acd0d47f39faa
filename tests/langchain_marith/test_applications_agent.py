"""Agents of LangGraph: calls that are always valid, and answers that come in pieces.

How often they call what was asked for, and in what manner they answer, is in `tests/evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.applications import application

from langchain_marith import ChatMarith

shown = application("langchain_agent")
ASKED = (
    "What is the price of the lamp?",
    "What is the price of the violin?",
    "Can you check the weather in Lisbon?",
    "Can you check the weather in Quito?",
)
TOOLS = (shown.get_price, shown.check_weather)


def calls_of(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    return [call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls]


def faults(messages: Sequence[AnyMessage]) -> list[Any]:
    """Calls that no tool would take, and what tools complained about."""
    schemas = {tool.name: convert_to_openai_tool(tool)["function"]["parameters"] for tool in TOOLS}
    invalid: list[Any] = []
    for each in messages:
        if isinstance(each, ToolMessage) and each.status == "error":
            invalid.append(each)
        if isinstance(each, AIMessage):
            invalid += each.invalid_tool_calls
    for call in calls_of(messages):
        known = schemas.get(call["name"])
        if known is None or not Draft202012Validator(known).is_valid(call["args"]):
            invalid.append(call)
    return invalid


def test_an_agent_calls_its_tools_validly_and_then_answers() -> None:
    inputs = [{"messages": [("user", question)]} for question in ASKED]
    runs = [state["messages"][1:] for state in shown.agent().batch(inputs, {"recursion_limit": 20})]
    assert any(calls_of(run) for run in runs)
    for run in runs:
        assert faults(run) == []
        assert isinstance(run[-1], AIMessage)
        assert run[-1].tool_calls == []


@pytest.mark.parametrize("steer", [True, False])
def test_calls_stay_valid_however_hard_they_are_steered(steer: bool) -> None:
    model = ChatMarith(
        formula="4*happy - 3*M", terms=shown.TERMS, max_tokens=64, steer_tools=steer, seed=2
    )
    answers = model.bind_tools(TOOLS, tool_choice="any").batch([*ASKED])
    assert all(answer.tool_calls for answer in answers)
    assert faults(answers) == []


async def test_an_agent_streams_its_answer_as_it_is_made() -> None:
    agent = shown.agent(temperature=0.0)
    question = {"messages": [("user", shown.QUESTIONS[1])]}
    whole = (await agent.ainvoke(question))["messages"][-1].text
    pieces = [
        piece.text
        async for piece, where in agent.astream(question, stream_mode="messages")
        if isinstance(piece, AIMessage) and where["langgraph_node"] == "model"
    ]
    assert len([piece for piece in pieces if piece]) > 2
    assert "".join(pieces).endswith(whole)
