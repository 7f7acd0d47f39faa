"""How often agents of LangGraph call the right tool, and in which style they then answer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from support.applications import Report, application

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
LIMIT = {"recursion_limit": 20, "max_concurrency": 16}


def ask(agent: Any, questions: Sequence[str]) -> list[list[AnyMessage]]:
    """The messages after each question, of the agent and its tools."""
    inputs = [{"messages": [("user", question)]} for question in questions]
    return [state["messages"][1:] for state in agent.batch(inputs, LIMIT)]


def calls_of(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    return [call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls]


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


def test_an_agent_calls_the_tool_that_was_asked_for(
    cheerful: list[list[AnyMessage]], report: Report
) -> None:
    called = [bool(calls_of(run)) for run in cheerful]
    report(f"agent: calls {statistics.mean(called):.3f}  the call asked for {right(cheerful):.3f}")
    assert statistics.mean(called) >= 0.75
    assert right(cheerful) >= 0.5


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
