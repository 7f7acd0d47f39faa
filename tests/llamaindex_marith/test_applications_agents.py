"""Agents of LlamaIndex: calls that are always valid, and prose in a formula's manner."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from applications import Report, application
from jsonschema import Draft202012Validator
from llama_index.core.agent.react.output_parser import ReActOutputParser
from llama_index.core.agent.workflow.workflow_events import AgentStream

from marith.evals.measures import attribute

shown = application("llamaindex_agents")
CITIES = ("Lisbon", "Oslo", "Quito", "Vienna", "Zagreb", "Kyoto")
NAMES = ("Maria", "Tom", "Anna", "Layla", "Omar", "Ines")
TOPICS = ("pandas", "bees", "volcanoes", "comets", "cats", "trains", "penguins", "lions")
WEATHER = [
    (f"Can you check the weather in {city}?", "check_weather", {"city": city}) for city in CITIES
]
TABLES = [
    (f"Book a table for {name} with count {count}.", "book_table", {"name": name, "count": count})
    for count, name in enumerate(NAMES, 2)
]
FACTS = [(f"Find facts for '{topic}'.", "find_facts", {"title": topic}) for topic in TOPICS]
ASKED = [*WEATHER, *TABLES]
SEEDS = 24
Asked = Sequence[tuple[str, str, dict[str, Any]]]


async def work(make: Callable[[int], Any], asked: Asked) -> list[Any]:
    """What agents do about questions, all at once and each with a seed of its own."""
    runs = (shown.ask(make(seed), question) for seed, (question, _, _) in enumerate(asked))
    return await asyncio.gather(*runs)


def first_call(run: Any) -> tuple[str, dict[str, Any]]:
    """The tool that an agent called first, and what for; no tool where it called none."""
    return (run.calls[0].tool_name, run.calls[0].tool_kwargs) if run.calls else ("", {})


def right(runs: Sequence[Any], asked: Asked) -> tuple[float, float]:
    """The shares of first calls of the tool that was asked for, and with the arguments too."""
    pairs = [
        (first_call(run), (name, given)) for run, (_, name, given) in zip(runs, asked, strict=True)
    ]
    return statistics.mean(a[0] == b[0] for a, b in pairs), statistics.mean(
        a == b for a, b in pairs
    )


def is_valid(name: str, arguments: Any) -> bool:
    """Whether the tool of that name takes the arguments, as its schema has it."""
    schemas = {tool.metadata.name: tool.metadata.fn_schema for tool in shown.tools()}
    schema = schemas[name].model_json_schema() | {"additionalProperties": False}
    return Draft202012Validator(schema).is_valid(arguments)


def formality(texts: Sequence[str]) -> float:
    return statistics.mean(attribute(list(texts), "pocket-formality", "formal"))


async def test_an_agent_calls_its_tools_validly_and_then_speaks(report: Report) -> None:
    runs = await work(lambda seed: shown.helper(seed=seed), ASKED)
    tool, call = right(runs, ASKED)
    report(f"function agent: the tool asked for {tool:.3f}  the call asked for {call:.3f}")
    assert tool >= 0.9
    assert call >= 0.75
    for run in runs:
        assert run.answer
        assert [each for each in run.calls if each.tool_output.is_error] == []
        assert all(is_valid(each.tool_name, each.tool_kwargs) for each in run.calls)


async def test_without_steering_an_agents_first_calls_are_the_bare_models() -> None:
    steered = await work(lambda seed: shown.helper(seed=seed, temperature=0), ASKED)
    bare = await work(lambda seed: shown.helper("M", seed, 0), ASKED)
    pairs = [[first_call(run) for run in pair] for pair in zip(steered, bare, strict=True)]
    assert statistics.mean(a == b for a, b in pairs) >= 0.9


@pytest.mark.parametrize("steer", [True, False])
async def test_calls_stay_valid_however_hard_they_are_steered(steer: bool) -> None:
    model = shown.speaker("4*happy - 3*M", temperature=1.0, steer_tools=steer)
    answers = await asyncio.gather(
        *(
            model.achat_with_tools(
                shown.tools(), ASKED[seed % len(ASKED)][0], tool_required=True, seed=seed
            )
            for seed in range(SEEDS)
        )
    )
    for answer in answers:
        calls = model.get_tool_calls_from_response(answer)
        assert all(is_valid(each.tool_name, each.tool_kwargs) for each in calls)


async def test_a_clerk_calls_and_a_guide_speaks_in_its_voice(report: Report) -> None:
    asked = [*FACTS, *WEATHER]
    runs = await work(lambda seed: shown.desk(seed=seed), asked)
    tool, call = right(runs, asked)
    report(f"two agents: the tool asked for {tool:.3f}  the call asked for {call:.3f}")
    assert tool >= 0.9
    assert call >= 0.75
    bare = await work(lambda seed: shown.desk("M", seed), FACTS)
    persona, plain = (
        formality([run.answer for run in some if run.calls[-1].tool_name == "find_facts"])
        for some in (runs, bare)
    )
    report(f"two agents: formality  M {plain:.3f}  {shown.FORMAL} {persona:.3f}")
    assert persona > plain + 0.4


async def test_every_step_of_a_react_agent_is_read_and_every_call_valid(report: Report) -> None:
    asked = [*ASKED, *ASKED]
    runs = await work(lambda seed: shown.thinker(seed=seed), asked)
    thoughts = []
    for run in runs:
        for step in run.steps:
            assert step.retry_messages == []
            thoughts.append(ReActOutputParser().parse(step.response.content).thought)
        assert all(is_valid(each.tool_name, each.tool_kwargs) for each in run.calls)
    tool, call = right(runs, asked)
    report(f"ReAct: {len(thoughts)} steps  the tool asked for {tool:.3f}  the call {call:.3f}")
    assert len(thoughts) >= SEEDS


async def test_an_agents_answer_comes_in_pieces() -> None:
    whole = await shown.ask(shown.helper(temperature=0), shown.QUESTIONS[0])
    handler = shown.helper(temperature=0).run(user_msg=shown.QUESTIONS[0])
    events = [event async for event in handler.stream_events() if isinstance(event, AgentStream)]
    assert str(await handler) == whole.answer
    spoken = [event.delta for event in events if event.response]
    assert len(spoken) > 2
    assert "".join(spoken) == whole.answer
    partial = [event.tool_calls for event in events if event.tool_calls]
    assert partial[-1][0].tool_kwargs == whole.calls[0].tool_kwargs
