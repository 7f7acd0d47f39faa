"""Agents of LangGraph: prose in a formula's manner, and calls that are always valid."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.applications import Report, application

from langchain_marith import ChatMarith

shown = application("langchain_agent")
ITEMS = ("lamp", "kettle", "violin", "chair", "hammer", "carpet", "ladder", "umbrella")
CITIES = ("Lisbon", "Oslo", "Quito", "Vienna", "Zagreb", "Kyoto", "Nantes", "Porto")
ASKED = [
    *((f"What is the price of the {item}?", "get_price", {"item": item}) for item in ITEMS),
    *(
        (f"Can you check the weather in {city}?", "check_weather", {"city": city})
        for city in CITIES
    ),
]
TOOLS = (shown.get_price, shown.check_weather)
LIMIT = {"recursion_limit": 20, "max_concurrency": 16}


def ask(agent: Any, questions: Sequence[str]) -> list[list[AnyMessage]]:
    """The messages after each question, of the agent and its tools."""
    inputs = [{"messages": [("user", question)]} for question in questions]
    return [state["messages"][1:] for state in agent.batch(inputs, LIMIT)]


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


@pytest.fixture(scope="module")
def cheerful() -> list[list[AnyMessage]]:
    return ask(shown.agent(), [question for question, _, _ in ASKED])


@pytest.fixture(scope="module")
def bare() -> list[list[AnyMessage]]:
    return ask(shown.agent("M"), [question for question, _, _ in ASKED])


def right(runs: Sequence[Sequence[AnyMessage]]) -> float:
    """The share of questions whose first call is the one that was asked for."""
    first = [[(c["name"], c["args"]) for c in calls_of(run)[:1]] for run in runs]
    asked = [[(name, arguments)] for _, name, arguments in ASKED]
    return statistics.mean(a == b for a, b in zip(first, asked, strict=True))


def test_an_agent_calls_its_tools_and_then_answers(
    cheerful: list[list[AnyMessage]], report: Report
) -> None:
    called = [bool(calls_of(run)) for run in cheerful]
    report(f"agent: calls {statistics.mean(called):.3f}  the call asked for {right(cheerful):.3f}")
    assert statistics.mean(called) >= 0.75
    assert right(cheerful) >= 0.5
    for run in cheerful:
        assert faults(run) == []
        assert isinstance(run[-1], AIMessage)
        assert run[-1].tool_calls == []


def test_the_formula_changes_an_agents_prose_and_not_its_first_calls(
    cheerful: list[list[AnyMessage]], bare: list[list[AnyMessage]], report: Report
) -> None:
    report(f"agent: the call asked for  M {right(bare):.3f}  {shown.MANNER} {right(cheerful):.3f}")
    loud, plain = (
        statistics.mean("!" in run[-1].text for run in runs) for runs in (cheerful, bare)
    )
    report(f"agent: answers with '!'  M {plain:.3f}  {shown.MANNER} {loud:.3f}")
    assert loud >= plain + 0.3
    first = [[calls_of(run)[:1] for run in runs] for runs in (cheerful, bare)]
    unnumbered = [[[(c["name"], c["args"]) for c in calls] for calls in run] for run in first]
    same = [a == b for a, b in zip(*unnumbered, strict=True)]
    assert statistics.mean(same) >= 0.7  # prose may decide that there is no call


@pytest.mark.parametrize("steer", [True, False])
def test_calls_stay_valid_however_hard_they_are_steered(steer: bool) -> None:
    model = ChatMarith(
        formula="4*happy - 3*M", terms=shown.TERMS, max_tokens=64, steer_tools=steer, seed=2
    )
    answers = model.bind_tools(TOOLS, tool_choice="any").batch([asked[0] for asked in ASKED])
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
