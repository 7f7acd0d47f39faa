"""Agents of LlamaIndex: valid calls, steps that are always read, and objects of a class.

How often they are the right ones is measured in `tests/evidence`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.react.output_parser import ReActOutputParser
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.agent.workflow.workflow_events import (
    AgentStream,
    AgentStreamStructuredOutput,
)
from pydantic import BaseModel, Field
from support.agent_runs import ASKED, is_valid, runs_of, shown
from support.llamaindex_calls import Make

from marith.testing import save_scripted

FEW = ASKED[::3]
CALL = '<tool_call>{"name": "Captain", "arguments": {"name": "Ada", "ages": [3, 36]}}</tool_call>'
OBJECTS = [
    ("Be brief.*Given the conversation, format", CALL.replace("Ada", "Eve")),
    ("Given the conversation, format", CALL),
    ("", "Somebody sails."),
]


class Captain(BaseModel):
    """A captain."""

    name: str = Field(max_length=12)
    ages: list[int] = Field(max_length=2)


async def test_every_step_of_a_react_agent_is_read_and_every_call_valid() -> None:
    runs = await runs_of(lambda seed: shown.thinker(seed=seed), FEW)
    thoughts = []
    for run in runs:
        for step in run.steps:
            assert step.retry_messages == []
            thoughts.append(ReActOutputParser().parse(step.response.content).thought)
        assert all(is_valid(each.tool_name, each.tool_kwargs) for each in run.calls)
    assert len(thoughts) >= len(FEW)


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


@pytest.mark.parametrize(("formula", "name"), [("M", "Ada"), ("2*brief - M", "Eve")])
@pytest.mark.parametrize("in_workflow", [False, True])
async def test_an_agents_object_is_of_its_class_and_by_the_formula(
    scripted: Make, tmp_path: Path, formula: str, name: str, in_workflow: bool
) -> None:
    terms, script = {"brief": "Be brief."}, save_scripted(tmp_path, OBJECTS)
    model = scripted(model=script, formula=formula, terms=terms, max_tokens=200)
    agent: Any = FunctionAgent(llm=model, output_cls=Captain)
    if in_workflow:
        agent = AgentWorkflow(agents=[FunctionAgent(llm=model)], output_cls=Captain)
    handler = agent.run(user_msg="Who sails?")
    events = [event async for event in handler.stream_events()]
    answer = await handler
    assert answer.response.content == "Somebody sails."
    assert answer.get_pydantic_model(Captain) == Captain(name=name, ages=[3, 36])
    (event,) = [each for each in events if isinstance(each, AgentStreamStructuredOutput)]
    assert event.output == answer.structured_response


async def test_an_agents_object_that_is_cut_off_is_left_out_with_a_warning(scripted: Make) -> None:
    agent = FunctionAgent(llm=scripted(max_tokens=8), output_cls=Captain)
    with pytest.warns(UserWarning, match="not a valid Captain: it was cut off at max_tokens"):
        answer = await agent.run(user_msg="Who sails?")
    assert answer.structured_response is None


async def test_an_agent_gives_an_object_after_its_calls() -> None:
    class Found(BaseModel):
        """What the weather is."""

        weather: str = Field(max_length=12)

    model = shown.speaker(shown.CHEERFUL, temperature=0)
    agent = FunctionAgent(tools=shown.tools(), llm=model, output_cls=Found)
    answer = await agent.run(user_msg=shown.QUESTIONS[0])
    assert [call.tool_name for call in answer.tool_calls] == ["check_weather"]
    assert isinstance(answer.get_pydantic_model(Found), Found)
