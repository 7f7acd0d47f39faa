"""ReAct's format as a grammar: whatever a model says, LlamaIndex's agent can read it."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from llama_index.core.agent.react.output_parser import ReActOutputParser
from llama_index.core.agent.react.types import ActionReasoningStep, ResponseReasoningStep
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

import marith
from llamaindex_marith import Marith, react_grammar

CHEF: dict[str, Any] = {"formula": "2*chef - M", "terms": {"chef": "You are an angry chef."}}


class Numbers(BaseModel):
    """Two small numbers."""

    first: int = Field(ge=0, le=99)
    second: int = Field(ge=0, le=99)


class Guest(BaseModel):
    """Who comes."""

    name: Literal["Ada", "Eve"]
    late: bool


TOOLS = [
    FunctionTool.from_defaults(
        lambda **arguments: str(arguments), name=name, fn_schema=kind, description="."
    )
    for name, kind in (("add", Numbers), ("greet", Guest))
]


@pytest.mark.parametrize("seed", range(4))
def test_every_text_of_any_model_is_a_step_that_the_agent_reads(seed: int) -> None:
    model = Marith(**CHEF, grammar=react_grammar(TOOLS, 40), seed=seed, max_tokens=300)
    answer = model.complete("What is two and three?", temperature=1.2)
    assert answer.raw is not None
    assert answer.raw["finish_reason"] == "stop" or "\nAnswer: " in answer.text
    step = ReActOutputParser().parse(answer.text)
    if isinstance(step, ActionReasoningStep):
        schema = {tool.metadata.name: tool.metadata.fn_schema for tool in TOOLS}[step.action]
        assert schema is not None
        schema.model_validate(step.action_input, strict=True)
    else:
        assert isinstance(step, ResponseReasoningStep)


def test_a_thought_is_one_line_of_limited_length() -> None:
    model = Marith(**CHEF, grammar=react_grammar(TOOLS, 8))
    for seed in range(2):
        text = model.complete("Add two and three.", seed=seed, max_tokens=24).text
        assert re.match(r"Thought: [^\n]{1,8}\n", text)


def test_invalid_tools_and_lengths_are_refused() -> None:
    spaced = FunctionTool.from_defaults(lambda: "", name="look up", description="Look up.")
    for given, problem in (
        (([],), r"a ReAct agent needs at least one tool, not \[\]"),
        (([spaced],), "the name of a tool for ReAct cannot contain spaces or brackets: 'look up'"),
        ((TOOLS, 0), "most_letters is a whole number from 1, not 0"),
    ):
        with pytest.raises(marith.RequestError, match=problem):
            react_grammar(*given)  # type: ignore[arg-type]
