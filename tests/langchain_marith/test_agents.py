"""Agents of LangGraph answer in objects of a class, and by the formula of each request.

How often they call what was asked for, and in what manner they answer, is in `tests/evidence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from support.applications import application
from support.langchain_models import Make, clock

from langchain_marith import ChatMarith

structured = application("langchain_structured")
PEOPLE = (
    "Ada Reed is a baker from Oslo, aged 36.",
    "Tom Hall is a teacher from Porto, aged 71.",
)
PERSONAS = """
[model]
model = "{model}"
temperature = 0
[terms]
plain = "Be plain."
[formulas]
blunt = "2*plain - M"
polite = "1.5*M - 0.5*plain"
"""


@dataclass
class Caller:
    """What an application knows of who asks."""

    settings: dict[str, Any]


class SettingsOfTheCaller(AgentMiddleware[Any, Caller, Any]):
    """Sets the options of each call of the model to the caller's."""

    def wrap_model_call(
        self,
        request: ModelRequest[Caller],
        handler: Callable[[ModelRequest[Caller]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        return handler(request.override(model_settings=request.runtime.context.settings))

    async def awrap_model_call(
        self,
        request: ModelRequest[Caller],
        handler: Callable[[ModelRequest[Caller]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(request.override(model_settings=request.runtime.context.settings))


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


def agent_with_settings(model: ChatMarith, **options: Any) -> Any:
    middleware = [SettingsOfTheCaller()]
    return create_agent(model, middleware=middleware, context_schema=Caller, **options)


def formulas(state: dict[str, Any]) -> set[str]:
    """Return the formulas that a run's answers are from."""
    answers = [each for each in state["messages"] if isinstance(each, AIMessage)]
    return {answer.response_metadata["composition"]["formula"] for answer in answers}


async def test_a_middleware_sets_the_formula_of_each_request(scripted: Make) -> None:
    agent = agent_with_settings(scripted(), tools=[clock])
    question = {"messages": [("user", "What time is it?")]}
    chosen = ("M", "2*plain - M", "plain + M.top_k(20)")
    callers = [Caller({"formula": formula}) for formula in chosen]
    # All callers ask at once: no request has the formula of another.
    states = await asyncio.gather(*(agent.ainvoke(question, context=each) for each in callers))
    states += [agent.invoke(question, context=each) for each in callers]
    for state, formula in zip(states, chosen * 2, strict=True):
        assert formulas(state) == {formula}
        # The model called a tool, and answered after the call: both by the formula.
        assert [each.type for each in state["messages"]] == ["human", "ai", "tool", "ai"]


async def test_a_middleware_sets_the_persona_of_each_request(
    scripted_dir: str, tmp_path: Path
) -> None:
    file = tmp_path / "marith.toml"
    file.write_text(PERSONAS.format(model=scripted_dir), encoding="utf-8")
    agent = agent_with_settings(ChatMarith.from_file(file, "polite"))
    question = {"messages": [("user", "Hello!")]}
    for persona, formula in (("blunt", "2*plain - M"), ("polite", "1.5*M - 0.5*plain")):
        caller = Caller({"model": persona})
        for state in (
            agent.invoke(question, context=caller),
            await agent.ainvoke(question, context=caller),
        ):
            assert formulas(state) == {formula}
            assert state["messages"][-1].response_metadata["model_name"] == persona
            assert state["messages"][-1].text == "Good day."


@pytest.mark.parametrize("strategy", [ProviderStrategy, ToolStrategy])
def test_a_middleware_sets_the_formula_of_structured_answers(strategy: Any) -> None:
    model = ChatMarith(terms=structured.TERMS, max_tokens=160, temperature=0)
    agent = agent_with_settings(model, response_format=strategy(structured.Person))
    caller = Caller({"formula": "2*formal - M"})
    state = agent.invoke({"messages": [("user", PEOPLE[0])]}, context=caller)
    assert isinstance(state["structured_response"], structured.Person)
    assert formulas(state) == {"2*formal - M"}
