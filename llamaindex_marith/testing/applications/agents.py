"""Do LlamaIndex's agents run on the LLM for at least one step, whatever it answers?"""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.memory import ChatMemoryBuffer

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.tooling import DEPTH, SAIL, Voyage, depth, ignore_core_deprecations

CALL_TOKENS = 120  # more than a call of the tools here has
each_streaming = pytest.mark.parametrize("streaming", [True, False])


class Agents(LLMUnderTest):
    """A weak model passes these checks too: every agent stops after three turns or fewer."""

    @ignore_core_deprecations
    def test_an_agent_is_of_the_kind_that_was_claimed(self) -> None:
        llm = self.llm()
        workflow = AgentWorkflow.from_tools_or_functions([depth], llm=llm)
        (agent,) = workflow.agents.values()
        claimed = llm.metadata.is_function_calling_model
        assert claimed >= self.supports_tools
        assert isinstance(agent, FunctionAgent if claimed else ReActAgent)

    @ignore_core_deprecations
    @each_streaming
    async def test_a_function_agent_runs_its_first_tool(self, streaming: bool) -> None:
        self.offered_tools()
        events, output = await run(self._agent(streaming=streaming))
        results = [event for event in events if isinstance(event, ToolCallResult)]
        assert results[0].tool_name == DEPTH.metadata.name
        assert results[0].tool_output.content.endswith("three metres")
        assert isinstance(output, AgentOutput)
        assert output.tool_calls

    @ignore_core_deprecations
    async def test_a_function_agent_streams_what_it_says(self) -> None:
        self.offered_tools()
        events, output = await run(self._agent(), max_iterations=1)
        streamed = [event for event in events if isinstance(event, AgentStream)]
        assert len(streamed) > 1
        for event in streamed:
            event.model_dump_json()
        last = streamed[-1]
        assert last.response == (output.response.content or "")
        assert "".join(event.delta for event in streamed).endswith(last.response)

    @ignore_core_deprecations
    async def test_a_function_agent_answers_twice(self) -> None:
        self.offered_tools()
        agent = self._agent()
        memory = ChatMemoryBuffer.from_defaults(token_limit=600)
        for turn in (1, 2):
            events, output = await run(agent, memory=memory)
            assert [event for event in events if isinstance(event, ToolCallResult)]
            assert isinstance(output, AgentOutput)
            assert [message.role.value for message in memory.get_all()].count("user") == turn

    @ignore_core_deprecations
    async def test_a_workflow_of_agents_runs(self) -> None:
        self.offered_tools()
        workflow = AgentWorkflow(
            agents=[self._agent(name="sailor", description="Knows rivers.")],
            early_stopping_method="generate",
        )
        events, output = await run(workflow)
        assert [event for event in events if isinstance(event, ToolCallResult)]
        assert isinstance(output, AgentOutput)

    @ignore_core_deprecations
    async def test_an_agent_answers_by_an_object(self) -> None:
        self.offered_tools()
        agent = self._agent(output_cls=Voyage, initial_tool_choice="none")
        _, output = await run(agent, max_iterations=3)
        Voyage.model_validate(output.structured_response)

    @ignore_core_deprecations
    @each_streaming
    async def test_a_react_agent_makes_a_step(self, streaming: bool) -> None:
        agent = ReActAgent(
            tools=[DEPTH, SAIL],
            llm=self.llm(),
            streaming=streaming,
            early_stopping_method="generate",
        )
        events, output = await run(agent)
        outputs = [event for event in events if isinstance(event, AgentOutput)]
        assert outputs
        assert str(outputs[0].response.content).strip()
        assert bool([e for e in events if isinstance(e, AgentStream)]) == streaming
        assert isinstance(output, AgentOutput)

    def _agent(self, **options: Any) -> FunctionAgent:
        defaults = {
            "initial_tool_choice": DEPTH.metadata.name,
            "early_stopping_method": "generate",
        }
        llm = self.llm(max_tokens=CALL_TOKENS)
        return FunctionAgent(tools=[DEPTH, SAIL], llm=llm, **{**defaults, **options})


async def run(agent: Any, max_iterations: int = 2, **options: Any) -> tuple[list[Any], Any]:
    """All events of an agent's run, and its result."""
    handler = agent.run("How deep is the Ebro?", max_iterations=max_iterations, **options)
    events = [event async for event in handler.stream_events()]
    return events, await handler
