"""How often agents of LlamaIndex call the right tool, and in which style they then answer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from support.agent_runs import (
    ASKED,
    FACTS,
    WEATHER,
    is_valid,
    runs_of,
    shares_of_right_calls,
    shown,
)
from support.applications import Report

from marith.models import attribute


def formality(texts: Sequence[str]) -> float:
    return statistics.mean(attribute(list(texts), "pocket-formality", "formal"))


async def test_an_agent_calls_the_tool_that_was_asked_for(report: Report) -> None:
    runs = await runs_of(lambda seed: shown.helper(seed=seed), ASKED)
    tool, call = shares_of_right_calls(runs, ASKED)
    report(f"function agent: the tool asked for {tool:.3f}  the call asked for {call:.3f}")
    assert tool >= 0.9
    assert call >= 0.75


async def test_a_react_agents_calls_are_valid(report: Report) -> None:
    asked = [*ASKED, *ASKED]
    runs = await runs_of(lambda seed: shown.thinker(seed=seed), asked)
    tool, call = shares_of_right_calls(runs, asked)
    report(f"ReAct: the tool asked for {tool:.3f}  the call {call:.3f}")
    assert all(is_valid(each.tool_name, each.tool_kwargs) for run in runs for each in run.calls)


async def test_of_two_agents_one_calls_the_right_tool_and_the_other_answers_formally(
    report: Report,
) -> None:
    asked = [*FACTS, *WEATHER]
    runs = await runs_of(lambda seed: shown.desk(seed=seed), asked)
    tool, call = shares_of_right_calls(runs, asked)
    report(f"two agents: the tool asked for {tool:.3f}  the call asked for {call:.3f}")
    assert tool >= 0.9
    assert call >= 0.75
    bare = await runs_of(lambda seed: shown.desk("M", seed), FACTS)
    persona, plain = (
        formality([run.answer for run in some if run.calls[-1].tool_name == "find_facts"])
        for some in (runs, bare)
    )
    report(f"two agents: formality  M {plain:.3f}  {shown.FORMAL} {persona:.3f}")
    assert persona > plain + 0.4
