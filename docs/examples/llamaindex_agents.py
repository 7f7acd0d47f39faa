"""Run agents with a tone and valid calls: with tools, with two agents, and with ReAct."""

import asyncio
from dataclasses import dataclass
from typing import Any

from llama_index.core.agent.react import ReActChatFormatter
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput, ToolCallResult
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from llamaindex_marith import Marith, react_grammar

WEATHER = {"Lisbon": "sunny", "Oslo": "cold", "Porto": "windy"}
TERMS = {
    "happy": "You are a happy assistant.",
    "formal": "You are an assistant using formal and objective language to answer the user.",
}
CHEERFUL = "2*happy - M"
FORMAL = "2*formal - M"
QUESTIONS = ("Can you check the weather in Porto?", "Book a table for Maria with count 4.")
TASKS = ("Find facts for 'volcanoes'.", "Can you check the weather in Lisbon?")
Agent = FunctionAgent | ReActAgent | AgentWorkflow
# LlamaIndex's own ReAct prompt fills most of pocket's context. This prompt is shorter.
HEADING = """Tools:
{tool_desc}
Answer with a thought, and then with an action and its input or with an answer:
Thought: (what you think)
Action: (one of {tool_names})
Action Input: (its arguments as JSON)
Thought: (what you think)
Answer: (what you answer)"""


class City(BaseModel):
    """The arguments of `check_weather`."""

    city: str = Field(max_length=20)


class Booking(BaseModel):
    """The arguments of `book_table`. LlamaIndex would not read limits from a signature."""

    name: str = Field(max_length=20)
    count: int = Field(ge=1, le=12)


def check_weather(city: str) -> str:
    """Check the weather in a city."""
    return WEATHER.get(city, "dry")


def book_table(name: str, count: int) -> str:
    """Book a table."""
    return f"Done. The number is {100 * count + len(name)}."


def tools(return_direct: bool = False) -> list[FunctionTool]:
    """Return both tools.

    They have descriptions of their own: LlamaIndex would describe tools by their signatures, which
    small models copy.
    """
    return [
        FunctionTool.from_defaults(
            done, description=done.__doc__, fn_schema=schema, return_direct=return_direct
        )
        for done, schema in ((check_weather, City), (book_table, Booking))
    ]


def speaker(formula: str, seed: int = 1, temperature: float = 0.3, **options: Any) -> Marith:
    """Return a model with a formula. All such models share one engine."""
    known = {"terms": TERMS, "seed": seed, "temperature": temperature, "max_tokens": 64}
    return Marith(formula=formula, **{**known, **options})


def helper(formula: str = CHEERFUL, seed: int = 1, temperature: float = 0.3) -> FunctionAgent:
    """Return an agent with two tools. With `steer_tools=False` the bare model fills the calls."""
    model = speaker(formula, seed, temperature, steer_tools=False)
    return FunctionAgent(llm=model, tools=tools())


def desk(formula: str = FORMAL, seed: int = 1) -> AgentWorkflow:
    """Return a clerk with tools and no formula. One of the tools is a second agent, a guide."""
    guide = FunctionAgent(llm=speaker(formula, seed), tools=[])

    async def find_facts(title: str) -> str:
        return str(await guide.run(user_msg=f"Tell me something about {title}."))

    facts = FunctionTool.from_defaults(
        async_fn=find_facts, description="Find facts.", return_direct=True
    )
    weather, _ = tools()
    clerk = FunctionAgent(llm=speaker("M", seed), tools=[weather, facts], initial_tool_choice="any")
    return AgentWorkflow(agents=[clerk])


def thinker(formula: str = CHEERFUL, seed: int = 1) -> ReActAgent:
    """Return a ReAct agent. A grammar makes every step follow ReAct's format.

    The result of a tool is the answer (`return_direct`), because pocket was not trained on the
    format and would call tools forever. The longest step must fit in `max_tokens`.
    """
    direct = tools(return_direct=True)
    grammar = react_grammar(direct, most_letters=40)
    model = speaker(formula, seed, grammar=grammar, max_tokens=128)
    heading = ReActChatFormatter.from_defaults(system_header=HEADING)
    return ReActAgent(llm=model, tools=direct, formatter=heading)


@dataclass(frozen=True)
class Run:
    """The answer of an agent, its steps, and the results of its calls."""

    answer: str
    steps: list[AgentOutput]
    calls: list[ToolCallResult]


async def ask(agent: Agent, question: str) -> Run:
    """Ask an agent a question. Concurrent questions share forward passes."""
    handler = agent.run(user_msg=question, max_iterations=4, early_stopping_method="generate")
    events = [event async for event in handler.stream_events()]
    steps = [event for event in events if isinstance(event, AgentOutput)]
    calls = [event for event in events if isinstance(event, ToolCallResult)]
    return Run(str(await handler), steps, calls)


async def main() -> None:
    for name, agent, questions in (
        ("helper", helper(), QUESTIONS),
        ("desk", desk(), TASKS),
        ("thinker", thinker(), QUESTIONS[:1]),
    ):
        for question in questions:
            run = await ask(agent, question)
            print(f"{name}: {question}")
            for step in run.steps:
                print(f"    says: {step.response.content or '(a call)'}".replace("\n", " | "))
            for call in run.calls:
                print(f"    calls: {call.tool_name}({call.tool_kwargs}), told: {call.tool_output}")


if __name__ == "__main__":
    asyncio.run(main())
