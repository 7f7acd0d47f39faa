"""Scripted models with tools and grammars: the script, and what they allow of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from support.chat_families import tool
from transformers import AutoTokenizer

import marith
from marith import Grammar, Sampling, Tools
from marith.scoring.weights.loader import locate
from marith.speculation import auto
from marith.testing import scripted_model

GREEDY = Sampling(temperature=0)
COMPOSED = "M + 0.5*(formal - M)"
TERMS = {"formal": "You are formal."}


def call(name: str, /, **arguments: Any) -> str:
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>{written}</tool_call>"


WEATHER = tool("weather", city="string")
ADD = tool("add", a="integer", b="integer")
PING = tool("ping")
ALL = [WEATHER, ADD, PING]
CLOCK = tool("clock", place="string")
MAP = tool("map", river="string", scale="integer")
SCRIPT = [
    ("Look and tell", "Let me look." + call("weather", city="Zürich")),
    ("Tokyo", call("weather", city="東京")),
    ("A person", json.dumps({"name": "Ada", "age": 36})),
    ("Hello", "Good day."),
    ("Both", "Both, then." + call("clock", place="Málaga") + call("map", river="Ebro", scale=2)),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[marith.Engine]:
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    with marith.Engine.load(scripted_model(SCRIPT, tokenizer), tokenizer=tokenizer) as engine:
        yield engine


def ask(engine: marith.Engine, prompt: str, **options: Any) -> marith.Completion:
    return engine.generate(prompt, COMPOSED, TERMS, GREEDY, **options)


def calls(completion: marith.Completion) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, each.parsed) for each in completion.calls]


@pytest.mark.parametrize("choice", ["auto", "required", "weather"])
def test_a_scripted_call_is_made_as_written(engine: marith.Engine, choice: str) -> None:
    answer = ask(engine, "And in Tokyo?", tools=Tools(ALL, choice))
    assert calls(answer) == [("weather", {"city": "東京"})]
    assert answer.calls[0].arguments == '{"city": "東京"}'
    assert (answer.text, answer.finish_reason) == ("", "tool_calls")


def test_scripted_text_before_a_call_is_text(engine: marith.Engine) -> None:
    answer = ask(engine, "Look and tell", tools=Tools(ALL))
    assert answer.text == "Let me look."
    assert calls(answer) == [("weather", {"city": "Zürich"})]


@pytest.mark.parametrize(
    ("choice", "arguments"),
    [
        ("weather", {"city": ""}),
        ("add", {"a": 0, "b": 0}),
        ("ping", {}),
    ],
)
def test_a_tool_that_tool_choice_demands_is_called(
    engine: marith.Engine, choice: str, arguments: dict[str, Any]
) -> None:
    """With the shortest arguments that the schema allows."""
    answer = ask(engine, "Hello", tools=Tools(ALL, choice))
    assert calls(answer) == [(choice, arguments)]
    assert (answer.text, answer.finish_reason) == ("", "tool_calls")


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def test_a_script_that_follows_the_grammar_is_returned(engine: marith.Engine) -> None:
    answer = ask(engine, "A person, please", grammar=Grammar.json_schema(SCHEMA))
    assert json.loads(answer.text) == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (Grammar.json_schema(SCHEMA), '{"name": "", "age": 0}'),
        (Grammar.json_object(), "{}"),
        (Grammar.json_schema({"enum": ["maybe"]}), '"maybe"'),
        (Grammar.regex("Good day|Good night"), "Good day"),
    ],
)
def test_a_script_that_breaks_the_grammar_is_changed(
    engine: marith.Engine, grammar: Grammar, text: str
) -> None:
    answer = ask(engine, "Hello", grammar=grammar)
    assert (answer.text, answer.finish_reason) == (text, "stop")


def test_drafts_that_run_on_into_the_next_call_leave_no_trace(
    engine: marith.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejected draft is cut back from one tool's arguments into another's."""
    chances = Random(1)
    tools = Tools((CLOCK, MAP))
    expected = ask(engine, "Both", tools=tools, speculation=None)
    assert [name for name, _ in calls(expected)] == ["clock", "map"]
    monkeypatch.setattr(
        auto,
        "lengths",
        lambda drafts, *_: (1.0, [chances.randint(0, len(draft.chances)) for draft in drafts]),
    )
    monkeypatch.setattr(auto, "SHORT", 0)
    monkeypatch.setattr(auto, "LONG", 0)  # no text is left alone
    texts = [ask(engine, "Both", tools=tools, speculation="auto") for _ in range(20)]
    assert sum(out.stats.accepted for out in texts) > 100
    assert [out.tokens for out in texts] == [expected.tokens] * 20
