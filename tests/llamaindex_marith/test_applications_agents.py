"""Agents of LlamaIndex: calls that are valid, and steps that are always read.

How often they are the right ones is measured in `tests/evidence`.
"""

from __future__ import annotations

from llama_index.core.agent.react.output_parser import ReActOutputParser
from llama_index.core.agent.workflow.workflow_events import AgentStream
from support.agent_runs import ASKED, is_valid, runs_of, shown

FEW = ASKED[::3]


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
