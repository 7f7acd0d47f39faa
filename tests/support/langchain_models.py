"""Chat models of LangChain over small checkpoints, and the engine's own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import Any

from langchain_core.messages import AIMessageChunk

import marith
from langchain_marith import ChatMarith, MarithLLM

FORMULA = "2*a - 0.5*b"
TERMS = {"a": "a b c", "b": "x y z"}
SAMPLING = {"temperature": 0.9, "seed": 4, "max_tokens": 24}

Make = Callable[..., ChatMarith]
Writer = Callable[..., MarithLLM]

STYLE = {"formula": "1.5*M - 0.5*plain", "terms": {"plain": "Be plain."}, "temperature": 0}
NOON = '<tool_call>{"name": "clock", "arguments": {"place": "Málaga"}}</tool_call>'
RIVER = '<tool_call>{"name": "map", "arguments": {"river": "Ebro", "scale": 2}}</tool_call>'
ADA = '{"name": "Ada", "age": 36}'
SCRIPT = [
    (r"<\|tool\|>Error: .*", "The clock stands still."),
    (r"<\|tool\|>.*<\|end\|><\|assistant\|>$", "It is noon there."),
    ("clock and map", f"Both, then.{NOON}{RIVER}"),
    ("What time", f"I look.{NOON}"),
    *(
        (f'"name": "{tool}".*Who sails', f'<tool_call>{{"name": "{tool}", "arguments": {ADA}}}')
        for tool in ("Sailor", "OldSailor", "DictSailor", "answer")
    ),
    ("Who sails", ADA),
    ("Count", "one two three four five six seven eight nine ten"),
    ("", "Good day."),
]
THINKING = [
    ("clock and map", f"<think>Two of them.</think>Both, then.{NOON}{RIVER}"),
    ("", "<think>A greeting.</think>Good day."),
]


def engine_answer(model: str, prompt: Any, **options: Any) -> marith.Completion:
    """Return the engine's answer to a prompt, with the options of the models that `make` makes."""
    sampling = marith.Sampling(temperature=0.9, seed=4)
    asked = {"formula": FORMULA, "terms": TERMS, "sampling": sampling, **options}
    return marith.Engine.shared(model).generate(prompt, **asked, stop=marith.Stop(24))


def sum_of(chunks: Iterable[AIMessageChunk]) -> AIMessageChunk:
    """Return the message that the chunks of a stream add up to."""
    return reduce(add, chunks)


def knots(speed: int) -> str:
    """Set the speed."""
    return f"{speed} knots"


def ring() -> str:
    """Ring the bell."""
    return "dong"


def clock(place: str) -> str:
    """Tell the time at a place."""
    return f"12:00 in {place}"


MAP = {
    "type": "function",
    "function": {
        "name": "map",
        "description": "Show a river.",
        "parameters": {
            "type": "object",
            "properties": {"river": {"type": "string"}, "scale": {"type": "integer"}},
            "required": ["river", "scale"],
        },
    },
}
